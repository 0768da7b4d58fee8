"""Old tool results near the end of a model's context: what stands for them, and who clears them.

Rules of this file:
- A history is never changed: what is sent is a view of it, in which a short text stands for each result that
  is cleared. Calls stay, so that each has its one result.
- The last results stay, and all that the model has not answered yet; errors stay, and what excluded tools
  gave.
- It goes in steps: between two of them, every request begins with the bytes of the one before. `Clearance` says how
  far they have come.
- A thought that its provider binds to all before it is left out behind what was cleared: it would be refused.
- Nothing is cleared where the size of the context is not known, and nothing of what a provider keeps itself.
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

_CHARACTERS = 4  # of one token, where nobody has counted
_MEDIUM = 6000  # characters that are as much as a picture, a file or a sound


@readable
class Clearing(Struct, frozen=True, kw_only=True):
    """When old results are cleared, and which.

    `at` is a share of the model's context window, or a number of tokens if it is above 1. `at_least` is what each
    clearing must free: a share of `at`, or tokens. The last `keep` results stay, and so do those of the tools in
    `exclude`. `window` is for a model that the catalogue does not know. With `native` the provider clears the results
    if it can.
    """

    at: float = 0.7
    keep: int = 3
    at_least: float = 0.2
    exclude: tuple[str, ...] = ()
    window: int | None = None
    native: bool = True

    def __post_init__(self) -> None:
        for name, fits, wanted in (
            ("at", self.at > 0, "above 0"),
            ("keep", self.keep >= 0, "0 or more"),
            ("at_least", self.at_least >= 0, "0 or more"),
            ("exclude", not isinstance(self.exclude, str), "several names"),
            ("window", self.window is None or self.window > 0, "above 0"),
        ):
            if not fits:
                raise InvalidField(name, f"must be {wanted}, not {getattr(self, name)!r}", path="Clearing")

    def limit(self, window: int | None) -> int | None:
        """Give the number of tokens at which results are cleared; None if the window is unknown."""
        if self.at > 1:
            return int(self.at)
        return None if window is None else int(self.at * window)

    def least(self, limit: int) -> int:
        """Give the number of tokens that a clearing must free."""
        return int(self.at_least if self.at_least > 1 else self.at_least * limit)


class Clearance(Struct, frozen=True):
    """How far a history is cleared: the first `results`, as it was when it had so many `messages`.

    `losses` name each result and each thought that is not sent.
    """

    results: int = 0
    messages: int = 0
    losses: tuple[Loss, ...] = ()


class _Native(Struct, frozen=True):
    """What tells a provider to clear by itself: fields of the request's body, and headers."""

    body: dict[str, Any]
    headers: dict[str, str]

    def beside(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Give the headers of a request with these; what is there already is added to."""
        spelled = {name.lower(): name for name in headers}
        merged = dict(headers)
        for lowered, value in self.headers.items():
            name = spelled.get(lowered, lowered)
            merged[name] = f"{headers[name]},{value}" if name in headers else value
        return merged


class _Result(NamedTuple):
    """A result in a history: where it stands, and what its tool is called."""

    message: int
    part: int
    result: ToolResult
    name: str


NOTHING = Clearance()


def clear(
    request: Request, policy: Clearing, usage: Usage | None = None, before: Clearance = NOTHING
) -> tuple[Request, Clearance]:
    """Clear what has to be cleared of a request, and say how far that went.

    `usage` is what was counted for the last answer of its messages; `before` what the last call of this
    function gave for the same conversation.
    """
    if request.provider_state is not None:
        return request, before
    bound = request.thinking != "enabled"  # only older models have that mode, and they bind a thought's words alone
    view, _ = cleared(request.messages, policy, 0, None, before, bound=bound)
    tokens = used(replace(request, context=replace(request.context, messages=view)), usage)
    window = policy.window or window_of(request.model)
    view, cut = cleared(request.messages, policy, tokens, window, before, bound=bound)
    if view is request.messages:
        return request, cut
    return replace(request, context=replace(request.context, messages=view)), cut


class ConversationClearing:
    """The clearing of one conversation: told of each request and of each answer, in turn."""

    def __init__(self, policy: Clearing) -> None:
        self.policy: Clearing = policy
        self.cut: Clearance = NOTHING
        self._usage: Usage | None = None

    def asked(self, request: Request) -> Request:
        """Give the request as it is to be sent."""
        request, self.cut = clear(request, self.policy, self._usage, self.cut)
        return request

    def answered(self, usage: Usage | None) -> None:
        """Note what was counted for an answer."""
        self._usage = usage


def cleared(
    messages: Sequence[Message],
    policy: Clearing,
    used_tokens: int,
    window: int | None,
    before: Clearance = NOTHING,
    *,
    bound: bool = True,
) -> tuple[Sequence[Message], Clearance]:
    """Give a history as it is sent when so many tokens of a window are used, and how far it is cleared.

    What was cleared `before` stays so. With `bound`, thoughts that a provider binds to all before them are
    left out where that is not the same any more.
    """
    results = _results(messages)
    limit = policy.limit(window)
    cut = before
    if limit is not None and used_tokens >= limit:
        begin = _unanswered(messages)
        answered = sum(one.message < begin for one in results)
        end = min(max(0, len(results) - policy.keep), answered)
        freed = sum(_freed(one, policy) for one in results[before.results : end])
        if freed and freed >= policy.least(limit) * _CHARACTERS:
            cut = Clearance(end, len(messages))
    old = [one for one in results[: cut.results] if _freed(one, policy)]
    if not old:
        return messages, cut
    return _view(messages, old, cut, bound=bound)


def window_of(model: str | None) -> int | None:
    """Give the context window of a model that the catalogue knows."""
    known = catalogue.model(model)
    return known.context_window if known is not None else None


def used(request: Request, usage: Usage | None = None) -> int:
    """Estimate the tokens of a request: what was counted for its last answer, and what came after it."""
    messages = request.messages
    if usage is not None and usage.input_tokens:
        return usage.total_tokens + _length(messages[_unanswered(messages) :]) // _CHARACTERS
    system = request.system or ""
    spoken = len(system) if isinstance(system, str) else _sum(system)
    return (spoken + sum(map(_declared, request.tools)) + _length(messages)) // _CHARACTERS


def native(policy: Clearing, dialect: str, window: int | None = None) -> _Native | None:
    """Say what tells the provider of a dialect to clear by itself; None where it cannot, or has no limit.

    Of the wires, only Messages can clear results. Responses can drop items from the beginning (`truncation`),
    the task among them, or replace all by a summary that nobody can read (`compaction`): neither is this.
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
    """Find the results of a history; one without a name has that of its call."""
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
    """Find where that begins which the model has not answered yet."""
    return next((n for n in range(len(messages), 0, -1) if messages[n - 1].role == "assistant"), 0)


def _freed(one: _Result, policy: Clearing) -> int:
    """Count the characters that are gone when a result is cleared; none where it has to stay."""
    if one.result.is_error or one.name in policy.exclude:
        return 0
    return max(0, _size(one.result) - len(_stand_in(one)))


def _stand_in(one: _Result) -> str:
    content = one.result.content
    if isinstance(content, str):
        return f"[{one.name} gave {len(content)} characters, which were cleared to make room]"
    media = sum(isinstance(part, Image | Document | Audio) for part in content)
    words = sum(_size(part) for part in content) - _MEDIUM * media
    return f"[{one.name} gave {words} characters and {media} media, which were cleared to make room]"


def _view(
    messages: Sequence[Message], old: list[_Result], cut: Clearance, *, bound: bool
) -> tuple[list[Message], Clearance]:
    view = list(messages)
    losses = []
    for one in old:
        message = view[one.message]
        parts: list[Part] = list(message.content)  # type: ignore[arg-type]
        parts[one.part] = replace(one.result, content=_stand_in(one))
        view[one.message] = replace(message, content=parts)
        path = f"messages[{one.message}].content[{one.part}]"
        losses.append(Loss(path, "old_result", "dropped", f"the result of {one.name} was cleared to make room"))
    if bound:
        for index in range(old[0].message + 1, cut.messages):
            view[index] = _unbound(view[index], index, losses)
    # A message that was nothing but a thought is not there any more.
    kept = [message for index, message in enumerate(view) if message.content != [] or messages[index].content == []]
    return kept, replace(cut, losses=tuple(losses))


def _unbound(message: Message, index: int, losses: list[Loss]) -> Message:
    """Leave out the thoughts of a message that are bound to what was before it."""
    if not isinstance(message.content, list):
        return message
    kept = [part for part in message.content if not _is_bound(part)]
    if len(kept) == len(message.content):
        return message
    detail = "it is bound to results that were cleared"
    losses.append(Loss(f"messages[{index}]", "thinking", "dropped", detail))
    return replace(message, content=kept)


def _is_bound(part: Part) -> bool:
    return (
        type(part) is Thinking
        and part.signature is not None
        and part.opaque is not None
        and traits_of(part.opaque.dialect).binds_thinking
    )


def _length(messages: Iterable[Message]) -> int:
    return sum(len(m.content) if isinstance(m.content, str) else _sum(m.parts) for m in messages)


def _sum(parts: Iterable[Any]) -> int:
    return sum(map(_size, parts))


def _size(part: Any) -> int:
    """Count the characters of a part, or what it is worth in them."""
    match part:
        case Image() | Audio():
            return _MEDIUM
        case Document(text=text):
            return _MEDIUM if text is None else len(text)
        case ToolResult(content=content):
            return len(content) if isinstance(content, str) else _sum(content)
        case ToolCall(raw=raw, plain_arguments=arguments):
            return len(raw if raw is not None else str(arguments))
        case Opaque(value=value):
            return len(str(value))
    return len(getattr(part, "text", None) or str(getattr(part, "content", None) or ""))


def _declared(tool: Any) -> int:
    if isinstance(tool, Tool):
        return len(tool.name) + len(tool.description or "") + len(str(tool.plain_parameters or ""))
    return len(str(tool.value))
