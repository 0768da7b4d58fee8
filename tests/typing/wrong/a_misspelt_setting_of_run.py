"""A setting of a run that is none."""

from toolwire import Client

Client("openai").run("Hello", limts=None)  # error: call-overload, reportCallIssue
