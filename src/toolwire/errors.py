"""Every exception that toolwire raises itself.

    ToolwireError
    +-- UserError            an argument of the caller cannot be used
    |   +-- MissingFields    a constructor lacks required fields (code "missing_keys")
    |   +-- InvalidField     a field has a value of the wrong kind (code "invalid_field")
    |   |   +-- KeyConflict  a key of the gateway cannot be changed so: its name is taken, or it is the last admin key
    |   +-- InvalidBody      a body is not an object, or is not JSON
    |   |   +-- FrameTooLarge  a frame of a stream is larger than its limit
    |   +-- InvalidSchema    a JSON Schema that cannot describe a tool's parameters
    |   |   +-- SchemaRecursive
    |   +-- UnknownDialect   lists the known ones
    |   +-- UnknownFormat    lists the known ones
    |   +-- DeclarationError a file that declares tools cannot be used; has all its problems
    |   +-- MissingExtra     a library that an extra of the package installs is missing
    |   +-- AdminRevoked     the admin key that changes keys of a gateway is no longer in force
    |   +-- InvalidSettings  a file of settings cannot be used; has all its problems
    |   +-- UnknownTool      a call of a tool that a resolver or a session does not have; lists the known ones
    |   +-- UnknownProvider  lists the known ones (`toolwire.providers`)
    |   +-- InvalidTrace     a trace has fields that are missing or wrong; has all its problems
    |   +-- UnreadableCalls  calls of a model that cannot be run; has their errors, and the good calls
    +-- ProviderError        a provider rejected a request, or could not be reached (`toolwire.client.failures`)
    |   +-- AuthenticationFailed, RateLimited, ContextTooLong, RequestRefused, ProviderUnavailable,
    |       ProviderTimeout
    +-- AllFailed            each of several providers failed; has their errors
    +-- ChoiceIgnored        a model called no tool, although the request required a call
    +-- TransportError       an HTTP request could not be sent, or its response could not be read
    +-- ToolError            raised by a tool to fail with its own message, which the model receives
    |   +-- PathRefused, AddressRefused, EditRefused    a code tool rejects a path, an address, an edit
    +-- RunParked            a durable run is not executed until it is resumed; has its id and the reason
    +-- StoreFailed          a store of traces cannot be opened, read or written
    +-- ServerUnavailable    a server of tools cannot be started or reached, or was closed
    +-- NoStructuredOutput   no answer of a model had the required form; has the problems and the response
    +-- LossyTranslation     a strict translation would lose something; has the losses
    +-- ScenarioFailed       the requests to a simulated model did not fit its scenario; has the problems

Rule: `path` is where the error is. The message states what is wrong, and what would be right.
"""

from collections.abc import Iterable, Sequence
from typing import Any


def suggestion(word: object, known: Iterable[str]) -> str:
    """Return a question that suggests the nearest known word; empty if none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - only errors need it

    word, known = str(word)[:80], list(known)
    close = get_close_matches(word, known)
    swapped = [name for name in close if sorted(name) == sorted(word)]  # two letters in the wrong order
    near = swapped or close or [name for name in known if word in name.split("_")]
    return f"did you mean {near[0]}?" if near else ""


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return the end of a message that suggests the nearest known word; empty if none is near."""
    hint = suggestion(word, known)
    return f"; {hint}" if hint else ""


def listed(known: Iterable[str], hint: str = "", lead: str = "there are") -> str:
    """Return the end of a message about an unknown name: first the hint, if there is one, then the known names."""
    names = ", ".join(known)
    if not hint:
        return f"; {lead}: {names}"
    return f"; {hint}{'' if hint[-1] in '?.' else '.'} {lead.capitalize()}: {names}"


class ToolwireError(Exception):
    """The base of every exception of this package.

    >>> from toolwire import ToolwireError, dialect
    >>> try:
    ...     dialect("unheard-of")
    ... except ToolwireError as error:
    ...     print(type(error).__name__)
    UnknownDialect
    """

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


class UserError(ToolwireError, ValueError):
    """An argument of the caller cannot be used."""


class MissingFields(UserError):
    """A constructor lacks required fields."""

    code = "missing_keys"

    def __init__(self, kind: str, fields: Sequence[str]) -> None:
        super().__init__(f"{kind} needs {', '.join(fields)}")
        self.fields: list[str] = list(fields)


class InvalidField(UserError):
    """A field has a value of the wrong kind."""

    code = "invalid_field"

    def __init__(self, field: str, reason: str, *, path: str = "") -> None:
        super().__init__(f"{field} {reason}", path=path)
        self.field = field
        self.reason = reason


class InvalidBody(UserError):
    """A body that is not a JSON object at all."""


class FrameTooLarge(InvalidBody):
    """A frame of a stream is larger than its limit; `before` holds the frames that arrived with it."""

    def __init__(self, limit: int, before: Sequence[Any] = ()) -> None:
        super().__init__(f"a frame is larger than the limit of {limit} bytes", path="stream")
        self.limit = limit
        self.before = before


class InvalidSchema(UserError):
    """A JSON Schema that cannot describe a tool's parameters."""


class SchemaRecursive(InvalidSchema):
    """A schema refers to itself, but the target needs every reference inlined."""


