"""Calls as JSON says them, or what is wrong with them: one value for each, and nothing is repaired.

Rules of this file:
- Arguments are an object, the JSON text of one, or empty text, which means none. Left out, they are none too.
  Anything else, `null` among it, is an error: a tool must not run with arguments that nobody gave.
- A call without an id gets one that is derived from what it says and where it stands: `call_` and twelve
  characters that are safe in a URL. The same text gives the same ids; `seed` keeps texts apart.
- An id that an earlier call of the same answer has is not taken again: results are told apart by it. One that is made
  is none of an earlier answer either.
"""

import base64
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from toolwire.errors import UnreadableCalls
from toolwire.types import Context, Tool, ToolCall
from toolwire.wire.arguments import format_arguments, kind_of, parse_arguments

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
    """A call that cannot run: what is wrong, what the model wrote, and the name, if it has one."""

    code: _ErrorCode
    message: str
    text: str = ""
    name: str | None = None
    index: int = 0
    id: str | None = None

    def __str__(self) -> str:
        return f"call {self.index + 1}: {self.message}"

    def as_call(self) -> ToolCall:
        """Give it as a call that does not run and says why."""
        whole = self.code != "incomplete"
        return ToolCall(
            self.id, self.name or _UNKNOWN, {}, self.index, complete=whole, raw=self.text, error=self.message
        )


class Parsed(Struct, frozen=True):
    """The calls that can run, what is wrong with others, and the text for the user."""

    calls: list[ToolCall] = []
    errors: list[CallError] = []
    text: str = ""
    protocol: _Protocol = "text_tagged"

    @property
    def ok(self) -> bool:
        """Whether every call was read."""
        return not self.errors

    def or_raise(self) -> list[ToolCall]:
        """Give the calls, or raise `UnreadableCalls`, which holds the good ones too."""
        if self.errors:
            raise UnreadableCalls(self.errors, self.calls)
        return self.calls


Offer = Mapping[str, Tool | None]


def make_offer(tools: Iterable[Any] | None) -> Offer | None:
    """Give the tools that may be called by their names; None where any may."""
    if tools is None:
        return None
    given = list(tools)
    declared = Context(tools=[tool for tool in given if type(tool) is not str]).tools
    names: dict[str, Tool | None] = {tool: None for tool in given if type(tool) is str}
    return names | {tool.name: tool for tool in declared if isinstance(tool, Tool)}


def _derive_id(*parts: object) -> str:
    """Make an id from what a call says and where it stands."""
    text = "\0".join(map(str, parts)).encode(errors="surrogatepass")
    return f"call_{base64.urlsafe_b64encode(hashlib.sha256(text).digest()[:9]).decode()}"


class CallBuilder:
    """The calls of one answer, one after the other: counted, named, and of tools that were offered.

    No id is made that a call of the conversation had `earlier`.
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
        """Count a call that was read misplaced_arguments."""
        self.count += 1
        if call_id is not None:
            self._used_ids.add(call_id)

    def assign_id(self, given: str | None, text: str) -> str:
        """Give a call's id, its own if no other call of the answer has it, and count the call."""
        call_id, turn = given or "", 0
        while not call_id or call_id in self._used_ids or (turn and call_id in self._earlier):
            call_id, turn = _derive_id(self._seed, self.count, turn, text), turn + 1
        self.register(call_id)
        return call_id

    def build(self, name: str, arguments: Any, given: str | None, text: str) -> ToolCall | CallError:
        """Give a call of these words, or what is wrong with it."""
        place, call_id = self.count, self.assign_id(given, text)
        refusal = self._refusal(name, text, place, call_id)
        if refusal is not None:
            return refusal
        read, raw, problem = _read_arguments(arguments)
        if problem is not None:
            return CallError("invalid_arguments", problem, text if raw is None else raw, name, place, call_id)
        call = ToolCall(call_id, name, read, place, raw=raw)
        tool = self._offer.get(name) if self._offer is not None else None
        return call if tool is None or not tool.custom else _free(call)

    def check(self, call: ToolCall) -> ToolCall | CallError:
        """Give a call that was read misplaced_arguments, if it may be one."""
        place, text = self.count, call.raw if call.raw is not None else format_arguments(call.plain_arguments)
        if call.id is None:
            call = replace(call, id=self.assign_id(None, f"{call.name}\0{text}"))
        else:
            self.register(call.id)
        return self._refusal(call.name, text, place, call.id) or call

    def _refusal(self, name: str, text: str, place: int, call_id: str | None) -> CallError | None:
        if place >= self._limit:
            reason = f"not read: an answer may have {self._limit} calls"
            return CallError("too_many_calls", reason, text, name, place, call_id)
        if self._offer is not None and name not in self._offer:
            known = ", ".join(self._offer) or "none"
            reason = f"there is no tool {name!r}; the tools are: {known}"
            return CallError("unknown_tool", reason, text, name, place, call_id)
        return None

    def make_error(
        self, code: _ErrorCode, message: str, text: str, name: str | None = None, given: str | None = None
    ) -> CallError:
        """Say what is wrong with what should have been a call."""
        place = self.count
        return CallError(code, message, text, name, place, self.assign_id(given, text))


def _read_arguments(given: Any) -> tuple[dict[str, Any], str | None, str | None]:
    """Give arguments, the text that they came as if they came as one, and what is wrong with them."""
    if type(given) is dict:
        return given, None, None
    if type(given) is not str:
        return {}, None, f"arguments must be an object or the JSON text of one, not {kind_of(given)}"
    arguments, problem = parse_arguments(given)
    if problem is None and given.strip() == "null":
        problem = "an object was expected, not null"
    return arguments, given, None if problem is None else f"arguments: {problem}"


def _free(call: ToolCall) -> ToolCall:
    """Give the call of a tool that takes free text, which stands in its one argument."""
    match call.plain_arguments:
        case {"input": str(text), **rest} if not rest:
            return replace(call, arguments={}, raw=text, custom=True)
    return call


def misplaced_arguments(given: Iterable[str], keys: Sequence[str], known: Collection[str]) -> str:
    """Say that a call has none of the keys of arguments, but one that nobody knows: they may stand there."""
    other = next((key for key in given if key not in known), None)
    return "" if other is None else f"arguments stand under {keys[0]!r}, not under {other!r}"


def read_object(given: Mapping[str, Any], text: str, builder: CallBuilder, *keys: str) -> ToolCall | CallError:
    """Read a call from an object whose arguments stand under one of these keys, or nowhere."""
    name, call_id = given.get("name"), given.get("id")
    if type(name) is not str or not name:
        wrong = "has no name" if name in (None, "") else f"must have a text as its name, not {kind_of(name)}"
        return builder.make_error("missing_tool_name", f"the call {wrong}; {SHAPE}", text)
    if call_id is not None and type(call_id) is not str:
        reason = f"id must be a text, not {kind_of(call_id)}"
        return builder.make_error("unrecognised_tool_call", reason, text, name)
    key = next((key for key in keys if key in given), None)
    if key is None and (reason := misplaced_arguments(given, keys, ("name", "id", "type"))):
        return builder.make_error("unrecognised_tool_call", reason, text, name, call_id)
    return builder.build(name, {} if key is None else given[key], call_id, text)
