"""The value is of the type that was wanted."""

from dataclasses import dataclass

from toolwire import generate


@dataclass
class Weather:
    city: str


name: str = generate("Hello", output=Weather)  # error: assignment, reportAssignmentType
