"""Clearing of old tool results when a model's context fills up, by the provider or by the client.

Rules of this file:
- A history is never changed. The request is a view of it, in which a short text replaces each cleared result. Calls
  stay, so that each has one result.
- The last results stay, and all results that the model has not answered yet. Errors stay, and the results of excluded
  tools.
- Clearing happens in steps: between two of them, every request begins with the bytes of the one before. `Clearance`
  holds the progress.
- Thinking that its provider binds to all earlier content is removed after a cleared result, because the provider would
  reject it.
- Nothing is cleared if the size of the context is unknown, and nothing of a conversation that the provider stores.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects import traits_of
from toolwire.errors import InvalidField
from toolwire.providers import catalogue
from toolwire.types import (
    Audio,
    Document,
    Image,
    Loss,
    Message,
    Opaque,
    Part,
    Request,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
)
from toolwire.types.readable import readable

_CHARACTERS = 4  # per token, if the server reported no usage
_MEDIUM = 6000  # the characters that an image, a file or a sound counts for


@readable
class Clearing(Struct, frozen=True, kw_only=True):
    """When old results are cleared, and which.

    `at` is a share of the model's context window, or a number of tokens if it is above 1. `at_least` is what each
    clearing must free: a share of `at`, or tokens. The last `keep` results stay, and so do those of the tools in
    `exclude`. `window` is for a model that the catalogue does not know. With `native` the provider clears the results
    if it can.

    >>> from toolwire import Clearing, generate
    >>> from toolwire.testing import simulate
    >>> clearing = Clearing(at=100_000, keep=5, exclude=("read_file",))
    >>> with simulate(["Hello."]) as model:
    ...     generate("Hi.", "openai", "gpt-6-sol", clearing=clearing, base_url=model.url, api_key="any").content
    'Hello.'
    """

    at: float = 0.7
    keep: int = 3
    at_least: float = 0.2
    exclude: tuple[str, ...] = ()
    window: int | None = None
    native: bool = True

    def __post_init__(self) -> None:
        for name, is_valid, requirement in (
            ("at", self.at > 0, "above 0"),
            ("keep", self.keep >= 0, "0 or more"),
            ("at_least", self.at_least >= 0, "0 or more"),
            ("exclude", not isinstance(self.exclude, str), "several names"),
            ("window", self.window is None or self.window > 0, "above 0"),
        ):
            if not is_valid:
                raise InvalidField(name, f"must be {requirement}, not {getattr(self, name)!r}", path="Clearing")

    def limit(self, window: int | None) -> int | None:
        """Return the number of tokens at which results are cleared; None if the window is unknown."""
        if self.at > 1:
            return int(self.at)
        return None if window is None else int(self.at * window)

    def least(self, limit: int) -> int:
        """Return the number of tokens that a clearing must free."""
        return int(self.at_least if self.at_least > 1 else self.at_least * limit)


class Clearance(Struct, frozen=True):
    """The progress of clearing: the first `results` are cleared, as of a history of so many `messages`.

    `losses` name each result and each thinking block that is not sent.
    """

    results: int = 0
    messages: int = 0
    losses: tuple[Loss, ...] = ()


class _Native(Struct, frozen=True):
    """The settings that make a provider clear results itself: fields of the request's body, and headers."""

    body: dict[str, Any]
    headers: dict[str, str]

    def merge_headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return `headers` with these added. The values of a header that exists already are joined."""
        original_names = {name.lower(): name for name in headers}
        merged = dict(headers)
        for lowered, value in self.headers.items():
            name = original_names.get(lowered, lowered)
            merged[name] = f"{headers[name]},{value}" if name in headers else value
        return merged


class _Result(NamedTuple):
    """A result in a history: its position, and the name of its tool."""

    message: int
    part: int
    result: ToolResult
    name: str


NOTHING = Clearance()


def clear(
    request: Request, policy: Clearing, usage: Usage | None = None, before: Clearance = NOTHING
) -> tuple[Request, Clearance]:
    """Return the request with old results cleared as far as needed, and the new progress.

    `usage` is that of the last answer in its messages; `before` is the progress that the last call of this function
    returned for the same conversation.
    """
    if request.provider_state is not None:
        return request, before
    bound = (
        request.thinking != "enabled"
    )  # only older models have that mode, and they bind nothing but the thinking text itself
    view, _ = clear_messages(request.messages, policy, 0, None, before, bound=bound)
    tokens = estimate_tokens(replace(request, context=replace(request.context, messages=view)), usage)
    window = policy.window or context_window(request.model)
    view, clearance = clear_messages(request.messages, policy, tokens, window, before, bound=bound)
    if view is request.messages:
        return request, clearance
    return replace(request, context=replace(request.context, messages=view)), clearance


class ConversationClearing:
    """The clearing of one conversation: call it with each request and each answer, in turn."""

    def __init__(self, policy: Clearing) -> None:
        self.policy: Clearing = policy
        self.clearance: Clearance = NOTHING
        self._usage: Usage | None = None

    def clear_request(self, request: Request) -> Request:
        """Return the request as it is to be sent."""
        request, self.clearance = clear(request, self.policy, self._usage, self.clearance)
        return request

    def note_usage(self, usage: Usage | None) -> None:
        """Store the usage of an answer."""
        self._usage = usage


def clear_messages(
    messages: Sequence[Message],
    policy: Clearing,
    used_tokens: int,
    window: int | None,
    before: Clearance = NOTHING,
    *,
    bound: bool = True,
) -> tuple[Sequence[Message], Clearance]:
    """Return the history to send when `used_tokens` of a window are used, and the progress of clearing.

    Results that were cleared `before` stay cleared. With `bound`, thinking that a provider binds to earlier content is
    removed where that content has changed.
    """
    results = _results(messages)
    limit = policy.limit(window)
    clearance = before
    if limit is not None and used_tokens >= limit:
        first_unanswered = _unanswered(messages)
        answered = sum(one.message < first_unanswered for one in results)
        end = min(max(0, len(results) - policy.keep), answered)
        freed = sum(_freed_characters(one, policy) for one in results[before.results : end])
        if freed and freed >= policy.least(limit) * _CHARACTERS:
            clearance = Clearance(end, len(messages))
    old = [one for one in results[: clearance.results] if _freed_characters(one, policy)]
    if not old:
        return messages, clearance
    return _view(messages, old, clearance, bound=bound)


def context_window(model: str | None) -> int | None:
    """Return the context window of a model; None if the catalogue does not know it."""
    known = catalogue.model(model)
    return known.context_window if known is not None else None


def estimate_tokens(request: Request, usage: Usage | None = None) -> int:
    """Return the estimated tokens of a request: the usage of its last answer, and an estimate of what follows it."""
    messages = request.messages
    if usage is not None and usage.input_tokens:
        return usage.total_tokens + _messages_size(messages[_unanswered(messages) :]) // _CHARACTERS
    system = request.system or ""
    system_size = len(system) if isinstance(system, str) else _total_size(system)
    return (system_size + sum(map(_tool_size, request.tools)) + _messages_size(messages)) // _CHARACTERS


def native_clearing(policy: Clearing, dialect: str, window: int | None = None) -> _Native | None:
    """Return the settings that make a provider clear results itself; None if its wire cannot, or there is no limit.

    Of the wires, only Messages can clear results. Responses can drop items from the beginning (`truncation`), the task
    among them, or replace all by a summary that only OpenAI can read (`compaction`): neither clears results.
    """
    limit = policy.limit(policy.window or window)
    make = _NATIVE.get(dialect)
    return None if make is None or limit is None or not policy.native else make(policy, limit)


def _messages_api(policy: Clearing, limit: int) -> _Native:
    edit = {
        "type": "clear_tool_uses_20250919",
        "trigger": {"type": "input_tokens", "value": limit},
        "keep": {"type": "tool_uses", "value": policy.keep},
    }
    if least := policy.least(limit):
        edit["clear_at_least"] = {"type": "input_tokens", "value": least}
    if policy.exclude:
        edit["exclude_tools"] = list(policy.exclude)
    return _Native({"context_management": {"edits": [edit]}}, {"anthropic-beta": "context-management-2025-06-27"})


_NATIVE: dict[str, Callable[[Clearing, int], _Native]] = {"anthropic": _messages_api}


def _results(messages: Sequence[Message]) -> list[_Result]:
    """Return the results of a history. A result without a name gets that of its call."""
    names: dict[str | None, str] = {}
    results = []
    for number, message in enumerate(messages):
        for index, part in enumerate(() if isinstance(message.content, str) else message.parts):
            if type(part) is ToolCall:
                names[part.id] = part.name
            elif type(part) is ToolResult:
                results.append(_Result(number, index, part, part.name or names.get(part.tool_call_id) or "a tool"))
    return results


def _unanswered(messages: Sequence[Message]) -> int:
    """Return the index of the first message that the model has not answered yet."""
    return next((n for n in range(len(messages), 0, -1) if messages[n - 1].role == "assistant"), 0)


def _freed_characters(one: _Result, policy: Clearing) -> int:
    """Return the number of characters that clearing a result frees; 0 if it has to stay."""
    if one.result.is_error or one.name in policy.exclude:
        return 0
    return max(0, _size(one.result) - len(_placeholder(one)))


def _placeholder(one: _Result) -> str:
    content = one.result.content
    if isinstance(content, str):
        return f"[{one.name} gave {len(content)} characters, which were cleared to make room]"
    media = sum(isinstance(part, Image | Document | Audio) for part in content)
    characters = sum(_size(part) for part in content) - _MEDIUM * media
    return f"[{one.name} gave {characters} characters and {media} media, which were cleared to make room]"


def _view(
    messages: Sequence[Message], old: list[_Result], clearance: Clearance, *, bound: bool
) -> tuple[list[Message], Clearance]:
    view = list(messages)
    losses = []
    for one in old:
        message = view[one.message]
        parts: list[Part] = list(message.content)  # type: ignore[arg-type]
        parts[one.part] = replace(one.result, content=_placeholder(one))
        view[one.message] = replace(message, content=parts)
        path = f"messages[{one.message}].content[{one.part}]"
        losses.append(Loss(path, "old_result", "dropped", f"the result of {one.name} was cleared to make room"))
    if bound:
        for index in range(old[0].message + 1, clearance.messages):
            view[index] = _without_bound_thinking(view[index], index, losses)
    # A message that contained nothing but removed thinking is removed.
    kept = [message for index, message in enumerate(view) if message.content != [] or messages[index].content == []]
    return kept, replace(clearance, losses=tuple(losses))


def _without_bound_thinking(message: Message, index: int, losses: list[Loss]) -> Message:
    """Return a message without thinking that is bound to earlier content."""
    if not isinstance(message.content, list):
        return message
    kept = [part for part in message.content if not _is_bound(part)]
    if len(kept) == len(message.content):
        return message
    detail = "its signature covers results that were cleared"
    losses.append(Loss(f"messages[{index}]", "thinking", "dropped", detail))
    return replace(message, content=kept)


def _is_bound(part: Part) -> bool:
    return (
        type(part) is Thinking
        and part.signature is not None
        and part.opaque is not None
        and traits_of(part.opaque.dialect).binds_thinking
    )


def _messages_size(messages: Iterable[Message]) -> int:
    return sum(len(m.content) if isinstance(m.content, str) else _total_size(m.parts) for m in messages)


def _total_size(parts: Iterable[Any]) -> int:
    return sum(map(_size, parts))


def _size(part: Any) -> int:
    """Return the number of characters of a part, or an equivalent number for media."""
    match part:
        case Image() | Audio():
            return _MEDIUM
        case Document(text=text):
            return _MEDIUM if text is None else len(text)
        case ToolResult(content=content):
            return len(content) if isinstance(content, str) else _total_size(content)
        case ToolCall(raw=raw, plain_arguments=arguments):
            return len(raw if raw is not None else str(arguments))
        case Opaque(value=value):
            return len(str(value))
    return len(getattr(part, "text", None) or str(getattr(part, "content", None) or ""))


def _tool_size(tool: Any) -> int:
    if isinstance(tool, Tool):
        return len(tool.name) + len(tool.description or "") + len(str(tool.plain_parameters or ""))
    return len(str(tool.value))
