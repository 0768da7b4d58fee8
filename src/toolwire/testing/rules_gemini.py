"""The requests that the server of generateContent rejects, with its error messages.

Keys are accepted in both spellings.

The spellings are camelCase and snake_case.

Sources: the types of google-genai 3.4.0; ai.google.dev, thought signatures and function calling (2026-11-20); the error
messages are those that users report, such as gemini-cli#4217, gemini-cli#16984 and js-genai#1275.
"""

import base64
import re
from typing import Any

from toolwire.encoding.families import family_of
from toolwire.testing.rules import (
    Check,
    Closed,
    ErrorWording,
    Field,
    Object,
    Path,
    Rejection,
    WireRequest,
    bracketed,
    flattened,
    listed,
    repeated,
    turns_of,
)
from toolwire.testing.sealing import is_token

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}", re.ASCII)
_Content = tuple[str, list[dict[str, Any]]]  # the role, and the parts with keys in camelCase
_DOCUMENTS = "https://ai.google.dev/gemini-api/docs/thought-signatures"
# Texts that are accepted as a signature: _DOCUMENTS, continue#8865 and strands#1298, as of 2026-11-20.
_SKIP_WORDS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
_SKIPS = frozenset((*_SKIP_WORDS, *(base64.b64encode(word.encode()).decode() for word in _SKIP_WORDS)))
_MOST_DECLARATIONS = 512  # ai.google.dev names no limit (2026-11-20); this value is an assumption
_MODES = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")
_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")
_SNAKE = re.compile(r"_([a-z])")


def _snake(path: Path) -> str:
    return _HUMP.sub(lambda match: f"_{match[0].lower()}", bracketed(path))


def camel(value: Any) -> Any:
    """Return an object with its keys in camelCase; nested objects are unchanged."""
    if type(value) is not dict or not any("_" in key for key in value):
        return value
    return {_SNAKE.sub(lambda match: match[1].upper(), key): inner for key, inner in value.items()}


_GEMINI = ErrorWording(
    {
        "unknown": 'Invalid JSON payload received. Unknown name "{key}"{at}: Cannot find field.',
        "wrong": "Invalid value at '{path}' ({expected}), {value!r}",
        "no contents": "* GenerateContentRequest.{path}: contents is not specified\n",
        "no parts": "* GenerateContentRequest.{path}: contents.parts must not be empty.\n",
        "no data": "* GenerateContentRequest.{path}: required oneof field 'data' must have one initialized field\n",
        "no name": "* GenerateContentRequest.{path}: Name cannot be empty.\n",
        "name": "* GenerateContentRequest.{path}: [FIELD_INVALID] Invalid function name. Must start with a letter or "
        "an underscore. Must be a-z, A-Z, 0-9, or contain underscores (_), dots (.), colons (:), or dashes (-), with "
        "a maximum length of 128.\n",
        "undeclared": "* GenerateContentRequest.{path}: '{value}' is not a declared function.\n",
    },
    kinds={
        "string": "TYPE_STRING",
        "number": "TYPE_FLOAT",
        "integer": "TYPE_INT32",
        "boolean": "TYPE_BOOL",
        **dict.fromkeys(("object", "array", "null"), "TYPE_MESSAGE"),
    },
    join=_snake,
    spell=camel,
)

CONFIG = Closed(
    "string: responseMimeType mediaResolution",
    "number: temperature topP topK presencePenalty frequencyPenalty",
    "integer: candidateCount maxOutputTokens seed logprobs",
    "boolean: responseLogprobs audioTimestamp enableAffectiveDialog enableEnhancedCivicAnswers",
    "array: stopSequences responseModalities",
    "object: responseSchema speechConfig imageConfig thinkingConfig routingConfig modelSelectionConfig",
    "object: translationConfig audioTranscriptionConfig",
    "object|boolean: responseJsonSchema",
    "object|array: responseFormat",
)
_KINDS = (
    "text inlineData fileData functionCall functionResponse executableCode codeExecutionResult toolCall toolResponse"
).split()
SCHEMA = frozenset(
    "additionalProperties anyOf default defs description enum example format items maxItems maxLength "
    "maxProperties maximum minItems minLength minProperties minimum nullable pattern properties "
    "propertyOrdering ref required title type".split()
)


