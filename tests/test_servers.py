"""What servers and client programs really send and take, where types say nothing of it: one table for all dialects."""

import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any

import pytest
from msgspec.structs import replace

from tests.stream_examples import events, lines, named
from toolwire import Document, Image, Message, Request, Response, Text, Tool, ToolCall, accumulate, dialect, translate
from toolwire.dialects import NAMES
from toolwire.errors import LossyTranslation
from toolwire.providers import PROVIDERS, provider_of
from toolwire.types import Context, Part, Usage

Body = dict[str, Any]
SHELLS: dict[str, Body] = {
    "openai-chat": {"id": "c", "object": "chat.completion", "created": 1, "model": "m"},
    "openai-responses": {"id": "r", "object": "response", "created_at": 1, "model": "m"},
    "anthropic": {"id": "m", "type": "message", "role": "assistant", "model": "m"},
    "gemini": {"responseId": "g", "modelVersion": "m"},
    "ollama": {"model": "m", "created_at": "2026-11-20T10:00:00Z"},
}
USAGE = {"input_tokens": 11, "output_tokens": 3}


def decoded(name: str, stream: bytes) -> Response:
    """Read a stream to its end."""
    decoder = dialect(name).decode_stream()
    return accumulate(decoder.feed(stream) + decoder.close())


def translated(stream: bytes, source: str, target: str) -> bytes:
    """Translate a stream."""
    on_the_way = translate.stream(source, target)
    return on_the_way.feed(stream) + on_the_way.close()


def frames(stream: bytes) -> list[Any]:
    """Read the frames of a stream."""
    said = [line.removeprefix(b"data: ") for line in stream.splitlines() if line.startswith((b"data: ", b"{"))]
    return [json.loads(frame) for frame in said if frame != b"[DONE]"]


# Texts in a list, where a server takes one string.

SYSTEM, ASKED, FOUND = ["Be brief.", "Be kind."], ["<note>n</note>", "Where?"], ["Two files.", "agent: 7"]


def typed(kind: str, texts: list[str], **beside: Any) -> list[Body]:
    """Write texts as parts of a type."""
    return [{"type": kind, "text": text, **beside} for text in texts]


CALL_OF = {"id": "toolu_01", "name": "Task"}
SEVERAL_TEXTS: dict[str, Body] = {
    "openai-chat": {
        "model": "m",
        "messages": [
            {"role": "system", "content": typed("text", SYSTEM)},
            {"role": "user", "content": typed("text", ASKED)},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "toolu_01", "type": "function", "function": {"name": "Task", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "toolu_01", "content": typed("text", FOUND)},
        ],
    },
    "openai-responses": {
        "model": "m",
        "input": [
            {"role": "system", "content": typed("input_text", SYSTEM)},
            {"role": "user", "content": typed("input_text", ASKED)},
            {"type": "function_call", "call_id": "toolu_01", "name": "Task", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "toolu_01", "output": typed("input_text", FOUND)},
        ],
    },
    "anthropic": {
        "model": "m",
        "max_tokens": 9,
        "system": typed("text", SYSTEM, cache_control={"type": "ephemeral"}),
        "messages": [
            {"role": "user", "content": typed("text", ASKED)},
            {"role": "assistant", "content": [{"type": "tool_use", **CALL_OF, "input": {}}]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "toolu_01", "content": typed("text", FOUND)}],
            },
        ],
    },
    "gemini": {
        "systemInstruction": {"parts": [{"text": text} for text in SYSTEM]},
        "contents": [
            {"role": "user", "parts": [{"text": text} for text in ASKED]},
            {"role": "model", "parts": [{"functionCall": {**CALL_OF, "args": {}}}]},
            {
                "role": "user",
                "parts": [{"functionResponse": {**CALL_OF, "response": {"output": "\n".join(FOUND)}}}],
            },
        ],
    },
}
TAKE_STRINGS = "groq mistral deepseek together fireworks vllm llama.cpp lmstudio ollama-v1".split()


@pytest.mark.sampled
@pytest.mark.parametrize("source", SEVERAL_TEXTS)
@pytest.mark.parametrize("preset", TAKE_STRINGS)
def test_texts_are_joined_for_a_server_that_takes_a_string(source: str, preset: str) -> None:
    request = dialect(source).decode_request(SEVERAL_TEXTS[source])
    encoded = provider_of(preset)[0].speaks().encode_request(request)
    said = {message["role"]: message["content"] for message in encoded.body["messages"]}
    assert said == {
        "system": "\n".join(SYSTEM),
        "user": "\n".join(ASKED),
        "assistant": None,
        "tool": "\n".join(FOUND),
    }
    merged = [(loss.concept, loss.severity) for loss in encoded.losses if loss.action == "merged"]
    assert set(merged) == {("parts", "minor")}


