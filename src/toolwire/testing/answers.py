"""From the steps of a turn to the whole answer of a server: parts put together, then ids, signatures and counts.

Rules of this file:
- Each part keeps its place. A cue names the part by it, so that what is done to the answer as a whole does not
  disturb the order; as many parts come out as went in.
- What a script says stays as it says it; only what it leaves out is filled in.
- A part that a wire signs is made in that wire's own words and read by its dialect, so that it is written as
  one of its own.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.dialects import dialect
from toolwire.encoding.finish import asks
from toolwire.testing.rules import WireRequest
from toolwire.testing.rules_anthropic import prefix_of
from toolwire.testing.sealing import count_tokens, make_id, seal, token
from toolwire.testing.steps import Cut, Expect, Fail, Finish, Pace, Raw, ScriptStep, Wait
from toolwire.testing.wires import WIRES
from toolwire.types import Choice, Error, Message, Part, Response, Text, Thinking, ToolCall, Usage
from toolwire.wire.arguments import format_arguments


class PartCue(Struct, frozen=True):
    """Say a part: of which choice, at which place in it."""

    choice: int
    place: int


class Script(Struct, frozen=True):
    """A whole answer, the cues in their order, and what the request must say before."""

    response: Response
    cues: list[PartCue | Wait | Pace | Cut | Raw | Fail]
    expected: list[Expect]

    @property
    def answers(self) -> bool:
        """Whether there is an answer, and not bytes alone."""
        return bool(self.response.choices)

    @property
    def first(self) -> Any:
        """What is done first of all, after any pause: an error or a cut is answered instead of anything else."""
        return next((cue for cue in self.cues if not isinstance(cue, Wait | Pace)), None)


class _Gathered:
    """What steps have said so far."""

    def __init__(self) -> None:
        self.shell: Response | None = None
        self.parts: list[list[Part]] = []
        self.ends: list[Choice] = []
        self.usage: Usage | None = None
        self.finish: Finish | None = None
        self.cues: list[Any] = []
        self.expected: list[Expect] = []

    def take(self, step: ScriptStep) -> None:
        match step:
            case Response():
                self._take_response(step)
            case Message():
                self._say(step.parts)
            case str():
                self._say([Text(text=step)])
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
                self._say([step])

    def _say(self, parts: Any, choice: int = 0) -> None:
        while len(self.parts) <= choice:
            self.parts.append([])
        for part in parts:
            self.cues.append(PartCue(choice, len(self.parts[choice])))
            self.parts[choice].append(part)

    def _take_response(self, response: Response) -> None:
        self.shell = response
        for place, choice in enumerate(response.choices):
            self._say(choice.message.parts, place)
            self.ends = [*self.ends[:place], choice]

    def whole(self) -> Response:
        shell = replace(self.shell or Response(), choices=list(self._choices()))
        return shell if self.usage is None else replace(shell, usage=self.usage)

    def _choices(self) -> Iterator[Choice]:
        wanted = self.finish is not None or self.shell is not None or not any(map(_replaces, self.cues))
        for place, parts in enumerate(self.parts or ([[]] if wanted else [])):
            usual: Any = "tool_calls" if asks(parts) else "stop"
            end = self.ends[place] if place < len(self.ends) else Choice(Message("assistant", []))
            reason = end.finish_reason or usual
            if self.finish is not None and place == 0:
                end = replace(end, stop_sequence=self.finish.stop_sequence, raw_finish_reason=None)
                reason = self.finish.reason
            yield replace(end, message=replace(end.message, content=parts), finish_reason=reason)


def _replaces(cue: Any) -> bool:
    """Whether there need not be an answer beside this."""
    return isinstance(cue, Cut | Raw | Fail)


def script_of(steps: list[ScriptStep]) -> Script:
    """Put steps together."""
    gathered = _Gathered()
    for step in steps:
        gathered.take(step)
    return Script(gathered.whole(), gathered.cues, gathered.expected)


def fill_in(response: Response, request: WireRequest, number: int, now: float) -> Response:
    """Fill in what a server would say of an answer; Ollama's has no id, and is dated `now`."""
    wire = WIRES[request.dialect]
    choices = []
    for place, choice in enumerate(response.choices):
        parts = _sign(_number(choice.message.parts, request, (number, place)), request)
        choices.append(replace(choice, message=replace(choice.message, content=parts)))
    usage = response.usage or Usage(
        count_tokens(request.body), count_tokens([_plain(choice.message.parts) for choice in choices])
    )
    name = make_id(wire.answer_id, 24, number, request.body) if request.dialect != "ollama" else None
    dated = replace(response, created=now) if request.dialect == "ollama" and response.created is None else response
    return replace(dated, choices=choices, usage=usage, model=response.model or request.model, id=response.id or name)


