"""Every exception that toolwire raises on its own account.

    ToolwireError
    +-- UserError            an argument of the caller cannot be used
    |   +-- MissingFields    a constructor lacks required fields (code "missing_keys")
    |   +-- InvalidField     a field has the wrong kind of value (code "invalid_field")
    |   +-- InvalidBody      a body is not an object, or is not JSON
    |   |   +-- FrameTooLarge  a frame of a stream is larger than its limit
    |   +-- InvalidSchema    a JSON Schema that cannot describe a tool's parameters
    |   |   +-- SchemaRecursive
    |   +-- UnknownDialect   lists the known ones
    |   +-- UnknownFormat    lists the known ones
    |   +-- DeclarationError a file that declares tools cannot be used; carries all its problems
    |   +-- MissingExtra     a library that an extra of the package brings is not installed
    |   +-- InvalidSettings  a file of settings cannot be used; carries all its problems
    |   +-- UnknownTool      a call of a tool that a resolver or a session does not have; lists those it has
    |   +-- UnknownProvider  lists the known ones (`toolwire.providers`)
    |   +-- InvalidTrace     a trace has fields that are missing or wrong; carries all its problems
    |   +-- UnreadableCalls  calls of a model that cannot be run; carries what is wrong, and the good ones
    +-- ProviderError        a provider refused a request, or could not be reached (`toolwire.client.failures`)
    |   +-- AuthenticationFailed, RateLimited, ContextTooLong, RequestRefused, ProviderUnavailable,
    |       ProviderTimeout
    +-- AllFailed            each of several providers failed; carries their errors
    +-- ChoiceIgnored        a model did not call, although the request required it
    +-- TransportError       an HTTP request could not be sent, or its answer could not be read
    +-- ToolError            a tool raises it to fail with its own words, which the model reads
    |   +-- PathRefused, AddressRefused, EditRefused  a code tool refuses a path, an address, an edit
    +-- RunParked            a run that survives is led by nobody until it is resumed; carries its id and why
    +-- StoreFailed          a store of traces cannot be opened, read or written
    +-- ServerUnavailable    a server of tools cannot be started or reached, or was closed
    +-- NoStructuredOutput   no answer of a model had the wanted form; carries the problems and the response
    +-- LossyTranslation     a strict translation would lose something; carries the losses
    +-- ScenarioFailed       the requests to a simulated model did not fit its scenario; carries the problems

Rule: a message says what was wrong, `path` says where, and the message says what would be right.
"""

from collections.abc import Iterable, Sequence
from typing import Any


def meant(word: object, known: Iterable[str]) -> str:
    """Say which of the known words may have been meant, as the end of a message; nothing where none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - only errors need it

    word, known = str(word)[:80], list(known)
    near = get_close_matches(word, known, n=1) or [name for name in known if word in name.split("_")]
    return f"; did you mean {near[0]}?" if near else ""


class ToolwireError(Exception):
    """The base of every exception of this package."""

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
    """A field has the wrong kind of value."""

    code = "invalid_field"

    def __init__(self, field: str, reason: str, *, path: str = "") -> None:
        super().__init__(f"{field} {reason}", path=path)
        self.field = field
        self.reason = reason


class InvalidBody(UserError):
    """A body that is not a JSON object at all."""


class FrameTooLarge(InvalidBody):
    """A frame of a stream is larger than its limit; `before` holds the frames that came together with it."""

    def __init__(self, limit: int, before: Sequence[Any] = ()) -> None:
        super().__init__(f"a frame may have {limit} bytes", path="stream")
        self.limit = limit
        self.before = before


class InvalidSchema(UserError):
    """A JSON Schema that cannot describe a tool's parameters."""


class SchemaRecursive(InvalidSchema):
    """A schema refers to itself where the target needs every reference inlined."""


