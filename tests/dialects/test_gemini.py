"""Requests of generateContent: what each body means, and that it comes back as it was."""

from typing import Any

import pytest
from msgspec.structs import replace

from toolwire import Context, Output, Tool, ToolChoice
from toolwire.dialects import gemini
from toolwire.errors import InvalidBody

PNG = "iVBORw0KGgo="
PATH = "/v1beta/models/gemini-2.5-pro:generateContent"
USER = {"role": "user", "parts": [{"text": "Go."}]}
LOOK = {"functionCall": {"name": "look", "args": {"city": "Paris"}}}
SEEN = {"functionResponse": {"name": "look", "response": {"output": "sunny"}}}


def contents(*parts: Any, role: str = "user", **beside: Any) -> dict[str, Any]:
    return {"contents": [{"role": role, "parts": list(parts), **beside}]}


OWN_REQUESTS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "no contents": {"contents": None, "cachedContent": "cachedContents/1"},
    "contents that are one": {"contents": {"role": "user", "parts": {"text": "Go."}}},
    "contents that are none": {"contents": ["x", 1, None, {"role": "narrator", "parts": []}, {}]},
    "roles": {"contents": [{"parts": [{"text": "a"}]}, {"role": None}, {"role": "function", "parts": [SEEN]}]},
    "parts that are none": contents(None, "x", 1, [{"text": "a"}], {}, {"text": 1}, {"text": None}, {"a": 1}),
    "a part that says two things": contents({"text": "a", "functionCall": {"name": "f"}}),
    "nulls beside a part": contents({"text": "a", "inlineData": None, "thoughtSignature": None}),
    "empty texts": contents({"text": ""}, {"text": "", "thoughtSignature": "c2ln"}, role="model"),
    "thoughts": contents(
        {"text": "Hm.", "thought": True},
        {"text": "", "thought": True, "thoughtSignature": "a+b/c=="},
        {"text": "Yes.", "thought": False},
        {"inlineData": {"mimeType": "image/png", "data": PNG}, "thought": True},
        role="model",
    ),
    "media": contents(
        {"inlineData": {"mimeType": "image/png", "data": PNG, "displayName": "a.png"}},
        {"inlineData": {"data": PNG}, "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"}},
        {"fileData": {"fileUri": "gs://b/v.mp4", "mimeType": "video/mp4"}, "videoMetadata": {"fps": 2}},
        {"inlineData": {"mimeType": "image/png"}},
        {"inlineData": {"mimeType": "", "data": ""}},
        {"fileData": "gs://b/v.mp4"},
    ),
    "calls": contents(
        LOOK,
        {"functionCall": {"id": "gemini_1", "name": "look"}, "thoughtSignature": "c2ln"},
        {"functionCall": {"id": "", "name": "look", "args": None}},
        {"functionCall": {"id": None, "name": "look", "args": [1]}, "partMetadata": {"a": 1}},
        {"functionCall": {"name": "look", "partialArgs": [], "willContinue": True}},
        {"functionCall": {"args": {}}},
        {"functionCall": "look"},
        role="model",
    ),
    "results": contents(
        SEEN,
        {"functionResponse": {"id": "toolwire_1_1", "name": "look", "response": {"error": "boom"}}},
        {"functionResponse": {"name": "look", "response": {"result": 1.0, "b": None}, "willContinue": False}},
        {"functionResponse": {"response": {"output": 1}}},
        {"functionResponse": {"name": "look", "response": None, "parts": []}},
        {"functionResponse": {"name": "look", "response": {}, "parts": [{"text": "a"}, None]}},
        {
            "functionResponse": {
                "name": "look",
                "parts": [{"inlineData": {"mimeType": "image/png", "data": PNG}}],
            }
        },
        {"functionResponse": []},
    ),
    "tools of the server in a conversation": contents(
        {"executableCode": {"code": "1+1", "language": "PYTHON", "id": None}},
        {
            "codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2", "id": "x"},
            "thoughtSignature": "c2ln",
        },
        {"toolCall": {"id": "t", "toolType": "GOOGLE_SEARCH_WEB", "args": {"q": "a"}}},
        {"toolCall": {"toolType": 1, "args": None}},
        {"toolResponse": {"id": "t", "toolType": "GOOGLE_SEARCH_WEB", "response": {"hits": []}}},
        role="model",
    ),
    "what an escape looks like": contents({"functionCall": {"id": "a__tw0-2f", "name": "srv_list__tw3-2f"}}),
    "a system prompt": {"systemInstruction": {"parts": [{"text": "Be brief."}]}, "contents": []},
    "a system prompt of parts": {"systemInstruction": {"role": "user", "parts": [{"text": "a"}, {"text": ""}]}},
    "a system prompt that is text": {"systemInstruction": "Be brief."},
    "a system prompt with one part": {"systemInstruction": {"parts": {"text": "Be brief."}, "role": 1}},
    "a system prompt without parts": {"system_instruction": {"parts": [], "role": "system"}},
    "objects of tools": {
        "tools": [
            {"functionDeclarations": [{"name": "a"}, {"name": "b", "behavior": "BLOCKING"}]},
            {"googleSearch": {}},
            {"urlContext": {}, "function_declarations": [{"name": "c", "parameters_json_schema": {}}]},
            {"functionDeclarations": [{"name": "d", "parameters": {"type": "OBJECT"}, "response": {}}]},
            {"functionDeclarations": []},
            {"functionDeclarations": [{"description": "no name"}]},
            None,
        ]
    },
    "both kinds of schema": {
        "tools": [{"functionDeclarations": [{"name": "a", "parameters": {}, "parametersJsonSchema": {"a": 1}}]}]
    },
    "settings": {
        "generationConfig": {
            "temperature": 1,
            "topP": 0.9,
            "topK": 40.0,
            "candidateCount": 2,
            "maxOutputTokens": 9,
            "seed": 1,
            "stopSequences": ["END"],
            "presencePenalty": 0.5,
            "frequencyPenalty": -1.5,
            "logprobs": 2,
            "responseLogprobs": True,
            "responseModalities": ["TEXT"],
            "mediaResolution": "MEDIA_RESOLUTION_LOW",
            "thinkingConfig": {
                "includeThoughts": True,
                "thinkingBudget": 128,
                "thinkingLevel": "low",
                "x": 1,
            },
        },
        "labels": {"team": "a"},
        "serviceTier": "flex",
        "store": False,
        "safetySettings": [{"category": 10}],
    },
    "settings of other kinds": {
        "generationConfig": {"temperature": "1", "stopSequences": [], "seed": None, "thinkingConfig": {}},
        "labels": {"a": 1},
        "toolConfig": {"functionCallingConfig": {"mode": "MODE_UNSPECIFIED"}},
        "stream": True,
    },
    "no settings": {
        "generationConfig": {},
        "toolConfig": {},
        "labels": {},
        "tools": [],
        "systemInstruction": None,
    },
    "snake_case": {
        "system_instruction": {"role": "user", "parts": [{"text": "a"}]},
        "contents": [
            {"role": "model", "parts": [{"function_call": {"name": "look"}, "thought_signature": "c2ln"}]},
            {"role": "user", "parts": [{"function_response": {"name": "look", "response": {"output": "x"}}}]},
            {"role": "user", "parts": [{"inline_data": {"mime_type": "image/png", "data": PNG}}]},
            {"role": "user", "parts": [{"fileData": {"file_uri": "gs://b/a", "mimeType": "text/plain"}}]},
            {"role": "model", "parts": [{"toolCall": {"tool_type": "URL_CONTEXT"}}]},
        ],
        "generation_config": {
            "max_output_tokens": 5,
            "topK": 3,
            "response_mime_type": "application/json",
            "response_schema": {"type": "OBJECT", "property_ordering": ["a"]},
            "thinking_config": {"include_thoughts": True},
        },
        "tool_config": {"function_calling_config": {"mode": "any", "allowed_function_names": ["look"]}},
    },
    "both spellings at once": {
        "generationConfig": {"topK": 1, "top_k": 2},
        "generation_config": {"top_p": 1},
    },
    "numbers of enums": {
        "toolConfig": {"functionCallingConfig": {"mode": 2}},
        "tools": [{"functionDeclarations": [{"name": "f", "parameters": {"type": 6, "properties": {}}}]}],
    },
}


