"""Count how far six everyday things go through the package: files entered, moves between files, calls, functions.

`make walks` prints a row for each. A file counts when a call runs in it; a move is a call that changes the file.
The second run of each is counted, when all that is loaded once is loaded. Only public names are used, so the same
script counts an earlier commit: `PYTHONPATH=OTHER/src python scripts/walks.py`.
"""

import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import toolwire
from toolwire import CodeTools, ToolCall, dialect, execute, generate, schema, tool, traces, translate
from toolwire.testing import simulate

PACKAGE = str(Path(toolwire.__file__).parent)
BODY = {
    "model": "gpt-4o",
    "messages": [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "How is the weather in Tokyo?"},
        {"role": "assistant", "content": "I shall look."},
        {"role": "user", "content": "Please do."},
    ],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "Tell the weather.",
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
            },
        }
    ],
}
SCHEMA = {
    "type": "object",
    "properties": {
        "place": {"$ref": "#/$defs/place"},
        "when": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "days": {"type": "integer", "minimum": 1},
    },
    "required": ["place"],
    "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}},
}
START = b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant",'
START += (
    b'"model":"c","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}'
)
OPEN = b'\n\nevent: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"text",'
OPEN += b'"text":""}}\n\n'
WORDS = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta",'
WORDS += b'"text":"word %d"}}\n\n'


class Walk(NamedTuple):
    """What one run went through."""

    files: int
    moves: int
    calls: int
    functions: int


def walked(run: Callable[[], Any]) -> Walk:
    """Count the calls into the package that this thread makes in a run."""
    codes: list[Any] = []
    here = threading.get_ident()

    def seen(frame: Any, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE) and threading.get_ident() == here:
            codes.append(frame.f_code)

    sys.setprofile(seen)
    try:
        run()
    finally:
        sys.setprofile(None)
    files = [code.co_filename for code in codes]
    moves = sum(one != other for one, other in zip([None, *files], files, strict=False))
    return Walk(len(set(files)), moves, len(codes), len(set(codes)))


@tool
def get_weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"sunny in {city}"


def asked(url: str, **more: Any) -> Any:
    """Lead a conversation with one call."""
    provider, _ = toolwire.providers.provider_of("openai", base_url=url, api_key="k")
    return generate("weather?", provider, "gpt-4o", tools=[get_weather], **more)


def main() -> None:
    """Print the walks."""
    folder = Path(tempfile.mkdtemp())
    try:
        for name, walk in walks(folder):
            print(f"{name:60}" + f"{walk.files:>8}{walk.moves:>8}{walk.calls:>8}{walk.functions:>11}")
    finally:
        shutil.rmtree(folder)


def walks(folder: Path) -> Any:
    """Walk each way twice, and give the second."""
    print(f"{'':60}{'files':>8}{'moves':>8}{'calls':>8}{'functions':>11}")
    for _ in range(2):
        request = walked(lambda: translate.request(BODY, source="openai-chat", target="anthropic"))
    yield "1  a request, chat to Messages", request
    stream = translate.stream(source="anthropic", target="openai-chat")
    stream.feed(START + OPEN)
    yield "2a the first chunk of words, Messages to chat", walked(lambda: stream.feed(WORDS % 1))
    for number in range(2, 9):
        stream.feed(WORDS % number)
    yield "2b a later chunk", walked(lambda: stream.feed(WORDS % 9))
    call = ToolCall("call_1", "get_weather", {"city": "Tokyo"})
    turns = [[ToolCall(None, "get_weather", {"city": "Tokyo"})], "Sunny."]
    with traces.open(f"sqlite:///{folder / 'traces.db'}") as store:
        for _ in range(2):
            with simulate(turns) as model:
                traced = walked(lambda url=model.url: asked(url, traces=store))  # type: ignore[misc]
    yield "3  call, execution, trace (generate with traces)", traced
    resolver = toolwire.AgentResolver([get_weather])
    for _ in range(2):
        run = walked(lambda: execute([call], resolver))
    yield "3b execute([call], resolver) alone", run
    for _ in range(2):
        with simulate(turns) as model:
            generated = walked(lambda url=model.url: asked(url))  # type: ignore[misc]
    yield "4  a prompt through generate, one tool, two exchanges", generated
    kit = CodeTools(folder)
    for _ in range(2):
        (folder / "a.txt").write_text("one\ntwo\n")
        execute([ToolCall("r", "read_file", {"path": "a.txt"})], kit)
        edit = ToolCall("e", "edit_file", {"path": "a.txt", "oldText": "one", "newText": "1"})
        edited = walked(lambda edit=edit: execute([edit], kit))  # type: ignore[misc]
    yield "5  a path into edit_file", edited
    for _ in range(2):
        fitted = walked(lambda: schema.fit(SCHEMA, "gemini"))
    yield "6  a schema into Gemini", fitted


if __name__ == "__main__":
    assert dialect("anthropic")  # noqa: S101 - the dialects are loaded before anything is counted
    main()
