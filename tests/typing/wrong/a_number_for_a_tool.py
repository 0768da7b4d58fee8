"""A number for a tool."""

from toolwire import generate

generate("Hello", tools=[5])  # error: list-item, reportArgumentType
