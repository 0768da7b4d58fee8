"""How each wire spelled a tool is a struct with a field for each deviation, and the tool is written so again."""

from typing import Any

import msgspec
import pytest

from tests.dialects.responses_tools import DECLARED
from tests.wires import differences
from toolwire import Request, Tool
from toolwire.dialects import dialect
from toolwire.types.spelling import WireSpelling
from toolwire.types.spelling.anthropic import MessagesToolSpelling
from toolwire.types.spelling.gemini import GeminiToolSpelling
from toolwire.types.spelling.ollama import OllamaToolSpelling
from toolwire.types.spelling.openai_chat import ChatToolSpelling
from toolwire.types.spelling.openai_responses import QualifiedName, ResponsesToolSpelling

FUNCTION = {"name": "look", "parameters": {"type": "object"}}
COMPUTER = {"type": "computer_20250124", "display_width_px": 800, "display_height_px": 600}
# The wire, the keys of a request, and the spellings of its tools; None for a tool that is spelled as usual.
SPELLINGS: dict[str, tuple[str, dict[str, Any], list[WireSpelling | None]]] = {
    "a type of Messages": (
        "anthropic",
        {"tools": [{"type": "custom", "name": "look"}, {"name": "see"}]},
        [MessagesToolSpelling(constants={"type": "custom"}), None],
    ),
    "a tool of Anthropic": (
        "anthropic",
        {"tools": [{**COMPUTER, "name": "computer", "display_number": 1}]},
        [MessagesToolSpelling(constants=COMPUTER, builtin="computer_20250124")],
    ),
    "no type, as Mistral's client": (
        "openai-chat",
        {"tools": [{"function": FUNCTION}, {"type": "function", "function": FUNCTION}]},
        [ChatToolSpelling(has_no_type=True), None],
    ),
    "deprecated functions": (
        "openai-chat",
        {"functions": [FUNCTION]},
        [ChatToolSpelling(is_deprecated_function=True)],
    ),
    "no type of Ollama": (
        "ollama",
        {"tools": [{"function": FUNCTION}, {"type": "function", "function": FUNCTION}]},
        [OllamaToolSpelling(has_no_type=True), None],
    ),
    "an object for each function, as langchaingo": (
        "gemini",
        {"tools": [{"functionDeclarations": [{"name": "look"}]}, {"functionDeclarations": [{"name": "see"}]}]},
        [None, GeminiToolSpelling(is_first_of_object=True)],
    ),
    "a server tool in the object of a function": (
        "gemini",
        {"tools": [{"googleSearch": {}, "functionDeclarations": [{"name": "look"}, {"name": "see"}]}]},
        [GeminiToolSpelling(is_joined_to_server_tool=True), None],
    ),
    "snake_case": (
        "gemini",
        {"tools": [{"function_declarations": [{"name": "look", "parameters_json_schema": {}}, {"name": "see"}]}]},
        [GeminiToolSpelling(snake_keys=("parameters_json_schema",), is_first_of_snake_list=True), None],
    ),
    "OpenAPI keywords": (
        "gemini",
        {"tools": [{"functionDeclarations": [{"name": "look", "parameters": {"type": "OBJECT"}}]}]},
        [GeminiToolSpelling(parameters={"type": "OBJECT"})],
    ),
    "a namespace of Responses": (
        "openai-responses",
        {"tools": [{"type": "namespace", "name": "a", "tools": [{"type": "function", "name": "look"}]}]},
        [ResponsesToolSpelling(qualified_name=QualifiedName("a", "look", "a__look"))],
    ),
    "a tool of OpenAI": (
        "openai-responses",
        {"tools": [{"type": "shell", "environment": {"type": "local"}}]},
        [
            ResponsesToolSpelling(
                constants={"environment": {"type": "local"}},
                builtin="shell",
                has_no_description=True,
                has_no_parameters=True,
            )
        ],
    ),
}


@pytest.mark.parametrize("case", SPELLINGS)
def test_a_field_names_each_deviation(case: str) -> None:
    name, body, wanted = SPELLINGS[case]
    wire = dialect(name)
    request = wire.decode_request(body)
    tools = [tool for tool in request.tools if isinstance(tool, Tool)]
    assert [tool.opaque and tool.opaque.spelling for tool in tools] == wanted
    assert wire.encode_request(request).body.items() >= body.items()


@pytest.mark.parametrize("case", [case for case in DECLARED if case != "odd"])
def test_a_layout_comes_back_from_json(case: str) -> None:
    """A conversation that is saved has its tools where they were."""
    body = {"model": "m", **DECLARED[case][0]}
    wire = dialect("openai-responses")
    request = wire.decode_request(body)
    loaded = msgspec.json.decode(msgspec.json.encode(request), type=Request)
    assert loaded == request
    assert differences(body, wire.encode_request(loaded).body) == []
