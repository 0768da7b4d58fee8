"""Turn blocks into calls: the content of each form of block, parsed strictly.

Rules of this file:
- A block holds one call. A list, two objects, text that is not JSON and a repeated key are errors.
- The protocol has `name`, `arguments` and optionally `id`. The forms of other models also have `parameters`, or tags
  whose text is a value. Such a value is a string, unless the tool's schema declares another type.
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

_NOT_ENDED = "the block was not closed: a line with ~~~ alone must follow the JSON"
_NOT_CLOSED = "the tag was not closed"
_ARGUMENTS = {
    "fence": ("arguments",),
    "tool_call_tag": ("arguments", "parameters"),
    "bare_json": ("arguments", "parameters"),
}
_NAME = re.compile(r"<function=([^<>\n]+)>")
_PARAMETER = re.compile(r"<parameter=([^<>\n]+)>")
_PARAMETER_END = re.compile(r"</parameter>[ \t\r]*(?:\n|$)")


def read_block(block: Block, builder: CallBuilder, offer: Offer | None = None) -> ToolCall | CallError:
    """Return the call of a block, or the error that describes why it cannot run."""
    body, text = block.body.strip(), block.text.strip()
    if not block.whole:
        reason = _NOT_ENDED if block.form == "fence" else _NOT_CLOSED
        return builder.make_error("incomplete", reason, text)
    if body.startswith(FUNCTION) and block.form in {"function_tag", "tool_call_tag"}:
        return _read_function(body, text, builder, offer)
    value, problem = parse_arguments(body)
    if problem is None and (not body or body == "null"):
        problem = "the block is empty"
    if problem is not None:
        is_other_json = problem.startswith("an object was expected")
        code: Any = "unrecognised_tool_call" if is_other_json else "invalid_json"
        return builder.make_error(code, f"{problem}; {SHAPE}", text)
    return read_object(value, text, builder, *_ARGUMENTS[block.form])


def _read_function(body: str, text: str, builder: CallBuilder, offer: Offer | None) -> ToolCall | CallError:
    """Read a call in tags: its arguments are one JSON object, or a tag for each argument."""
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
    index = 0
    while index < len(text):
        start = _PARAMETER.match(text, index)
        end = _PARAMETER_END.search(text, start.end()) if start is not None else None
        if start is None or end is None:
            return {}, f"a tag <parameter=NAME>, and its end, were expected at {text[index : index + 30]!r}"
        name = start[1]
        if name in arguments:
            return {}, f"the parameter {name!r} occurs twice"
        value = text[start.end() : end.start()].removeprefix("\r").removeprefix("\n")
        arguments[name] = _value_of(value.removesuffix("\n").removesuffix("\r"), types.get(name))
        index = end.end()
        while index < len(text) and text[index].isspace():
            index += 1
    return arguments, None


def _types_of(tool: Any) -> dict[str, set[str]]:
    """Return the types of each parameter that the tool's schema declares."""
    schema = tool.plain_parameters if tool is not None else None
    return {name: allowed_types(inner, schema) for name, inner in property_schemas(schema, schema).items()}


def _value_of(text: str, types: set[str] | None) -> Any:
    """Parse a value: as a string if it may be one, else as JSON."""
    if not types or "string" in types:
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def scanner_for(offer: Offer | None, readers: Iterable[str] = (), given: GivenTexts | None = None) -> Scanner:
    """Return a scanner that finds the blocks in a text. If no tool was offered, it finds none."""
    if offer is not None and not offer:
        return Scanner(())
    is_quoted = (lambda _text: False) if given is None else given.contains
    return Scanner(forms_of(readers), partial(_is_call, offer), is_quoted)


def _is_call(offer: Offer | None, text: str) -> bool:
    """Return True if `text` is the JSON of a call that can run."""
    result = read_block(Block("bare_json", text, text), CallBuilder(offer), offer)
    return isinstance(result, ToolCall)


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
    r"""Parse the calls in `text`, the text of an answer.

    - `tools`: only calls of these tools can run. None accepts any name.
    - `readers`: further forms of calls that are read besides the protocol (`text_tagged.READERS`).
    - `seed`: makes the derived ids of this answer's calls differ from those of other answers.
    - `limit`: the most calls that an answer may have.
    - `whole`: pass False if the answer was cut off.
    - `given`: the input texts of the model. A block that repeats one of them is a quotation and not a call.

    Raises `InvalidField` if `text` is not a string.

    >>> from toolwire import text_tagged
    >>> parsed = text_tagged.parse('~~~tool_call\n{"name": "ping", "arguments": {}}\n~~~', ["ping"])
    >>> [call.name for call in parsed.calls]
    ['ping']
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
    """Parse the calls of one text of an answer."""
    calls: list[ToolCall] = []
    errors: list[CallError] = []
    pieces: list[str] = []
    for item in scan(text, scanner_for(offer, readers, given), whole=whole):
        if type(item) is str:
            pieces.append(item)
            continue
        result = read_block(item, builder, offer)  # type: ignore[arg-type]
        if isinstance(result, ToolCall):
            calls.append(result)
        else:
            errors.append(result)
    return Parsed(calls, errors, "".join(pieces))


def parse_or_raise(text: str | None, tools: Iterable[Any] | None = None, **settings: Any) -> list[ToolCall]:
    """Return the calls in `text`, an answer to `tools`. The `settings` are those of `parse`.

    Raises `UnreadableCalls` if a call cannot run; the exception also holds the calls that can.

    >>> from toolwire import text_tagged
    >>> text_tagged.parse_or_raise("It is sunny.", ["ping"])
    []
    """
    return parse(text, tools, **settings).or_raise()