@pytest.mark.parametrize("preset", sorted({*PROVIDERS} - {*TAKE_STRINGS}))
def test_other_servers_are_sent_the_list(preset: str) -> None:
    provider = PROVIDERS[preset]
    if provider.dialect == "openai-chat":
        request = dialect("anthropic").decode_request(SEVERAL_TEXTS["anthropic"])
        said = provider.speaks().encode_request(request).body["messages"]
        assert [type(message["content"]) for message in said] == [list, list, type(None), list]


def test_a_picture_keeps_its_message_a_list_and_what_an_own_text_has_beside_it_is_lost() -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://e.example/a.png"}}
    marked = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": content} for content in ([marked, picture], [marked])],
    }
    encoded = dialect("openai-chat", joined_texts=True).encode_request(dialect("openai-chat").decode_request(body))
    assert [message["content"] for message in encoded.body["messages"]] == [[marked, picture], "a"]
    assert [(loss.path, loss.severity) for loss in encoded.losses] == [
        ("messages[1].content[0].cache_control", "semantic")
    ]


# Ids in the grammar of a server.

NINE = "[a-zA-Z0-9]{9}"


@pytest.mark.parametrize("source", SEVERAL_TEXTS)
@pytest.mark.parametrize("preset", ["mistral", "a server of one's own"])
def test_a_foreign_id_is_written_as_the_server_takes_it(source: str, preset: str) -> None:
    mine = {"name": "mine", "dialect": "openai-chat", "base_url": "http://x", "quirks": {"id_grammar": NINE}}
    server = provider_of(preset if preset == "mistral" else mine)[0].speaks()
    call, result = server.encode_request(dialect(source).decode_request(SEVERAL_TEXTS[source])).body["messages"][-2:]
    [made] = [entry["id"] for entry in call["tool_calls"]]
    assert len(made) == 9
    assert made.isalnum()
    assert made.isascii()
    assert result["tool_call_id"] == made


@pytest.mark.parametrize("name", NAMES)
def test_ids_of_a_grammar_stay_apart_and_a_legal_one_stays(name: str) -> None:
    calls: list[Part] = [ToolCall(call_id, "Task") for call_id in ("abcdefghi", "toolu_01", "toolu_02", None)]
    request = Request(context=Context(None, [Message("Go."), Message("assistant", calls)]), model="m")
    read = dialect(name).decode_request(dialect(name, id_grammar=NINE).encode_request(request).body)
    written = [part.id for message in read.messages for part in message.parts if type(part) is ToolCall]
    assert len({*written}) == 4
    assert written[0] == "abcdefghi"
    assert all(len(call_id or "") == 9 for call_id in written[:3])


# No arguments.

_GIVEN: list[Body] = [{}, {"args": {}}, {"args": None}]
NO_ARGUMENTS: dict[str, list[tuple[Body, bytes]]] = {
    "openai-chat": [
        (
            {
                **SHELLS["openai-chat"],
                "choices": [
                    {
                        "index": 0,
                        "message": {
                            "role": "assistant",
                            "content": None,
                            "tool_calls": [
                                {"id": "a", "type": "function", "function": {"name": "now", "arguments": written}},
                            ],
                        },
                        "finish_reason": "tool_calls",
                    }
                ],
            },
            events(
                *(
                    {
                        **SHELLS["openai-chat"],
                        "object": "chat.completion.chunk",
                        "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
                    }
                    for delta, reason in (
                        (
                            {
                                "role": "assistant",
                                "tool_calls": [
                                    {
                                        "index": 0,
                                        "id": "a",
                                        "type": "function",
                                        "function": {"name": "now", "arguments": ""},
                                    }
                                ],
                            },
                            None,
                        ),
                        ({"tool_calls": [{"index": 0, "function": {"arguments": written}}]}, None),
                        ({}, "tool_calls"),
                    )
                ),
                done=True,
            ),
        )
        for written in ("", "{}")
    ],
    "anthropic": [
        (
            {
                **SHELLS["anthropic"],
                "content": [{"type": "tool_use", "id": "a", "name": "now", "input": {}}],
                "stop_reason": "tool_use",
                "stop_sequence": None,
                "usage": USAGE,
            },
            named(
                {"type": "message_start", "message": {**SHELLS["anthropic"], "content": [], "usage": USAGE}},
                {
                    "type": "content_block_start",
                    "index": 0,
                    "content_block": {"type": "tool_use", "id": "a", "name": "now", "input": {}},
                },
                *(
                    {
                        "type": "content_block_delta",
                        "index": 0,
                        "delta": {"type": "input_json_delta", "partial_json": piece},
                    }
                    for piece in pieces
                ),
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": USAGE},
                {"type": "message_stop"},
            ),
        )
        for pieces in ([], [""], ["{}"])
    ],
    "gemini": [
        (body, events(body))
        for body in (
            {
                **SHELLS["gemini"],
                "candidates": [
                    {
                        "index": 0,
                        "content": {"role": "model", "parts": [{"functionCall": {"name": "now", **given}}]},
                        "finishReason": "STOP",
                    }
                ],
            }
            for given in _GIVEN
        )
    ],
    "ollama": [
        (body, lines(body))
        for body in (
            {
                **SHELLS["ollama"],
                "message": {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"function": {"name": "now", "arguments": {}}}],
                },
                "done": True,
                "done_reason": "stop",
            },
        )
    ],
    "openai-responses": [
        (
            {**SHELLS["openai-responses"], "status": "completed", "output": [item]},
            named(
                {
                    "type": "response.created",
                    "response": {**SHELLS["openai-responses"], "status": "in_progress", "output": []},
                },
                {
                    "type": "response.output_item.added",
                    "output_index": 0,
                    "item": {**item, "arguments": "", "status": "in_progress"},
                },
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {
                    "type": "response.completed",
                    "response": {**SHELLS["openai-responses"], "status": "completed", "output": [item]},
                },
            ),
        )
        for item in (
            {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "a",
                "name": "now",
                "arguments": written,
                "status": "completed",
            }
            for written in ("", "{}")
        )
    ],
}


