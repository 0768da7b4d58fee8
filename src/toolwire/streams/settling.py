"""The calls of an answer as its conversation takes them: ids that tell them apart, names and arguments as declared.

Rules of this file:
- An id that a wire gave stays. One that was made here for a call without any, and that the conversation has
  already, is counted on until it is free: derived, and the same for a stream as for a whole answer.
- A name that the model's wire does not take is found again by how it was written there.
- A call of no name keeps none, and is not repeated as it came: servers refuse an empty one (continue#12776, 2026-06).
- A strict schema says "absent" by a null. Where the tool that was declared takes no null there, it is taken out
  again; `raw` is still what came.
"""

from operator import is_
from typing import Any, TypeVar

from msgspec.structs import replace

from toolwire.errors import InvalidSchema
from toolwire.schema.nulls import NullPruner
from toolwire.types import CallEnd, CallStart, Choice, Event, Request, Response, Tool, ToolCall
from toolwire.wire.names import WORD_CHARS, Grammar, escape, is_generated_id, next_id

# What a name of a tool may be, on the wires that limit it; the first takes the fewest.
_GRAMMARS = (Grammar(WORD_CHARS, 64), Grammar(WORD_CHARS, 128), Grammar("A-Za-z0-9_.:-", 128, first="A-Za-z_"))
_Named = TypeVar("_Named", ToolCall, CallStart)


class Settling:
    """Settles the calls of one answer to a request."""

    __slots__ = ("_ids", "_names", "_pruners", "_request", "_settled", "_tools")

    def __init__(self, request: Request) -> None:
        self._request = request
        self._tools = {tool.name: tool for tool in request.tools if type(tool) is Tool and tool.strict}
        self._names = _written_names(request)
        self._pruners: dict[str, NullPruner] = {}
        self._ids: set[str] | None = None
        self._settled: dict[int, str | None] = {}

    def response(self, response: Response) -> Response:
        """Give an answer with its calls settled; the same one where there is nothing to settle."""
        choices = [self._choice(choice) for choice in response.choices]
        return response if all(map(is_, choices, response.choices)) else replace(response, choices=choices)

    def _choice(self, choice: Choice) -> Choice:
        content: Any = choice.message.content
        if isinstance(content, str):
            return choice
        parts = [self._call(part, self._id(part.id)) if type(part) is ToolCall else part for part in content]
        if all(map(is_, parts, content)):
            return choice
        return replace(choice, message=replace(choice.message, content=parts))

    def may_take_out_of(self, name: str) -> bool:
        """Whether a call of this tool may have a null that is to be taken out."""
        tool = self._tools.get(self._names.get(name, name))
        return tool is not None and tool.plain_parameters is not None and self._pruner(tool).has_optional_properties

    def _pruner(self, tool: Tool) -> NullPruner:
        if tool.name not in self._pruners:
            self._pruners[tool.name] = NullPruner(tool.plain_parameters or {})
        return self._pruners[tool.name]

    def event(self, event: Event) -> Event:
        """Give an event of a stream with its call settled."""
        match event:
            case CallStart():
                call_id = self._settled[event.key] = self._id(event.id)
                return self._named(event if call_id == event.id else replace(event, id=call_id))
            case CallEnd():
                settled = event.key in self._settled
                call_id = self._settled[event.key] if settled else self._id(event.call.id)
                call = self._call(event.call, call_id)
                return event if call is event.call else replace(event, call=call)
        return event

    def _call(self, call: ToolCall, call_id: str | None) -> ToolCall:
        call = self._named(call if call_id == call.id else replace(call, id=call_id))
        tool = self._tools.get(call.name)
        return call if tool is None else _without_nulls(call, tool, self._pruner(tool))

    def _named(self, call: _Named) -> _Named:
        if not call.name:
            return replace(call, opaque=None)
        return replace(call, name=self._names[call.name]) if call.name in self._names else call

    def _id(self, call_id: str | None) -> str | None:
        if call_id is None or not is_generated_id(call_id):
            return call_id
        if self._ids is None:
            self._ids = call_ids(self._request)
        if call_id not in self._ids:
            return call_id
        while call_id in self._ids:
            call_id = next_id(call_id)
        self._ids.add(call_id)
        return call_id


def is_respelled(name: str) -> bool:
    """Whether any wire writes a tool's name in another way."""
    return len(name) > _GRAMMARS[0].limit or escape(name, _GRAMMARS[0]) != name


def _written_names(request: Request) -> dict[str, str]:
    """Give the names of tools by how they may be written; what is a tool's own name is no other one's."""
    names = dict.fromkeys(tool.name for tool in request.tools if type(tool) is Tool)
    written = {escape(name, grammar): name for name in names if is_respelled(name) for grammar in _GRAMMARS}
    return {spelled: name for spelled, name in written.items() if spelled not in names} if written else written


def call_ids(request: Request) -> set[str]:
    """Give the ids that the calls of a conversation have."""
    given = [message.parts for message in request.messages if not isinstance(message.content, str)]
    return {part.id for parts in given for part in parts if type(part) is ToolCall and part.id is not None}


def without_nulls(call: ToolCall, tool: Tool | None) -> ToolCall:
    """Give a call of a strict tool without the nulls that mean "absent"; the same one where there are none."""
    return call if tool is None else _without_nulls(call, tool, NullPruner(tool.plain_parameters or {}))


def _without_nulls(call: ToolCall, tool: Tool, pruner: NullPruner) -> ToolCall:
    if not tool.strict or tool.plain_parameters is None or not call.plain_arguments:
        return call
    try:
        arguments = pruner.prune(call.plain_arguments)
    except (InvalidSchema, RecursionError):
        return call  # nobody can say what the schema wants: it was sent as it is
    return call if arguments is call.plain_arguments else replace(call, arguments=arguments)
