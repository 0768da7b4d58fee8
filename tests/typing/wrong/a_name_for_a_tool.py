"""The name of a tool for the tool."""

from toolwire import Client

Client("openai").run("Hello", tools=["get_weather"])  # error: list-item, reportArgumentType
