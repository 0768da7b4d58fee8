"""The system instruction of generateContent: of the context, and of the system before the conversation."""

from typing import Any

from toolwire.dialects.gemini.links import Conversation
from toolwire.dialects.gemini.messages import encode_content, encode_parts
from toolwire.dialects.gemini.parts import DIALECT, decode_parts, left_of
from toolwire.ledger import form_of, made_by
from toolwire.types import Part, Request


def take_system(rest: dict[str, Any], form: dict[str, Any]) -> str | list[Part] | None:
    """Take the system instruction out of what is left of a body."""
    given = rest["systemInstruction"]
    if type(given) is dict and len(given) == 1 and (text := _sole_text(given.get("parts"))) is not None:
        del rest["systemInstruction"]
        return text
    if type(given) is str:
        form["system"] = "text"
        return str(rest.pop("systemInstruction"))
    parts = given.get("parts") if type(given) is dict else None
    if type(parts) is dict:
        form["system"] = "one"
        parts = [parts]
    if type(given) is not dict or type(parts) is not list or not parts:
        return None
    left = {key: value for key, value in given.items() if key != "parts"}
    if type(left.get("role")) is str:
        form["system_role"] = left.pop("role")
    if left:
        rest["systemInstruction"] = left
    else:
        del rest["systemInstruction"]
    text = _sole_text(parts) if "system" not in form else None
    return decode_parts(parts) if text is None else text


def _sole_text(parts: Any) -> str | None:
    """Give the text that is all that these parts say."""
    alone = parts[0] if type(parts) is list and len(parts) == 1 else None
    text = alone.get("text") if type(alone) is dict and len(alone) == 1 else None
    return text if type(text) is str else None


def encode_system(request: Request, messages: Any, body: dict[str, Any], ledger: Conversation) -> int:
    """Write the system instruction: the context's, and each system message before the conversation begins."""
    first = 0
    for message in messages:
        if message.role not in ("system", "developer"):
            break
        first += 1
    system, form = request.system, form_of(request.opaque, DIALECT)
    if not first and system is None:
        return first
    mine = made_by(request.opaque, DIALECT)
    ledger.at, ledger.own = ("system",), mine
    words = [{"text": system}] if type(system) is str and (system or ledger.own) else []
    parts: list[Any] = words if type(system) is str else encode_parts(system or (), ledger, "system")
    for place in range(first):
        message = messages[place]
        if message.role == "system":
            ledger.at = ("messages", place)
            if message.opaque is not None:
                ledger.lose_opaque(message.opaque)
            if message.name is not None or message.tool_call_id is not None:
                ledger.lose_fields(message, "name", "name", "tool_call_id")
            parts += encode_content(message, ledger, "system")
    how = form.get("system") if len(parts) == 1 else None
    if how == "text" and len(parts[0]) == 1:
        body["systemInstruction"] = parts[0]["text"]
    elif parts:
        body["systemInstruction"] = (
            {"parts": parts}
            if not mine
            else {
                **left_of(request.opaque, "systemInstruction"),
                **({"role": form["system_role"]} if "system_role" in form else {}),
                "parts": parts[0] if how == "one" else parts,
            }
        )
    return first
