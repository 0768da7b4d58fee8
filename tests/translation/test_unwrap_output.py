"""An answer that is no object is asked for within one where OpenAI takes no other, and comes back as its client asked.

The control is a translation without the request: there the object comes back as it is, and nothing of it is lost.
"""

import json
from typing import Any

import pytest

from toolwire import Output, Request, Response, Text, translate
from toolwire.dialects import NAMES, dialect
from toolwire.gateway.prefix_cache import PrefixCache
from toolwire.schema.wrapping import is_of_object, wrap
from toolwire.streams.accumulation import accumulate, events_of
from toolwire.testing.rules import Rejection
from toolwire.testing.rules_openai import check_answer
from toolwire.translation.exchange import Exchange
from toolwire.types import Choice, Context, Message, TextDelta

RECIPE = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
TREE = {"type": "array", "items": {"$ref": "#"}}
# Schemas of no object, and values of them.
VALUES: dict[str, tuple[dict[str, Any], str]] = {
    "list": ({"type": "array", "items": RECIPE}, '[{"name": "a } \\" {"}, {"name": "]"}]'),
    "text": ({"type": "string"}, '"a\\\\"'),
    "choice": ({"type": "string", "enum": ["a", "b"]}, '"a"'),
    "number": ({"type": "integer"}, "12"),
    "either": ({"anyOf": [RECIPE, {"type": "null"}]}, '{"name": "x"}'),
    "null": ({"type": ["object", "null"], "properties": {"a": {"type": "string"}}}, "null"),
    "named": ({"$ref": "#/$defs/L", "$defs": {"L": {"type": "array", "items": RECIPE}}}, "[]"),
    "tree": (TREE, "[[], [[]]]"),
}
OBJECTS: dict[str, dict[str, Any]] = {
    "fields": RECIPE,
    "any": {},
    "any object": {"type": "object"},
    "named": {"$ref": "#/$defs/R", "$defs": {"R": RECIPE}},
    "map": {"type": "object", "additionalProperties": {"type": "integer"}},
    "one kind": {**RECIPE, "type": ["object"]},
}
# What a model may say instead; nothing of it is left out.
OTHERWISE = [
    "I cannot.",
    "[1, 2]",
    '{"val',
    '{"value"',
    '{"values": 1}',
    '{"va lue": 1}',
    "",
    "{",
    "{}",
    '{"value": [1',
]
OF_OBJECTS = ["openai-chat", "openai-responses"]
WAYS = [(here, there) for there in OF_OBJECTS for here in NAMES if here not in (there, "ollama")]


def asked(wire: str, schema: dict[str, Any], *, strict: bool | None = None) -> dict[str, Any]:
    """Ask for an answer of a schema as a client of this wire does, whether or not the vendor takes it."""
    match wire:
        case "openai-chat":
            form = {"name": "r", "schema": schema} | ({} if strict is None else {"strict": strict})
            how = {"response_format": {"type": "json_schema", "json_schema": form}}
            return {"model": "m", "messages": [{"role": "user", "content": "go"}], **how}
        case "openai-responses":
            form = {"type": "json_schema", "name": "r", "schema": schema}
            return {"model": "m", "input": "go", "text": {"format": form}}
        case "anthropic":
            how = {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
            return {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "go"}], **how}
        case "gemini":
            config = {"responseMimeType": "application/json", "responseJsonSchema": schema}
            return {"contents": [{"role": "user", "parts": [{"text": "go"}]}], "generationConfig": config}
    return {"model": "m", "messages": [{"role": "user", "content": "go"}], "format": schema}


def wanted(schema: dict[str, Any], *, strict: bool | None = None) -> Request:
    context = Context(messages=[Message("go")])
    return Request(context=context, model="m", output=Output("schema", schema, strict=strict))


def taken(here: str, there: str, schema: dict[str, Any], *, streamed: bool = False) -> Exchange:
    path = f"/v1beta/models/m:{'streamGenerateContent' if streamed else 'generateContent'}" if here == "gemini" else ""
    body = asked(here, schema) | ({"stream": streamed} if here != "gemini" else {})
    return translate.exchange(body, source=here, target=there, path=path, model="gpt-4o")


def form_of(there: str, body: dict[str, Any]) -> dict[str, Any]:
    form: dict[str, Any] = body["response_format"]["json_schema"] if there == "openai-chat" else body["text"]["format"]
    return form


def told(text: str) -> Response:
    return Response(
        id="r", model="m", choices=[Choice(message=Message("assistant", [Text(text)]), finish_reason="stop")]
    )


