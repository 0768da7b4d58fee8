"""`run` gives the end, and the value in it."""

from dataclasses import dataclass

from toolwire import Client


@dataclass
class Weather:
    city: str


Client("openai").run("Hello", output=Weather).city  # error: attr-defined, reportAttributeAccessIssue
