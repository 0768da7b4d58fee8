"""A long answer is held as text, and not as the many words that it came in."""

import tracemalloc

from toolwire.streams.accumulation import Accumulator
from toolwire.types import PartEnd, PartStart, Text, TextDelta


def test_the_words_of_a_long_answer_take_little_more_than_its_letters() -> None:
    tracemalloc.start()
    heard, count = Accumulator(), 10_000
    heard.feed(PartStart(0, Text("")))
    for number in range(count):
        heard.feed(TextDelta(0, f"{number % 10_000:04} "))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 3 * 5 * count, "a word by itself takes more than ten times its letters"
    heard.feed(PartEnd(0, Text("")))
    [part] = heard.response.message.parts
    assert isinstance(part, Text)
    assert part.text == "".join(f"{number % 10_000:04} " for number in range(count))
