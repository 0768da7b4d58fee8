"""Deferred tools: the tools of a request that its model gets only after a search or a reference has named them.

Rules of this file:
- A deferred tool is sent after the tools that are already there, in the order in which the tools were named. So a
  longer conversation still begins with the same tools.
- The result of a search, the result of a client's own search, and a call of the tool name a tool.
- A function of toolwire takes the place of the provider's search, if somebody answers its calls. The calls and results
  that the client has of the provider's search become calls and results of this function.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects import traits_of
from toolwire.encoding.traits import ToolSearchForm
from toolwire.translation.tool_ranking import rank_tools
from toolwire.types import (
    Encoded,
    Loss,
    Message,
    Part,
    Request,
    ServerTool,
    ServerToolCall,
    ServerToolResult,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from toolwire.types.conversation import called_name
from toolwire.wire.arguments import format_arguments, parse_arguments

MAX_SEARCHES = 8
"""The searches of one answer after which the model is not asked again."""
_FOUND_TOOLS = 5
"""The tools that one search finds at most."""
_NAME = "tool_search"
_QUERY = "query"
_DESCRIPTION = (
    "Search for more tools. Tools that are not listed here can be called once a search has found them. "
    f"A search returns the names of at most {_FOUND_TOOLS} tools that fit best; they are in your list of tools then."
)
_PARAMETERS = {
    "type": "object",
    "properties": {_QUERY: {"type": "string", "description": "Words for what the tool does, or its name."}},
    "required": [_QUERY],
}
_NOTHING_FOUND = {"tools": [], "hint": "No other tool fits. Search with other words, or go on without it."}
_FLAG = "defer_loading"
_PLAIN_ID = re.compile(r"[A-Za-z0-9_]{1,200}")
_TOOL_PATH = re.compile(r"tools\[(\d+)\]")
_PART_PATH = re.compile(r"messages\[(\d+)\](?:\.content\[(\d+)\])?")


def _is_deferred(tool: Tool | ServerTool) -> bool:
    """Return True if the client has marked a tool as deferred, in a wire whose servers defer tools."""
    if type(tool) is not Tool or tool.opaque is None or tool.opaque.value.get(_FLAG) is not True:
        return False
    return traits_of(tool.opaque.dialect).tool_search is not None


class DeferredTools(Struct, frozen=True):
    """The deferred tools of a request.

    - `form`: how the client's wire searches them.
    - `tools`: all tools of the request, in its order.
    - `deferred`: the places of the deferred tools in `tools`, by name.
    - `search`: the place of the provider's search that a function of toolwire replaces, or None.
    - `function`: this function.
    """

    form: ToolSearchForm
    tools: Sequence[Tool | ServerTool]
    deferred: dict[str, int]
    search: int | None = None
    function: Tool | None = None

    @classmethod
    def of(cls, request: Request, *, answers_searches: bool) -> "DeferredTools | None":
        """Return the deferred tools of `request`, or None if it has none.

        `answers_searches` says that the caller answers the calls of the function.
        """
        tools = request.tools
        deferred = {tool.name: place for place, tool in enumerate(tools) if _is_deferred(tool) and type(tool) is Tool}
        if not deferred:
            return None
        first = tools[next(iter(deferred.values()))]
        form = traits_of(first.opaque.dialect).tool_search  # type: ignore[union-attr]
        assert form is not None  # noqa: S101 - `_is_deferred` has checked it
        answers_searches = answers_searches and (request.n or 1) == 1
        places = (place for place, tool in enumerate(tools) if type(tool) is ServerTool and form.is_search(tool))
        search = next(places, None) if answers_searches else None
        function = None if search is None else Tool(_free_name(tools), _DESCRIPTION, _PARAMETERS)
        return cls(form, tools, deferred, search, function)

    def named_in(self, messages: Iterable[Message]) -> dict[str, None]:
        """Return the names of deferred tools that messages name, in their order."""
        return dict.fromkeys(name for message in messages for part in message.parts for name in self._names_in(part))

    def _names_in(self, part: Part) -> Iterator[str]:
        match part:
            case ToolCall(name=name):
                names: Sequence[str] = (name,)
            case ToolResult(name=name, content=str(text)) if self.function is not None and name == self.function.name:
                names = _names_of_result(text)
            case ToolResult() | ServerToolResult():
                names = self.form.names_in(part) or ()
            case _:
                return
        yield from (name for name in names if name in self.deferred)

    def named_by(self, request: Request, found: Iterable[str] = ()) -> dict[str, None]:
        """Return the names of the deferred tools that are sent with `request`, in the order in which they were named.

        `found` are the names that searches have found since.
        """
        chosen = request.tool_choice.names or () if request.tool_choice is not None else ()
        named = self.named_in(request.messages)
        return named | dict.fromkeys(found) | dict.fromkeys(name for name in chosen if name in self.deferred)

    def held_back(self, named: Mapping[str, None]) -> list[Tool]:
        """Return the tools that are not sent yet."""
        tools = (self.tools[place] for name, place in self.deferred.items() if name not in named)
        return [tool for tool in tools if type(tool) is Tool]

    def search_tools(self, query: str, named: Mapping[str, None], limit: int = _FOUND_TOOLS) -> list[Tool]:
        """Return the tools that are not sent yet and that fit `query`, the best first."""
        return rank_tools(self.held_back(named), query, limit)

    def answer(self, call: ToolCall, named: Mapping[str, None]) -> tuple[list[Tool], ToolResult]:
        """Return the tools that a call of the function finds, and its result, which has their names."""
        query = call.plain_arguments.get(_QUERY) if call.runs else None
        if not isinstance(query, str):
            text = format_arguments({"error": f"{_QUERY} is missing: give the words to search for, as a string"})
            return [], ToolResult(call.id, call.name, text, is_error=True)
        found = self.search_tools(query, named)
        return found, _result_of(call, [tool.name for tool in found])

    def places_sent(self, named: Mapping[str, None]) -> list[int]:
        """Return the places of the tools that are sent, in the order in which they are sent."""
        waiting = set(self.deferred.values())
        usual = [place for place in range(len(self.tools)) if place not in waiting]
        return [*usual, *(self.deferred[name] for name in named)]

    def sent_tools(self, places: Iterable[int]) -> list[Tool | ServerTool]:
        """Return the tools at `places` as they are sent."""
        return [self._sent_tool(place) for place in places]

    def _sent_tool(self, place: int) -> Tool | ServerTool:
        tool = self.tools[place]
        if place == self.search and self.function is not None:
            return self.function
        if not _is_deferred(tool) or type(tool) is not Tool or tool.opaque is None:
            return tool
        value = {key: value for key, value in tool.opaque.value.items() if key != _FLAG}
        return replace(tool, opaque=replace(tool.opaque, value=value))

    def is_shown_search(self, part: Part) -> bool:
        """Return True if a part is a call of the provider's search that becomes a call of the function."""
        return self.function is not None and isinstance(part, ServerToolCall) and self.form.is_search_call(part)

    @property
    def dialect(self) -> str:
        """The dialect in which the client has declared the tools."""
        tool = self.tools[next(iter(self.deferred.values()))]
        return tool.opaque.dialect if type(tool) is Tool and tool.opaque is not None else ""

    def with_function_choice(self, choice: ToolChoice | None, *, has_searched: bool) -> ToolChoice | None:
        """Return the choice with the function in the place of the search. It is not forced a second time."""
        if choice is None or choice.names is None or self.search is None or self.function is None:
            return choice
        name = called_name(self.tools[self.search])
        if name not in choice.names:
            return choice
        if has_searched and choice.names == [name]:
            return None
        return replace(choice, names=[self.function.name if one == name else one for one in choice.names])

    def losses(self, named: Mapping[str, None]) -> list[Loss]:
        """Return a loss for each tool that is held back, and for the search that is replaced."""
        losses = [
            Loss(
                f"tools[{place}]",
                "deferred_tool",
                "deferred",
                f"{name} is sent once a search or a reference names it",
                "formal",
            )
            for name, place in self.deferred.items()
            if name not in named
        ]
        if self.search is not None:
            detail = "toolwire searches the deferred tools itself, and offers the search as a function"
            losses.append(Loss(f"tools[{self.search}]", "server_tool", "approximated", detail, "formal"))
        return losses


