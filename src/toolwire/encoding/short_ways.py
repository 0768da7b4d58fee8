"""Short ways for what has the usual shape and says nothing else: most messages, declarations and calls.

Rules of this file:
- It is here for speed alone. Each function says None (or False) where there is more to a value; then, as
  without this file, the dialect goes its long way, which gives the same. `tests/encoding/test_short_ways.py`
  runs the laws without it.
- Only what buys a tenth of the time of some recorded body has a short way.
"""

from typing import Any

from toolwire.encoding.ledger import Ledger, Wire
from toolwire.encoding.settings import Settings
from toolwire.types import Message, Opaque, Tool, ToolCall
from toolwire.wire.arguments import parse_arguments


def read_words(body: dict[str, Any], role: Any, wire: Wire) -> Message | None:
    """Read a message that is a role and a string."""
    if len(body) == 2 and type(content := body.get("content")) is str:
        return Message(role, content, None, None, wire.plain)
    return None


def are_words(message: Message, wire: Wire) -> bool:
    """Whether a message is written as a role and a string."""
    if type(message.content) is not str or message.name is not None or message.tool_call_id is not None:
        return False
    opaque = message.opaque
    if opaque is None or not (opaque.value or opaque.dialect == wire.dialect):
        return message.role != "developer"
    return opaque is wire.plain


def brings_nothing(opaque: Opaque | None, dialect: str) -> bool:
    """Whether a value from elsewhere brings nothing that could be lost here."""
    return opaque is None or (not opaque.value and opaque.dialect != dialect)


def read_tool(body: dict[str, Any], parameters: str, wire: Wire) -> Tool | None:
    """Read a declaration that is a name, a description and parameters."""
    if len(body) != 3:
        return None
    name, description, schema = body.get("name"), body.get("description"), body.get(parameters)
    if type(name) is not str or type(description) is not str or type(schema) is not dict or "__tw" in name:
        return None
    return Tool(name, description, schema, opaque=wire.plain)


def write_tool(tool: Tool, ledger: Ledger) -> dict[str, Any] | None:
    """Write the name, the description and the parameters of a tool that says nothing else, `strict` left aside."""
    description, parameters, opaque = tool.description, tool.parameters, tool.opaque
    if description is None or parameters is None or tool.custom or tool.format or tool.metadata:
        return None
    own = opaque is ledger.wire.plain
    if tool.cache is not None or not (own or opaque is None or not (opaque.value or opaque.dialect == ledger.dialect)):
        return None
    name = ledger.names.keep(tool.name) if own else ledger.names.write(tool.name)
    return {"name": name, "description": description, "parameters": parameters}


def read_call(call_id: Any, name: Any, text: Any, index: int, wire: Wire) -> ToolCall | None:
    """Read a call that is an id, a name and the text of its arguments."""
    if type(call_id) is not str or type(name) is not str or type(text) is not str:
        return None
    if "__tw" in name or "__tw" in call_id:
        return None
    arguments, error = parse_arguments(text)
    return ToolCall(call_id, name, arguments, index, True, text, error, opaque=wire.plain)


def read_settings(given: dict[str, Any], settings: Settings) -> dict[str, Any] | None:
    """Read an object of settings whose values are all the same on the wire and in the model."""
    fields: dict[str, Any] = {}
    for key, value in given.items():
        setting = settings.by_key.get(key)
        if setting is None or type(value) not in setting.kinds:
            return None
        fields[setting.fields[0]] = value
    return fields
