"""An answer as a dataclass, as a pydantic model, as a list, as one of several words."""

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

from toolwire import NoStructuredOutput, generate


@dataclass
class Weather:
    city: str
    degrees: int


class Person(BaseModel):
    name: str
    age: int | None = None


def warmest(text: str) -> str:
    weather = generate(text, model="openai/gpt-6-sol", output=list[Weather])
    return max(weather, key=lambda one: one.degrees).city


def age_of(text: str) -> int | None:
    try:
        return generate(text, model="openai/gpt-6-sol", output=Person).age
    except NoStructuredOutput as problem:
        print(problem.problems)
        return None


def mood(text: str) -> Literal["good", "bad"]:
    return generate(text, model="openai/gpt-6-sol", output=Literal["good", "bad"])


def perhaps(text: str) -> Weather | None:
    return generate(text, model="openai/gpt-6-sol", output=Weather | None)
