"""Who approves takes the call and its preview."""

from toolwire import ToolCall, generate


def ask(call: ToolCall) -> bool:
    return call.name == "read"


generate("Hello", approve=ask)  # error: arg-type, reportArgumentType
