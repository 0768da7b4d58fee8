"""Settings from elsewhere in the words of Chat Completions."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.dialects.asking import Said, asking, losses
from toolwire import Context, Message, Opaque, Output, Quirks, Request, Tool, ToolChoice
from toolwire.dialects import openai_chat

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CLOSED = {**SCHEMA, "additionalProperties": False}

SETTINGS: dict[str, tuple[dict[str, Any], dict[str, Any], list[Said]]] = {
    "nothing": ({}, {}, []),
    "streaming": ({"stream": False}, {"stream": False}, []),
    "sampling": (
        {
            "temperature": 0,
            "top_p": 0.5,
            "frequency_penalty": 0.1,
            "presence_penalty": -0.1,
            "seed": 7,
            "n": 2,
            "logit_bias": {"1": 1},
            "logprobs": True,
            "top_logprobs": 2,
        },
        {
            "temperature": 0,
            "top_p": 0.5,
            "frequency_penalty": 0.1,
            "presence_penalty": -0.1,
            "seed": 7,
            "n": 2,
            "logit_bias": {"1": 1},
            "logprobs": True,
            "top_logprobs": 2,
        },
        [],
    ),
    "a limit": ({"max_tokens": 5}, {"max_completion_tokens": 5}, []),
    "stops": ({"stop": ["a", "b"]}, {"stop": ["a", "b"]}, []),
    "more stops than it takes": (
        {"stop": ["a", "b", "c", "d", "e"]},
        {"stop": ["a", "b", "c", "d"]},
        [("stop", "approximated", "semantic")],
    ),
    "effort": ({"effort": "xhigh"}, {"reasoning_effort": "xhigh"}, []),
    "what it has no word for": (
        {"top_k": 4, "thinking": "enabled", "thinking_budget": 2048, "thinking_display": "omitted"},
        {},
        [
            ("top_k", "dropped", "semantic"),
            ("thinking", "dropped", "semantic"),
            ("thinking_budget", "dropped", "semantic"),
            ("thinking_display", "dropped", "minor"),
        ],
    ),
    "who and what for": (
        {
            "user": "u",
            "safety_identifier": "s",
            "metadata": {"a": "b"},
            "store": True,
            "cache_key": "k",
            "verbosity": "low",
        },
        {
            "user": "u",
            "safety_identifier": "s",
            "metadata": {"a": "b"},
            "store": True,
            "prompt_cache_key": "k",
            "verbosity": "low",
        },
        [],
    ),
    "a tier": ({"service_tier": "priority"}, {"service_tier": "priority"}, []),
    "a tier of another": ({"service_tier": "standard_only"}, {}, [("service_tier", "dropped", "minor")]),
    "text": ({"output": Output("text")}, {"response_format": {"type": "text"}}, []),
    "a schema": (
        {"output": Output("schema", SCHEMA)},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "response", "schema": SCHEMA}}},
        [],
    ),
    "a schema with more": (
        {"output": Output("schema", SCHEMA, "answer", "An answer.", strict=False)},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {
                    "name": "answer",
                    "schema": SCHEMA,
                    "strict": False,
                    "description": "An answer.",
                },
            }
        },
        [],
    ),
    "a strict schema": (
        {"output": Output("schema", SCHEMA, "my answer", strict=True)},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "my_answer__tw2-20", "schema": CLOSED, "strict": True},
            }
        },
        [("output.schema", "approximated", "formal"), ("output.name", "renamed", "minor")],
    ),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_a_setting(case: str) -> None:
    fields, said, lost = SETTINGS[case]
    encoded = openai_chat.encode_request(asking([Message("Hi")], **fields))
    assert encoded.body == {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **said}
    assert losses(encoded) == lost


def test_json_is_asked_for_in_words() -> None:
    def written(*messages: Any) -> tuple[list[Any], list[Said]]:
        encoded = openai_chat.encode_request(asking([*messages], output=Output("json")))
        assert encoded.body["response_format"] == {"type": "json_object"}
        return encoded.body["messages"], losses(encoded)

    asked = {"role": "system", "content": "Answer in JSON."}
    hi, last = {"role": "user", "content": "Hi"}, {"role": "user", "content": "As json."}
    said = [("output", "approximated", "minor")]
    assert written(Message("Hi")) == ([asked, hi], said)
    assert written(Message("Hi"), Message("As json.")) == ([asked, hi, last], said), "it stays as it was"
    assert written(Message("As json.")) == ([last], [])


OUTPUTS: list[tuple[Any, Output | None]] = [
    ({"type": "text"}, Output("text")),
    ({"type": "json_object"}, Output("json")),
    (
        {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True, "x": 1}},
        Output("schema", SCHEMA, "a", strict=True),
    ),
    ({"type": "json_schema", "json_schema": {"name": ""}}, Output("schema", None, "")),
    ({"type": "json_schema", "json_schema": {"name": "a", "schema": None}}, Output("schema", None, "a")),
    ({"type": "json_schema", "json_schema": {"schema": SCHEMA}}, None),
    ({"type": "json_schema"}, None),
    ({"type": "json_object", "x": 1}, None),
    ({"type": "grammar", "grammar": "g"}, None),
    ("json", None),
]


@pytest.mark.parametrize(("value", "output"), OUTPUTS)
def test_what_a_form_of_the_answer_means(value: Any, output: Output | None) -> None:
    request = openai_chat.decode_request({"messages": [], "response_format": value})
    assert request.output == output
    assert openai_chat.encode_request(request).body == {"messages": [], "response_format": value}


def test_a_schema_that_was_read_and_changed() -> None:
    body = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "x": 1}}
    request = openai_chat.decode_request({"messages": [], "response_format": body})
    other = replace(request, output=Output("schema", CLOSED, "a"))
    assert openai_chat.encode_request(other).body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "a", "schema": CLOSED, "x": 1},
    }
    free = replace(request, output=Output("json"))
    assert openai_chat.encode_request(free).body["response_format"]["type"] == "json_object"


@pytest.mark.parametrize(
    ("quirk", "key"), [(None, "max_completion_tokens"), ("max_tokens", "max_tokens"), ("limit", "limit")]
)
def test_the_limit_under_the_key_of_a_server(quirk: str | None, key: str) -> None:
    encoded = openai_chat.encode_request(asking([], max_tokens=5), Quirks(max_tokens_key=quirk))
    assert encoded.body == {"model": "m", key: 5, "messages": []}


def test_state_and_other_wires_stay_behind() -> None:
    context = Context(provider_state={"previous_response_id": "r"})
    encoded = openai_chat.encode_request(
        Request(context=context, opaque=Opaque("anthropic", {"container": "c", "x": None, "y": ""}))
    )
    assert losses(encoded) == [
        ("provider_state.previous_response_id", "dropped", "semantic"),
        ("opaque.container", "dropped", "semantic"),
    ]


def test_everything_together() -> None:
    tool = Tool("look", "Look.", SCHEMA)
    encoded = openai_chat.encode_request(
        asking(["Hi"], system="Be brief.", tools=[tool], tool_choice=ToolChoice("required"), temperature=0.5)
    )
    assert encoded.path == "/v1/chat/completions"
    assert encoded.losses == ()
    assert encoded.body == {
        "model": "m",
        "temperature": 0.5,
        "tool_choice": "required",
        "tools": [tool.to_openai_format()],
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    }
