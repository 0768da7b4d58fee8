"""A text for a number."""

from toolwire import generate

generate("Hello", temperature="high")  # error: call-overload, reportArgumentType
