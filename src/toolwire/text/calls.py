"""Build `ToolCall` values from what a model wrote, or describe why a call cannot run. Nothing is repaired.

Rules of this file:
- Arguments are a JSON object, or the JSON text of one. Missing arguments and empty text mean an empty object.
  Any other value is an error, `null` included: a tool must not run with arguments that the model did not write.
- A call without an id gets an id that is derived from its text and its position: `call_` and twelve characters that
  are safe in a URL. The same text gets the same ids. `seed` makes the ids of different answers differ.
- Within one answer, each id is used once, because results refer to calls by id. A derived id also differs from the ids
  of earlier answers.
"""

import base64
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from toolwire.errors import UnreadableCalls
from toolwire.types import Context, Tool, ToolCall
from toolwire.wire.arguments import format_arguments, parse_arguments, type_name

_ErrorCode = Literal[
    "invalid_json",
    "unrecognised_tool_call",
    "missing_tool_name",
    "invalid_arguments",
    "unknown_tool",
    "incomplete",
    "too_many_calls",
]
_Protocol = Literal["native", "text_tagged"]
_UNKNOWN = "unknown"
MAX_CALLS = 128
SHAPE = 'a call is one object like {"name": "TOOL", "arguments": {}}'


class CallError(Struct, frozen=True):
    """A call that cannot run: the reason, the text that the model wrote, and the tool's name if it was readable.

    `index` is the position of the call in the answer.
    """

    code: _ErrorCode
    message: str
    text: str = ""
    name: str | None = None
    index: int = 0
    id: str | None = None

    def __str__(self) -> str:
        return f"call {self.index + 1}: {self.message}"

    def as_call(self) -> ToolCall:
        """Return the error as a `ToolCall` that cannot run and that carries the message."""
        complete = self.code != "incomplete"
        return ToolCall(
            self.id, self.name or _UNKNOWN, {}, self.index, complete=complete, raw=self.text, error=self.message
        )


class Parsed(Struct, frozen=True):
    """The result of parsing an answer: the calls that can run, the errors of the others, and the remaining text."""

    calls: list[ToolCall] = []
    errors: list[CallError] = []
    text: str = ""
    protocol: _Protocol = "text_tagged"

    @property
    def ok(self) -> bool:
        """Return True if every call was parsed without an error."""
        return not self.errors

    def or_raise(self) -> list[ToolCall]:
        """Return the calls.

        Raises `UnreadableCalls` if there are errors; the exception also holds the calls that can run.
        """
        if self.errors:
            raise UnreadableCalls(self.errors, self.calls)
        return self.calls


Offer = Mapping[str, Tool | None]


def make_offer(tools: Iterable[Any] | None) -> Offer | None:
    """Return the tools that may be called, by name. None means that any name may be called."""
    if tools is None:
        return None
    entries = list(tools)
    declared = Context(tools=[tool for tool in entries if type(tool) is not str]).tools
    names: dict[str, Tool | None] = {tool: None for tool in entries if type(tool) is str}
    return names | {tool.name: tool for tool in declared if isinstance(tool, Tool)}


def _derive_id(*parts: object) -> str:
    """Derive a call id from `parts`: the same parts give the same id."""
    text = "\0".join(map(str, parts)).encode(errors="surrogatepass")
    return f"call_{base64.urlsafe_b64encode(hashlib.sha256(text).digest()[:9]).decode()}"


