"""The steps of a scripted answer, executed in their order, and the expectations of a request.

Rules of this file:
- A step is a value and does nothing itself. Parts of a message, texts, usage and errors are steps too.
- The position of a step decides when it happens: a `Wait` before the first part delays the first byte, a `Cut` between
  two parts closes the connection between them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import force_setattr

from toolwire.encoding.errors import kind_of_status
from toolwire.errors import InvalidField
from toolwire.types import Error, FinishReason, Message, Part, Request, Response, Text, ToolCall, ToolResult, Usage
from toolwire.types.readable import readable


class Wait(Struct, frozen=True):
    """Wait before the next step."""

    seconds: float


class Pace(Struct, frozen=True):
    """Wait between any two events of the following steps."""

    seconds: float


class Cut(Struct, frozen=True):
    """Close the connection: here, or after so many events of the stream or bytes of the body.

    A cut before the first part sends no answer at all. `reset` closes the connection as a crash does.

    >>> from toolwire import generate
    >>> from toolwire.testing import Cut, simulate
    >>> with simulate([["Half of an ans", Cut()]]) as model:
    ...     done = generate("Hi.", "openai", "gpt-6-sol", stream=True, base_url=model.url, api_key="any")
    >>> done.ending
    'error'
    """

    events: int | None = None
    bytes: int | None = None
    reset: bool = False


@readable
class Raw(Struct, frozen=True):
    """Send these bytes unchanged; without another part they are the whole body."""

    data: bytes
    status: int = 200
    content_type: str | None = None


@readable
class Fail(Struct, frozen=True):
    """Answer with an error, or with the error of a status; after the first part, end the stream with it.

    >>> from toolwire import ProviderError, generate
    >>> from toolwire.testing import Fail, simulate
    >>> with simulate([[Fail(400)]]) as model:
    ...     try:
    ...         generate("Hi.", "openai", "gpt-6-sol", base_url=model.url, api_key="any")
    ...     except ProviderError as error:
    ...         print(error.retryable)
    False
    """

    error: Error
    retry_after: float | None = None
    headers: Mapping[str, str] = {}

    if TYPE_CHECKING:

        def __init__(
            self, error: Error | int, retry_after: float | None = None, headers: Mapping[str, str] = ...
        ) -> None: ...

    def __post_init__(self) -> None:
        status: Any = self.error
        if isinstance(status, int):
            kind = kind_of_status(status)
            force_setattr(self, "error", Error(kind, f"The scenario says {kind}.", status))
        elif not isinstance(status, Error):
            raise InvalidField("error", f"must be an Error or a status, not {status!r}", path="Fail")


class Finish(Struct, frozen=True):
    """Set the finish reason, instead of the one that follows from the parts.

    >>> from toolwire import Client
    >>> from toolwire.testing import Finish, simulate
    >>> with simulate([["Half of an", Finish("length")]]) as model:
    ...     with Client("openai", "gpt-6-sol", base_url=model.url, api_key="any") as client:
    ...         client.chat("Hi.").finish_reason
    'length'
    """

    reason: FinishReason
    stop_sequence: str | None = None


@readable
class Expect(Struct, frozen=True, kw_only=True):
    """The required contents of a request; otherwise it is rejected, and the simulation fails.

    - `last` occurs in the last message, `system` in the system prompt.
    - `tools` are offered.
    - `results` holds a text for each tool whose result the request must contain.
    - `messages` is the number of messages.
    - `where` returns a true value, or raises.

    >>> from toolwire import generate
    >>> from toolwire.testing import Expect, simulate
    >>> with simulate([[Expect(last="weather"), "Sunny."]]) as model:
    ...     generate("How is the weather?", "openai", "gpt-6-sol", base_url=model.url, api_key="any").content
    'Sunny.'
    """

    last: str | None = None
    system: str | None = None
    model: str | None = None
    tools: Sequence[str] | None = None
    results: Mapping[str, str] | None = None
    messages: int | None = None
    where: Callable[[Request], object] | None = None


ScriptStep = Response | Message | str | Part | Usage | Error | Fail | Wait | Pace | Cut | Raw | Finish | Expect
STEPS: tuple[type, ...] = (
    *(Response, Message, str, Usage, Error, Fail, Wait, Pace, Cut, Raw, Finish, Expect),
    *Part.__args__,
)


class Turn(Struct, frozen=True):
    """The position of a request: the number of requests before it, and the number of answers in its history."""

    number: int
    round: int
    dialect: str
    body: dict[str, Any]
    headers: Mapping[str, str]


Player = Callable[[Request, Turn], Any]


def unmet(expected: Expect, request: Request) -> str | None:
    """Return the first expectation that a request does not meet, or None."""
    return next(_unmet(expected, request), None)


def _unmet(expected: Expect, request: Request) -> Iterator[str]:
    texts = {
        "the last message": (expected.last, _message_text(request.messages[-1]) if request.messages else ""),
        "the system prompt": (expected.system, _system_text(request)),
    }
    for location, (required, text) in texts.items():
        if required is not None and required not in text:
            yield f"{location} must contain {required!r}, not {text[:200]!r}"
    if expected.model is not None and request.model != expected.model:
        yield f"the model must be {expected.model!r}, not {request.model!r}"
    offered = [tool.name for tool in request.tools if hasattr(tool, "name")]
    missing = [name for name in expected.tools or () if name not in offered]
    if missing:
        yield f"the tools {', '.join(missing)} must be offered; there are {', '.join(offered) or 'none'}"
    if expected.messages is not None and len(request.messages) != expected.messages:
        yield f"there must be {expected.messages} messages, not {len(request.messages)}"
    yield from _unmet_results(expected, request)
    yield from _unmet_condition(expected, request)


def _unmet_results(expected: Expect, request: Request) -> Iterator[str]:
    results = results_of(request.messages)
    for name, required in (expected.results or {}).items():
        texts = [result_text(result) for known, result in results if known == name]
        if not texts:
            names = ", ".join(known for known, _ in results)
            yield f"there must be a result of {name}; there is {names or 'none'}"
        elif not any(required in text for text in texts):
            yield f"the result of {name} must contain {required!r}, not {texts[0][:200]!r}"


def _unmet_condition(expected: Expect, request: Request) -> Iterator[str]:
    if expected.where is None:
        return
    try:
        if not expected.where(request):
            yield "the request is not as `where` wants it"
    except AssertionError as problem:
        yield f"the request is not as `where` wants it: {problem}"


def results_of(messages: Iterable[Message]) -> list[tuple[str, ToolResult]]:
    """Return the results since the model's last message, each with the name of its tool."""
    names: dict[str | None, str] = {}
    results: list[tuple[str, ToolResult]] = []
    for message in messages:
        if message.role == "assistant":
            results = []
        for part in message.parts:
            if type(part) is ToolCall:
                names[part.id] = part.name
            elif type(part) is ToolResult:
                results.append((part.name or names.get(part.tool_call_id) or "", part))
    return results


def result_text(result: ToolResult) -> str:
    """Return the text of a result."""
    if isinstance(result.content, str):
        return result.content
    return "".join(part.text for part in result.content if type(part) is Text)


def _message_text(message: Message) -> str:
    results = [result_text(part) for part in message.parts if type(part) is ToolResult]
    return message.text + "".join(results)


def _system_text(request: Request) -> str:
    """Return the text of the system prompt and of all system messages."""
    system = request.system
    first = system if isinstance(system, str) else "".join(p.text for p in system or () if type(p) is Text)
    return first + "".join(m.text for m in request.messages if m.role in {"system", "developer"})
