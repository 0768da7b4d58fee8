"""Settings from elsewhere in the words of Messages, in both of its versions; and what a version refuses."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.dialects.asking import Said, asking, losses
from toolwire import (
    Citation,
    Context,
    Image,
    Message,
    Opaque,
    Output,
    Quirks,
    Request,
    Text,
    ToolCall,
    dialect,
    translate,
)
from toolwire.dialects import anthropic
from toolwire.errors import LossyTranslation

OLDER, NEWEST = "2023-06-01", "2026-10-21"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CLOSED = {**SCHEMA, "additionalProperties": False}

SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any], list[Said]]] = {
    "nothing": ({}, {}, []),
    "streaming": ({"stream": True}, {"stream": True}, []),
    "stops": ({"stop": ["a", "b", "c", "d", "e"]}, {"stop_sequences": ["a", "b", "c", "d", "e"]}, []),
    "sampling": (
        {"temperature": 0.2, "top_p": 0.5, "top_k": 4},
        {},
        [(field, "dropped", "semantic") for field in ("temperature", "top_p", "top_k")],
    ),
    "sampling at its default": ({"temperature": 1}, {}, [("temperature", "dropped", "formal")]),
    "what it has no word for": (
        {"seed": 1, "n": 2, "frequency_penalty": 0.1, "logprobs": True, "verbosity": "low", "cache_key": "k"},
        {},
        [
            *((field, "dropped", "semantic") for field in ("seed", "n", "frequency_penalty", "logprobs", "verbosity")),
            ("cache_key", "dropped", "formal"),
        ],
    ),
    "a user": ({"user": "u"}, {"metadata": {"user_id": "u"}}, []),
    "an identifier": ({"safety_identifier": "s"}, {"metadata": {"user_id": "s"}}, []),
    "both": (
        {"user": "u", "safety_identifier": "s"},
        {"metadata": {"user_id": "u"}},
        [("safety_identifier", "dropped", "formal")],
    ),
    "a tier": ({"service_tier": "auto"}, {"service_tier": "auto"}, []),
    "the usual tier": ({"service_tier": "default"}, {"service_tier": "standard_only"}, []),
    "a tier of another": ({"service_tier": "flex"}, {}, [("service_tier", "dropped", "minor")]),
    "effort": ({"effort": "xhigh"}, {"output_config": {"effort": "xhigh"}}, []),
    "the least effort": (
        {"effort": "minimal"},
        {"output_config": {"effort": "low"}},
        [("effort", "approximated", "minor")],
    ),
    "no effort": ({"effort": "none"}, {"thinking": {"type": "disabled"}}, []),
    "no effort but a display": (
        {"effort": "none", "thinking_display": "detailed"},
        {"thinking": {"type": "disabled"}},
        [("thinking_display", "dropped", "minor")],
    ),
    "no effort but thinking": (
        {"effort": "none", "thinking": "adaptive"},
        {"thinking": {"type": "adaptive"}},
        [("effort", "dropped", "semantic")],
    ),
    "thinking": ({"thinking": "adaptive"}, {"thinking": {"type": "adaptive"}}, []),
    "no thinking": ({"thinking": "disabled"}, {"thinking": {"type": "disabled"}}, []),
    "thinking between tools": ({"thinking": "between_tools"}, {"thinking": {"type": "between_tools"}}, []),
    "thinking without a budget": ({"thinking": "enabled"}, {"thinking": {"type": "adaptive"}}, []),
    "thinking with a budget": (
        {"thinking": "enabled", "thinking_budget": 4096, "thinking_display": "omitted"},
        {"thinking": {"type": "enabled", "budget_tokens": 4096, "display": "omitted"}},
        [],
    ),
    "a budget": ({"thinking_budget": 2048}, {"thinking": {"type": "enabled", "budget_tokens": 2048}}, []),
    "a small budget": (
        {"thinking_budget": 100},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        [("thinking_budget", "approximated", "minor")],
    ),
    "no budget": ({"thinking_budget": 0}, {"thinking": {"type": "disabled"}}, []),
    "any budget": ({"thinking_budget": -1}, {"thinking": {"type": "adaptive"}}, []),
    "a budget that nothing uses": (
        {"thinking": "adaptive", "thinking_budget": 2048},
        {"thinking": {"type": "adaptive"}},
        [("thinking_budget", "dropped", "semantic")],
    ),
    "a display": (
        {"thinking_display": "detailed"},
        {"thinking": {"type": "adaptive", "display": "summarized"}},
        [],
    ),
    "a display of another": (
        {"thinking": "adaptive", "thinking_display": "neon"},
        {"thinking": {"type": "adaptive"}},
        [("thinking_display", "dropped", "minor")],
    ),
    "a schema": (
        {"output": Output("schema", SCHEMA, "answer", strict=True)},
        {"output_config": {"format": {"type": "json_schema", "schema": CLOSED}}},
        [
            ("output.schema", "approximated", "formal"),
            ("output.name", "dropped", "minor"),
            ("output.strict", "dropped", "minor"),
        ],
    ),
    "a schema and effort": (
        {"output": Output("schema", CLOSED), "effort": "low"},
        {"output_config": {"effort": "low", "format": {"type": "json_schema", "schema": CLOSED}}},
        [],
    ),
    "json": ({"output": Output("json")}, {"system": "Answer in JSON."}, [("output", "approximated", "semantic")]),
    "text": ({"output": Output("text")}, {}, [("output", "dropped", "formal")]),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_a_setting(case: str) -> None:
    fields, said, lost = SETTINGS[case]
    encoded = anthropic.encode_request(asking([Message("Hi")], max_tokens=9999, **fields))
    assert encoded.body == {
        "model": "m",
        "max_tokens": 9999,
        "messages": [{"role": "user", "content": "Hi"}],
        **said,
    }
    assert losses(encoded) == lost


LIMITS: list[tuple[dict[str, Any], int, list[Said]]] = [
    ({}, 8192, [("max_tokens", "defaulted", "formal")]),
    ({"max_tokens": 5}, 5, []),
    ({"max_tokens": 0}, 0, []),
    ({"max_tokens": 1024, "thinking_budget": 2048}, 3072, [("max_tokens", "approximated", "minor")]),
    ({"max_tokens": 0, "thinking_budget": 2048}, 2049, [("max_tokens", "approximated", "minor")]),
    ({"max_tokens": 4096, "thinking_budget": 2048}, 4096, []),
]


@pytest.mark.parametrize(("fields", "limit", "lost"), LIMITS)
def test_the_limit_that_is_required(fields: dict[str, Any], limit: int, lost: list[Said]) -> None:
    encoded = anthropic.encode_request(asking([], **fields))
    assert (encoded.body["max_tokens"], losses(encoded)) == (limit, lost)


def test_a_limit_of_ones_own() -> None:
    encoded = anthropic.encode_request(asking([]), Quirks(default_max_tokens=77))
    assert encoded.body["max_tokens"] == 77


def test_no_effort_in_a_model_that_always_thinks() -> None:
    request = replace(asking([], max_tokens=5, effort="none"), model="claude-opus-5-5")
    encoded = anthropic.encode_request(request)
    assert encoded.body["output_config"] == {"effort": "low"}
    assert "thinking" not in encoded.body
    assert losses(encoded) == [("effort", "approximated", "semantic")]


SAMPLING = {"temperature": 0.2, "top_p": 0.5, "top_k": 4}
VERSIONS: list[tuple[str | None, bool, bool]] = [
    (None, False, False),
    (NEWEST, False, False),
    (OLDER, False, True),
    (None, True, True),
    (NEWEST, True, False),
    (OLDER, True, True),
]


@pytest.mark.parametrize(("version", "own", "kept"), VERSIONS)
def test_sampling_in_each_version(version: str | None, own: bool, kept: bool) -> None:
    body = {"model": "m", "max_tokens": 5, "messages": [], **SAMPLING}
    request = anthropic.decode_request(body)
    if not own:
        request = replace(request, opaque=None)
    encoded = anthropic.encode_request(request, Quirks(api_version=version))
    assert {key: encoded.body[key] for key in SAMPLING if key in encoded.body} == (SAMPLING if kept else {})
    assert losses(encoded) == ([] if kept else [(field, "dropped", "semantic") for field in SAMPLING])


def test_a_version_for_a_whole_translation() -> None:
    body = {"model": "m", "max_tokens": 5, "messages": [], "temperature": 0.2}
    older = dialect("anthropic", api_version=OLDER)
    assert translate.request(body, "openai", older).body["temperature"] == 0.2
    with pytest.raises(LossyTranslation, match="temperature: anthropic 2026-10-21 rejects it"):
        translate.request(body, "openai", "anthropic", strict=True)
    with pytest.raises(LossyTranslation, match="temperature"):
        translate.request(body, "anthropic", dialect("anthropic", api_version=NEWEST), strict=True)


CITED = {"type": "text", "text": "a", "citations": [{"type": "char_location", "cited_text": "q"}]}
DOCUMENT = {"type": "document", "source": {"type": "url", "url": "u"}}
TURNS = [
    {"role": "user", "content": [CITED, DOCUMENT]},
    {"role": "assistant", "content": [CITED, DOCUMENT]},
    {"role": "assistant", "content": [DOCUMENT]},
]


@pytest.mark.parametrize("version", [None, OLDER])
def test_turns_that_the_older_version_takes(version: str | None) -> None:
    request = anthropic.decode_request({"messages": TURNS})
    encoded = anthropic.encode_request(request, Quirks(api_version=version))
    assert (encoded.body["messages"], encoded.losses) == (TURNS, ())


def test_turns_that_the_newest_version_takes() -> None:
    request = anthropic.decode_request({"messages": TURNS})
    encoded = anthropic.encode_request(request, Quirks(api_version=NEWEST))
    assert encoded.body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, DOCUMENT]},
        {"role": "assistant", "content": [CITED]},
        {"role": "assistant", "content": [{"type": "text", "text": "(empty)"}]},
    ]
    assert losses(encoded) == [
        ("messages[0].content[0].citations", "dropped", "semantic"),
        ("messages[1].content[1]", "dropped", "semantic"),
        ("messages[2].content[0]", "dropped", "semantic"),
    ]


def test_citations_of_a_user_from_elsewhere_in_each_version() -> None:
    noted = Opaque("anthropic", {"type": "char_location"})
    request = asking([Message("user", [Text("a", [Citation(quote="q", opaque=noted)])])], max_tokens=5)
    older = anthropic.encode_request(request, Quirks(api_version=OLDER))
    assert (older.body["messages"], older.losses) == ([{"role": "user", "content": [CITED]}], ())
    newest = anthropic.encode_request(request)
    assert newest.body["messages"] == [{"role": "user", "content": "a"}]
    assert losses(newest) == [("messages[0].content[0].citations", "dropped", "semantic")]


REMINDER = "<system-reminder>\nLate.\n</system-reminder>"
CALL = [
    Message("Hi"),
    Message("assistant", [ToolCall("c", "look")]),
    Message("tool", "ok", tool_call_id="c"),
]
RESULT = {"type": "tool_result", "tool_use_id": "c", "content": "ok"}
LATE: dict[str, tuple[list[Message], list[Any], list[Any]]] = {
    "at the end": (
        [Message("Hi"), Message("system", "Late.")],
        [
            {"role": "user", "content": "Hi"},
            {"role": "user", "content": [{"type": "text", "text": REMINDER}]},
        ],
        [{"role": "user", "content": "Hi"}, {"role": "system", "content": "Late."}],
    ),
    "before an answer": (
        [Message("Hi"), Message("developer", "Late."), Message("assistant", "Yes.")],
        [
            {"role": "user", "content": "Hi"},
            {"role": "user", "content": [{"type": "text", "text": REMINDER}]},
            {"role": "assistant", "content": "Yes."},
        ],
        [
            {"role": "user", "content": "Hi"},
            {"role": "system", "content": "Late."},
            {"role": "assistant", "content": "Yes."},
        ],
    ),
    "after a result": (
        [*CALL, Message("system", "Late.")],
        [{"role": "user", "content": [RESULT, {"type": "text", "text": REMINDER}]}],
        [{"role": "user", "content": [RESULT]}, {"role": "system", "content": "Late."}],
    ),
    "before words": (
        [*CALL, Message("system", "Late."), Message("Go on.")],
        [
            {
                "role": "user",
                "content": [RESULT, {"type": "text", "text": REMINDER}, {"type": "text", "text": "Go on."}],
            }
        ],
        [
            {
                "role": "user",
                "content": [RESULT, {"type": "text", "text": REMINDER}, {"type": "text", "text": "Go on."}],
            }
        ],
    ),
    "after an answer": (
        [
            Message("Hi"),
            Message("assistant", "Yes."),
            Message("system", "Late."),
            Message("assistant", "No."),
        ],
        [
            {"role": "assistant", "content": "Yes."},
            {"role": "user", "content": [{"type": "text", "text": REMINDER}]},
            {"role": "assistant", "content": "No."},
        ],
        [
            {"role": "assistant", "content": "Yes."},
            {"role": "user", "content": [{"type": "text", "text": REMINDER}]},
            {"role": "assistant", "content": "No."},
        ],
    ),
    "without words": (
        [Message("Hi"), Message("system", "")],
        [{"role": "user", "content": "Hi"}],
        [{"role": "user", "content": "Hi"}],
    ),
}


@pytest.mark.parametrize(("messages", "reminded", "said"), LATE.values(), ids=LATE)
def test_a_system_message_after_the_beginning(messages: list[Message], reminded: Any, said: Any) -> None:
    request = asking(messages, system="First.", max_tokens=5)
    for quirks, turns in ((Quirks(), reminded), (Quirks(mid_system=True), said)):
        encoded = anthropic.encode_request(request, quirks)
        assert encoded.body["system"] == "First."
        assert encoded.body["messages"][-len(turns) :] == turns
        native = any(turn["role"] == "system" for turn in turns)
        assert [loss[1:] for loss in losses(encoded)] == ([] if native else [("approximated", "semantic")])


def test_state_and_other_wires_stay_behind() -> None:
    context = Context(provider_state={"previous_response_id": "r"})
    request = Request(context=context, max_tokens=5, opaque=Opaque("openai-chat", {"modalities": ["text"]}))
    assert losses(anthropic.encode_request(request)) == [
        ("provider_state.previous_response_id", "dropped", "semantic"),
        ("opaque.modalities", "dropped", "semantic"),
    ]


def test_a_picture_late_in_the_system_is_lost_by_name() -> None:
    request = asking([Message("Hi"), Message("system", [Text("Late."), Image("u")])], max_tokens=5)
    assert losses(anthropic.encode_request(request)) == [
        ("messages[1].content[1]", "dropped", "semantic"),
        ("messages[1].role", "approximated", "semantic"),
    ]
