"""End marks inside of values, in formats with marks around each argument: text, if a later end mark fits too."""

from collections import Counter
from typing import Any

import pytest

from tests.text.offers import TOOLS, raw_block, read
from toolwire import ToolCall
from toolwire.text import Format, format, names
from toolwire.text.rows import bare_mark, rows

EACH = [name for name in names() if rows()[name].shape in {"parameters", "elements"}]
FIRST, LAST = "FIRST", "LAST"


def argument_end(name: str) -> str:
    """Return the mark that ends the argument s."""
    row = rows()[name]
    return f"{row.header}</s>" if row.shape == "elements" else bare_mark(row.argument[2])


def raw(name: str, arguments: dict[str, Any]) -> str:
    """Write a call as a model does, that is without a look at the marks in its values."""
    return raw_block(format(name), ToolCall(None, "f", arguments))


def text_with(name: str, value: str, **arguments: Any) -> str:
    """Write a call of f whose argument s is `value`."""
    return raw(name, {"s": LAST, **arguments}).replace(LAST, value)


def tail_of(name: str) -> str:
    """Return everything from the end of the only value to the end of the block."""
    return raw(name, {"s": LAST}).partition(LAST)[2]


def calls(form: Format, text: str, pieces: list[str], **settings: Any) -> list[tuple[str, Any]]:
    response = read(form, text, pieces, **settings)
    return [(call.name, call.arguments) for call in response.tool_calls if call.runs]


def values(name: str) -> list[str]:
    """Return values that hold ends of an argument, of a call, and of everything, with words behind them."""
    row = rows()[name]
    argument, call = argument_end(name), bare_mark(row.call[2])
    return [
        f"use {argument} and {call} here",
        f"{argument} at the beginning",
        f"at the end {argument}.",
        f"twice {argument} and {argument}; {call}, {call}.",
        f"use {argument}\n{call} here",
        f"use {argument}{call}{call} here",
        f"all of it: {tail_of(name)} and on",
        f"all of it twice: {tail_of(name)} and {tail_of(name)} and on",
    ]


@pytest.mark.parametrize("name", EACH)
def test_an_end_mark_in_a_value_is_text_if_a_later_one_fits(name: str, tally: Counter[str]) -> None:
    form = format(name)
    for value in values(name):
        for more, arguments in (({}, {"s": value}), ({"i": 3}, {"s": value, "i": 3})):
            text = text_with(name, value, **more)
            for pieces in ([text], list(text)):
                assert calls(form, text, pieces) == [("f", arguments)], text
            response = read(form, f"So: {text}")
            assert (response.content or "").strip() == "So:", text
            tally["values with end marks of their own, read whole"] += 1


@pytest.mark.parametrize("name", EACH)
def test_a_call_in_a_value_never_runs(name: str, tally: Counter[str]) -> None:
    form = format(name)
    blocks = [raw_block(form, ToolCall(None, "g", {})), raw(name, {"s": "x"}), raw(name, {"s": "x", "i": 1})]
    ends = ("", argument_end(name), tail_of(name))
    for block in blocks:
        for end in ends:
            for gap in ("", "\n", " and "):
                value = f"see{end}{gap}{block} there"
                text = text_with(name, value)
                for pieces in ([text], list(text)):
                    assert calls(form, text, pieces) in ([("f", {"s": value})], []), text
                tally["calls in values, none of them run"] += 1


@pytest.mark.parametrize("name", EACH)
def test_without_a_later_end_mark_the_first_one_counts(name: str) -> None:
    form = format(name)
    one, two = raw(name, {"s": "x"}), raw(name, {"s": "y", "i": 2})
    for text, found in (
        (f"{one}\nDone.", [("f", {"s": "x"})]),
        (f"{one}\nThen.\n{two}\nDone.", [("f", {"s": "x"}), ("f", {"s": "y", "i": 2})]),
        (one + two, [("f", {"s": "x"}), ("f", {"s": "y", "i": 2})]),
    ):
        for pieces in ([text], list(text)):
            assert calls(form, text, pieces) == found, text
            words = "".join((read(form, text, pieces).content or "").split())
            assert words == "".join(word for word in ("Then.", "Done.") if word in text), text


def test_a_call_whose_end_may_lie_behind_another_call_is_broken() -> None:
    one = raw("qwen3-coder", {"s": "x"})
    text = f"{one}\n{one}\nand so on\n</parameter>\n</function>\n</tool_call>"
    response = read(format("qwen3-coder"), text)
    assert response.tool_calls == []
    assert "the argument 's' has several possible ends" in str(response.broken_calls[0].error)


def test_a_cut_answer_needs_the_end_of_the_mark_around_its_call() -> None:
    form, text = format("qwen3-coder"), text_with("qwen3-coder", "use </parameter>\n</function> here")
    for size in range(len(text)):
        response = form.decode(text[:size], TOOLS, whole=False)
        assert [call for call in response.tool_calls if call.runs] == [], text[:size]
