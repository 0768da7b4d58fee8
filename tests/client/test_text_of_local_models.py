"""Calls in the text of local servers' models are read by default, and an unread call is never an answer."""

import json
import time
from typing import Any

import pytest

from tests.client.faces import RUN, get_weather, lead
from toolwire import Done, Text, ToolCall, ToolResult
from toolwire.dialects import dialect
from toolwire.streams.accumulation import accumulate
from toolwire.testing import simulate
from toolwire.text import format as format_of
from toolwire.text import over
from toolwire.text.rows import rows
from toolwire.text.usual_forms import UsualForms

CALL = {"name": "get_weather", "arguments": {"city": "Oslo"}}
FORMS = {
    "hermes": f"<tool_call>\n{json.dumps(CALL)}\n</tool_call>",
    "bare": json.dumps(CALL),
    "parameters": '{"name": "get_weather", "parameters": {"city": "Oslo"}}',
    "fenced": f"```json\n{json.dumps(CALL, indent=2)}\n```",
    "[TOOL_CALLS]": f"[TOOL_CALLS][{json.dumps(CALL)}]",
    "python_tag": f"<|python_tag|>{json.dumps(CALL)}",
    "pythonic": '[get_weather(city="Oslo")]',
    "expression": 'get_weather(city="Oslo")',
    "function": "<function=get_weather>\n<parameter=city>\nOslo\n</parameter>\n</function>",
    "after words": f"Let me look.\n<tool_call>\n{json.dumps(CALL)}\n</tool_call>",
    "after thoughts": f"<think>\nI wonder.\n</think>\n\n{json.dumps(CALL)}",
}
SERVERS = {
    "ollama": "qwen3",
    "ollama-v1": "llama3.1:8b",
    "llama.cpp": "any",
    "vllm": "Qwen/Qwen3-8B",
    "lmstudio": "mistral-7b-instruct",
}
CLOUD = ("openai", "openai-responses", "anthropic", "gemini", "groq")


def ask(face: str, provider: str, url: str, model: str, *, shown: bool = False, **settings: Any) -> Done:
    settings.setdefault("tools", [get_weather])
    done: Done = lead(face, provider, url, "How is Oslo?", shown=shown, model=model, **settings).done
    return done


@pytest.mark.sampled
@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("face", ["sync", "async"])
@pytest.mark.parametrize("provider", SERVERS)
@pytest.mark.parametrize("form", FORMS)
def test_a_call_in_the_text_of_a_local_model_runs(form: str, provider: str, face: str, *, shown: bool) -> None:
    RUN.clear()
    with simulate([[FORMS[form]], ["Warm."]]) as model:
        done = ask(face, provider, model.url, SERVERS[provider], shown=shown)
    assert (RUN, done.ending, done.content, done.turns, done.reason) == (["Oslo"], "answer", "Warm.", 2, "")
    assert [body["tools"] != [] for body in (request.body for request in model.requests)] == [True, True]
    results = [part for message in done.messages for part in message.parts if isinstance(part, ToolResult)]
    assert [result.content for result in results] == ["25 degrees in Oslo"]


@pytest.mark.sampled
@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("provider", CLOUD)
@pytest.mark.parametrize("form", FORMS)
def test_an_unread_call_is_no_answer_and_names_the_remedy(form: str, provider: str, *, shown: bool) -> None:
    RUN.clear()
    with simulate([[FORMS[form]]]) as model:
        done = ask("sync", provider, model.url, "any", shown=shown)
    assert (RUN, done.ending) == ([], "unread_call")
    assert done.reason.startswith("the answer looks like a call (")
    assert "format='" in done.reason or form == "expression"


def test_a_local_call_that_is_not_to_be_read_is_no_answer_either() -> None:
    RUN.clear()
    with simulate([[FORMS["hermes"]]]) as model:
        done = ask("sync", "ollama", model.url, "qwen3", options={"fallback": False})
    assert (RUN, done.ending) == ([], "unread_call")


@pytest.mark.sampled
@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        f"You can call it like this:\n\n{FORMS['fenced']}\n\nDo you want me to?",
        f"{FORMS['bare']}\nThis is how a call looks.",
        f"Like so: {FORMS['pythonic']}",
        f"{FORMS['expression']} is how it is called.",
        "get_weather is the tool.",
        "get_weather(city",
        '{"name": "Oslo", "arguments": {"city": "Oslo"}}',
        '{"degrees": 25, "city": "Oslo"}',
        "```python\nprint(get_weather)\n```",
        "[get_time(city='Oslo')]",
        "The list is [1, 2, 3].",
        f"<think>\n{FORMS['hermes']}\n</think>\n\nNo.",
        f"<think>\n{FORMS['bare']}\n</think>\n\nNo.",
    ],
)
def test_an_example_an_object_and_a_thought_run_nothing(text: str, *, shown: bool) -> None:
    RUN.clear()
    with simulate([[text]]) as model:
        done = ask("sync", "llama.cpp", model.url, "qwen3", shown=shown)
    assert RUN == []
    written = "".join(part.text for part in done.message.parts if isinstance(part, Text))
    assert written == text.rpartition("</think>\n\n")[2]


