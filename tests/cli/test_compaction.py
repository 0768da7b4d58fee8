"""Summaries: what the model is sent, and when one is worth it."""

from toolwire.cli.compaction import can_compact, is_full, may_compact_again, transcript
from toolwire.client.clearing import context_window
from toolwire.types import Context, Message, Request, Text, ToolCall, ToolResult, Usage

CALL = ToolCall("c", "read_file", {"path": "a"})


def test_the_transcript_has_all_messages_with_their_tools() -> None:
    messages = [
        Message("user", "Look."),
        Message("assistant", [Text("I look."), CALL]),
        Message("tool", [ToolResult("c", "", "contents")]),
        Message("tool", [ToolResult("d", "", "no such file", is_error=True)]),
        Message("assistant", "Done."),
    ]
    expected = """user: Look.

assistant: I look.
call: read_file(path="a")

result of read_file: contents

error of a tool: no such file

assistant: Done."""
    assert transcript(messages, 10_000) == expected


def test_a_long_transcript_keeps_its_beginning_and_its_end() -> None:
    messages = [Message("user", "The task."), *(Message("assistant", f"step {n} " * 100) for n in range(50))]
    text = transcript(messages, 5_000)
    assert len(text) < 6_000
    assert text.startswith("user: The task.\n\n[")
    assert "parts of the conversation are left out here]" in text
    assert "step 49" in text
    assert "step 10 " not in text


def test_a_long_result_is_cut_in_its_middle() -> None:
    text = transcript([Message("tool", [ToolResult("c", "", "a" * 5_000 + "the end")])], 100_000)
    assert "characters are left out]" in text
    assert text.endswith("the end")
    assert len(text) < 2_200


def test_a_window_that_nobody_knows_is_never_full() -> None:
    request = Request(model="m", context=Context(messages=[Message("user", "x" * 100_000)]))
    assert not is_full(request, None, None)
    assert is_full(request, None, 30_000)
    assert not is_full(request, None, 40_000)
    assert is_full(request, Usage(900, 0), 1_000)
    window = context_window("gpt-4o")
    assert window is not None
    assert is_full(Request(model="gpt-4o", context=request.context), Usage(window, 0), None)


def test_a_summary_is_not_summarized_again_at_once() -> None:
    one = [Message("user", "Hi."), Message("assistant", "Hello.")]
    assert may_compact_again(one)
    assert not may_compact_again(one[:1])
    assert not can_compact([])
    summary = [
        Message("user", "Summarize our conversation, so that you can go on with the summary alone."),
        Message("assistant", "All."),
    ]
    assert can_compact(summary)
    assert not may_compact_again([*summary, *one])
    assert may_compact_again([*summary, *one, *one])