class UnknownDialect(UserError, LookupError):
    """A name that is not that of a dialect; `known` are the names that are."""

    def __init__(self, name: object, known: Iterable[str]) -> None:
        self.name = name
        self.known: tuple[str, ...] = tuple(known)
        super().__init__(f"unknown dialect {name!r}; known: {', '.join(self.known)}")


class UnknownFormat(UserError, LookupError):
    """A name of a format that there is not; `known` are those that are."""

    def __init__(self, name: object, known: Iterable[str]) -> None:
        self.name = name
        self.known: tuple[str, ...] = tuple(known)
        super().__init__(f"unknown format {name!r}; known: {', '.join(self.known)}")


class DeclarationError(UserError):
    """A file that declares tools cannot be used; `problems` are all that was found, each with its place."""

    def __init__(self, problems: Sequence[Any]) -> None:
        self.problems: tuple[Any, ...] = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
        self.path = self.problems[0].field if self.problems else ""


class MissingExtra(UserError, ImportError):  # type: ignore[misc]  # `path` is where, as in every error here
    """A library that an extra of this package brings is not installed."""

    def __init__(self, library: str, extra: str, purpose: str) -> None:
        super().__init__(f"{library} is needed {purpose}: pip install 'toolwire[{extra}]'")
        self.library = library
        self.extra = extra


class UnknownTool(UserError, LookupError):
    """A call of a tool that the resolver does not have; `known` are the tools that it has."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known: tuple[str, ...] = tuple(dict.fromkeys(known))
        super().__init__(f"Unknown tool: {name}; available: {', '.join(self.known) or 'none'}")


class InvalidTrace(UserError):
    """A trace has fields that are missing or wrong; `problems` are all of them."""

    code = "invalid_trace"

    def __init__(self, problems: Sequence[UserError]) -> None:
        self.problems: tuple[UserError, ...] = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


class UnreadableCalls(UserError):
    """Calls of a model that cannot be run: `errors` say why, and `calls` are the others of the answer."""

    code = "unreadable_calls"

    def __init__(self, errors: Sequence[Any], calls: Sequence[Any] = ()) -> None:
        self.errors: list[Any] = list(errors)
        self.calls: list[Any] = list(calls)
        super().__init__("; ".join(map(str, self.errors)))


class ToolError(ToolwireError):
    """What a tool raises to fail with its own words: the model reads them as they are."""


class RunParked(ToolwireError):
    """A run is led by nobody until somebody resumes it."""

    def __init__(self, run: str, reason: str) -> None:
        super().__init__(f"is parked: {reason}", path=f"run {run}")
        self.run = run
        self.reason = reason


class StoreFailed(ToolwireError):
    """A store of traces cannot be opened, read or written; acknowledged traces are kept."""


class ServerUnavailable(ToolwireError):
    """A server of tools cannot be started or reached, or was closed."""


class NoStructuredOutput(ToolwireError):
    """No answer of a model had the wanted form; `problems` say why, `text` and `response` are the last answer.

    `kind` is that of the last answer: it was refused, cut_off, empty, no_json or invalid, or unfinished.
    """

    def __init__(self, kind: str, problems: Sequence[str], text: str = "", response: Any = None) -> None:
        self.kind = kind
        self.problems: tuple[str, ...] = tuple(problems)
        self.text = text
        self.response = response
        super().__init__(f"no answer in the wanted form ({kind}): {'; '.join(self.problems)}", path="output")


class LossyTranslation(ToolwireError):
    """A strict translation was refused; `losses` are what it would lose."""

    def __init__(self, losses: Sequence[Any]) -> None:
        self.losses: tuple[Any, ...] = tuple(losses)
        lines = "\n".join(f"  {loss}" for loss in self.losses)
        super().__init__(f"{len(self.losses)} value(s) cannot be expressed in the target:\n{lines}")


class ScenarioFailed(ToolwireError, AssertionError):
    """The requests to a simulated model did not fit its scenario; `problems` say how."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems: list[str] = list(problems)
        super().__init__("the scenario failed:\n" + "\n".join(f"  {line}" for line in self.problems))