_PART = Object(
    "string: text thoughtSignature",
    functionCall=Field("object", inside=Object("string: name", "string|null: id", "object|null: args")),
    functionResponse=Field("object", inside=Object("string: name", "string|null: id", "object|null: response")),
)
_CONTENT = Closed("string: role", parts=Field("array|object", inside=_PART, flat=True))
_DECLARATION = Closed(
    "string: name description behavior",
    "object: parameters response",
    "object|boolean: parametersJsonSchema responseJsonSchema",
)
_TOOL = Object(functionDeclarations=Field("array|object|null", inside=_DECLARATION))
_CHOICE = Closed("string: mode", "array: allowedFunctionNames", "boolean: streamFunctionCallArguments")
BODY = Closed(
    "string: cachedContent serviceTier continuationToken model",
    "boolean: store",
    "array: safetySettings",
    "object: systemInstruction labels",
    contents=Field("array|object", inside=_CONTENT),
    tools=Field("array", inside=_TOOL),
    toolConfig=Field("object", inside=Object(functionCallingConfig=Field("object|null", inside=_CHOICE))),
    generationConfig=Field("object", inside=CONFIG),
)


def _check_shape(request: WireRequest) -> None:
    """Check everything that the tables describe, and that there is content to answer."""
    BODY.check(request.body, (), _GEMINI)
    if not request.body.get("contents"):
        raise _GEMINI.mistake("no contents", ("contents",))


def _check_contents(request: WireRequest) -> None:
    """Check each content and each of its parts, their order, and their signatures."""
    contents: list[_Content] = [
        (content.get("role", "user"), [camel(part) for part in flattened(content.get("parts"))])
        for content in listed(request.body["contents"])
    ]
    for index, (role, parts) in enumerate(contents):
        if role not in ("user", "model", "function"):
            raise Rejection("Please use a valid role: user, model.")
        if not parts:
            raise _GEMINI.mistake("no parts", ("contents", index, "parts"))
        for step, part in enumerate(parts):
            _check_part(part, role, ("contents", index, "parts", step))
    _check_order(contents)
    _check_signatures(contents, request)


def _check_part(part: dict[str, Any], role: str, path: Path) -> None:
    present = [field for field in _KINDS if field in part]
    if not present and not part.get("thoughtSignature"):
        raise _GEMINI.mistake("no data", (*path, "data"))
    if len(present) > 1:
        text = f"Invalid value at '{bracketed(path)}' (oneof), oneof field 'data' is already set. "
        raise Rejection(f"{text}Cannot set '{_snake((present[1],))}'")
    for field in ("functionCall", "functionResponse"):
        if field in part and not part[field].get("name"):
            raise _GEMINI.mistake("no name", (*path, field, "name"))
    if "functionCall" in part and role != "model":
        raise Rejection("Please ensure that function calls are in a content of the role model.")
    if "functionResponse" in part and role == "model":
        raise Rejection("Please ensure that function responses are in a content of the role user.")


def _check_order(contents: list[_Content]) -> None:
    """Raise `Rejection` unless each turn of calls is followed by as many responses with the same names."""
    open_calls: list[Any] = []
    for _, indexes in turns_of("model" if role == "model" else "user" for role, _ in contents):
        parts = [part for index in indexes for part in contents[index][1]]
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if answers and not open_calls:
            raise Rejection("Please ensure that function response turn comes immediately after a function call turn.")
        if open_calls and len(answers) != len(open_calls):
            raise Rejection(
                "Please ensure that the number of function response parts is equal to the number of function "
                "call parts of the function call turn."
            )
        _check_answers(open_calls, answers)
        if calls and indexes[0] == 0:
            raise Rejection(
                "Please ensure that function call turn comes immediately after a user turn or after a "
                "function response turn."
            )
        open_calls = calls
    if open_calls:
        raise Rejection("Please ensure that multiturn requests end with a user turn or a function response turn.")


def _check_answers(calls: list[Any], answers: list[Any]) -> None:
    if sorted(answer["name"] for answer in answers) != sorted(call["name"] for call in calls):
        names = ", ".join(answer["name"] for answer in answers)
        raise Rejection(f"Please ensure that function responses are named as their calls are: {names}.")
    ids = {call["id"] for call in calls if call.get("id")}
    for answer in answers:
        if answer.get("id") and ids and answer["id"] not in ids:
            raise Rejection(f"The function response id '{answer['id']}' matches no function call of the turn before.")


