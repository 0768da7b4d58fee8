"""A running stream of one dialect as one of another, in Python and on the command line."""

import subprocess
import sys
from pathlib import Path

import pytest

from toolwire import Response, accumulate, dialect, translate
from toolwire.types import Loss

BESIDE = b'data: {"id":"c1","created":1,"model":"m","choices":[{"index":0,"delta":'
BEGIN = b'{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"search","arguments":'
CHAT = (
    BESIDE
    + b'{"role":"assistant","content":""}}]}\n\n'
    + BESIDE
    + b'{"content":"I look."}}]}\n\n'
    + BESIDE
    + BEGIN
    + b'"{\\"q\\""}}]}}]}\n\n'
    + BESIDE
    + b'{"tool_calls":[{"index":0,"function":{"arguments":":\\"tea\\"}"}}]}}]}\n\n'
    + BESIDE
    + b'{},"finish_reason":"tool_calls"}]}\n\n'
    + b"data: [DONE]\n\n"
)
WIRES = ("openai-chat", "openai-responses", "anthropic", "gemini", "ollama")


def read(name: str, data: bytes) -> Response:
    decoder = dialect(name).decode_stream()
    return accumulate(decoder.feed(data) + decoder.close())


@pytest.mark.parametrize("target", WIRES)
def test_every_target_says_the_words_the_call_and_the_end(target: str) -> None:
    stream = translate.stream(source="openai-chat", target=target)
    response = read(target, stream.feed(CHAT) + stream.close())
    assert response.content == "I look."
    assert [(call.name, call.arguments) for call in response.tool_calls] == [("search", {"q": "tea"})]
    assert response.finish_reason == "tool_calls"


@pytest.mark.parametrize("target", WIRES)
def test_words_go_out_before_the_next_bytes_come(target: str) -> None:
    stream = translate.stream("openai-chat", target)
    begin, end = CHAT.index(b"I look."), CHAT.index(b"call_1")
    sent = stream.feed(CHAT[:begin] + b'I look."}}]}\n\n')
    assert b"I look." in sent
    assert b"search" not in stream.feed(CHAT[begin + 12 : end])


@pytest.mark.parametrize("target", WIRES)
def test_a_stream_that_broke_off_ends_with_an_error_elsewhere(target: str) -> None:
    stream = translate.stream("openai-chat", target)
    half = CHAT[: CHAT.index(b"tea")]
    response = read(target, stream.feed(half) + stream.close())
    assert response.tool_calls == []
    assert response.finish_reason == ("incomplete" if target == "openai-chat" else "error")


def test_losses_grow_while_the_stream_runs() -> None:
    stream = translate.stream("anthropic", "ollama")
    stream.feed(
        b'data: {"type":"message_start","message":{"id":"m1","content":[]}}\n\n'
        b'data: {"type":"content_block_start","index":0,'
        b'"content_block":{"type":"thinking","thinking":"H"}}\n\n'
    )
    before = stream.losses
    stream.feed(
        b'data: {"type":"content_block_delta","index":0,'
        b'"delta":{"type":"signature_delta","signature":"c2ln"}}\n\n'
        b'data: {"type":"content_block_stop","index":0}\n\n'
    )
    assert all(type(loss) is Loss for loss in stream.losses)
    assert [loss.path for loss in stream.losses if loss not in before] == ["choices[0].message.content[0].signature"]


def command(*arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "toolwire", "translate", "--kind", "stream", *arguments],
        input=given,
        capture_output=True,
        check=False,
    )


def test_the_command_line_translates_a_stream(tmp_path: Path) -> None:
    file = tmp_path / "recorded.sse"
    file.write_bytes(CHAT)
    pair = ("--from", "openai", "--to", "anthropic")
    for ran in (command(*pair, given=CHAT), command(*pair, str(file))):
        assert ran.returncode == 0, ran.stderr
        assert read("anthropic", ran.stdout).tool_calls == read("openai-chat", CHAT).tool_calls


@pytest.mark.slow
def test_strict_writes_nothing_of_a_stream_that_loses_meaning() -> None:
    two = CHAT.replace(
        b'"choices":[{"index":0,"delta":{}',
        b'"choices":[{"index":1,"delta":{"content":"B"}},{"index":0,"delta":{}',
    )
    ran = command("--from", "openai", "--to", "anthropic", "--strict", given=two)
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert b"choices[1]: a response of anthropic has only one choice (dropped)" in ran.stderr
    kept = command("--from", "openai", "--to", "anthropic", "--strict", given=CHAT)
    assert kept.returncode == 0, kept.stderr
    assert b"message_stop" in kept.stdout