@pytest.mark.parametrize("name", OWN_REQUESTS)
def test_identity(name: str) -> None:
    encoded = gemini.encode_request(gemini.decode_request(OWN_REQUESTS[name], PATH))
    assert (encoded.body, encoded.path, encoded.losses) == (OWN_REQUESTS[name], PATH, ())


MODEL = "gemini-2.5-pro"
PATHS: dict[str, tuple[str | None, bool | None]] = {
    PATH: (MODEL, None),
    "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse": (MODEL, True),
    "/v1beta/models/gemini-2.5-pro:streamGenerateContent": (MODEL, True),
    "/v1beta1/projects/p/locations/l/publishers/google/models/gemini-2.5-pro:generateContent?a=b": (
        MODEL,
        None,
    ),
    "/v1beta/tunedModels/mine-1:generateContent": ("tunedModels/mine-1", None),
    "https://host.example/v1/models/gemini-2.5-pro:generateContent": (MODEL, None),
    "/elsewhere": (None, None),
}


@pytest.mark.parametrize("path", PATHS)
def test_the_path_says_the_model_and_streaming(path: str) -> None:
    request = gemini.decode_request({"contents": []}, path)
    assert (request.model, request.stream) == PATHS[path]
    assert gemini.encode_request(request).path == path


CHANGED_PATHS = [
    (PATH, {"stream": True}, "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse"),
    ("/v1/models/a:streamGenerateContent?alt=sse&k=1", {"stream": False}, "/v1/models/a:generateContent?k=1"),
    ("/v1/models/a:streamGenerateContent?alt=sse", {"stream": None}, "/v1/models/a:generateContent"),
    ("/v1/models/a:generateContent?k=1", {"stream": True}, "/v1/models/a:streamGenerateContent?k=1&alt=sse"),
    ("/x/google/models/a:generateContent", {"model": "b"}, "/x/google/models/b:generateContent"),
    ("/v1/models/a:generateContent", {"model": "tunedModels/b"}, "/v1/tunedModels/b:generateContent"),
    ("", {"model": "b", "stream": True}, "/v1beta/models/b:streamGenerateContent?alt=sse"),
    ("", {"model": "models/b"}, "/v1beta/models/b:generateContent"),
    ("", {"model": "../../x"}, "/v1beta/models/..%2F..%2Fx:generateContent"),
    ("", {"model": "models/.."}, "/v1beta/models/models%2F..:generateContent"),
    ("", {"model": "m?key=1", "stream": True}, "/v1beta/models/m%3Fkey%3D1:streamGenerateContent?alt=sse"),
    ("/v1/models/a:generateContent", {"model": "m#frag"}, "/v1/models/m%23frag:generateContent"),
    ("", {"model": "m\r\nx: y"}, "/v1beta/models/m%0D%0Ax:%20y:generateContent"),
    ("/elsewhere", {}, "/elsewhere"),
]


