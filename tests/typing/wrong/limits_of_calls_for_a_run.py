"""The limits of calls for those of a run."""

from toolwire import Client, Limits

Client("openai").run("Hello", limits=Limits())  # error: call-overload, reportArgumentType