class Deferral(Struct, frozen=True):
    """The tools of one request: `named` are the deferred tools that it has."""

    tools: DeferredTools
    named: dict[str, None]

    @property
    def sent_tools(self) -> list[Tool | ServerTool]:
        """The tools that are sent."""
        return self.tools.sent_tools(self.tools.places_sent(self.named))

    def with_losses(self, encoded: Encoded, turns: "SplitTurns | None" = None) -> Encoded:
        """Return an encoded request with the losses of the deferral. Its other losses get the client's paths."""
        encoded = _with_client_paths(encoded, self.tools.places_sent(self.named), turns)
        return replace(encoded, losses=(*encoded.losses, *self.tools.losses(self.named)))


def _free_name(tools: Iterable[Tool | ServerTool]) -> str:
    """Return a name for the function that no other tool has."""
    used, name, count = {tool.name for tool in tools if type(tool) is Tool}, _NAME, 1
    while name in used:
        count += 1
        name = f"{_NAME}_{count}"
    return name


def _result_of(call: ToolCall, names: Sequence[str]) -> ToolResult:
    """Return the result of a call of the function that found these tools."""
    return ToolResult(call.id, call.name, format_arguments({"tools": list(names)} if names else _NOTHING_FOUND))


def _names_of_result(text: str) -> list[str]:
    """Return the names in a result of the function."""
    names = parse_arguments(text)[0].get("tools")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def shown_id(call_id: str | None, prefix: str, place: int) -> str:
    """Return the id under which the client sees a search: the id of the call, after the prefix of the client's wire."""
    if call_id is None:
        return f"{prefix}search{place}"
    if _PLAIN_ID.fullmatch(call_id):
        return f"{prefix}{call_id}"
    return f"{prefix}h{hashlib.sha256(call_id.encode(errors='surrogatepass')).hexdigest()[:24]}"