def arguments_in(name: str, body: Body) -> Any:
    """Give the arguments of the one call of an answer, as the wire has them."""
    match name:
        case "openai-chat":
            return body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]
        case "openai-responses":
            return body["output"][0]["arguments"]
        case "anthropic":
            return body["content"][0]["input"]
        case "gemini":
            return body["candidates"][0]["content"]["parts"][0]["functionCall"]["args"]
    return body["message"]["tool_calls"][0]["function"]["arguments"]


def told_arguments(name: str, stream: bytes) -> Any:
    """Give the arguments of the one call of a stream, as a client that adds up the pieces has them."""
    found = frames(stream)
    match name:
        case "openai-chat":
            deltas = [choice["delta"] for frame in found for choice in frame["choices"]]
            return "".join(call["function"]["arguments"] for delta in deltas for call in delta.get("tool_calls", ()))
        case "openai-responses":
            return next(frame["arguments"] for frame in found if frame["type"].endswith("arguments.done"))
        case "anthropic":
            pieces = [frame["delta"].get("partial_json", "") for frame in found if "delta" in frame]
            return json.loads("".join(pieces) or "{}")
        case "gemini":
            parts = [part for frame in found for part in frame["candidates"][0]["content"]["parts"]]
            return next(part["functionCall"]["args"] for part in parts if "functionCall" in part)
    calls = [call for frame in found for call in frame["message"].get("tool_calls", ())]
    return calls[0]["function"]["arguments"]


@pytest.mark.sampled
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", NAMES)
def test_a_call_without_arguments_has_an_object_of_none(source: str, target: str) -> None:
    if source == target:
        return
    wanted: Any = "{}" if target.startswith("openai") else {}
    for body, stream in NO_ARGUMENTS[source]:
        assert arguments_in(target, translate.response(body, source, target).body) == wanted
        assert told_arguments(target, translated(stream, source, target)) == wanted


@pytest.mark.parametrize("name", NAMES)
def test_what_an_own_call_without_arguments_says_stays(name: str) -> None:
    for body, stream in NO_ARGUMENTS[name]:
        assert dialect(name).encode_response(dialect(name).decode_response(body)).body == body
        assert decoded(name, translated(stream, name, name)).tool_calls == decoded(name, stream).tool_calls


# Developers.


def developing(source: str, *words: tuple[str, str]) -> Body:
    """Write a request whose messages are said by these roles."""
    kinds = {"openai-chat": {}, "openai-responses": {"type": "message"}}[source]
    key = "messages" if source == "openai-chat" else "input"
    return {"model": "m", key: [{**kinds, "role": role, "content": text} for role, text in words]}


def system_of(name: str, body: Body) -> Any:
    """Give the words of the system in a request, and the first words of the user."""
    match name:
        case "anthropic":
            given = body["system"]
            words = given if type(given) is str else "|".join(block["text"] for block in given)
            return words, body["messages"][0]["content"]
        case "gemini":
            first = body["contents"][0]["parts"][0]["text"]
            return "|".join(part["text"] for part in body["systemInstruction"]["parts"]), first
    said = body.get("messages") or body["input"]
    kept = [message["content"] for message in said if message["role"] in ("system", "developer")]
    head = [body["instructions"]] if "instructions" in body else []
    return "|".join([*head, *kept]), next(message["content"] for message in said if message["role"] == "user")


