"""A number for a prompt."""

from toolwire import generate

generate(5)  # error: call-overload, reportArgumentType