class SplitTurns(Struct):
    """Messages in which searches of the provider are calls and results of the function.

    `places` has for each message the place of the client's message, and the place in it of the first part. That is
    negative if the results of searches come before the parts of the client's message.
    """

    messages: list[Message]
    places: list[tuple[int, int]]

    @classmethod
    def of(cls, messages: Sequence[Message]) -> "SplitTurns":
        """Return messages in which no message of the model has a result. What follows a result is another message."""
        split, places = list[Message](), list[tuple[int, int]]()
        ends_with_searches = False
        for place, message in enumerate(messages):
            if ends_with_searches and message.role == "tool":  # its results are of the same calls: they go together
                searches = split[-1].parts
                split[-1] = replace(message, content=[*searches, *message.parts])
                places[-1] = (place, -len(searches))
                ends_with_searches = False
                continue
            pieces = list(_pieces(message))
            ends_with_searches = len(pieces) > 1 and pieces[-1][1].role == "tool"
            split += [piece for _, piece in pieces]
            places += [(place, start) for start, _ in pieces]
        return cls(split, places)


def as_function_calls(message: Message, tools: DeferredTools) -> Message:
    """Return a turn of the model with its searches as calls and results of the function."""
    if message.role != "assistant" or not any(map(tools.is_shown_search, message.parts)):
        return message
    return replace(message, content=list(_function_parts(message.parts, tools)))


def _function_parts(parts: Iterable[Part], tools: DeferredTools) -> Iterator[Part]:
    """Yield the parts of a turn with its searches as calls and results of the function."""
    assert tools.function is not None  # noqa: S101 - `is_shown_search` has checked it
    open_call: ToolCall | None = None
    for part in parts:
        if isinstance(part, ServerToolCall) and tools.is_shown_search(part):
            call_id = part.id.removeprefix(tools.form.id_prefix) if part.id is not None else None
            open_call = ToolCall(call_id, tools.function.name, dict(part.arguments or {}))
            yield open_call
        elif isinstance(part, ServerToolResult) and (names := tools.form.names_in(part)) is not None:
            if open_call is not None:
                yield _result_of(open_call, names)
            open_call = None
        else:
            yield part
    if open_call is not None:
        yield _result_of(open_call, [])


def _pieces(message: Message) -> Iterator[tuple[int, Message]]:
    """Yield the messages of one turn of the model, each with the place of its first part."""
    if message.role != "assistant" or not any(isinstance(part, ToolResult) for part in message.parts):
        yield 0, message
        return
    parts, start = message.parts, 0
    for place in range(1, len(parts) + 1):
        if place < len(parts) and isinstance(parts[place], ToolResult) == isinstance(parts[place - 1], ToolResult):
            continue
        piece = parts[start:place]
        is_result = isinstance(piece[0], ToolResult)
        yield start, Message("tool", piece) if is_result else replace(message, content=piece)
        start = place


def _with_client_paths(encoded: Encoded, tool_places: Sequence[int], turns: SplitTurns | None) -> Encoded:
    """Return an encoded request whose losses have the paths of the client's request."""

    def tool_path(match: re.Match[str]) -> str:
        place = int(match[1])
        return f"tools[{tool_places[place]}]" if place < len(tool_places) else match[0]

    def part_path(match: re.Match[str]) -> str:
        place = int(match[1])
        if turns is None or place >= len(turns.places):
            return match[0]
        message, start = turns.places[place]
        index = -1 if match[2] is None else start + int(match[2])
        part = "" if index < 0 else f".content[{index}]"
        return f"messages[{message}]{part}"

    losses = (
        replace(loss, path=_PART_PATH.sub(part_path, _TOOL_PATH.sub(tool_path, loss.path, count=1), count=1))
        for loss in encoded.losses
    )
    return replace(encoded, losses=tuple(losses))
