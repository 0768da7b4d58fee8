"""What the server of generateContent refuses: in its words. Keys are read in camelCase and in snake_case."""

import base64
import re
from collections.abc import Iterator
from typing import Any

from toolwire.encoding.families import family_of
from toolwire.testing.sealing import is_token
from toolwire.testing.strictness.asked import Asked, Check, Rejection
from toolwire.testing.strictness.shapes import Words, bracketed, check_object, fits, objects, twice

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}", re.ASCII)
_SKIPS = ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go")
SKIPS = frozenset((*_SKIPS, *(base64.b64encode(word.encode()).decode() for word in _SKIPS)))
MOST_DECLARATIONS = 512
DOCUMENTS = "https://ai.google.dev/gemini-api/docs/thought-signatures"
_HUMP = re.compile(r"(?<=[a-z0-9])([A-Z])")
_SNAKE = re.compile(r"_([a-z])")
_TYPES = {"string": "TYPE_STRING", "number": "TYPE_FLOAT", "integer": "TYPE_INT32", "boolean": "TYPE_BOOL"}

FIELDS = {
    "contents": "array|object",
    "systemInstruction": "object",
    "tools": "array",
    "safetySettings": "array",
    **dict.fromkeys(("toolConfig", "generationConfig", "labels"), "object"),
    **dict.fromkeys(("cachedContent", "serviceTier", "continuationToken", "model"), "string"),
    "store": "boolean",
}
CONFIG = {
    **dict.fromkeys(("temperature", "topP", "topK", "presencePenalty", "frequencyPenalty"), "number"),
    **dict.fromkeys(("candidateCount", "maxOutputTokens", "seed", "logprobs"), "integer"),
    **dict.fromkeys(("stopSequences", "responseModalities"), "array"),
    **dict.fromkeys(("responseMimeType", "mediaResolution"), "string"),
    **dict.fromkeys(("responseLogprobs", "audioTimestamp", "enableAffectiveDialog"), "boolean"),
    **dict.fromkeys(("enableEnhancedCivicAnswers",), "boolean"),
    **dict.fromkeys(("responseSchema", "speechConfig", "imageConfig", "thinkingConfig"), "object"),
    **dict.fromkeys(("routingConfig", "modelSelectionConfig", "translationConfig"), "object"),
    **dict.fromkeys(("audioTranscriptionConfig",), "object"),
    "responseJsonSchema": "object|boolean",
    "responseFormat": "object|array",
}
KINDS = (
    *("text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode"),
    *("codeExecutionResult", "toolCall", "toolResponse"),
)
SCHEMA = frozenset(
    "additionalProperties anyOf default defs description enum example format items maxItems maxLength "
    "maxProperties maximum minItems minLength minProperties minimum nullable pattern properties "
    "propertyOrdering ref required title type".split()
)
DECLARATION = {
    **dict.fromkeys(("name", "description", "behavior"), "string"),
    **dict.fromkeys(("parameters", "response"), "object"),
    **dict.fromkeys(("parametersJsonSchema", "responseJsonSchema"), "object|boolean"),
}
CALLING = {
    "mode": "string",
    "allowedFunctionNames": "array",
    "streamFunctionCallArguments": "boolean",
}
MODES = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")


def _snake(path: str) -> str:
    return _HUMP.sub(lambda match: f"_{match[0].lower()}", path)


def _missing(path: str) -> Rejection:
    name = path.rpartition(".")[2]
    return Rejection(f"* GenerateContentRequest.{_snake(path)}: {_snake(name)} is not specified\n")


def _unknown(at: str, key: str) -> Rejection:
    where = f" at '{_snake(at)}'" if at else ""
    return Rejection(f'Invalid JSON payload received. Unknown name "{key}"{where}: Cannot find field.')


def _wrong(path: str, kinds: str, value: Any) -> Rejection:
    kind = _TYPES.get(kinds.partition("|")[0], "TYPE_MESSAGE")
    return Rejection(f"Invalid value at '{_snake(path)}' ({kind}), {value!r}")


WORDS = Words(_missing, _unknown, _wrong, bracketed)


def camel(value: Any) -> Any:
    """Spell the keys of an object in camelCase; what is below stays."""
    if type(value) is not dict:
        return value
    return {_SNAKE.sub(lambda match: match[1].upper(), key): inner for key, inner in value.items()}


def contents_of(asked: Asked) -> list[dict[str, Any]]:
    """Give the contents, with the keys of each part in camelCase."""
    given = camel(asked.body).get("contents")
    contents = [given] if type(given) is dict else given
    return [{**content, "parts": [camel(part) for part in _parts_of(content)]} for content in contents or ()]


def _listed(value: Any) -> list[Any]:
    return value if type(value) is list else [] if value is None else [value]


def _parts_of(content: dict[str, Any]) -> list[Any]:
    """List the parts of a content; one in a list of its own is read too."""
    return [inner for part in _listed(content.get("parts")) for inner in _listed(part)]


