"""Blocks to calls: what stands in a block of each form, read strictly.

Rules of this file:
- A block holds one call. A list, two objects, text that is no JSON, a key given twice: each is an error.
- The protocol has `name`, `arguments` and, if the model likes, `id`. The forms of other models also have
  `parameters`, or tags whose text is a value: text, unless the tool's schema says that it is something else.
"""

import re
from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from toolwire.errors import InvalidField
from toolwire.text.calls import (
    MAX_CALLS,
    SHAPE,
    CallBuilder,
    CallError,
    Offer,
    Parsed,
    make_offer,
    read_object,
)
from toolwire.text.quoting import GivenTexts
from toolwire.text.tagged.forms import FUNCTION, FUNCTION_END, forms_of
from toolwire.text.tagged.scanner import Block, Scanner, scan
from toolwire.text.values import allowed_types, property_schemas
from toolwire.types import ToolCall
from toolwire.wire.arguments import parse_arguments

_NOT_ENDED = "the block was not ended: a line with ~~~ alone must follow the JSON"
_NOT_CLOSED = "the tag was not ended"
_ARGUMENTS = {
    "fence": ("arguments",),
    "tool_call_tag": ("arguments", "parameters"),
    "bare_json": ("arguments", "parameters"),
}
_NAME = re.compile(r"<function=([^<>\n]+)>")
_PARAMETER = re.compile(r"<parameter=([^<>\n]+)>")
_PARAMETER_END = re.compile(r"</parameter>[ \t\r]*(?:\n|$)")


def read_block(block: Block, builder: CallBuilder, offer: Offer | None = None) -> ToolCall | CallError:
    """Give the call that a block stands for, or what is wrong with it."""
    body, text = block.body.strip(), block.text.strip()
    if not block.whole:
        reason = _NOT_ENDED if block.form == "fence" else _NOT_CLOSED
        return builder.make_error("incomplete", reason, text)
    if body.startswith(FUNCTION) and block.form in {"function_tag", "tool_call_tag"}:
        return _read_function(body, text, builder, offer)
    value, problem = parse_arguments(body)
    if problem is None and (not body or body == "null"):
        problem = "there is nothing in it"
    if problem is not None:
        unlike = problem.startswith("an object was expected")
        code: Any = "unrecognised_tool_call" if unlike else "invalid_json"
        return builder.make_error(code, f"{problem}; {SHAPE}", text)
    return read_object(value, text, builder, *_ARGUMENTS[block.form])


def _read_function(body: str, text: str, builder: CallBuilder, offer: Offer | None) -> ToolCall | CallError:
    """Read a call in tags: one JSON object, or a tag for each argument."""
    opening = _NAME.match(body)
    if opening is None or not body.endswith(FUNCTION_END):
        return builder.make_error("unrecognised_tool_call", f"a tag {FUNCTION}NAME> was expected", text)
    name, inner = opening[1], body[opening.end() : -len(FUNCTION_END)].strip()
    if not inner.startswith("<"):
        return builder.build(name, inner, None, text)
    tool = offer.get(name) if offer is not None else None
    arguments, problem = _read_parameters(inner, _types_of(tool))
    if problem is not None:
        return builder.make_error("invalid_arguments", problem, text, name)
    return builder.build(name, arguments, None, text)


def _read_parameters(text: str, types: dict[str, set[str]]) -> tuple[dict[str, Any], str | None]:
    arguments: dict[str, Any] = {}
    place = 0
    while place < len(text):
        start = _PARAMETER.match(text, place)
        end = _PARAMETER_END.search(text, start.end()) if start is not None else None
        if start is None or end is None:
            return {}, f"a tag <parameter=NAME>, and its end, were expected at {text[place : place + 30]!r}"
        name = start[1]
        if name in arguments:
            return {}, f"the parameter {name!r} is given twice"
        value = text[start.end() : end.start()].removeprefix("\r").removeprefix("\n")
        arguments[name] = _value_of(value.removesuffix("\n").removesuffix("\r"), types.get(name))
        place = end.end()
        while place < len(text) and text[place].isspace():
            place += 1
    return arguments, None


def _types_of(tool: Any) -> dict[str, set[str]]:
    """Give the types of each parameter, as far as a schema says them."""
    schema = tool.plain_parameters if tool is not None else None
    return {name: allowed_types(inner, schema) for name, inner in property_schemas(schema, schema).items()}


def _value_of(text: str, kinds: set[str] | None) -> Any:
    """Read a value: what may be a text is one; of anything else, the JSON."""
    if not kinds or "string" in kinds:
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def scanner_for(offer: Offer | None, readers: Iterable[str] = (), given: GivenTexts | None = None) -> Scanner:
    """Give what finds blocks in a text; without a tool that could be called, it finds none."""
    if offer is not None and not offer:
        return Scanner(())
    is_quoted = (lambda _text: False) if given is None else given.has
    return Scanner(forms_of(readers), partial(_is_call, offer), is_quoted)


def _is_call(offer: Offer | None, text: str) -> bool:
    """Whether a whole text is the JSON of a call, and of one that can be run."""
    read = read_block(Block("bare_json", text, text), CallBuilder(offer), offer)
    return isinstance(read, ToolCall)


def parse(
    text: str | None,
    tools: Iterable[Any] | None = None,
    *,
    readers: Iterable[str] = (),
    seed: str = "",
    limit: int = MAX_CALLS,
    whole: bool = True,
    given: Iterable[str] = (),
) -> Parsed:
    """Read the calls in an answer's text: those of these tools, or of any where none are passed.

    `readers` name the forms that are read besides the protocol. `seed` keeps the ids apart that are made for
    equal calls of different answers. An answer that was cut off is not `whole`. `given` are the texts that the model
    was given: a block that stands there is a quotation, and no call.
    """
    if text is not None and type(text) is not str:
        raise InvalidField("text", f"must be a text, not {type(text).__name__}", path="text_tagged.parse")
    offer = make_offer(tools)
    return read_text(text or "", CallBuilder(offer, seed, limit), offer, readers, whole=whole, given=GivenTexts(given))


def read_text(
    text: str,
    builder: CallBuilder,
    offer: Offer | None,
    readers: Iterable[str] = (),
    *,
    whole: bool = True,
    given: GivenTexts | None = None,
) -> Parsed:
    """Read the calls of a text that is part of an answer."""
    calls: list[ToolCall] = []
    errors: list[CallError] = []
    words: list[str] = []
    for item in scan(text, scanner_for(offer, readers, given), whole=whole):
        if type(item) is str:
            words.append(item)
            continue
        read = read_block(item, builder, offer)  # type: ignore[arg-type]
        if isinstance(read, ToolCall):
            calls.append(read)
        else:
            errors.append(read)
    return Parsed(calls, errors, "".join(words))


def parse_or_raise(text: str | None, tools: Iterable[Any] | None = None, **settings: Any) -> list[ToolCall]:
    """Give the calls in an answer's text, or raise `UnreadableCalls`, which holds the good ones too."""
    return parse(text, tools, **settings).or_raise()
