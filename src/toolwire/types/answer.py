"""The answer of a model: a response of one or several choices, its token usage, or an error.

Rule: where a wire has a count or a word that the canonical model does not have, a value has both: the canonical one,
and beside it the wire's own one.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, Self

import msgspec
from msgspec import Struct
from msgspec.structs import astuple

from toolwire.types.conversation import Message
from toolwire.types.encoded import Loss
from toolwire.types.parts import Opaque, Part, ToolCall
from toolwire.types.summary import summarize

FinishReason = Literal[
    "stop",
    "length",
    "tool_calls",
    "stop_sequence",
    "content_filter",
    "refusal",
    "pause",
    "context_window",
    "malformed_tool_call",
    "error",
    "incomplete",
    "unknown",
]

ErrorKind = Literal[
    "invalid_request",
    "authentication",
    "billing",
    "permission",
    "not_found",
    "conflict",
    "too_large",
    "context_length",
    "rate_limit",
    "server",
    "timeout",
    "overloaded",
    "unknown",
]
_RETRYABLE = frozenset({"rate_limit", "server", "timeout", "overloaded", "conflict"})


COUNTS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "total_tokens": "total_tokens",
}


MOST_TOKENS = 2**53
"""The largest count of tokens. Every JSON parser reads integers up to this one exactly."""


def is_count(value: Any) -> bool:
    """Return True if `value` is a count of tokens: an integer from 0 to `MOST_TOKENS`, which databases can store."""
    return type(value) is not bool and isinstance(value, int) and 0 <= value <= MOST_TOKENS


class Usage(Struct, frozen=True):
    """The tokens of one exchange. `input_tokens` includes cached tokens, `output_tokens` those of thinking.

    `cache_write_tokens` includes `cache_write_long_tokens`: those that were written for the longer lifetime of the
    provider's cache, an hour at Anthropic and twelve at OpenAI.

    >>> from toolwire import Usage
    >>> usage = Usage(input_tokens=12, output_tokens=3)
    >>> usage.total_tokens, usage["prompt_tokens"]
    (15, 12)
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    opaque: Opaque | None = None
    cache_write_long_tokens: int | None = None

    @property
    def total_tokens(self) -> int:
        """The tokens of input and output together. A value that is not a count is left out."""
        return sum(filter(is_count, (self.input_tokens, self.output_tokens)))  # type: ignore[arg-type]

    def keys(self) -> tuple[str, ...]:
        """Return the names of the counts, in both common spellings. A usage can be read like a mapping."""
        return tuple(COUNTS)

    def __getitem__(self, name: str) -> int:
        count = getattr(self, COUNTS[name])
        return count if is_count(count) else 0

    def __contains__(self, name: object) -> bool:
        return name in COUNTS

    def __iter__(self) -> Iterator[str]:
        return iter(COUNTS)

    def get(self, name: str, default: int | None = None) -> int | None:
        """Return the count `name`, or `default` if no count has this name."""
        return self[name] if name in COUNTS else default

    def items(self) -> list[tuple[str, int]]:
        """Return the names and the counts, in both common spellings."""
        return [(name, self[name]) for name in COUNTS]

    @classmethod
    def of(cls, given: "Usage | Mapping[str, Any] | None") -> "Usage | None":
        """Return the usage that a mapping has in either spelling. A usage and None are returned as they are."""
        if given is None or isinstance(given, Usage):
            return given
        named = {COUNTS[name]: count for name, count in given.items() if name in COUNTS and name != "total_tokens"}
        return cls(**named)


class Choice(Struct, frozen=True):
    """One answer of several. `raw_finish_reason` is the wire's own word for the reason why it ended.

    >>> from toolwire import dialect
    >>> body = {"content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn"}
    >>> choice = dialect("anthropic").decode_response(body).choices[0]
    >>> choice.finish_reason, choice.raw_finish_reason
    ('stop', 'end_turn')
    """

    message: Message
    finish_reason: FinishReason | None = None
    raw_finish_reason: str | None = None
    stop_sequence: str | None = None
    opaque: Opaque | None = None