def _turns(asked: Asked) -> list[tuple[list[Any], list[Any]]]:
    """List the calls and the responses of each turn: contents of one role that follow each other are one."""
    turns: list[tuple[list[Any], list[Any]]] = []
    before = ""
    for content in contents_of(asked):
        role = "model" if content.get("role") == "model" else "user"
        if role != before:
            turns.append(([], []))
        before = role
        for part in content["parts"]:
            for place, kind in enumerate(("functionCall", "functionResponse")):
                if kind in part:
                    turns[-1][place].append(part[kind])
    return turns


def check_fields(asked: Asked) -> Iterator[Rejection]:
    """Check which fields there are, and their kinds."""
    body = camel(asked.body)
    yield from check_object(body, FIELDS, (), WORDS)
    if "generationConfig" in body:
        yield from check_object(camel(body["generationConfig"]), CONFIG, (), WORDS, "generationConfig")
    if not body.get("contents"):
        yield Rejection("* GenerateContentRequest.contents: contents is not specified\n")


def check_contents(asked: Asked) -> Iterator[Rejection]:
    """Check the shape of each content and of each part."""
    given = camel(asked.body)["contents"]
    for place, content in enumerate([given] if type(given) is dict else given):
        at = f"contents[{place}]"
        yield from check_object(content, {"role": "string", "parts": "array|object"}, (), WORDS, at)
        if content.get("role", "user") not in ("user", "model", "function"):
            yield Rejection("Please use a valid role: user, model.")
        parts = _parts_of(content)
        if not parts:
            yield Rejection(f"* GenerateContentRequest.{at}.parts: contents.parts must not be empty.\n")
        for step, part in enumerate(parts):
            yield from _check_part(part, content.get("role", "user"), f"{at}.parts[{step}]")


def _check_part(given: Any, role: str, at: str) -> Iterator[Rejection]:
    if type(given) is not dict:
        yield _wrong(at, "object", given)
    part = camel(given)
    said = [kind for kind in KINDS if kind in part]
    if not said and not part.get("thoughtSignature"):
        text = "required oneof field 'data' must have one initialized field"
        yield Rejection(f"* GenerateContentRequest.{at}.data: {text}\n")
    if len(said) > 1:
        text = f"Invalid value at '{at}' (oneof), oneof field 'data' is already set. "
        yield Rejection(f"{text}Cannot set '{_snake(said[1])}'")
    for key in ("text", "thoughtSignature"):
        if not fits(part.get(key, ""), "string"):
            yield _wrong(f"{at}.{key}", "string", part[key])
    yield from _check_calling_part(part, role, at)


def _check_calling_part(part: dict[str, Any], role: str, at: str) -> Iterator[Rejection]:
    """Check the shape of a call or of a response, and who says it."""
    for kind, member in (("functionCall", "args"), ("functionResponse", "response")):
        if kind in part:
            fields = {"name": "string", "id": "string|null", member: "object|null"}
            yield from check_object(part[kind], fields, (), WORDS._replace(unknown=None), f"{at}.{kind}")
            if not part[kind].get("name"):
                yield Rejection(f"* GenerateContentRequest.{at}.{_snake(kind)}.name: Name cannot be empty.\n")
    if "functionCall" in part and role != "model":
        yield Rejection("Please ensure that function calls are in a content of the role model.")
    if "functionResponse" in part and role == "model":
        yield Rejection("Please ensure that function responses are in a content of the role user.")


def check_order(asked: Asked) -> Iterator[Rejection]:
    """Check that each turn of calls is followed by as many responses, of the same names."""
    called: list[Any] | None = None
    for place, (calls, answers) in enumerate(_turns(asked)):
        if answers and called is None:
            yield Rejection("Please ensure that function response turn comes immediately after a function call turn.")
        if called is not None and len(answers) != len(called):
            yield Rejection(
                "Please ensure that the number of function response parts is equal to the number of function "
                "call parts of the function call turn."
            )
        yield from _check_answers(called or [], answers)
        if calls and place == 0:
            yield Rejection(
                "Please ensure that function call turn comes immediately after a user turn or after a "
                "function response turn."
            )
        called = calls or None
    if called is not None:
        yield Rejection("Please ensure that multiturn requests end with a user turn or a function response turn.")


def _check_answers(called: list[Any], answers: list[Any]) -> Iterator[Rejection]:
    names = sorted(call["name"] for call in called)
    if answers and sorted(answer["name"] for answer in answers) != names:
        given = ", ".join(answer["name"] for answer in answers)
        yield Rejection(f"Please ensure that function responses are named as their calls are: {given}.")
    ids = {call["id"] for call in called if call.get("id")}
    for answer in answers:
        if answer.get("id") and ids and answer["id"] not in ids:
            yield Rejection(f"The function response id '{answer['id']}' matches no function call of the turn before.")


