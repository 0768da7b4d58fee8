"""A number for limits."""

from toolwire import Client

Client("openai").run("Hello", limits=5)  # error: call-overload, reportArgumentType
