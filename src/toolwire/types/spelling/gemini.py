"""How Gemini spells tools."""

from typing import Any

from msgspec import Struct

from toolwire.types.spelling.base import ToolSpelling


class OpenApiSchema(Struct, frozen=True, gc=False):
    """A schema in Google's OpenAPI keywords: the schema as it was `sent`, and its `meaning` in JSON Schema.

    https://ai.google.dev/api/caching#Schema
    """

    sent: dict[str, Any]
    meaning: dict[str, Any]


class GeminiToolSpelling(ToolSpelling, frozen=True, tag="gemini.tool", gc=False):
    """How a function was declared, and where it was in `tools`, which is a list of objects that hold declarations.

    - `parameters`: the schema was in `parameters`. The encoder writes JSON Schema in `parametersJsonSchema`.
    - `snake_keys`: these keys of the declaration were in snake_case, which the server accepts too. google-genai and
      LiteLLM send them.
      https://protobuf.dev/programming-guides/json/
    - `is_first_of_object`: its object began with it, and was not the first one with functions. langchaingo put each
      function in an object of its own.
      https://github.com/tmc/langchaingo/issues/1245
    - `is_joined_to_server_tool`: its object began with a tool of the server, such as `googleSearch`.
      https://ai.google.dev/gemini-api/docs/tool-combination
    - `is_first_of_snake_list`: its list began with it, and was spelled `function_declarations`.
    """

    parameters: OpenApiSchema | None = None
    snake_keys: tuple[str, ...] = ()
    is_first_of_object: bool = False
    is_joined_to_server_tool: bool = False
    is_first_of_snake_list: bool = False
