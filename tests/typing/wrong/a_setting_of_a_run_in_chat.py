"""A round runs nothing."""

from toolwire import Client

Client("openai").chat("Hello", auto_tools=False)  # error: call-arg, reportCallIssue