def _check_signatures(contents: list[_Content], request: WireRequest) -> None:
    """Check that the first call of each step of the current turn has its signature, on models that sign."""
    signs = family_of(request.model).signed_calls
    user_turns = [
        index
        for index, (role, parts) in enumerate(contents)
        if role != "model" and not any("functionResponse" in part for part in parts)
    ]
    step_has_call = False  # whether the step had its first call: a stream may split a step into several contents
    for index, (role, parts) in enumerate(contents):
        step_has_call = step_has_call and role == "model"
        for part in parts:
            signature = part.get("thoughtSignature")
            known = signature is None or signature in _SKIPS or signature in request.memory.signatures
            if not known and not is_token(signature):
                raise Rejection("Corrupted thought signature.")
        first = next((part for part in parts if "functionCall" in part), None)
        if first is None or step_has_call:
            continue
        step_has_call = True
        if signs and index > max(user_turns, default=0) and not first.get("thoughtSignature"):
            raise Rejection(
                "Function call is missing a thought_signature in functionCall parts. This is required for "
                "tools to work correctly, and missing thought_signature may lead to degraded model performance. "
                f"Additional data, function call `default_api:{first['functionCall']['name']}` , position {index + 1}. "
                f"Please refer to {_DOCUMENTS} for more details."
            )


def _check_tools(request: WireRequest) -> None:
    body = camel(request.body)
    names: list[str] = []
    for index, tool in enumerate(body.get("tools", ())):
        for step, declaration in enumerate(listed(camel(tool).get("functionDeclarations"))):
            _check_declaration(camel(declaration), ("tools", index, "functionDeclarations", step))
            names.append(declaration["name"])
    if len(names) > _MOST_DECLARATIONS:
        raise Rejection(f"The number of function declarations must be at most {_MOST_DECLARATIONS}.")
    if (name := repeated(names)) is not None:
        raise Rejection(f"Duplicate function declaration found: {name}")
    config = camel(body.get("toolConfig", {}))
    choice = config.get("functionCallingConfig")
    if choice is not None and not names and not config.get("includeServerSideToolInvocations"):
        raise Rejection("Function calling config is set without function_declarations.")
    _check_choice(camel(choice or {}), names)


def _check_declaration(declaration: dict[str, Any], path: Path) -> None:
    if not _NAME.fullmatch(declaration.get("name", "")):
        raise _GEMINI.mistake("name", (*path, "name"))
    if "parameters" in declaration and "parametersJsonSchema" in declaration:
        raise Rejection(f"Only one of parameters and parameters_json_schema can be set at '{_snake(path)}'.")
    _check_schema(declaration.get("parameters"), (*path, "parameters"))


def _check_schema(schema: Any, path: Path, depth: int = 0) -> None:
    """Check a schema of the OpenAPI kind: it has few keywords, and enumerations contain only texts."""
    if type(schema) is not dict or depth > 64:
        return
    keywords = camel(schema)
    for key in keywords:
        if key not in SCHEMA:
            raise _GEMINI.mistake("unknown", (*path, key))
    if type(keywords.get("type", "")) not in (str, int):
        raise _GEMINI.wrong_type((*path, "type"), "string", keywords["type"])
    for index, word in enumerate(listed(keywords.get("enum"))):
        if type(word) is not str:
            raise _GEMINI.wrong_type((*path, "enum", index), "string", word)
    properties, choices = keywords.get("properties"), keywords.get("anyOf")
    for name, inner in properties.items() if type(properties) is dict else ():
        _check_schema(inner, (*path, f"properties[{name!r}]"), depth + 1)
    _check_schema(keywords.get("items"), (*path, "items"), depth + 1)
    for index, inner in enumerate(choices if type(choices) is list else ()):
        _check_schema(inner, (*path, "anyOf", index), depth + 1)


def _check_choice(choice: dict[str, Any], names: list[str]) -> None:
    mode, allowed = choice.get("mode", "AUTO"), choice.get("allowedFunctionNames", [])
    if mode.upper() not in _MODES:
        raise Rejection(f"Invalid value at 'tool_config.function_calling_config.mode' (TYPE_ENUM), \"{mode}\"")
    if allowed and mode.upper() not in ("ANY", "VALIDATED"):
        raise Rejection("Please set allowed_function_names only when function calling mode is ANY.")
    unknown = [name for name in allowed if name not in names]
    if unknown:
        path = ("toolConfig", "functionCallingConfig", "allowedFunctionNames")
        raise _GEMINI.mistake("undeclared", path, value=unknown[0])


CHECKS: tuple[Check, ...] = (_check_shape, _check_contents, _check_tools)
