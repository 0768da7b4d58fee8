"""With `output`, `generate` gives the value."""

from dataclasses import dataclass

from toolwire import generate


@dataclass
class Weather:
    city: str


generate("Hello", output=Weather).content  # error: attr-defined, reportAttributeAccessIssue
