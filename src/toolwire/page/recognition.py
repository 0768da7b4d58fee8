"""What a pasted text is: its kind, its wire, and whether a server of that wire would accept it."""

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from toolwire.dialects import NAMES
from toolwire.errors import InvalidBody
from toolwire.testing.rules import WireRequest
from toolwire.testing.wires import refusal
from toolwire.translation.recognition import matching_dialects
from toolwire.wire.bodies import read_body

Kind = Literal["request", "response", "stream", "error"]
KINDS: tuple[Kind, ...] = ("request", "response", "stream", "error")
_FRAMES = 40


class Pasted(Struct, frozen=True):
    """A pasted text: its kind, the wires that it may be of, its value or its bytes, or why it cannot be read."""

    kind: Kind | None = None
    wires: tuple[str, ...] = ()
    body: Any = None
    data: bytes = b""
    problem: str = ""


def recognize(text: str, kind: str = "", wire: str = "") -> Pasted:
    """Return what a text is. `kind` and `wire` replace what would be found."""
    data = text.strip().encode("utf-8", "replace")
    if not data:
        return Pasted()
    body: Any = None
    problem = ""
    try:
        body = read_body(data)
    except InvalidBody as error:
        problem = str(error)
    if type(body) is list:
        frames = [frame for frame in body[:_FRAMES] if type(frame) is dict]
    else:
        frames = _frames_of(data) if body is None else []
    if kind == "stream" or (not kind and frames and _looks_like_stream(data, frames)):
        return Pasted("stream", (wire,) if wire else _wires_of_frames(frames), body, data + b"\n\n")
    if problem:
        return Pasted(data=data, problem=problem)
    if type(body) is not dict:
        return Pasted(data=data, body=body, problem="this is JSON, but a body is an object: { ... }")
    found, wires = _kind_of(body) if not kind else (kind, _wires_for(body, kind))
    if wire:
        wires = (wire,)
    if found is None:
        return Pasted(data=data, body=body, wires=wires, problem="no wire has a body like this: choose one")
    return Pasted(found, wires, body, data)  # type: ignore[arg-type]


def _kind_of(body: dict[str, Any]) -> tuple[str | None, tuple[str, ...]]:
    for kind in ("request", "response"):
        if wires := _wires_for(body, kind):
            return kind, wires
    if "error" in body:
        return "error", _wires_for(body, "error")
    return None, ()


def _wires_for(body: dict[str, Any], kind: str) -> tuple[str, ...]:
    if kind == "error":
        inner = body.get("error")
        if body.get("type") == "error":
            return ("anthropic",)
        if type(inner) is str:
            return ("ollama",)
        return ("gemini",) if type(inner) is dict and "status" in inner else ("openai-chat", "openai-responses")
    return matching_dialects(body, kind)  # type: ignore[arg-type]


def _looks_like_stream(data: bytes, frames: Sequence[dict[str, Any]]) -> bool:
    is_sse = data.startswith((b"data:", b"event:", b"id:", b"retry:", b":"))
    return is_sse or len(frames) > 1 or bool(_wires_of_frames(frames))


def _frames_of(data: bytes) -> list[dict[str, Any]]:
    """Return the first JSON objects of a stream: server-sent events, lines of JSON, or one array."""
    frames = []
    for line in data.split(b"\n", _FRAMES * 4)[: _FRAMES * 4]:
        try:
            frame = read_body(line.strip().removeprefix(b"data:").strip().removeprefix(b"[").removesuffix(b","))
        except InvalidBody:
            continue
        if type(frame) is dict:
            frames.append(frame)
    return frames[:_FRAMES]


def _wires_of_frames(frames: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    for frame in frames:
        if wires := matching_dialects(frame, "stream"):
            return wires
    return ()


def why_rejected(body: dict[str, Any], wire: str) -> str:
    """Return why a server of a wire would reject a request, in its own words, or an empty text."""
    model = body.get("model")
    rejection = refusal(WireRequest(wire, body, model if isinstance(model, str) and model else "model"))
    return "" if rejection is None else rejection.message


def others(wire: str) -> list[str]:
    """Return the wires beside `wire`."""
    return [name for name in NAMES if name != wire]
