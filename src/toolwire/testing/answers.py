"""The complete answer of the simulated server: the parts of a turn's steps, then ids, signatures and token counts.

Rules of this file:
- Each part keeps its index. A cue refers to the part by it, so that changes to the answer as a whole keep the order;
  the number of parts does not change.
- The values of a script are kept; only missing ones are filled in.
- A part that a wire signs is built as a body of that wire and decoded by its dialect, so that it is encoded as a native
  part.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects import dialect
from toolwire.encoding.finish import has_complete_calls
from toolwire.testing.rules import WireRequest
from toolwire.testing.rules_anthropic import prefix_of
from toolwire.testing.rules_openai_responses import conversation
from toolwire.testing.sealing import count_tokens, make_id, seal, token
from toolwire.testing.steps import Cut, Expect, Fail, Finish, Pace, Raw, ScriptStep, Wait
from toolwire.testing.wires import WIRES, key_of
from toolwire.types import Choice, Error, Message, Part, Response, Text, Thinking, ToolCall, Usage
from toolwire.wire.arguments import format_arguments


class PartCue(Struct, frozen=True):
    """A cue to send the part at `index` of a choice."""

    choice: int
    index: int


class Script(Struct, frozen=True):
    """A complete answer, the cues in their order, and the expectations of the request."""

    response: Response
    cues: list[PartCue | Wait | Pace | Cut | Raw | Fail]
    expected: list[Expect]

    @property
    def answers(self) -> bool:
        """True if there is an answer, and not only raw bytes."""
        return bool(self.response.choices)

    @property
    def first(self) -> Any:
        """The first action after any pause: an error or a cut replaces the answer."""
        return next((cue for cue in self.cues if not isinstance(cue, Wait | Pace)), None)


class _Collected:
    """The values of the steps so far."""

    def __init__(self) -> None:
        self.envelope: Response | None = None
        self.parts: list[list[Part]] = []
        self.ends: list[Choice] = []
        self.usage: Usage | None = None
        self.finish: Finish | None = None
        self.cues: list[Any] = []
        self.expected: list[Expect] = []

    def add(self, step: ScriptStep) -> None:
        match step:
            case Response():
                self._add_response(step)
            case Message():
                self._add_parts(step.parts)
            case str():
                self._add_parts([Text(text=step)])
            case Usage():
                self.usage = step
            case Finish():
                self.finish = step
            case Expect():
                self.expected.append(step)
            case Error():
                self.cues.append(Fail(step))
            case Wait() | Pace() | Cut() | Raw() | Fail():
                self.cues.append(step)
            case _:
                self._add_parts([step])

    def _add_parts(self, parts: Any, choice: int = 0) -> None:
        while len(self.parts) <= choice:
            self.parts.append([])
        for part in parts:
            self.cues.append(PartCue(choice, len(self.parts[choice])))
            self.parts[choice].append(part)

    def _add_response(self, response: Response) -> None:
        self.envelope = response
        for index, choice in enumerate(response.choices):
            self._add_parts(choice.message.parts, index)
            self.ends = [*self.ends[:index], choice]

    def build(self) -> Response:
        envelope = replace(self.envelope or Response(), choices=list(self._choices()))
        return envelope if self.usage is None else replace(envelope, usage=self.usage)

    def _choices(self) -> Iterator[Choice]:
        has_answer = self.finish is not None or self.envelope is not None or not any(map(_replaces, self.cues))
        for index, parts in enumerate(self.parts or ([[]] if has_answer else [])):
            default_reason: Any = "tool_calls" if has_complete_calls(parts) else "stop"
            end = self.ends[index] if index < len(self.ends) else Choice(Message("assistant", []))
            reason = end.finish_reason or default_reason
            if self.finish is not None and index == 0:
                end = replace(end, stop_sequence=self.finish.stop_sequence, raw_finish_reason=None)
                reason = self.finish.reason
            yield replace(end, message=replace(end.message, content=parts), finish_reason=reason)


def _replaces(cue: Any) -> bool:
    """Return True if no answer is needed beside this cue."""
    return isinstance(cue, Cut | Raw | Fail)


def script_of(steps: list[ScriptStep]) -> Script:
    """Return the script of a turn's steps."""
    collected = _Collected()
    for step in steps:
        collected.add(step)
    return Script(collected.build(), collected.cues, collected.expected)


def fill_in(response: Response, request: WireRequest, number: int, now: float) -> Response:
    """Return the response with the values that a server adds. Its id, and the time `now`, are those of one answer."""
    wire, traits = WIRES[request.dialect], dialect(request.dialect).TRAITS
    choices = []
    for index, choice in enumerate(response.choices):
        parts = _sign(_number(choice.message.parts, request, (number, index)), request)
        choices.append(replace(choice, message=replace(choice.message, content=parts)))
    usage = response.usage or _count(request, [_plain(choice.message.parts) for choice in choices], now)
    name = make_id(wire.answer_id, 24, number, now, request.body) if traits.has_response_ids else None
    created = (now if wire.has_split_seconds else int(now)) if traits.has_response_times else None
    return replace(
        response,
        choices=choices,
        usage=usage,
        model=response.model or request.model,
        id=response.id or name,
        created=created if response.created is None else response.created,
    )


