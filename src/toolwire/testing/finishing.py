"""From what a script says to what a server of a wire would answer: ids, signatures, counts.

Rules of this file:
- What a script says stays as it says it; only what it leaves out is filled in.
- A part that a wire signs is made in that wire's own words and read by its dialect, so that it is written as
  one of its own.
- As many parts come out as went in.
"""

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from toolwire.dialects import dialect
from toolwire.testing.rules import WireRequest
from toolwire.testing.rules_anthropic import prefix_of
from toolwire.testing.sealing import count_tokens, make_id, seal, token
from toolwire.testing.wires import WIRES
from toolwire.types import Message, Part, Response, Thinking, ToolCall, Usage
from toolwire.wire.arguments import format_arguments


def finish(response: Response, asked: WireRequest, number: int) -> Response:
    """Fill in what a server would say of an answer."""
    wire = WIRES[asked.dialect]
    choices = []
    for place, choice in enumerate(response.choices):
        parts = _number(choice.message.parts, asked, (number, place))
        parts = SIGNERS.get(asked.dialect, _sign_nothing)(parts, asked)
        choices.append(replace(choice, message=replace(choice.message, content=parts)))
    usage = response.usage or Usage(
        count_tokens(asked.body), count_tokens([_plain(choice.message.parts) for choice in choices])
    )
    return replace(
        response,
        choices=choices,
        usage=usage,
        model=response.model or asked.model,
        id=response.id or (make_id(wire.answer_id, 24, number, asked.body) if asked.dialect != "ollama" else None),
    )


def _plain(parts: list[Part]) -> list[Any]:
    fields = ("text", "name", "arguments", "signature")
    return [[getattr(part, field, None) for field in fields] for part in parts]


def _number(parts: list[Part], asked: WireRequest, seed: tuple[int, int]) -> list[Part]:
    """Give each call its position, its text and, where the wire has them, an id."""
    made: list[Part] = []
    calls = 0
    for part in parts:
        if type(part) is not ToolCall:
            made.append(part)
            continue
        form = WIRES[asked.dialect].call_id
        given = part.id
        if given is None and form is not None:
            given = make_id(*form, seed, calls, asked.body)
        raw = format_arguments(part.arguments) if part.raw is None and part.error is None else part.raw
        made.append(replace(part, id=given, index=calls, raw=raw))
        calls += 1
    return made


def _sign_nothing(parts: list[Part], asked: WireRequest) -> list[Part]:
    del asked
    return parts


def _sign_messages(parts: list[Part], asked: WireRequest) -> list[Part]:
    """Sign thoughts as the Messages API does: bound to their words, and to all before where a model does."""
    signed: list[Part] = []
    for part in parts:
        if type(part) is Thinking and part.opaque is None:
            signed.append(_read("anthropic", {"content": [_block(part, signed, asked)]}))
        else:
            signed.append(part)
    return signed


def _block(part: Thinking, before: list[Part], asked: WireRequest) -> dict[str, Any]:
    if part.signature is not None:
        asked.memory.signatures.add(part.signature)
    if part.redacted:
        return {"type": "redacted_thinking", "data": part.signature or token("redacted", part.text)}
    said = dialect("anthropic").encode_response(Response.of(Message("assistant", before))).body["content"]
    sealed = seal(part.text, prefix_of(asked, None, said))
    return {"type": "thinking", "thinking": part.text, "signature": part.signature or sealed}


def _sign_items(parts: list[Part], asked: WireRequest) -> list[Part]:
    """Make reasoning an item of Responses, with its encrypted content where it was asked for."""
    include = asked.body.get("include")
    encrypted = asked.body.get("store") is False or (type(include) is list and "reasoning.encrypted_content" in include)
    signed: list[Part] = []
    for place, part in enumerate(parts):
        if type(part) is not Thinking or part.opaque is not None:
            signed.append(part)
            continue
        texts = [{"type": "summary_text", "text": part.text}] if part.text else []
        item: dict[str, Any] = {"type": "reasoning", "id": make_id("rs_", 24, place, part.text, asked.body)}
        item["summary"] = texts
        if part.signature is not None:
            asked.memory.signatures.add(part.signature)
        if encrypted or part.signature is not None:
            item["encrypted_content"] = part.signature or token("reasoning", part.text)
        signed.append(_read("openai-responses", {"output": [item]}))
    return signed


def _sign_content(parts: list[Part], asked: WireRequest) -> list[Part]:
    """Sign the first call of an answer, as Gemini does."""
    signed = list(parts)
    place = next((place for place, part in enumerate(parts) if type(part) is ToolCall), None)
    if place is None:
        return signed
    call: Any = parts[place]
    if call.opaque is not None or not call.runs:
        return signed
    value = {"name": call.name, "args": call.arguments} | ({} if call.id is None else {"id": call.id})
    body = {"functionCall": value, "thoughtSignature": token("call", value, asked.body.get("contents"))}
    made: Any = _read("gemini", {"candidates": [{"content": {"role": "model", "parts": [body]}}]})
    signed[place] = replace(made, index=call.index)
    return signed


def _read(name: str, body: dict[str, Any]) -> Part:
    [part] = dialect(name).decode_response(body).message.parts
    return part


SIGNERS: dict[str, Callable[[list[Part], WireRequest], list[Part]]] = {
    "anthropic": _sign_messages,
    "openai-responses": _sign_items,
    "gemini": _sign_content,
}


def cut_words(text: str, size: int = 16, most: int = 200) -> Iterator[str]:
    """Cut a text into several pieces, always the same ones."""
    step = max(size, -(-len(text) // most))
    if len(text) <= step and len(text) > 1:
        step = -(-len(text) // 2)
    for place in range(0, len(text), step):
        yield text[place : place + step]
