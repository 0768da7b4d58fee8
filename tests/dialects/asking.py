"""Requests and losses in the short forms of the tables beside this file."""

from typing import Any

from toolwire import Context, Request

Said = tuple[str, str, str]
BEGUN = ("messages", "defaulted", "minor")


def asking(messages: list[Any], **fields: Any) -> Request:
    """Make a request for the model `m`; `system` and `tools` belong to its context."""
    system, tools = fields.pop("system", None), fields.pop("tools", [])
    return Request(context=Context(system, messages, tools), model="m", **fields)


def losses(encoded: Any) -> list[Said]:
    """Give each loss as path, action and severity."""
    return [(loss.path, loss.action, loss.severity) for loss in encoded.losses]


def unbegun(body: dict[str, Any], lost: list[Said]) -> list[Said]:
    """Take the turn out of a body that stands in for the user's first one, and its loss out of the others."""
    if BEGUN in lost:
        del body["contents" if "contents" in body else "messages"][0]
    return [loss for loss in lost if loss != BEGUN]