@pytest.mark.parametrize(("path", "change", "written"), CHANGED_PATHS)
def test_a_changed_path(path: str, change: dict[str, Any], written: str) -> None:
    request = replace(gemini.decode_request({"contents": []}, path), **change)
    assert gemini.encode_request(request).path == written


MODELS_IN_BODIES = [
    ("models/gemini-2.5-pro", PATH, MODEL, "models/b"),
    (MODEL, PATH, MODEL, "b"),
    ("models/other", PATH, MODEL, "models/other"),
    ("models/other", "", "other", "models/b"),
]


@pytest.mark.parametrize(("said", "path", "meant", "changed"), MODELS_IN_BODIES)
def test_a_body_that_names_the_model(said: str, path: str, meant: str, changed: str) -> None:
    request = gemini.decode_request({"model": said}, path)
    assert request.model == meant
    assert gemini.encode_request(request).body == {"model": said}
    assert gemini.encode_request(replace(request, model="b")).body == {"model": changed}


@pytest.mark.parametrize("body", [None, [], "x", 1])
def test_a_body_that_is_no_object(body: Any) -> None:
    with pytest.raises(InvalidBody, match="must be a JSON object"):
        gemini.decode_request(body)


OPENAPI: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
        {"type": "object", "properties": {"a": {"type": "string"}}},
    ),
    (
        {"type": 6, "properties": {"a": {"type": 5, "items": {"type": 3}}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer"}}}},
    ),
    ({"type": "STRING", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
    ({"any_of": [{"type": "STRING"}], "nullable": True}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    ({"type": "ARRAY", "max_items": "3", "nullable": False}, {"type": "array", "maxItems": 3}),
    ({"type": "TYPE_UNSPECIFIED", "title": "t"}, {"title": "t"}),
    (
        {"ref": "#/defs/A", "defs": {"A": {"type": "STRING"}}},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "string"}}},
    ),
    (
        {"type": "object", "properties": {"type": {"type": "string"}}},
        {"type": "object", "properties": {"type": {"type": "string"}}},
    ),
]


@pytest.mark.parametrize(("spelled", "meant"), OPENAPI)
def test_openapi_words_are_read_as_json_schema(spelled: dict[str, Any], meant: dict[str, Any]) -> None:
    declared = [{"functionDeclarations": [{"name": "f", "parameters": spelled}]}]
    asked = {"responseMimeType": "application/json", "responseSchema": spelled}
    body = {"tools": declared, "generationConfig": asked}
    request = gemini.decode_request(body)
    [tool] = request.tools
    assert isinstance(tool, Tool)
    assert (tool.parameters, request.output) == (meant, Output("schema", meant))
    assert gemini.encode_request(request).body == body


def test_a_changed_schema_stays_in_its_words() -> None:
    spelled = {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}
    request = gemini.decode_request({"tools": [{"functionDeclarations": [{"name": "f", "parameters": spelled}]}]})
    [tool] = request.tools
    changed = replace(tool, parameters={"type": "object", "properties": {"a": {"type": "integer"}}})
    context = Context(None, [], [changed])
    body = gemini.encode_request(replace(request, context=context)).body
    written = {"type": "OBJECT", "properties": {"a": {"type": "INTEGER"}}}
    assert body["tools"] == [{"functionDeclarations": [{"name": "f", "parameters": written}]}]


CHANGES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"temperature": 0.5}, {"temperature": 1}, {"temperature": 1}),
    ({"max_output_tokens": 5, "topK": 1}, {"max_tokens": 6}, {"max_output_tokens": 6, "topK": 1}),
    (
        {"thinkingConfig": {"thinkingLevel": "low", "x": 1}},
        {"thinking_display": "summarized"},
        {"thinkingConfig": {"thinkingLevel": "low", "x": 1, "includeThoughts": True}},
    ),
    (
        {"thinkingConfig": {"thinkingLevel": "low"}},
        {"effort": "high"},
        {"thinkingConfig": {"thinkingLevel": "HIGH"}},
    ),
    (
        {"responseMimeType": "application/json"},
        {"output": Output("text")},
        {"responseMimeType": "text/plain"},
    ),
]


