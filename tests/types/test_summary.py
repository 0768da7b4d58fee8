"""Values on a few lines: what people read of them, and what they need not."""

from typing import Any

import pytest

from tests.client.faces import DIALECTS, options_at
from toolwire import Choice, Message, Opaque, Response, Text, Thinking, ToolCall, Usage, generate
from toolwire.dialects import NAMES, dialect
from toolwire.loop import Done
from toolwire.testing import simulate


@pytest.mark.parametrize("name", DIALECTS)
def test_the_end_of_a_run_fits_on_a_few_lines(name: str) -> None:
    with simulate([[Thinking("Hm."), Text("Hello.")]]) as model:
        done = generate("?", name, "m", **options_at(name, model.url))
    for value in (done, done.response):
        assert "Hello." in repr(value)
        assert len(repr(value)) <= 600
        assert "Opaque" not in repr(value)
    assert repr(done).startswith("Done(ending='answer', messages=[Message(role='assistant'")


def test_what_is_long_is_cut_and_what_is_usual_is_left_out() -> None:
    messages = [Message("assistant", [Text("x" * 10_000, opaque=Opaque("a", {"k": "v" * 9000}))]) for _ in range(50)]
    said = repr(Done("limit", messages, reason="why", calls=[ToolCall("c", "f", {"a": ["b" * 9000] * 90})]))
    assert said.startswith("Done(ending='limit', messages=[Message(role='assistant', content=[Text(text='xxx")
    assert "... (10000 characters)" in said
    assert "... 46 more" in said
    assert len(said) <= 1_004
    assert repr(Done("answer", [], usage=Usage(1, 2))) == (
        "Done(ending='answer', usage=Usage(input_tokens=1, output_tokens=2))"
    )


@pytest.mark.slow
def test_a_deep_value_ends() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    said = repr(Response.of(Message("assistant", [ToolCall("c", "f", {"a": deep})])))
    assert said.endswith("...})])))])") or "..." in said


@pytest.mark.parametrize("name", NAMES)
def test_ids_that_are_derived_mind_what_is_not_shown(name: str) -> None:
    def body(secret: str) -> Any:
        text = Text("x" * 500 + secret, opaque=Opaque(name, {}))
        response = Response(choices=[Choice(Message("assistant", [text]), "stop")])
        return dialect(name).encode_response(response).body

    if "id" in body("1"):
        assert body("1")["id"] != body("2")["id"]
    assert body("1") == body("1")
