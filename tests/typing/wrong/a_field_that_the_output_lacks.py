"""The value of a run has the fields of its type."""

from dataclasses import dataclass

from toolwire import Client


@dataclass
class Weather:
    city: str


Client("openai").run("Hello", output=Weather).output.degrees  # error: attr-defined, reportAttributeAccessIssue