@pytest.mark.sampled
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", ["openai-chat", "openai-responses"])
@pytest.mark.parametrize("roles", ["developer", "system developer", "developer system", "developer developer"])
def test_a_developer_who_leads_is_the_system(source: str, target: str, roles: str) -> None:
    words = [(role, f"{role} {place}") for place, role in enumerate(roles.split())]
    encoded = translate.request(developing(source, *words, ("user", "Hi")), source, target, strict=True)
    assert system_of(target, encoded.body) == ("|".join(text for _, text in words), "Hi")


@pytest.mark.parametrize("target", ["anthropic", "gemini"])
@pytest.mark.parametrize("source", ["openai-chat", "openai-responses"])
def test_a_developer_who_comes_late_is_marked_and_told(source: str, target: str) -> None:
    encoded = translate.request(developing(source, ("user", "Hi"), ("developer", "Now")), source, target)
    assert "<system-reminder>" in json.dumps(encoded.body)
    assert [(loss.concept, loss.severity) for loss in encoded.losses if loss.path.endswith("role")] == [
        ("developer_late", "semantic")
    ]


# Counts.


def chat_usage(given: int, made: int, total: int, thought: int | None = None) -> Body:
    """Write the counts of Chat Completions."""
    details = {} if thought is None else {"completion_tokens_details": {"reasoning_tokens": thought}}
    return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": total, **details}


HIDDEN: dict[str, tuple[str, Body, tuple[int, int, int | None]]] = {
    "xAI": ("openai-chat", chat_usage(30, 2, 52, 20), (30, 22, 20)),
    "Gemini's OpenAI endpoint": ("openai-chat", chat_usage(8, 3, 21), (8, 13, None)),
    "OpenAI": ("openai-chat", chat_usage(30, 22, 52, 20), (30, 22, 20)),
    "a total that says less": ("openai-chat", chat_usage(30, 22, 40), (30, 22, None)),
    "a total and no count": ("openai-chat", {"prompt_tokens": 8, "total_tokens": 21}, (8, 13, None)),
    "a total and a null": ("openai-chat", chat_usage(8, None, 21), (8, 13, None)),  # type: ignore[arg-type]
    "a total and no count, of Responses": ("openai-responses", {"input_tokens": 8, "total_tokens": 21}, (8, 13, None)),
    "Gemini, cut off while it thought": ("gemini", {"promptTokenCount": 8, "totalTokenCount": 21}, (8, 13, None)),
    "Responses of xAI": (
        "openai-responses",
        {
            "input_tokens": 30,
            "output_tokens": 2,
            "total_tokens": 52,
            "output_tokens_details": {"reasoning_tokens": 20},
        },
        (30, 22, 20),
    ),
    "an older Gemini": (
        "gemini",
        {"promptTokenCount": 8, "candidatesTokenCount": 3, "totalTokenCount": 21},
        (8, 13, None),
    ),
    "Gemini": (
        "gemini",
        {"promptTokenCount": 8, "candidatesTokenCount": 3, "thoughtsTokenCount": 10, "totalTokenCount": 21},
        (8, 13, 10),
    ),
}