def _count(request: WireRequest, answer: Any, now: float) -> Usage:
    """Return the tokens of a request and its answer, and those of the prompt cache if one was used."""
    body, name = request.body, request.dialect
    if name == "openai-responses" and body.get("previous_response_id") is not None:
        body = {**body, "input": conversation(request)}
    tokens, output = count_tokens(body), count_tokens(answer)
    account = key_of(name, request.headers, request.query) or ""
    cached = request.memory.prompts.use(name, body, request.model, now, account)
    if not (cached.read or cached.written):
        return Usage(tokens, output)
    return Usage(
        max(tokens, cached.prompt),
        output,
        cache_read_tokens=cached.read,
        cache_write_tokens=cached.written,
        cache_write_long_tokens=cached.written_long,
    )


def _plain(parts: list[Part]) -> list[Any]:
    fields = ("text", "name", "arguments", "signature")
    return [[getattr(part, field, None) for field in fields] for part in parts]


def _number(parts: list[Part], request: WireRequest, seed: tuple[int, int]) -> list[Part]:
    """Set the index and the text of each call and, if the wire has ids, an id."""
    id_format = WIRES[request.dialect].call_id
    numbered: list[Part] = []
    call_index = 0
    for part in parts:
        if type(part) is ToolCall:
            call_id = (
                make_id(*id_format, seed, call_index, request.body)
                if part.id is None and id_format is not None
                else part.id
            )
            raw = format_arguments(part.plain_arguments) if part.raw is None and part.error is None else part.raw
            numbered.append(replace(part, id=call_id, index=call_index, raw=raw))
            call_index += 1
        else:
            numbered.append(part)
    return numbered


def _sign(parts: list[Part], request: WireRequest) -> list[Part]:
    """Sign the parts that servers of a dialect sign: thinking, or the first call."""
    name = request.dialect
    if name == "gemini":
        return _sign_call(parts, request)
    signed: list[Part] = []
    for index, part in enumerate(parts):
        if type(part) is not Thinking or part.opaque is not None or name not in ("anthropic", "openai-responses"):
            signed.append(part)
            continue
        if part.signature is not None:
            request.memory.signatures.add(part.signature)
        if name == "anthropic":
            signed.append(_decode_part(name, {"content": [_thinking_block(part, signed, request)]}))
        else:
            signed.append(_decode_part(name, {"output": [_reasoning_item(part, index, request)]}))
    return signed


def _thinking_block(part: Thinking, before: list[Part], request: WireRequest) -> dict[str, Any]:
    """Return a thinking block of the Messages API.

    Its signature binds its text, and on some models everything before it.
    """
    if part.redacted:
        return {"type": "redacted_thinking", "data": part.signature or token("redacted", part.text)}
    blocks = dialect("anthropic").encode_response(Response.of(Message("assistant", before))).body["content"]
    signature = part.signature or seal(part.text, prefix_of(request, None, blocks))
    return {"type": "thinking", "thinking": part.text, "signature": signature}


def _reasoning_item(part: Thinking, index: int, request: WireRequest) -> dict[str, Any]:
    """Return a reasoning item of Responses.

    It has encrypted content if the request includes it or stores nothing, or if the thinking has a signature.
    """
    include = request.body.get("include")
    is_requested = type(include) is list and "reasoning.encrypted_content" in include
    item: dict[str, Any] = {"type": "reasoning", "id": make_id("rs_", 24, index, part.text, request.body)}
    item["summary"] = [{"type": "summary_text", "text": part.text}] if part.text else []
    if is_requested or request.body.get("store") is False or part.signature is not None:
        item["encrypted_content"] = part.signature or token("reasoning", part.text)
    return item


def _sign_call(parts: list[Part], request: WireRequest) -> list[Part]:
    """Sign the first call of an answer, as Gemini does."""
    calls = [(index, part) for index, part in enumerate(parts) if type(part) is ToolCall]
    if not calls or calls[0][1].opaque is not None or not calls[0][1].runs:
        return parts
    index, call = calls[0]
    value = {"name": call.name, "args": call.plain_arguments} | ({} if call.id is None else {"id": call.id})
    body = {"functionCall": value, "thoughtSignature": token("call", value, request.body.get("contents"))}
    signed: Any = _decode_part("gemini", {"candidates": [{"content": {"role": "model", "parts": [body]}}]})
    return [*parts[:index], replace(signed, index=call.index), *parts[index + 1 :]]


def _decode_part(name: str, body: dict[str, Any]) -> Part:
    [part] = dialect(name).decode_response(body).message.parts
    return part
