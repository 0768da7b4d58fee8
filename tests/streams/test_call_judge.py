"""Which calls may run: the facts that a decoder reports, and what the judge decides."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from toolwire.streams.call_judge import CallJudge, PartialCall, Reason
from toolwire.types import ToolCall

X = '{"x":1}'


class Stream:
    """A stream of calls: a judge, and what it emitted."""

    def __init__(self) -> None:
        self.judge = CallJudge()
        self.verdicts: list[tuple[str, str]] = []

    def open(self, name: str, *others: PartialCall, call_id: str | None = None) -> PartialCall:
        call = PartialCall(call_id, name)
        self.judge.opened(call, *others)
        return call

    def fill(self, call: PartialCall, *pieces: str) -> PartialCall:
        for piece in pieces:
            call.add(piece)
        return call

    def close(self, call: PartialCall, *, whole: bool | None = True) -> None:
        self._record(call, self.judge.close(call, ToolCall.parse(call.id, call.name, call.text), complete=whole))

    def end(self, reason: str = "stop", *last: PartialCall, ended: bool = True) -> None:
        for call, tool_call in self.judge.end(reason, last, ended=ended):
            self._record(call, tool_call)

    def _record(self, call: PartialCall, tool_call: ToolCall | None) -> None:
        if tool_call is None:
            self.verdicts.append((call.name, "waits"))
        else:
            self.verdicts.append((call.name, "runs" if tool_call.runs else str(tool_call.error)))


def whole(stream: Stream) -> None:
    stream.close(stream.fill(stream.open("f"), X))


def empty(stream: Stream) -> None:
    stream.close(stream.open("f"))


def empty_at_the_end(stream: Stream) -> None:
    empty(stream)
    stream.end()


def empty_at_a_limit(stream: Stream) -> None:
    call = stream.open("f")
    stream.close(call)
    stream.end("length", call)


def half_at_a_limit(stream: Stream) -> None:
    call = stream.fill(stream.open("f"), X[:-1])
    stream.close(call)
    stream.end("length", call)


def broken_off(stream: Stream) -> None:
    empty(stream)
    stream.end("incomplete", ended=False)


def blank(stream: Stream) -> None:
    stream.close(stream.fill(stream.open("f"), " "))


def stray_object(stream: Stream) -> None:
    call, other = stream.open("f"), stream.fill(stream.open("g"), X)
    stream.judge.stray(X, of_lost_call=True)
    stream.close(call)
    stream.close(other)


def stray_piece(stream: Stream) -> None:
    call = stream.fill(stream.open("f"), X)
    stream.judge.stray("1}", of_lost_call=True)
    stream.close(call)


def ambiguous(stream: Stream) -> None:
    call = stream.fill(stream.open("f"), X)
    stream.judge.ambiguous()
    stream.close(call)
    stream.close(stream.fill(stream.open("g"), X))


def by_position(stream: Stream) -> None:
    call = stream.open("f")
    stream.judge.matched_by_position(stream.fill(call, X))
    stream.close(call)


def broken_by_position(stream: Stream) -> None:
    empty(stream)
    call = stream.open("g")
    stream.judge.matched_by_position(stream.fill(call, X, "1"))
    stream.close(call)
    stream.end()


def twice_with_one_name(stream: Stream) -> None:
    first = stream.open("f", call_id="a")
    stream.close(first)
    second = stream.open("f", first, call_id="a")
    stream.close(stream.fill(second, X))
    stream.end()


def twice_with_two_names(stream: Stream) -> None:
    first = stream.open("f", call_id="a")
    stream.close(stream.fill(stream.open("g", first, call_id="a"), X))
    stream.close(first)


def unread(stream: Stream) -> None:
    call = stream.open("f")
    call.unread = True
    stream.close(call)


def confirmed(stream: Stream) -> None:
    call = stream.fill(stream.open("f"), "{", "}")
    stream.judge.stray("1}")
    stream.judge.ambiguous()
    call.confirm(X)
    stream.close(call)


NAMED_TWICE = Reason.NAMED_TWICE.format("f", "g")
JSON = "not JSON: JSON is malformed: trailing characters (byte 8)"
VERDICTS: dict[Callable[[Stream], None], list[tuple[str, str]]] = {
    whole: [("f", "runs")],
    empty: [("f", "waits")],
    empty_at_the_end: [("f", "waits"), ("f", "runs")],
    empty_at_a_limit: [("f", "waits"), ("f", "cut off before it was whole")],
    half_at_a_limit: [("f", "waits"), ("f", "not JSON: Input data was truncated")],
    broken_off: [("f", "waits"), ("f", "cut off before it was whole")],
    blank: [("f", Reason.BLANK_TEXT)],
    stray_object: [("f", Reason.STRAY_TEXT), ("g", "runs")],
    stray_piece: [("f", Reason.STRAY_TEXT)],
    ambiguous: [("f", Reason.AMBIGUOUS), ("g", "runs")],
    by_position: [("f", "runs")],
    broken_by_position: [("f", "waits"), ("g", "waits"), ("f", Reason.STRAY_TEXT), ("g", JSON)],
    twice_with_one_name: [("f", "waits"), ("f", "runs"), ("f", Reason.STRAY_TEXT)],
    twice_with_two_names: [("g", NAMED_TWICE), ("f", NAMED_TWICE)],
    unread: [("f", Reason.UNREAD_TEXT)],
    confirmed: [("f", "runs")],
}


@pytest.mark.parametrize(("tell", "verdicts"), VERDICTS.items(), ids=[tell.__name__ for tell in VERDICTS])
def test_a_call_runs_waits_or_is_refused(tell: Callable[[Stream], None], verdicts: list[tuple[str, str]]) -> None:
    stream = Stream()
    tell(stream)
    assert stream.verdicts == verdicts
    assert stream.judge.error is None


def late(stream: Stream, call: PartialCall) -> None:
    stream.judge.late(call, "1}")


def lost(stream: Stream, call: PartialCall) -> None:
    del call
    stream.judge.stray("1}")


def contradicted(stream: Stream, call: PartialCall) -> None:
    stream.judge.contradicted(call)


ERRORS: list[tuple[Any, tuple[str, ...], Reason | None]] = [
    (late, ("{", "}"), Reason.LATE_TEXT),
    (late, (X,), Reason.LATE_TEXT),
    (lost, ("{", "}"), Reason.LOST_TEXT),
    (lost, (X,), None),
    (contradicted, (X,), Reason.CONTRADICTED),
]


@pytest.mark.parametrize(("tell", "pieces", "error"), ERRORS)
def test_a_stream_fails_if_a_call_that_may_run_is_in_doubt(
    tell: Any, pieces: tuple[str, ...], error: Reason | None
) -> None:
    stream = Stream()
    call = stream.fill(stream.open("f"), *pieces)
    stream.close(call)
    tell(stream, call)
    assert stream.judge.error == error


def test_arguments_that_came_as_an_object_are_refused_as_text() -> None:
    judge, call = CallJudge(), PartialCall("a", "f", value={"x": 1}, problem="odd")
    judge.opened(call)
    refused = judge.close(call, ToolCall("a", "f", {"x": 1}))
    assert refused == replace(ToolCall("a", "f", {}, raw='{"x":1', error="odd"), complete=False)