class CallBuilder:
    """Builds the calls of one answer: assigns ids, counts the calls, and rejects tools that were not offered.

    Derived ids never repeat an id in `earlier`, the ids of the conversation's earlier calls.
    """

    __slots__ = ("_earlier", "_limit", "_offer", "_seed", "_used_ids", "count")

    def __init__(
        self,
        offer: Offer | None = None,
        seed: str = "",
        limit: int = MAX_CALLS,
        earlier: Collection[str] = frozenset(),
    ) -> None:
        self._offer = offer
        self._seed = seed
        self._limit = limit
        self._earlier = earlier
        self._used_ids: set[str] = set()
        self.count: int = 0

    def register(self, call_id: str | None) -> None:
        """Count a call that was built elsewhere, and mark its id as used."""
        self.count += 1
        if call_id is not None:
            self._used_ids.add(call_id)

    def assign_id(self, call_id: str | None, text: str) -> str:
        """Return `call_id` if it is unused in this answer, else a derived id. Count the call."""
        unique_id, attempt = call_id or "", 0
        while not unique_id or unique_id in self._used_ids or (attempt and unique_id in self._earlier):
            unique_id, attempt = _derive_id(self._seed, self.count, attempt, text), attempt + 1
        self.register(unique_id)
        return unique_id

    def build(self, name: str, arguments: Any, call_id: str | None, text: str) -> ToolCall | CallError:
        """Return a call with this name and these arguments, or the error that describes why it cannot run."""
        index, unique_id = self.count, self.assign_id(call_id, text)
        error = self._error_for(name, text, index, unique_id)
        if error is not None:
            return error
        parsed, raw, problem = _read_arguments(arguments)
        if problem is not None:
            return CallError("invalid_arguments", problem, text if raw is None else raw, name, index, unique_id)
        call = ToolCall(unique_id, name, parsed, index, raw=raw)
        tool = self._offer.get(name) if self._offer is not None else None
        return call if tool is None or not tool.custom else _as_custom(call)

    def check(self, call: ToolCall) -> ToolCall | CallError:
        """Return `call`, with an id if it has none, or an error if it must not run."""
        index, text = self.count, call.raw if call.raw is not None else format_arguments(call.plain_arguments)
        if call.id is None:
            call = replace(call, id=self.assign_id(None, f"{call.name}\0{text}"))
        else:
            self.register(call.id)
        return self._error_for(call.name, text, index, call.id) or call

    def _error_for(self, name: str, text: str, index: int, call_id: str | None) -> CallError | None:
        """Return an error if the answer has too many calls or the tool was not offered."""
        if index >= self._limit:
            reason = f"the call was not read: an answer may have at most {self._limit} calls"
            return CallError("too_many_calls", reason, text, name, index, call_id)
        if self._offer is not None and name not in self._offer:
            known = ", ".join(self._offer) or "none"
            reason = f"there is no tool {name!r}; the tools are: {known}"
            return CallError("unknown_tool", reason, text, name, index, call_id)
        return None

    def make_error(
        self, code: _ErrorCode, message: str, text: str, name: str | None = None, call_id: str | None = None
    ) -> CallError:
        """Return a `CallError` for text that was meant as a call, and count it."""
        index = self.count
        return CallError(code, message, text, name, index, self.assign_id(call_id, text))


def _read_arguments(value: Any) -> tuple[dict[str, Any], str | None, str | None]:
    """Return the arguments, their raw text if they were passed as text, and the problem if they are invalid."""
    if type(value) is dict:
        return value, None, None
    if type(value) is not str:
        return {}, None, f"arguments must be an object or the JSON text of one, not {type_name(value)}"
    arguments, problem = parse_arguments(value)
    if problem is None and value.strip() == "null":
        problem = "an object was expected, not null"
    return arguments, value, None if problem is None else f"arguments: {problem}"


def _as_custom(call: ToolCall) -> ToolCall:
    """Return `call` as a call of a custom tool: its raw text is the single argument `input`."""
    match call.plain_arguments:
        case {"input": str(text), **rest} if not rest:
            return replace(call, arguments={}, raw=text, custom=True)
    return call


def misplaced_arguments(fields: Iterable[str], keys: Sequence[str], known: Collection[str]) -> str:
    """Return a message if a call without arguments has an unknown key, because that key may hold the arguments.

    `keys` are the keys under which arguments are expected, and `known` the other keys of a call. Return "" if every key
    is known.
    """
    unknown = next((key for key in fields if key not in known), None)
    return "" if unknown is None else f"arguments belong under {keys[0]!r}, not under {unknown!r}"


def read_object(fields: Mapping[str, Any], text: str, builder: CallBuilder, *keys: str) -> ToolCall | CallError:
    """Build a call from a JSON object. Its arguments are under one of `keys`, or missing."""
    name, call_id = fields.get("name"), fields.get("id")
    if type(name) is not str or not name:
        problem = "has no name" if name in (None, "") else f"must have a text as its name, not {type_name(name)}"
        return builder.make_error("missing_tool_name", f"the call {problem}; {SHAPE}", text)
    if call_id is not None and type(call_id) is not str:
        reason = f"id must be a text, not {type_name(call_id)}"
        return builder.make_error("unrecognised_tool_call", reason, text, name)
    key = next((key for key in keys if key in fields), None)
    if key is None and (reason := misplaced_arguments(fields, keys, ("name", "id", "type"))):
        return builder.make_error("unrecognised_tool_call", reason, text, name, call_id)
    return builder.build(name, {} if key is None else fields[key], call_id, text)
