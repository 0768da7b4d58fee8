"""How a wire spelled a value: each struct is usual until it says otherwise, and comes through JSON as it was."""

from typing import Any, get_args

import msgspec
import pytest

from toolwire import dialect
from toolwire.types import Error, Opaque
from toolwire.types.spelling import Spelling, WireSpelling

STRUCTS = pytest.mark.parametrize("struct", get_args(Spelling), ids=lambda struct: struct.__name__)


@STRUCTS
def test_a_spelling_without_a_deviation_is_usual_and_written_as_its_name(struct: type[WireSpelling]) -> None:
    assert struct().is_usual
    assert not struct(constants={"type": "x"}).is_usual
    assert msgspec.to_builtins(struct()) == {"of": struct.__struct_config__.tag}


@STRUCTS
def test_a_spelling_comes_through_json(struct: type[WireSpelling]) -> None:
    opaque = Opaque("x", {"a": 1}, spelling=struct(constants={"type": "x"}))  # type: ignore[arg-type]
    assert msgspec.json.decode(msgspec.json.encode(opaque), type=Opaque) == opaque


BODIES: dict[str, Any] = {"nothing": None, "text": "<html>", "a list": [], "another object": {"detail": "a"}}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("name", ["anthropic", "gemini", "ollama", "openai-chat", "openai-responses"])
def test_a_body_that_is_no_error_comes_back_after_its_error_was_stored(name: str, body: Any) -> None:
    wire = dialect(name)
    error = wire.decode_error(502, body)
    stored = msgspec.json.decode(msgspec.json.encode(error), type=Error)
    assert (stored, wire.encode_error(stored).body) == (error, body)
    assert wire.encode_error(msgspec.structs.replace(error, message="b")).body != body
