"""Normalize the calls of an answer for its conversation: unique ids, and names and arguments as tools declare them.

Rules of this file:
- An id that the wire gave is kept. An id that was generated for a call without one is counted up if the conversation
  has it already. So ids are derived, and are the same for a stream as for a whole answer.
- A tool name that the model's wire does not allow was escaped in the request. The name as it was declared is restored.
- A call without a name stays without one. Its opaque data is removed, so that it is not sent back as it arrived:
  servers reject an empty name (continue#12776, 2026-06).
- In a strict schema, null means "absent". A null is removed where the declared tool does not allow it. `raw` is not
  changed.
"""

from operator import is_
from typing import Any, TypeVar

from msgspec.structs import replace

from toolwire.errors import InvalidSchema
from toolwire.schema.nulls import NullPruner
from toolwire.types import CallEnd, CallStart, Choice, Event, Request, Response, Tool, ToolCall
from toolwire.wire.names import WORD_CHARS, Grammar, escape, is_generated_id, next_id

# The tool names that wires allow, where they limit them. The first grammar allows the fewest names.
_GRAMMARS = (Grammar(WORD_CHARS, 64), Grammar(WORD_CHARS, 128), Grammar("A-Za-z0-9_.:-", 128, first="A-Za-z_"))
_Named = TypeVar("_Named", ToolCall, CallStart)


class CallNormalizer:
    """Normalizes the calls of one answer to a request."""

    __slots__ = ("_call_ids", "_ids", "_names", "_pruners", "_request", "_tools")

    def __init__(self, request: Request) -> None:
        self._request = request
        self._tools = {tool.name: tool for tool in request.tools if type(tool) is Tool and tool.strict}
        self._names = _names_by_spelling(request)
        self._pruners: dict[str, NullPruner] = {}
        self._ids: set[str] | None = None
        self._call_ids: dict[int, str | None] = {}

    def normalize_response(self, response: Response) -> Response:
        """Return an answer with its calls normalized, or the same object if nothing has to change."""
        choices = [self._normalized_choice(choice) for choice in response.choices]
        return response if all(map(is_, choices, response.choices)) else replace(response, choices=choices)

    def _normalized_choice(self, choice: Choice) -> Choice:
        content: Any = choice.message.content
        if isinstance(content, str):
            return choice
        parts = [
            self._normalized(part, self._unique_id(part.id)) if type(part) is ToolCall else part for part in content
        ]
        if all(map(is_, parts, content)):
            return choice
        return replace(choice, message=replace(choice.message, content=parts))

    def may_prune_nulls(self, name: str) -> bool:
        """Return True if a call of the tool `name` may have a null that has to be removed."""
        tool = self._tools.get(self._names.get(name, name))
        return tool is not None and tool.plain_parameters is not None and self._pruner(tool).has_optional_properties

    def _pruner(self, tool: Tool) -> NullPruner:
        if tool.name not in self._pruners:
            self._pruners[tool.name] = NullPruner(tool.plain_parameters or {})
        return self._pruners[tool.name]

    def normalize_event(self, event: Event) -> Event:
        """Return an event of a stream with its call normalized."""
        match event:
            case CallStart():
                call_id = self._call_ids[event.key] = self._unique_id(event.id)
                return self._with_declared_name(event if call_id == event.id else replace(event, id=call_id))
            case CallEnd():
                has_started = event.key in self._call_ids
                call_id = self._call_ids[event.key] if has_started else self._unique_id(event.call.id)
                call = self._normalized(event.call, call_id)
                return event if call is event.call else replace(event, call=call)
        return event

    def _normalized(self, call: ToolCall, call_id: str | None) -> ToolCall:
        call = self._with_declared_name(call if call_id == call.id else replace(call, id=call_id))
        tool = self._tools.get(call.name)
        return call if tool is None else _without_nulls(call, tool, self._pruner(tool))

    def _with_declared_name(self, call: _Named) -> _Named:
        """Return a call, or its start, with the name under which its tool was declared."""
        if not call.name:
            return replace(call, opaque=None)
        return replace(call, name=self._names[call.name]) if call.name in self._names else call

    def _unique_id(self, call_id: str | None) -> str | None:
        """Return the id of a call, counted up if it was generated and the conversation has it already."""
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


def needs_escaping(name: str) -> bool:
    """Return True if some wire has to escape the tool name `name`."""
    return len(name) > _GRAMMARS[0].limit or escape(name, _GRAMMARS[0]) != name


def _names_by_spelling(request: Request) -> dict[str, str]:
    """Return the escaped tool names by their spellings. A spelling that is the name of another tool is left out."""
    names = dict.fromkeys(tool.name for tool in request.tools if type(tool) is Tool)
    written = {escape(name, grammar): name for name in names if needs_escaping(name) for grammar in _GRAMMARS}
    return {spelling: name for spelling, name in written.items() if spelling not in names} if written else written


def call_ids(request: Request) -> set[str]:
    """Return the ids of the calls of a conversation."""
    messages_parts = [message.parts for message in request.messages if not isinstance(message.content, str)]
    return {part.id for parts in messages_parts for part in parts if type(part) is ToolCall and part.id is not None}


def without_nulls(call: ToolCall, tool: Tool | None) -> ToolCall:
    """Return a call of a strict tool without the nulls that mean "absent", or the same object if it has none."""
    return call if tool is None else _without_nulls(call, tool, NullPruner(tool.plain_parameters or {}))


def _without_nulls(call: ToolCall, tool: Tool, pruner: NullPruner) -> ToolCall:
    if not tool.strict or tool.plain_parameters is None or not call.plain_arguments:
        return call
    try:
        arguments = pruner.prune(call.plain_arguments)
    except (InvalidSchema, RecursionError):
        return call  # the schema cannot be read, so it was sent as it is and its nulls are the model's own
    return call if arguments is call.plain_arguments else replace(call, arguments=arguments)
