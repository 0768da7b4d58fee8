"""A setting that is none."""

from toolwire import generate

generate("Hello", tmperature=1)  # error: call-overload, reportCallIssue
