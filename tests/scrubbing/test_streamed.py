"""A secret that comes in pieces is hidden as in the whole text: nothing of it is given before it is told apart."""

import pytest

from toolwire.scrubbing import HIDDEN, Scrubber, scrub_text

SECRET = "open sesame, if you please"  # noqa: S105 - it opens nothing
TEXT = f"He said {SECRET}; then open says me, and {SECRET}"


@pytest.mark.parametrize("step", [1, 3, 8, 14, len(TEXT)])
def test_a_secret_of_several_words_is_hidden_however_it_is_cut(step: int) -> None:
    scrubber = Scrubber((), [SECRET])
    given = [scrubber.feed(TEXT[place : place + step]) for place in range(0, len(TEXT), step)]
    assert "".join([*given, scrubber.close()]) == scrub_text(TEXT, [SECRET])


def test_what_cannot_become_a_secret_is_given_at_once() -> None:
    scrubber = Scrubber((), [SECRET])
    assert scrubber.feed("one two open ") == "one two "
    assert scrubber.feed("sesame, ") == ""
    assert scrubber.feed("street. ") == "open sesame, street. "
    assert scrubber.feed(f"{SECRET} ") == f"{HIDDEN} "