@pytest.mark.parametrize(
    "text",
    [
        '```python\nget_weather(city="Oslo")\n```',
        '<|python_tag|>get_weather.call(city="Oslo")',
        '{"function": "get_weather", "parameters": {"city": "Oslo"}}',
        '{"tool_calls": [{"name": "get_weather", "arguments": {"city": "Oslo"}}]}',
        f"functools[{FORMS['bare']}]",
        '<function_calls><invoke name="get_weather"><parameter name="city">Oslo</parameter></invoke></function_calls>',
    ],
)
@pytest.mark.parametrize("provider", ["openai", "llama.cpp"])
def test_a_call_in_a_form_that_is_not_usual_is_no_answer_either(text: str, provider: str) -> None:
    RUN.clear()
    with simulate([[text]]) as model:
        done = ask("sync", provider, model.url, "any")
    assert (RUN, done.ending) == ([], "unread_call")
    assert done.reason.startswith("the answer looks like a call (")


@pytest.mark.parametrize("form", FORMS)
def test_a_call_that_repeats_the_input_is_a_quotation(form: str) -> None:
    RUN.clear()
    with simulate([[FORMS[form]]]) as model:
        done = lead("sync", "vllm", model.url, f"Repeat:\n{FORMS[form]}", model="qwen3", tools=[get_weather]).done
    assert (RUN, done.ending) == ([], "answer")


@pytest.mark.parametrize("shown", [False, True])
def test_beside_a_native_call_the_text_stays_text(*, shown: bool) -> None:
    RUN.clear()
    native = ToolCall(None, "get_weather", {"city": "Bergen"})
    with simulate([[Text(FORMS["after words"]), native], ["Warm."]]) as model:
        done = ask("sync", "vllm", model.url, "qwen3", shown=shown)
    assert RUN == ["Bergen"]
    assert "".join(done.messages[0].text.split()) == "".join(FORMS["after words"].split())


@pytest.mark.parametrize("form", FORMS)
def test_the_events_do_not_depend_on_how_the_text_was_cut(form: str) -> None:
    wire = over("openai-chat", [get_weather_tool()], format=UsualForms("qwen3"), native=True)
    whole = accumulate(events(wire, [FORMS[form]]))
    assert [call.arguments for call in whole.tool_calls] == [{"city": "Oslo"}]
    for size in (1, 2, 7):
        pieces = [FORMS[form][start : start + size] for start in range(0, len(FORMS[form]), size)]
        assert accumulate(events(wire, pieces)).message == whole.message


def test_a_plain_answer_is_shown_as_it_arrives() -> None:
    wire = over("openai-chat", [get_weather_tool()], format=UsualForms("qwen3"), native=True)
    decoder = wire.decode_stream()
    for piece in ("It is ", "warm in", " Oslo."):
        assert "".join(getattr(event, "text", "") for event in decoder.feed(chunk(piece))) == piece


def get_weather_tool() -> Any:
    city = {"type": "object", "properties": {"city": {"type": "string"}}}
    return {"name": "get_weather", "description": "Weather.", "parameters": city}


def chunk(text: str) -> bytes:
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': text}}]})}\n\n".encode()


def events(wire: Any, pieces: list[str]) -> list[Any]:
    decoder = wire.decode_stream()
    found = [event for piece in pieces for event in decoder.feed(chunk(piece))]
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return [*found, *decoder.feed(f"data: {json.dumps(last)}\n\ndata: [DONE]\n\n".encode()), *decoder.close()]


def test_a_server_of_the_cloud_reads_its_own_calls_alone() -> None:
    wire = over("openai-chat", [get_weather_tool()], native=True)
    assert accumulate(events(wire, [FORMS["hermes"]])).tool_calls == []
    assert dialect("openai-chat").DIALECT == wire.DIALECT


NAMED = {row.models[0]: name for name, row in rows().items() if row.models}


@pytest.mark.parametrize("model", NAMED)
def test_a_model_is_read_in_the_format_that_its_name_implies(model: str) -> None:
    wire = over("openai-chat", [get_weather_tool()], format=UsualForms(model), native=True)
    written = format_of(NAMED[model]).encode_calls(
        [CALL, {**CALL, "arguments": {"city": "Bergen"}}], [get_weather_tool()]
    )
    message = {"role": "assistant", "content": written.text}
    response = wire.decode_response({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    assert [call.arguments for call in response.tool_calls if call.runs] == [{"city": "Oslo"}, {"city": "Bergen"}]
    assert (response.content or "").strip() == ""


def test_a_long_call_in_small_pieces_takes_time_in_proportion() -> None:
    text = json.dumps({"name": "get_weather", "arguments": {"city": "x" * 100_000}})
    wire = over("openai-chat", [get_weather_tool()], format=UsualForms("any"), native=True)
    began = time.process_time()
    response = accumulate(events(wire, [text[start : start + 8] for start in range(0, len(text), 8)]))
    assert len(response.tool_calls[0].arguments["city"]) == 100_000
    assert time.process_time() - began < 20
