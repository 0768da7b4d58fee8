"""Events of a stream to write, and what is seen of a part that was read."""

from typing import Any

from toolwire import CallDelta, CallEnd, CallStart, Choice, ChoiceEnd, Event, Message, Opaque, Text, Thinking, ToolCall


def ended(reason: Any, place: int = 0) -> ChoiceEnd:
    return ChoiceEnd(place, Choice(Message("assistant", []), reason))


def asked(key: int, call: ToolCall) -> list[Event]:
    fragments = [CallDelta(key, call.raw)] if call.raw else []
    return [CallStart(key, call.id, call.name, call.index), *fragments, CallEnd(key, call)]


def shown(part: Any) -> Any:
    match part:
        case ToolCall():
            return (part.id, part.name, part.arguments if part.runs else part.raw)
        case Text() | Thinking():
            return part.text if type(part) is Text else (part.text,)
        case Opaque():
            return part.value
    return type(part).__name__
