"""Which way leads to an answer of the wanted form, and what a request says on that way.

Rules of this file:
- The first way counts that the server offers and whose dialect can say the whole of it: natively and held to
  the schema, natively, by a forced tool, by instruction. The last one is always there.
- What a dialect can say, its own encoder tells: a way is taken only where nothing that it rests on is lost.
- The tools of the caller come first. With them, the answer's own tool is one more, and some call is required
  at each turn: so the model goes on with tools for as long as it wants to, and ends with the answer.
"""

import json
from typing import Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from toolwire.client.structured.wanted import WantedForm
from toolwire.encoding.families import family_of
from toolwire.errors import InvalidField
from toolwire.loop.steps import ANSWER
from toolwire.text_tagged.requests import add_words
from toolwire.types import Loss, Message, Output, Request, Tool, ToolChoice

Kind = Literal["native", "tool", "instruction"]
ATTEMPTS = 2
"""How often a bad answer is sent back to be mended, before it is given up."""
OF_TOOL = (
    "Gives the final answer: its arguments are the answer. Call it once and alone, as the last thing, when "
    "nothing else is left to do; answer in no other way."
)
INSTRUCTION = """\
# Form of the answer

Your final answer is one JSON object and nothing else: no words before or after it. It is valid under this
JSON Schema:

{schema}"""


class Way(Struct, frozen=True):
    """How the form of an answer is asked for; `strict` holds the model to a schema that can be said whole."""

    kind: Kind
    strict: bool = False


WAYS = (Way("native", strict=True), Way("native"), Way("tool"), Way("instruction"))


class Served(Protocol):
    """What is asked of a provider: its dialect, and what its server can do."""

    @property
    def dialect(self) -> str:
        """The name of its dialect."""

    @property
    def capabilities(self) -> Any:
        """What the server can do."""

    def speaks(self) -> Any:
        """Give the dialect, tuned to the server."""


def way_of(provider: Served, wanted: WantedForm, request: Request, kind: Kind | None = None) -> Way:
    """Choose the way; `kind` is one that the caller insists on, whatever is known of the server."""
    ways = [way for way in WAYS if kind in (None, way.kind)]
    if not ways:
        raise InvalidField("way", f"must be native, tool or instruction, not {kind!r}", path="output")
    offered = (way for way in ways[:-1] if kind is not None or _offers(provider, way, request))
    return next((way for way in offered if _says(provider, way, wanted, request)), ways[-1])


def _offers(provider: Served, way: Way, request: Request) -> bool:
    """Whether the server has a way for this model, beside the tools of the request."""
    can, family = provider.capabilities, family_of(request.model)
    if way.kind == "tool":
        # A server that keeps the conversation would wait for the result of the call.
        return can.native_tool_calls and can.tool_choice and request.provider_state is None
    if not can.structured_output or family.structured_output is False:
        return False
    beside = can.native_tool_calls and can.structured_output_with_tools
    return not request.tools or (beside and family.structured_output_with_tools is not False)


def _says(provider: Served, way: Way, wanted: WantedForm, request: Request) -> bool:
    """Whether the dialect can say a way: encoded with it, the request loses nothing of it."""
    asked = prepare(replace(request, context=replace(request.context, messages=[_ANY])), wanted, way)
    losses = provider.speaks().encode_request(asked).losses
    rests_on = {"native": ("output",), "tool": (f"tools[{len(asked.tools) - 1}]", "tool_choice")}[way.kind]
    return not any(_breaks(loss, way) for loss in losses if loss.path.startswith(rests_on))


_ANY = Message("user", "?")


def _breaks(loss: Loss, way: Way) -> bool:
    """Whether a loss leaves less than the way: what is said nearly so may keep out what is wanted."""
    if way.strict and loss.path == "output.strict":
        return True
    whole = loss.path in ("output", "tool_choice", "tool_choice.names")
    return loss.severity == "semantic" and (loss.action == "approximated" or whole)


def prepare(request: Request, wanted: WantedForm, way: Way) -> Request:
    """Ask for the form of the answer; the request is that of a turn, without what this adds to it."""
    if any(getattr(tool, "name", None) == ANSWER for tool in request.tools):
        raise InvalidField("tools", f"has a tool of the name {ANSWER}, which is that of the answer's own")
    if way.kind == "native":
        output = Output("schema", wanted.schema, wanted.name, strict=True if way.strict else None)
        return replace(request, output=output)
    context = request.context
    if way.kind == "tool":
        tools = [*context.tools, Tool(ANSWER, OF_TOOL, wanted.schema)]
        choice = _choice(request)
        return replace(request, context=replace(context, tools=tools), tool_choice=choice, output=None)
    words = INSTRUCTION.format(schema=json.dumps(wanted.schema, ensure_ascii=False))
    system, messages = add_words(context.system, list(context.messages), words)
    return replace(request, context=replace(context, system=system, messages=messages), output=None)


def _choice(request: Request) -> ToolChoice:
    """Require the answer's tool, or any where the caller has tools; what the caller requires comes first."""
    given = request.tool_choice or ToolChoice("auto")
    if not request.tools or given.mode == "none":
        return ToolChoice("required", [ANSWER])
    if given.mode == "required":
        return given
    return ToolChoice("required", None if given.names is None else [*given.names, ANSWER])