class UnknownDialect(UserError, LookupError):
    """The name is not that of a dialect; `known` are the dialects.

    >>> from toolwire import UnknownDialect, dialect
    >>> try:
    ...     dialect("openai-completions")
    ... except UnknownDialect as error:
    ...     error.known[:2]
    ('openai-chat', 'openai-responses')
    """

    def __init__(self, name: object, known: Iterable[str]) -> None:
        self.name = name
        self.known: tuple[str, ...] = tuple(known)
        super().__init__(f"unknown dialect {name!r}; known: {', '.join(self.known)}")


class UnknownFormat(UserError, LookupError):
    """The name is not that of a format; `known` are the formats."""

    def __init__(self, name: object, known: Iterable[str]) -> None:
        self.name = name
        self.known: tuple[str, ...] = tuple(known)
        super().__init__(f"unknown format {name!r}; known: {', '.join(self.known)}")


class DeclarationError(UserError):
    """A file that declares tools cannot be used; `problems` are all of its problems, each with its position."""

    def __init__(self, problems: Sequence[Any]) -> None:
        self.problems: tuple[Any, ...] = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
        self.path = self.problems[0].field if self.problems else ""


class MissingExtra(UserError, ImportError):  # type: ignore[misc]  # `path` is where, as in every error here
    """A library that an extra of this package installs is missing."""

    def __init__(self, library: str, extra: str, purpose: str) -> None:
        super().__init__(f"{library} is needed {purpose}: pip install 'toolwire[{extra}]'")
        self.library = library
        self.extra = extra


class UnknownTool(UserError, LookupError):
    """A call of a tool that the resolver does not have; `known` are its tools.

    >>> from toolwire import AgentResolver, ToolCall, UnknownTool
    >>> def ping() -> str:
    ...     return "pong"
    >>> try:
    ...     AgentResolver([ping]).resolve(ToolCall("call_1", "pong", {}))
    ... except UnknownTool as error:
    ...     error.known
    ('ping',)
    """

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known: tuple[str, ...] = tuple(dict.fromkeys(known))
        known = ", ".join(self.known) or "none"
        super().__init__(f"Unknown tool: {name}; available: {known}{did_you_mean(name, self.known)}")


class InvalidTrace(UserError):
    """A trace has fields that are missing or wrong; `problems` are all of them."""

    code = "invalid_trace"

    def __init__(self, problems: Sequence[UserError]) -> None:
        self.problems: tuple[UserError, ...] = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


class UnreadableCalls(UserError):
    """Calls of a model that cannot be run: `errors` are the reasons, and `calls` are the other calls of the answer."""

    code = "unreadable_calls"

    def __init__(self, errors: Sequence[Any], calls: Sequence[Any] = ()) -> None:
        self.errors: list[Any] = list(errors)
        self.calls: list[Any] = list(calls)
        super().__init__("; ".join(map(str, self.errors)))


class ToolError(ToolwireError):
    """Raised by a tool to fail with its own message, which the model receives unchanged.

    >>> from toolwire import AgentResolver, ToolCall, ToolError
    >>> def search(query: str) -> str:
    ...     raise ToolError("log in first")
    >>> AgentResolver([search]).resolve(ToolCall("call_1", "search", {"query": "tea"})).content
    'log in first'
    """


class RunParked(ToolwireError):
    """A durable run that is not executed until it is resumed."""

    def __init__(self, run: str, reason: str) -> None:
        super().__init__(f"is parked: {reason}", path=f"run {run}")
        self.run = run
        self.reason = reason


class StoreFailed(ToolwireError):
    """A store of traces cannot be opened, read or written; acknowledged traces are safe."""


class ServerUnavailable(ToolwireError):
    """A server of tools cannot be started or reached, or was closed."""


class NoStructuredOutput(ToolwireError):
    """No answer of a model had the required form; `problems` are the reasons.

    `text` and `response` are the last answer. `kind` describes it: refused, cut_off, empty, no_json, invalid or
    unfinished.

    >>> from toolwire import NoStructuredOutput, Text, generate
    >>> from toolwire.testing import simulate
    >>> with simulate(Text("I do not know.")) as model:
    ...     try:
    ...         generate("What is 2 + 3?", "openai", "gpt-6-sol", output=int, base_url=model.url, api_key="any")
    ...     except NoStructuredOutput as error:
    ...         print(error.kind)
    no_json
    """

    def __init__(self, kind: str, problems: Sequence[str], text: str = "", response: Any = None) -> None:
        self.kind = kind
        self.problems: tuple[str, ...] = tuple(problems)
        self.text = text
        self.response = response
        super().__init__(f"no answer in the required form ({kind}): {'; '.join(self.problems)}", path="output")


class LossyTranslation(ToolwireError):
    """A strict translation was rejected; `losses` are what it would lose.

    >>> from toolwire import LossyTranslation, translate
    >>> body = {"model": "m", "temperature": 0.2, "messages": [{"role": "user", "content": "Hi"}]}
    >>> try:
    ...     translate.request(body, source="openai-chat", target="anthropic", strict=True)
    ... except LossyTranslation as error:
    ...     [loss.path for loss in error.losses if loss.severity == "semantic"]
    ['temperature']
    """

    def __init__(self, losses: Sequence[Any]) -> None:
        self.losses: tuple[Any, ...] = tuple(losses)
        lines = "\n".join(f"  {loss}" for loss in self.losses)
        super().__init__(f"{len(self.losses)} value(s) cannot be expressed in the target:\n{lines}")


class ScenarioFailed(ToolwireError, AssertionError):
    """The requests to a simulated model did not fit its scenario; `problems` are the deviations."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems: list[str] = list(problems)
        super().__init__("the scenario failed:\n" + "\n".join(f"  {line}" for line in self.problems))
