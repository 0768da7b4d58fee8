"""A role that no message has."""

from toolwire import Message

Message("bot", "Hello")  # error: call-overload, reportArgumentType
