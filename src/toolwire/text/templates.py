"""A Hugging Face `response_template`, read as a format, so that a new model needs no new release of this library."""

from collections.abc import Mapping
from typing import Any

from toolwire.text.format import Format, format


def from_response_template(template: Mapping[str, Any]) -> Format:
    """Return the format that `template`, a `response_template` of a model, describes.

    >>> from toolwire import text
    >>> function = {"name": "{content.tool}", "arguments": "{content.with}"}
    >>> calls = {"open": "<call>", "close": "</call>", "content": "json", "repeats": True}
    >>> calls["transform"] = {"type": "function", "function": function}
    >>> form = text.from_response_template({"fields": {"content": {}, "tool_calls": calls}})
    >>> form.decode('<call>{"tool": "ping", "with": {}}</call>').tool_calls[0].name
    'ping'
    """
    row = {"name": "response-template", "shape": "template", "source": "the model's response_template", "as_of": ""}
    return format({**row, "template": dict(template)})