def check_signatures(asked: Asked) -> Iterator[Rejection]:
    """Check that the first call of each step of the present turn has its signature, on models that sign."""
    contents = contents_of(asked)
    begin = 0
    for place, content in enumerate(contents):
        if content.get("role", "user") != "model" and not any("functionResponse" in p for p in content["parts"]):
            begin = place
    for place, content in enumerate(contents):
        calls = [part for part in content["parts"] if "functionCall" in part]
        for part in content["parts"]:
            given = part.get("thoughtSignature")
            if given is not None and not (given in SKIPS or is_token(given) or given in asked.memory.signatures):
                yield Rejection("Corrupted thought signature.")
        if place > begin and calls and family_of(asked.model).signed_calls and not calls[0].get("thoughtSignature"):
            text = (
                "Function call is missing a thought_signature in functionCall parts. This is required for "
                "tools to work correctly, and missing thought_signature may lead to degraded model "
                f"performance. Additional data, function call `default_api:{_name_of(calls[0])}` , position "
                f"{place + 1}. Please refer to {DOCUMENTS} for more details."
            )
            yield Rejection(text)


def _name_of(part: dict[str, Any]) -> str:
    return part["functionCall"]["name"]  # type: ignore[no-any-return]


def check_tools(asked: Asked) -> Iterator[Rejection]:
    """Check the declared functions, and the choice among them."""
    body = camel(asked.body)
    names: list[str] = []
    for place, tool in enumerate(body.get("tools") or ()):
        if type(tool) is not dict:
            yield _wrong(f"tools[{place}]", "object", tool)
        declared = camel(tool).get("functionDeclarations")
        for step, declaration in enumerate(_listed(declared)):
            at = f"tools[{place}].functionDeclarations[{step}]"
            yield from _check_declaration(declaration, at)
            names.append(declaration["name"])
    if len(names) > MOST_DECLARATIONS:
        yield Rejection(f"The number of function declarations must be at most {MOST_DECLARATIONS}.")
    if (name := twice(names)) is not None:
        yield Rejection(f"Duplicate function declaration found: {name}")
    config = camel(body.get("toolConfig") or {})
    calling = config.get("functionCallingConfig")
    if calling is not None and not names and not config.get("includeServerSideToolInvocations"):
        yield Rejection("Function calling config is set without function_declarations.")
    yield from _check_calling(calling, names)


def _check_declaration(given: Any, at: str) -> Iterator[Rejection]:
    declaration = camel(given)
    yield from check_object(declaration, DECLARATION, (), WORDS, at)
    name = declaration.get("name", "")
    if not NAME.fullmatch(name):
        text = (
            "[FIELD_INVALID] Invalid function name. Must start with a letter or an underscore. Must be a-z, "
            "A-Z, 0-9, or contain underscores (_), dots (.), colons (:), or dashes (-), with a maximum "
            "length of 128."
        )
        yield Rejection(f"* GenerateContentRequest.{_snake(at)}.name: {text}\n")
    if "parameters" in declaration and "parametersJsonSchema" in declaration:
        yield Rejection(f"Only one of parameters and parameters_json_schema can be set at '{_snake(at)}'.")
    yield from _check_schema(declaration.get("parameters"), f"{at}.parameters")


def _check_schema(schema: Any, at: str, depth: int = 0) -> Iterator[Rejection]:
    """Check a schema of the OpenAPI kind: only some keywords, and texts alone in an enumeration."""
    if type(schema) is not dict or depth > 64:
        return
    for key in camel(schema):
        if key not in SCHEMA:
            yield _unknown(at, key)
    spelled = camel(schema)
    if not fits(spelled.get("type", ""), "string|integer"):
        yield _wrong(f"{at}.type", "string", spelled["type"])
    for place, word in enumerate(_listed(spelled.get("enum"))):
        if type(word) is not str:
            yield _wrong(f"{at}.enum[{place}]", "string", word)
    properties = spelled.get("properties")
    for name, inner in properties.items() if type(properties) is dict else ():
        yield from _check_schema(inner, f"{at}.properties[{name!r}]", depth + 1)
    yield from _check_schema(spelled.get("items"), f"{at}.items", depth + 1)
    for place, inner in objects(spelled.get("anyOf")):
        yield from _check_schema(inner, f"{at}.anyOf[{place}]", depth + 1)


def _check_calling(given: Any, names: list[str]) -> Iterator[Rejection]:
    if given is None:
        return
    config = camel(given)
    yield from check_object(config, CALLING, (), WORDS, "toolConfig.functionCallingConfig")
    mode = config.get("mode", "AUTO")
    if mode.upper() not in MODES:
        yield Rejection(f"Invalid value at 'tool_config.function_calling_config.mode' (TYPE_ENUM), \"{mode}\"")
    allowed = config.get("allowedFunctionNames") or []
    if allowed and mode.upper() not in ("ANY", "VALIDATED"):
        yield Rejection("Please set allowed_function_names only when function calling mode is ANY.")
    unknown = [name for name in allowed if name not in names]
    if unknown:
        text = "tool_config.function_calling_config.allowed_function_names"
        yield Rejection(f"* GenerateContentRequest.{text}: '{unknown[0]}' is not a declared function.\n")


CHECKS: tuple[Check, ...] = (check_fields, check_contents, check_order, check_signatures, check_tools)
