"""A quirk that no server has."""

from toolwire import dialect

dialect("openai", reasoning_kee="reasoning")  # error: call-arg, reportCallIssue
