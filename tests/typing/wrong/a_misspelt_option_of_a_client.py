"""An option of a client that is none."""

from toolwire import Client

Client("openai", base_ulr="http://127.0.0.1")  # error: call-arg, reportCallIssue
