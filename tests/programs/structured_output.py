from dataclasses import dataclass

from pydantic import BaseModel

from toolwire import generate


@dataclass
class Weather:
    city: str
    degrees: int


class Person(BaseModel):
    name: str
    age: int


print(generate("It is 25 degrees in Oslo.", model="openai/gpt-6-sol", output=Weather).degrees + 1)
print(generate("Ann is 42.", model="anthropic/claude-sonnet-5-5", output=Person).name.upper())