def saying(name: str, usage: Body | None, reason: Any = None) -> tuple[Body, bytes]:
    """Write an answer `Hi` with counts and the word for its end, and the same as a stream."""
    beside = {} if usage is None else {"usageMetadata" if name == "gemini" else "usage": usage}
    shell = SHELLS[name]
    if name == "openai-chat":
        word = "stop" if reason is None else reason
        message = {"role": "assistant", "content": "Hi"}
        chunk = {**shell, "object": "chat.completion.chunk"}
        deltas = [{"index": 0, "delta": message}, {"index": 0, "delta": {}, "finish_reason": word}]
        stream = events(
            *({**chunk, "choices": [delta]} for delta in deltas), {**chunk, "choices": [], **beside}, done=True
        )
        return {**shell, "choices": [{"index": 0, "message": message, "finish_reason": word}], **beside}, stream
    if name == "gemini":
        candidate = {
            "index": 0,
            "content": {"role": "model", "parts": [{"text": "Hi"}]},
            "finishReason": "STOP" if reason is None else reason,
        }
        return {**shell, "candidates": [candidate], **beside}, events({**shell, "candidates": [candidate], **beside})
    item = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
    }
    whole = {**shell, "status": "completed", "output": [item], **beside}
    return whole, named(
        {"type": "response.created", "response": {**shell, "status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    )


@pytest.mark.parametrize("case", HIDDEN)
def test_hidden_thoughts_are_counted_as_output(case: str) -> None:
    name, usage, counts = HIDDEN[case]
    body, stream = saying(name, usage)
    for read in (dialect(name).decode_response(body), decoded(name, stream)):
        told: Any = read.usage
        assert (told.input_tokens, told.output_tokens, told.reasoning_tokens) == counts
    assert dialect(name).encode_response(dialect(name).decode_response(body)).body == body
    for target in NAMES:
        again: Any = dialect(target).decode_response(translate.response(body, name, target).body).usage
        assert (again.input_tokens, again.output_tokens) == counts[:2]


def test_counts_that_are_changed_are_written_as_they_are_meant() -> None:
    read = dialect("openai-chat").decode_response(saying("openai-chat", chat_usage(30, 2, 52, 20))[0])
    usage: Any = read.usage
    written = dialect("openai-chat").encode_response(replace(read, usage=replace(usage, input_tokens=31))).body["usage"]
    assert written == chat_usage(31, 22, 53, 20)


FIRST: dict[str, bytes] = {
    "openai-chat": events(
        *(
            {
                **SHELLS["openai-chat"],
                "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
                "usage": chat_usage(70, made, 70 + made),
            }
            for made, delta, reason in ((0, {"role": "assistant", "content": "Hi"}, None), (2, {}, "stop"))
        ),
        done=True,
    ),
    "gemini": events(
        *(
            {
                **SHELLS["gemini"],
                "candidates": [{"index": 0, "content": {"role": "model", "parts": [{"text": text}]}, **ending}],
                "usageMetadata": {"promptTokenCount": 70, "candidatesTokenCount": made, "totalTokenCount": 70 + made},
            }
            for text, made, ending in (("H", 0, {}), ("i", 2, {"finishReason": "STOP"}))
        )
    ),
    "anthropic": named(
        {
            "type": "message_start",
            "message": {**SHELLS["anthropic"], "content": [], "usage": {"input_tokens": 70, "output_tokens": 2}},
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}},
        {"type": "message_stop"},
    ),
}


@pytest.mark.parametrize("source", FIRST)
def test_what_is_counted_at_first_is_said_at_first(source: str) -> None:
    start = next(frame for frame in frames(translated(FIRST[source], source, "anthropic")) if "message" in frame)
    assert start["message"]["usage"]["input_tokens"] == 70


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", FIRST)
def test_no_count_is_lost_on_the_way(source: str, target: str) -> None:
    usage: Any = decoded(target, translated(FIRST[source], source, target)).usage
    assert type(usage) is Usage
    assert (usage.input_tokens, usage.output_tokens) == (70, 2)


# Why an answer ended, where the word is empty.


@pytest.mark.parametrize("place", [0, 1], ids=["plain", "streamed"])
@pytest.mark.parametrize("name", NAMES)
def test_an_empty_word_for_the_end_is_none(name: str, place: int) -> None:
    body, stream = NO_ARGUMENTS[name][-1]
    keys = {
        "openai-chat": ("finish_reason", "tool_calls"),
        "openai-responses": ("status", "completed"),
        "anthropic": ("stop_reason", "tool_use"),
        "gemini": ("finishReason", "STOP"),
        "ollama": ("done_reason", "stop"),
    }
    key, word = keys[name]
    emptied = json.dumps(body).replace(f'"{key}": "{word}"', f'"{key}": ""')
    if place:
        written = stream.replace(f'"{key}":"{word}"'.encode(), f'"{key}":""'.encode())
        assert written != stream
        assert decoded(name, written).finish_reason == ("incomplete" if name == "gemini" else "tool_calls")
        return
    assert emptied != json.dumps(body)
    read = dialect(name).decode_response(json.loads(emptied))
    assert read.finish_reason == "tool_calls"
    assert dialect(name).encode_response(read).body == json.loads(emptied)
    assert translate.response(emptied, name, "anthropic" if name != "anthropic" else "openai").body


@pytest.mark.parametrize("target", NAMES)
def test_a_call_that_vertex_did_not_expect_is_the_clients_to_run(target: str) -> None:
    body = json.loads(json.dumps(NO_ARGUMENTS["gemini"][1][0]).replace('"STOP"', '"UNEXPECTED_TOOL_CALL"'))
    assert (
        dialect(target).decode_response(translate.response(body, "gemini", target).body).finish_reason == "tool_calls"
    )
    assert decoded(target, translated(events(body), "gemini", target)).finish_reason == "tool_calls"


# Files and pictures.

PIXELS = bytes([0xFB, 0xEF, 0xBE, 0xFF, 0x01])
STANDARD, SAFE = b64encode(PIXELS).decode(), urlsafe_b64encode(PIXELS).decode()
LINES = f"{STANDARD[:3]}\r\n{STANDARD[3:]}\n"
SPELLED = {"padded": SAFE, "bare": SAFE.rstrip("="), "lines": LINES, "lines for URLs": f"{SAFE[:4]}\n{SAFE[4:]}"}
LINK = "https://e.example/d.pdf"


def asking_with(name: str, data: str, media_type: str, named_as: str | None = None) -> Body:
    """Write a request of a wire with what should be Base64 in it."""
    picture = media_type.startswith("image/")
    url = f"data:{media_type};base64,{data}" if "://" not in data else data
    words: Body
    match name:
        case "openai-chat" if picture:
            words = {"type": "image_url", "image_url": {"url": url}}
        case "openai-chat":
            words = {"type": "file", "file": {"file_data": url, "filename": named_as or "d.pdf"}}
        case "openai-responses" if picture:
            words = {"type": "input_image", "image_url": url, "detail": "auto"}
        case "openai-responses":
            words = {"type": "input_file", "file_data": url, "filename": named_as or "d.pdf"}
        case "anthropic":
            source = {"type": "base64", "media_type": media_type, "data": data}
            words = {"type": "image" if picture else "document", "source": source}
        case "gemini":
            words = {"inlineData": {"mimeType": media_type, "data": data}}
            return {"contents": [{"role": "user", "parts": [{"text": "See:"}, words]}]}
        case _:
            return {"model": "m", "messages": [{"role": "user", "content": "See:", "images": [data]}]}
    key = "input" if name == "openai-responses" else "messages"
    lead = {"type": "input_text" if name == "openai-responses" else "text", "text": "See:"}
    body = {"model": "m", key: [{"role": "user", "content": [lead, words]}]}
    return body | ({"max_tokens": 9} if name == "anthropic" else {})


@pytest.mark.sampled
@pytest.mark.parametrize("spelled", SPELLED.values(), ids=SPELLED)
@pytest.mark.parametrize("kind", ["image/png", "application/pdf"])
@pytest.mark.parametrize("source", NAMES)
def test_base64_of_urls_is_standard_elsewhere_and_as_it_was_at_home(source: str, kind: str, spelled: str) -> None:
    if (source, kind) == ("ollama", "application/pdf"):
        return
    body = asking_with(source, spelled, kind)
    request = dialect(source).decode_request(body)
    [part] = [part for part in request.messages[0].parts if isinstance(part, Image | Document)]
    assert part.data == STANDARD
    own = {"stream": True} if source == "ollama" else {}
    assert dialect(source).encode_request(request).body == body
    assert request.stream is (True if own else None)
    for target in {*NAMES} - {source, *(["ollama"] if kind == "application/pdf" else [])}:
        written = json.dumps(translate.request(body, source, target).body)
        assert STANDARD in written
        assert json.dumps(spelled)[1:-1] not in written


@pytest.mark.parametrize("target", NAMES)
def test_base64_of_urls_that_an_application_gives_is_standard(target: str) -> None:
    for spelled in SPELLED.values():
        said = Message("user", [Text("See:"), Image(data=spelled, media_type="image/png")])
        written = dialect(target).encode_request(Request(context=Context(None, [said]), model="m")).body
        assert STANDARD in json.dumps(written)


@pytest.mark.sampled
@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", NAMES)
def test_a_url_is_never_base64(source: str, target: str) -> None:
    kind = "image/png" if source == "ollama" else "application/pdf"
    body = asking_with(source, LINK, kind)
    encoded = translate.request(body, source, target)
    if source == target:
        assert encoded.body == body
        assert encoded.losses == ()
        return
    written = json.dumps(encoded.body)
    assert f";base64,{LINK}" not in written
    assert f'"data": "{LINK}"' not in written
    told = [loss for loss in encoded.losses if "content[1]" in loss.path and loss.severity == "semantic"]
    assert (LINK in written) or told


@pytest.mark.sampled
@pytest.mark.parametrize("spelled", ["data:{0};base64,{1}", "DATA:{0};BASE64,{1}", "data:{0},%FB%EF%BE%FF%01"])
@pytest.mark.parametrize("source", NAMES)
def test_a_data_url_where_base64_should_stand_is_its_data(source: str, spelled: str) -> None:
    kind = "image/png" if source == "ollama" or "DATA" in spelled else "application/pdf"
    where = "data" if kind == "image/png" and source.startswith("openai") else spelled.format(kind, STANDARD)
    body = asking_with(source, where, kind)
    if source.startswith("openai"):
        body = json.loads(json.dumps(body).replace(f"data:{kind};base64,{where}", spelled.format(kind, STANDARD)))
    assert dialect(source).encode_request(dialect(source).decode_request(body)).body == body
    for target in {*NAMES} - {source, *(["ollama"] if kind == "application/pdf" else [])}:
        if not (kind == "image/png" and source.startswith("openai") and target.startswith("openai")):
            written = json.dumps(translate.request(body, source, target).body)
            assert STANDARD in written
            assert written.lower().count("data:") <= 1
            assert "%FB" not in written


@pytest.mark.parametrize("target", NAMES)
def test_a_url_that_an_application_gives_may_be_the_data(target: str) -> None:
    for kind, medium in (("image/png", Image), ("application/pdf", Document), ("text/plain", Document)):
        url = f"data:{kind};base64,{b64encode(b'Hello').decode()}"
        said = Message("user", [Text("See:"), medium(url)])
        encoded = dialect(target).encode_request(Request(context=Context(None, [said]), model="m"))
        written = json.dumps(encoded.body)
        if (target, kind) == ("ollama", "application/pdf"):
            assert any(loss.severity == "semantic" for loss in encoded.losses)
        else:
            assert "SGVsbG8=" in written or "Hello" in written
            assert not any(key in written for key in ("fileUri", "file_url", '"type": "url"'))


TEXTS: dict[str, tuple[str, bytes, str | None]] = {
    "plain": ("text/plain", b"Hello", "Hello"),
    "a table": ("text/csv", b"a,b\n1,2", "a,b\n1,2"),
    "a page": ("text/markdown", "# Größe".encode(), "# Größe"),
    "data": ("application/json", b'{"a":1}', '{"a":1}'),
    "another charset": ("text/plain;charset=iso-8859-1", "Größe".encode("latin-1"), "Größe"),
    "an unknown charset": ("text/plain;charset=klingon", b"Hello", None),
    "no text at all": ("text/plain", b"\xff\xfe\xff", None),
    "a PDF": ("application/pdf", b"%PDF-1.7", None),
}


@pytest.mark.sampled
@pytest.mark.parametrize("source", ["openai-chat", "openai-responses", "gemini"])
@pytest.mark.parametrize("case", TEXTS)
def test_a_file_of_text_goes_as_text(case: str, source: str) -> None:
    media_type, content, text = TEXTS[case]
    body = asking_with(source, b64encode(content).decode(), media_type, "f")
    assert dialect(source).encode_request(dialect(source).decode_request(body)).body == body
    blocks = translate.request(body, source, "anthropic").body["messages"][0]["content"]
    documents = [block["source"] for block in blocks if block["type"] == "document"] if type(blocks) is list else []
    plain = {"type": "text", "media_type": "text/plain", "data": text}
    pdf = {"type": "base64", "media_type": "application/pdf", "data": b64encode(content).decode()}
    assert documents == ([plain] if text is not None else [pdf] if case == "a PDF" else [])
    said = translate.request(body, source, "ollama").body["messages"][0]["content"]
    assert said == (f"See:\n{text}" if text is not None else "See:")


@pytest.mark.parametrize("target", ["openai-chat", "openai-responses", "gemini", "ollama"])
def test_a_text_that_stands_among_the_words_of_its_turn_is_told(target: str) -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "Hello"}
    content = [{"type": "text", "text": "See:"}, {"type": "document", "source": source}]
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": content}]}
    losses = translate.request(body, "anthropic", target).losses
    assert ("messages[0].content[1].text", "document_text", "minor") in [
        (loss.path, loss.concept, loss.severity) for loss in losses
    ]


# What a server ran itself.


@pytest.mark.parametrize(("name", "call_id"), [("x_keyword_search", "c_1"), ("x_next_search", "xs_call_9")])
def test_a_search_that_xai_ran_itself_is_no_call(name: str, call_id: str) -> None:
    shell = {**SHELLS["openai-responses"], "tools": [{"type": "x_search"}]}
    call = {
        "type": "custom_tool_call",
        "id": "ctc_1",
        "call_id": call_id,
        "name": name,
        "input": '{"query":"owls"}',
        "status": "completed",
    }
    message = saying("openai-responses", None)[0]["output"][0]
    whole = {**shell, "status": "completed", "output": [call, message]}
    stream = named(
        {"type": "response.created", "response": {**shell, "status": "in_progress", "output": []}},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**call, "input": "", "status": "in_progress"},
        },
        {
            "type": "response.custom_tool_call_input.delta",
            "item_id": "ctc_1",
            "output_index": 0,
            "delta": call["input"],
        },
        {"type": "response.output_item.done", "output_index": 0, "item": call},
        {"type": "response.output_item.done", "output_index": 1, "item": message},
        {"type": "response.completed", "response": whole},
    )
    read = dialect("openai-responses").decode_response(whole)
    assert dialect("openai-responses").encode_response(read).body == whole
    for told in (read, decoded("openai-responses", stream)):
        assert (told.tool_calls, told.broken_calls, told.finish_reason, told.content) == ([], [], "stop", "Hi")
        assert told.message.parts[0].arguments == {"query": "owls"}  # type: ignore[union-attr]
    for target in {*NAMES} - {"openai-responses"}:
        assert decoded(target, translated(stream, "openai-responses", target)).tool_calls == []
    mine = {**whole, "output": [{**call, "name": "exec", "call_id": "call_1"}, message]}
    assert [made.name for made in dialect("openai-responses").decode_response(mine).tool_calls] == ["exec"]


