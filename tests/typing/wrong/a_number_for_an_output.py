"""A number for a type."""

from toolwire import generate

generate("Hello", output=5)  # error: call-overload, reportArgumentType