def streamed_text(exchange: Exchange, here: str, there: str, text: str, size: int) -> str:
    """Stream an answer through an exchange in pieces, and give the text that the client reads."""
    writer, out, stream = dialect(there).encode_stream(), b"", exchange.stream()
    pieces = [text[at : at + size] for at in range(0, len(text), size)] if size else [text]
    for event in events_of(told(text)):
        if isinstance(event, TextDelta):
            for piece in pieces:
                out += stream.feed(writer.feed(TextDelta(key=event.key, text=piece)))
        else:
            out += stream.feed(writer.feed(event))
    out += stream.feed(writer.close()) + stream.close()
    reader = dialect(here).decode_stream()
    return accumulate([*reader.feed(out), *reader.close()]).message.text


@pytest.mark.sampled
@pytest.mark.parametrize(("here", "there"), [*WAYS, ("ollama", "openai-chat")])
@pytest.mark.parametrize("kind", VALUES)
def test_what_is_no_object_is_asked_for_within_one_and_comes_back_alone(here: str, there: str, kind: str) -> None:
    schema, value = VALUES[kind]
    exchange = taken(here, there, schema)
    form = form_of(there, exchange.encoded.body)
    check_answer(form, "schema")
    assert list(form["schema"]["properties"]) == ["value"]
    assert [loss.concept for loss in exchange.encoded.losses if "object" in loss.detail] == ["schema_form"]
    answer = dialect(there).encode_response(told(f'{{"value": {value}}}')).body
    assert dialect(here).decode_response(exchange.response(answer).body).message.text == value


@pytest.mark.sampled
@pytest.mark.parametrize(("here", "there"), WAYS)
@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize("kind", VALUES)
def test_a_stream_gives_the_value_as_it_arrives(here: str, there: str, kind: str, size: int) -> None:
    schema, value = VALUES[kind]
    for written in (f'{{"value":{value}}}', f' {{\n  "value" :  {value}\n}}\n '):
        assert streamed_text(taken(here, there, schema, streamed=True), here, there, written, size) == value


@pytest.mark.sampled
@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("text", OTHERWISE)
@pytest.mark.parametrize(("here", "there"), WAYS)
def test_what_is_no_such_object_stays_as_it_is(here: str, there: str, text: str, size: int) -> None:
    schema = VALUES["list"][0]
    answer = dialect(there).encode_response(told(text)).body
    assert dialect(here).decode_response(taken(here, there, schema).response(answer).body).message.text == text
    shown = streamed_text(taken(here, there, schema, streamed=True), here, there, text, size)
    assert shown == (text if text != '{"value": [1' else "[1")  # what the stream has begun to give is the value


def test_more_than_the_value_is_not_left_out() -> None:
    schema = VALUES["list"][0]
    for text, whole in (('{"value": [1], "more": 2}', '[1], "more": 2}'), ('{"value": [1]} and more', "[1]and more")):
        answer = dialect("openai-chat").encode_response(told(text)).body
        exchange = taken("gemini", "openai-chat", schema)
        assert dialect("gemini").decode_response(exchange.response(answer).body).message.text == text
        stream = taken("gemini", "openai-chat", schema, streamed=True)
        assert streamed_text(stream, "gemini", "openai-chat", text, 1) == whole


@pytest.mark.sampled
@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize(("here", "there"), WAYS)
def test_an_object_is_asked_for_as_itself(here: str, there: str, kind: str) -> None:
    exchange = taken(here, there, OBJECTS[kind])
    assert "value" not in form_of(there, exchange.encoded.body)["schema"].get("properties", {})
    text = '{"value": 1}'
    answer = dialect(there).encode_response(told(text)).body
    assert dialect(here).decode_response(exchange.response(answer).body).message.text == text


@pytest.mark.parametrize("there", OF_OBJECTS)
def test_a_body_of_the_same_wire_is_sent_as_it_is(there: str) -> None:
    body = asked(there, VALUES["list"][0])
    assert translate.request(body, there, there).body == body


@pytest.mark.parametrize("strict", [True, None])
@pytest.mark.parametrize("kind", VALUES)
def test_a_strict_form_is_strict_within(kind: str, strict: bool | None) -> None:
    request = wanted(VALUES[kind][0], strict=strict)
    for there in OF_OBJECTS:
        check_answer(form_of(there, dialect(there).encode_request(request).body), "schema")