# What a wire does unless it is told otherwise, and what it does not take.


@pytest.mark.parametrize("target", ["openai-chat", "openai-responses", "anthropic", "gemini"])
@pytest.mark.parametrize(("said", "streams"), [({}, True), ({"stream": None}, True), ({"stream": False}, False)])
def test_a_request_of_ollama_streams_unless_it_says_not_to(said: Body, streams: bool, target: str) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **said}
    encoded = translate.request(body, "ollama", target)
    assert ("stream" in encoded.path.lower() if target == "gemini" else bool(encoded.body.get("stream"))) is streams
    request = dialect("ollama").decode_request(body)
    assert dialect("ollama").encode_request(request).body == body
    if streams:
        for value in (False, None):
            assert dialect("ollama").encode_request(replace(request, stream=value)).body["stream"] is False


LIMITS = {"openai-chat": 128, "openai-responses": 128, "gemini": 512}


@pytest.mark.parametrize("target", NAMES)
def test_more_tools_than_a_vendor_takes_are_told(target: str) -> None:
    most = LIMITS.get(target, 600)
    tools = [Tool(f"t{number}", "d", {"type": "object", "properties": {}}) for number in range(600)]
    encoded = dialect(target).encode_request(Request(context=Context(None, [Message("Go.")], tools), model="m"))
    over = [loss for loss in encoded.losses if loss.concept == "tool_limit"]
    assert [loss.path for loss in over] == [f"tools[{place}]" for place in range(most, 600)]
    assert {loss.severity for loss in over} <= {"semantic"}
    assert len(dialect(target).decode_request(encoded.body).tools) == most