def _plain(parts: list[Part]) -> list[Any]:
    fields = ("text", "name", "arguments", "signature")
    return [[getattr(part, field, None) for field in fields] for part in parts]


def _number(parts: list[Part], request: WireRequest, seed: tuple[int, int]) -> list[Part]:
    """Give each call its position, its text and, where the wire has them, an id."""
    form = WIRES[request.dialect].call_id
    numbered: list[Part] = []
    index = 0
    for part in parts:
        if type(part) is ToolCall:
            call_id = make_id(*form, seed, index, request.body) if part.id is None and form is not None else part.id
            raw = format_arguments(part.plain_arguments) if part.raw is None and part.error is None else part.raw
            numbered.append(replace(part, id=call_id, index=index, raw=raw))
            index += 1
        else:
            numbered.append(part)
    return numbered


def _sign(parts: list[Part], request: WireRequest) -> list[Part]:
    """Sign what servers of a dialect sign: thoughts, or the first call."""
    name = request.dialect
    if name == "gemini":
        return _sign_call(parts, request)
    signed: list[Part] = []
    for place, part in enumerate(parts):
        if type(part) is not Thinking or part.opaque is not None or name not in ("anthropic", "openai-responses"):
            signed.append(part)
            continue
        if part.signature is not None:
            request.memory.signatures.add(part.signature)
        if name == "anthropic":
            signed.append(_read(name, {"content": [_thinking_block(part, signed, request)]}))
        else:
            signed.append(_read(name, {"output": [_reasoning_item(part, place, request)]}))
    return signed


def _thinking_block(part: Thinking, before: list[Part], request: WireRequest) -> dict[str, Any]:
    """Write a thought as the Messages API does: bound to its words, and to all before where a model does so."""
    if part.redacted:
        return {"type": "redacted_thinking", "data": part.signature or token("redacted", part.text)}
    blocks = dialect("anthropic").encode_response(Response.of(Message("assistant", before))).body["content"]
    signature = part.signature or seal(part.text, prefix_of(request, None, blocks))
    return {"type": "thinking", "thinking": part.text, "signature": signature}


def _reasoning_item(part: Thinking, place: int, request: WireRequest) -> dict[str, Any]:
    """Write a thought as an item of Responses, with its encrypted content where it was asked for."""
    include = request.body.get("include")
    wanted = type(include) is list and "reasoning.encrypted_content" in include
    item: dict[str, Any] = {"type": "reasoning", "id": make_id("rs_", 24, place, part.text, request.body)}
    item["summary"] = [{"type": "summary_text", "text": part.text}] if part.text else []
    if wanted or request.body.get("store") is False or part.signature is not None:
        item["encrypted_content"] = part.signature or token("reasoning", part.text)
    return item


def _sign_call(parts: list[Part], request: WireRequest) -> list[Part]:
    """Sign the first call of an answer, as Gemini does."""
    calls = [(place, part) for place, part in enumerate(parts) if type(part) is ToolCall]
    if not calls or calls[0][1].opaque is not None or not calls[0][1].runs:
        return parts
    place, call = calls[0]
    value = {"name": call.name, "args": call.plain_arguments} | ({} if call.id is None else {"id": call.id})
    body = {"functionCall": value, "thoughtSignature": token("call", value, request.body.get("contents"))}
    signed: Any = _read("gemini", {"candidates": [{"content": {"role": "model", "parts": [body]}}]})
    return [*parts[:place], replace(signed, index=call.index), *parts[place + 1 :]]


def _read(name: str, body: dict[str, Any]) -> Part:
    [part] = dialect(name).decode_response(body).message.parts
    return part