class Response(Struct, frozen=True, kw_only=True):  # noqa: PLW1641 - it holds lists
    """The response of a model. Its first choice is the answer, and its properties are those of the answer.

    `losses` are the losses of the answer. If a client sent the request, they include the losses of the request.
    Responses that differ only in their losses are equal.

    >>> from toolwire import Message, Response, ToolCall
    >>> response = Response.of(Message("assistant", [ToolCall("call_1", "look", {})]), "tool_calls")
    >>> [call.name for call in response.tool_calls], response.is_final_answer()
    (['look'], False)
    """

    choices: list[Choice] = []
    model: str | None = None
    id: str | None = None
    created: float | None = None
    usage: Usage | None = None
    service_tier: str | None = None
    provider_state: dict[str, Any] | None = None
    opaque: Opaque | None = None
    losses: tuple[Loss, ...] = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return astuple(self)[: len(_COMPARED)] == astuple(other)[: len(_COMPARED)]

    def __repr__(self) -> str:
        return summarize(self)

    def in_full(self) -> str:
        """Return all of the response as text, from which an id can be derived."""
        compared = astuple(self)[: len(_COMPARED)]
        try:
            return _write_json(compared).decode()
        except (TypeError, ValueError, OverflowError, RecursionError):  # a value in it is not JSON
            return repr(compared)

    @classmethod
    def of(cls, message: Message, finish_reason: FinishReason | None = None, **fields: Any) -> Self:
        """Make a response of one choice.

        >>> from toolwire import Message, Response
        >>> Response.of(Message("assistant", "Hi"), "stop").content
        'Hi'
        """
        return cls(choices=[Choice(message, finish_reason)], **fields)

    @property
    def message(self) -> Message:
        """The answer. It is empty if there is no choice."""
        return self.choices[0].message if self.choices else Message("assistant", [])

    @property
    def content(self) -> str | None:
        """The final text, or None."""
        return self.message.text or None

    @property
    def parts(self) -> list[Part]:
        """The answer's parts, in order."""
        return self.message.parts

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls to run, in order. Each is complete, and its arguments are a JSON object."""
        return self.message.tool_calls

    def has_tool_calls(self) -> bool:
        """Return True if there are calls to run."""
        return bool(self.tool_calls)

    def is_final_answer(self) -> bool:
        """Return True if the answer is final: the model ended it, and it has no calls."""
        return self.finish_reason in ("stop", "stop_sequence") and not (self.tool_calls or self.broken_calls)

    @property
    def broken_calls(self) -> list[ToolCall]:
        """The calls that cannot run, because they were cut off or their text is not a JSON object (`raw`, `error`)."""
        return self.message.broken_calls

    @property
    def finish_reason(self) -> FinishReason | None:
        """The reason why the answer ended, as one word for all wires."""
        return self.choices[0].finish_reason if self.choices else None

    @property
    def raw_finish_reason(self) -> str | None:
        """The reason why the answer ended, in the wire's own word."""
        return self.choices[0].raw_finish_reason if self.choices else None


_write_json = msgspec.json.Encoder().encode
# Every field except `losses`, which is the last one.
_COMPARED = tuple(name for name in Response.__struct_fields__ if name != "losses")


class Error(Struct, frozen=True):
    """An error of a provider. `retry_after` is the number of seconds that the provider asks the client to wait.

    >>> from toolwire import dialect
    >>> error = dialect("openai-chat").decode_error(429, {"error": {"message": "Slow down"}}, {"retry-after": "7"})
    >>> error.kind, error.retryable, error.retry_after
    ('rate_limit', True, 7.0)
    """

    kind: ErrorKind
    message: str
    status: int | None = None
    type: str | None = None
    code: str | int | None = None
    param: str | None = None
    request_id: str | None = None
    opaque: Opaque | None = None
    retry_after: float | None = None

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.kind in _RETRYABLE
