"""Without `output` there is no value."""

from toolwire import Client

Client("openai").run("Hello").output.city  # error: attr-defined, reportAttributeAccessIssue
