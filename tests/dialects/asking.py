"""Requests and losses in the short forms of the tables beside this file."""

from typing import Any

from toolwire import Context, Request

Said = tuple[str, str, str]


def asking(messages: list[Any], **fields: Any) -> Request:
    """Make a request for the model `m`; `system` and `tools` belong to its context."""
    system, tools = fields.pop("system", None), fields.pop("tools", [])
    return Request(context=Context(system, messages, tools), model="m", **fields)


def losses(encoded: Any) -> list[Said]:
    """Give each loss as path, action and severity."""
    return [(loss.path, loss.action, loss.severity) for loss in encoded.losses]