@pytest.mark.parametrize("there", ["anthropic", "gemini", "ollama"])
def test_other_wires_take_any_value(there: str) -> None:
    schema = {"type": "array", "items": {**RECIPE, "additionalProperties": False}}
    body = dialect(there).encode_request(wanted(schema)).body
    forms = {
        "anthropic": lambda: body["output_config"]["format"]["schema"],
        "gemini": lambda: body["generationConfig"]["responseJsonSchema"],
        "ollama": lambda: body["format"],
    }
    assert forms[there]() == schema


def test_the_second_turn_is_read_like_the_first() -> None:
    cache = PrefixCache(2**20).of("")
    schema, value = VALUES["list"]
    said: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    answer = dialect("openai-chat").encode_response(told(f'{{"value": {value}}}')).body
    for _ in range(6):
        body = json.dumps({**asked("anthropic", schema), "messages": said}).encode()
        exchange = translate.exchange(
            body, source="anthropic", target="openai-chat", model="gpt-4o", translation_cache=cache
        )
        assert list(form_of("openai-chat", json.loads(exchange.encoded.json))["schema"]["properties"]) == ["value"]
        assert dialect("anthropic").decode_response(exchange.response(answer).body).message.text == value
        said += [{"role": "assistant", "content": value}, {"role": "user", "content": "again"}]


@pytest.mark.parametrize("odd", [{"$ref": 5}, {"$ref": "#/nowhere"}, {"anyOf": 3}, {"type": 7}, {"type": None}])
@pytest.mark.parametrize("there", NAMES)
def test_what_is_no_schema_is_refused_by_nobody_here(there: str, odd: dict[str, Any]) -> None:
    request = wanted(odd, strict=True)
    assert dialect(there).encode_request(request).body


def test_the_simulated_vendor_refuses_what_is_no_object() -> None:
    with pytest.raises(Rejection, match="got 'type: \"array\"'"):
        check_answer({"name": "r", "schema": {"type": "array"}}, "response_format")


def test_a_reference_means_what_it_meant() -> None:
    schema = {"type": "array", "items": {"$ref": "#"}, "$defs": {"X": {"$ref": "#/items"}}}
    assert not is_of_object(schema)
    assert wrap(schema) == {
        "type": "object",
        "properties": {"value": {"type": "array", "items": {"$ref": "#/properties/value"}}},
        "required": ["value"],
        "additionalProperties": False,
        "$defs": {"X": {"$ref": "#/properties/value/items"}},
    }


WORDS = {"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING", "enum": ["a", "b"]}}
NOT_GEMINI = [name for name in NAMES if name != "gemini"]


def word_asked(there: str, *, streamed: bool = False) -> Exchange:
    body = {"contents": [{"role": "user", "parts": [{"text": "go"}]}], "generationConfig": WORDS}
    path = f"/v1beta/models/m:{'streamGenerateContent' if streamed else 'generateContent'}"
    return translate.exchange(body, source="gemini", target=there, path=path, model="m")


@pytest.mark.parametrize(("said", "read"), [('"a"', "a"), ("I cannot.", "I cannot."), ('"a', '"a')])
@pytest.mark.parametrize("there", NOT_GEMINI)
def test_a_word_of_gemini_is_asked_for_as_an_enum_and_comes_back_without_quotes(
    there: str, said: str, read: str
) -> None:
    exchange = word_asked(there)
    assert '"enum":["a","b"]' in json.dumps(exchange.encoded.body, separators=(",", ":"))
    assert "opaque" not in {loss.concept for loss in exchange.encoded.losses}
    answers = [said, f'{{"value": {said}}}'] if read == "a" else [said]
    for answer in answers:
        body = dialect(there).encode_response(told(answer)).body
        assert dialect("gemini").decode_response(exchange.response(body).body).message.text == read
        streamed = word_asked(there, streamed=True)
        assert streamed_text(streamed, "gemini", there, answer, 1) == read


def test_a_word_is_written_again_as_it_was_asked_for() -> None:
    gemini = dialect("gemini")
    for config in (WORDS, {"response_mime_type": "text/x.enum", "response_schema": {"type": "STRING", "enum": ["a"]}}):
        body = {"contents": [{"role": "user", "parts": [{"text": "go"}]}], "generationConfig": config}
        assert gemini.encode_request(gemini.decode_request(body)).body == body
    others: list[dict[str, Any]] = [{"type": "STRING"}, {"enum": []}, {"enum": [1]}]
    for schema in others:
        kept = {"responseMimeType": "text/x.enum", "responseSchema": schema}
        assert gemini.decode_request({"contents": [], "generationConfig": kept}).output is None