@pytest.mark.parametrize(("config", "change", "after"), CHANGES)
def test_a_changed_setting_changes_its_place(
    config: dict[str, Any], change: dict[str, Any], after: dict[str, Any]
) -> None:
    request = replace(gemini.decode_request({"contents": [USER], "generationConfig": config}, PATH), **change)
    encoded = gemini.encode_request(request)
    assert (encoded.body, encoded.losses) == ({"contents": [USER], "generationConfig": after}, ())


CHOICES: list[tuple[dict[str, Any], ToolChoice, ToolChoice, dict[str, Any]]] = [
    ({"mode": "AUTO"}, ToolChoice("auto"), ToolChoice("none"), {"mode": "NONE"}),
    (
        {"mode": "any", "x": 1},
        ToolChoice("required"),
        ToolChoice("required", ["f"]),
        {"mode": "any", "x": 1, "allowedFunctionNames": ["f"]},
    ),
    ({"mode": 3}, ToolChoice("none"), ToolChoice("auto"), {"mode": "AUTO"}),
    ({"mode": "VALIDATED"}, ToolChoice("auto"), ToolChoice("required"), {"mode": "ANY"}),
    (
        {"mode": "VALIDATED", "allowed_function_names": ["a"]},
        ToolChoice("auto", ["a"]),
        ToolChoice("auto", ["b"]),
        {"mode": "VALIDATED", "allowed_function_names": ["b"]},
    ),
]


@pytest.mark.parametrize(("config", "choice", "other", "after"), CHOICES)
def test_the_choice_among_tools(config: Any, choice: ToolChoice, other: ToolChoice, after: Any) -> None:
    body = {"toolConfig": {"functionCallingConfig": config, "includeServerSideToolInvocations": True}}
    request = gemini.decode_request(body)
    assert request.tool_choice == choice
    assert gemini.encode_request(request).body == body
    changed = gemini.encode_request(replace(request, tool_choice=other)).body
    assert changed == {"toolConfig": {**body["toolConfig"], "functionCallingConfig": after}}
