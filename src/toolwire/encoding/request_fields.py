"""One row for each setting of a request: the severity of its loss.

Rule: each field of `Request` has a row. So a new field cannot change unnoticed which requests `strict` rejects.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolwire.types import Severity

ABSENT: Any = object()


class RequestField(Struct, frozen=True):
    """A setting: the severity of its loss, and its `usual` value, which every server uses if the request has none."""

    lost: Severity
    usual: Any = ABSENT


# Models that reject `temperature` and `top_p` use 1 (OpenAI's that reason, Anthropic's newest; 2026-11-22).
REQUEST_FIELDS: Mapping[str, RequestField] = {
    "model": RequestField("semantic"),
    "stream": RequestField("semantic", usual=False),
    "tool_choice": RequestField("minor"),
    "parallel_tool_calls": RequestField("semantic", usual=True),
    "max_tokens": RequestField("semantic"),
    "temperature": RequestField("semantic", usual=1),
    "top_p": RequestField("semantic", usual=1),
    "top_k": RequestField("semantic"),
    "stop": RequestField("semantic"),
    "seed": RequestField("semantic"),
    "n": RequestField("semantic", usual=1),
    "frequency_penalty": RequestField("semantic", usual=0),
    "presence_penalty": RequestField("semantic", usual=0),
    "logprobs": RequestField("semantic", usual=False),
    "top_logprobs": RequestField("semantic", usual=0),
    "logit_bias": RequestField("semantic"),
    "thinking": RequestField("semantic"),
    "thinking_budget": RequestField("semantic"),
    "thinking_display": RequestField("minor"),
    "effort": RequestField("semantic"),
    "output": RequestField("semantic"),
    "verbosity": RequestField("semantic", usual="medium"),
    "metadata": RequestField("formal"),
    "user": RequestField("formal"),
    "safety_identifier": RequestField("formal"),
    "service_tier": RequestField("minor", usual="auto"),
    "store": RequestField("formal", usual=False),
    "cache_key": RequestField("formal"),
    "cache_mode": RequestField("formal"),
    "cache_ttl": RequestField("formal"),
}