NOT_TAKEN: dict[str, tuple[str, Body, str, str]] = {
    "an effort beside tools": (
        "openai-responses",
        {
            "model": "gpt-6-sol",
            "input": "Go.",
            "reasoning": {"effort": "high"},
            "tools": [{"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}],
        },
        "openai-chat",
        "reasoning",
    ),
    "an effort of Messages beside tools": (
        "anthropic",
        {
            "model": "gpt-6-sol",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "Go."}],
            "output_config": {"effort": "high"},
            "tools": [{"name": "look", "input_schema": {"type": "object"}}],
        },
        "openai-chat",
        "output_config",
    ),
    "a level of thinking beside tools": (
        "gemini",
        {
            "model": "gpt-6-sol",
            "contents": [{"parts": [{"text": "Go."}]}],
            "generationConfig": {"thinkingConfig": {"thinkingLevel": "HIGH"}},
            "tools": [{"functionDeclarations": [{"name": "look"}]}],
        },
        "openai-chat",
        "generationConfig.thinkingConfig.thinkingLevel",
    ),
    "any JSON": (
        "gemini",
        {
            "model": "claude-opus-5-5",
            "contents": [{"parts": [{"text": "Go."}]}],
            "generationConfig": {"responseMimeType": "application/json"},
        },
        "anthropic",
        "generationConfig.responseMimeType",
    ),
    "a list as the answer": (
        "gemini",
        {
            "model": "claude-opus-5-5",
            "contents": [{"parts": [{"text": "Go."}]}],
            "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": {"type": "array"}},
        },
        "anthropic",
        "generationConfig.responseJsonSchema.items",
    ),
    "a temperature of a model that reasons": (
        "gemini",
        {"model": "gpt-5", "contents": [{"parts": [{"text": "Go."}]}], "generationConfig": {"temperature": 0.2}},
        "openai-responses",
        "generationConfig.temperature",
    ),
    "too many tools": (
        "anthropic",
        {
            "model": "m",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "Go."}],
            "tools": [{"name": f"t{number}", "input_schema": {"type": "object"}} for number in range(129)],
        },
        "openai-chat",
        "tools[128]",
    ),
}


@pytest.mark.parametrize("case", NOT_TAKEN)
def test_what_is_not_taken_is_refused_by_strict_alone(case: str) -> None:
    source, body, target, path = NOT_TAKEN[case]
    told = [loss.path for loss in translate.request(body, source, target).losses if loss.severity == "semantic"]
    assert told == [path]
    with pytest.raises(LossyTranslation) as raised:
        translate.request(body, source, target, strict=True)
    assert [loss.path for loss in raised.value.losses] == [path]
