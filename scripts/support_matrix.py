"""Write what each dialect can express: one probe for each concept is encoded to it, and the losses are read.

Rule: no verdict is written by hand. `exact` is no loss; `impossible` is a drop; `approximated` is any other
loss.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from toolwire.dialects import NAMES, dialect
from toolwire.types import (
    Audio,
    Cache,
    Choice,
    Citation,
    Context,
    Document,
    Encoded,
    Image,
    Loss,
    Message,
    Output,
    Part,
    Refusal,
    Request,
    Response,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)

PAGE = Path(__file__).resolve().parent.parent / "docs" / "support-matrix.md"
HEAD = """# What each dialect can express

Which parts of a request and of an answer each dialect (the code for one vendor's format) can express, and which are
losses:

- exact: there is no loss.
- *approximated*: the value is expressed in another way, which the loss describes.
- **impossible**: the value is dropped, and a loss reports it.

`make docs` generates this page: it encodes one value for each concept with each dialect, and reads the losses.

"""
_MARKED = {"exact": "exact", "approximated": "*approximated*", "impossible": "**impossible**"}
_TOOL = Tool("look", "Look.", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
_CALL = ToolCall("call_1", "look", {"a": 1})
_ASK = Message("user", "Look, and say it in JSON.")
_PIXEL = Image(data="iVBORw0KGgo=", media_type="image/png")
_SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
_BASE = Request(model="m", stream=False, max_tokens=100, context=Context(None, [_ASK], [_TOOL]))


def _settings() -> dict[str, Request]:
    values: dict[str, dict[str, Any]] = {
        "choice: auto": {"tool_choice": ToolChoice("auto")},
        "choice: none": {"tool_choice": ToolChoice("none")},
        "choice: required": {"tool_choice": ToolChoice("required")},
        "choice: one tool": {"tool_choice": ToolChoice("required", ["look"])},
        "choice: some tools": {"tool_choice": ToolChoice("auto", ["look"])},
        "no parallel calls": {"parallel_tool_calls": False},
        "temperature": {"temperature": 0.5},
        "top_p": {"top_p": 0.5},
        "top_k": {"top_k": 5},
        "stop sequences": {"stop": ["END"]},
        "seed": {"seed": 1},
        "several answers": {"n": 2},
        "penalties": {"frequency_penalty": 0.5},
        "log probabilities": {"logprobs": True, "top_logprobs": 2},
        "thinking on": {"thinking": "adaptive"},
        "thinking off": {"thinking": "disabled"},
        "thinking budget": {"thinking": "enabled", "thinking_budget": 2048, "max_tokens": 4096},
        "effort": {"effort": "high"},
        "answer: JSON": {"output": Output("json")},
        "answer: JSON of a schema": {"output": Output("schema", _SCHEMA)},
        "verbosity": {"verbosity": "low"},
        "metadata": {"metadata": {"k": "v"}},
        "user's identifier": {"safety_identifier": "u"},
        "service tier: auto": {"service_tier": "auto"},
        "streaming": {"stream": True},
    }
    return {concept: replace(_BASE, **fields) for concept, fields in values.items()}


def _conversations() -> dict[str, Request]:
    answered = [_ASK, Message("assistant", [_CALL])]
    values: dict[str, list[Message]] = {
        "several system messages": [Message("system", "One."), Message("system", "Two."), _ASK],
        "developer message": [Message("developer", "Be brief."), _ASK],
        "late system message": [_ASK, Message("assistant", "Yes."), Message("system", "Be brief."), _ASK],
        "name of a participant": [Message("user", "Look.", name="ann")],
        "image as data": [_with(_PIXEL)],
        "image by URL": [_with(Image("https://example.com/i.png"))],
        "document as data": [_with(Document(data="ZG9j", media_type="application/pdf", name="d.pdf"))],
        "document by URL": [_with(Document("https://example.com/d.pdf"))],
        "audio as data": [_with(Audio("YXVkaW8=", "audio/wav"))],
        "cache mark": [Message("user", [Text("Look.", cache=Cache())])],
        "thinking without a signature": [_ASK, Message("assistant", [Thinking("Hm."), Text("Yes.")]), _ASK],
        "call and result": [*answered, _result("one")],
        "parallel calls": [
            _ASK,
            Message("assistant", [_CALL, ToolCall("call_2", "look", {"a": 2}, 1)]),
            _result("one"),
            Message("tool", [ToolResult("call_2", "look", "two")]),
        ],
        "result that is an error": [
            *answered,
            Message("tool", [ToolResult("call_1", "look", "no", is_error=True)]),
        ],
        "image in a result": [*answered, _result([Text("one"), _PIXEL])],
        "arguments that are not JSON": [
            _ASK,
            Message("assistant", [ToolCall.parse("call_1", "look", "{")]),
            _result("no"),
        ],
        "words after a call": [_ASK, Message("assistant", [_CALL, Text("I looked.")]), _result("one")],
    }
    return {concept: replace(_BASE, context=Context(None, messages, [_TOOL])) for concept, messages in values.items()}


def _with(part: Part) -> Message:
    return Message("user", [Text("Look."), part])


def _result(content: str | list[Part]) -> Message:
    return Message("tool", [ToolResult("call_1", "look", content)])


def _tools() -> dict[str, Request]:
    values = {
        "tool declaration": _TOOL,
        "strict tool": replace(_TOOL, parameters=_SCHEMA, strict=True),
        "custom tool": Tool("look", "Look.", custom=True),
        "tool name with any character": replace(_TOOL, name="srv/look.up"),
        "cache mark on a tool": replace(_TOOL, cache=Cache()),
    }
    probes = {concept: replace(_BASE, context=Context(None, [_ASK], [tool])) for concept, tool in values.items()}
    return {"system prompt": replace(_BASE, context=Context("Be brief.", [_ASK], [_TOOL])), **probes}


def _responses() -> dict[str, Response]:
    values: dict[str, Response] = {
        "answer: thinking": Response.of(Message("assistant", [Thinking("Hm."), Text("Yes.")]), "stop"),
        "answer: refusal": Response.of(Message("assistant", [Refusal("No.")]), "refusal"),
        "answer: citation of a URL": Response.of(
            Message("assistant", [Text("Yes.", [Citation("https://example.com", "t", start=0, end=4)])]),
            "stop",
        ),
        "answer: cut by length": Response.of(Message("assistant", "Yes"), "length"),
        "answer: ended by a stop sequence": Response(choices=[Choice(Message("assistant", "Yes"), "stop_sequence")]),
        "answer: filtered": Response.of(Message("assistant", "Yes"), "content_filter"),
        "answer: paused": Response.of(Message("assistant", "Yes"), "pause"),
        "answer: several choices": Response(
            choices=[Choice(Message("assistant", word), "stop") for word in ("A", "B")]
        ),
    }
    return values


def verdicts() -> Iterator[tuple[str, dict[str, str]]]:
    """Give each concept with the verdict of every dialect."""
    for concept, request in {**_tools(), **_conversations(), **_settings()}.items():
        yield concept, {name: _judge(dialect(name).encode_request(request)) for name in NAMES}
    for concept, response in _responses().items():
        yield concept, {name: _judge(dialect(name).encode_response(response)) for name in NAMES}


def _judge(encoded: Encoded) -> str:
    losses = [loss for loss in encoded.losses if not _beside(loss)]
    if not losses:
        return "exact"
    return "impossible" if any(loss.action == "dropped" for loss in losses) else "approximated"


def _beside(loss: Loss) -> bool:
    """Whether a loss is of the probe and not of the concept."""
    return loss.action == "defaulted" or loss.concept in {"media_type", "media_source"}


def markdown() -> str:
    """Write the table as a document."""
    head = ["concept", *NAMES]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {concept} | {' | '.join(_MARKED[row[name]] for name in NAMES)} |" for concept, row in verdicts()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(HEAD + markdown())
    print(f"wrote {PAGE.name}")
