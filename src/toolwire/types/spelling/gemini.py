"""How Gemini spells values."""

from typing import Any

from msgspec import UNSET, UnsetType

from toolwire.types.spelling.base import MessageSpelling, RequestSpelling, TextSpelling, ToolSpelling, WireSpelling


class GeminiResponseSpelling(WireSpelling, frozen=True, tag="gemini.response", gc=False):
    """How a response was spelled.

    - `snake_keys`: its keys that were in snake_case, as `to_dict` of Google's older client returns them
      (https://github.com/google-gemini/deprecated-generative-ai-python/pull/337). No server is known that sends them,
      but the client gets what the server sent.
    - `order`: the positions of its candidates in the order of their `index`, if the list had another order. The
      candidate with the lowest `index` is the answer (google-genai 3.6.1, `Candidate.index`).
    """

    snake_keys: tuple[str, ...] = ()
    order: tuple[int, ...] = ()


class GeminiChoiceSpelling(WireSpelling, frozen=True, tag="gemini.choice", gc=False):
    """How a candidate was spelled.

    - `snake_keys`: its keys that were in snake_case, as in `GeminiResponseSpelling`.
    - `has_no_candidate`: there was none, because the prompt was blocked, as `promptFeedback` shows (recorded of
      Vertex).
    - `has_no_content`: it had no `content`. Vertex sends none if Model Armor blocks the answer (recorded).
    - `finish_reason`: its `finishReason` was this number. Vertex sends numbers for `$alt=json;enum-encoding=int`, which
      google-cloud-aiplatform writes (recorded).
    """

    snake_keys: tuple[str, ...] = ()
    has_no_candidate: bool = False
    has_no_content: bool = False
    finish_reason: Any | UnsetType = UNSET


class GeminiErrorSpelling(WireSpelling, frozen=True, tag="gemini.error", gc=False):
    """How an error was spelled.

    - `is_list`: it was in a list of one. `streamGenerateContent` without `alt=sse` sends a JSON array (recorded of
      langchaingo). An error in such a list is recorded nowhere, but Google's endpoint for clients of OpenAI sends one
      (https://github.com/FoundationAgents/OpenManus/issues/913).
    - `body`: the whole body, which was not an error of this wire. Vertex has sent HTML for an embedding
      (https://github.com/maximhq/bifrost/issues/2288).
    """

    is_list: bool = False
    body: Any | UnsetType = UNSET


class GeminiRequestSpelling(RequestSpelling, frozen=True, tag="gemini.request", gc=False):
    """How a request of generateContent was spelled.

    - `snake_keys`, `config_snake_keys`, `thinking_snake_keys`: the keys in snake_case, which Google's servers read as
      well (https://protobuf.dev/programming-guides/json/), of the body, its `generationConfig` and the
      `thinkingConfig` in it.
    - `has_opening_turn`: it began with the turn of the user that toolwire adds, since this wire begins with the user.
    - `has_one_content`, `has_one_system_part`: `contents`, or the `parts` of the system instruction, was an object
      instead of a list of one, as in Google's samples for curl (`samples/rest/system_instruction.sh` of
      https://github.com/google-gemini/deprecated-generative-ai-python).
    - `system_role`: the role beside the system instruction, which has none. google-genai writes `user`, and langchaingo
      `system` (recorded).
    - `has_thinking_level`: it had a `thinkingLevel`, so that the model takes one, whichever its family.
    - `has_text_modality`: it asked for `responseModalities` of text alone, which every model gives (recorded of
      pydantic-ai).
    - `has_enum_output`: the answer is a bare word instead of JSON (`responseMimeType` `text/x.enum`,
      https://firebase.google.com/docs/ai-logic/generate-structured-output).
    """

    snake_keys: list[str] = []
    config_snake_keys: list[str] = []
    thinking_snake_keys: list[str] = []
    has_opening_turn: bool = False
    has_one_content: bool = False
    has_one_system_part: bool = False
    system_role: str | None = None
    has_thinking_level: bool = False
    has_text_modality: bool = False
    has_enum_output: bool = False

    @property
    def needs_all_messages(self) -> bool:
        """Return True if the request can be written only when all of its messages are known."""
        return self.has_no_messages or self.has_opening_turn or self.has_one_content


class GeminiToolSpelling(ToolSpelling, frozen=True, tag="gemini.tool", gc=False):
    """How a function was declared, and where it was in `tools`, which is a list of objects that hold declarations.

    - `parameters`: the schema in Google's OpenAPI keywords (google-genai 3.6.1, `Schema`). The encoder writes JSON
      Schema in `parametersJsonSchema`.
    - `snake_keys`: its keys in snake_case, which Google's servers read as well
      (https://protobuf.dev/programming-guides/json/). google-genai writes `parameters_json_schema` (recorded).
    - `is_first_of_object`: its object began with it, and was not the first one with functions. langchaingo put each
      function in an object of its own (https://github.com/tmc/langchaingo/pull/1361).
    - `is_joined_to_server_tool`: its object began with a tool of the server, such as `googleSearch`
      (https://ai.google.dev/gemini-api/docs/generate-content/tool-combination).
    - `is_first_of_snake_list`: its list began with it, and was spelled `function_declarations` (recorded of LiteLLM).
    """

    parameters: dict[str, Any] | UnsetType = UNSET
    snake_keys: tuple[str, ...] = ()
    is_first_of_object: bool = False
    is_joined_to_server_tool: bool = False
    is_first_of_snake_list: bool = False


class GeminiMessageSpelling(MessageSpelling, frozen=True, tag="gemini.message", gc=False):
    """How a content was spelled.

    - `role`: its role, if that was neither `user` nor `model`. Genkit sent results in the role `function`
      (https://github.com/genkit-ai/genkit/pull/5777), and gemini_ex sends them in the role `tool`
      (https://hexdocs.pm/gemini_ex/Gemini.Types.Content.html).
    - `has_no_role`: it had none, which means `user` (recorded of LiteLLM and llm.rb; google-genai 3.6.1,
      `Content.role`).
    - `has_one_part`: its `parts` was an object instead of a list of one, as in Google's samples for curl
      (`samples/rest/system_instruction.sh` of https://github.com/google-gemini/deprecated-generative-ai-python).
    """

    role: str | None = None
    has_no_role: bool = False
    has_one_part: bool = False


class GeminiPartSpelling(TextSpelling, frozen=True, tag="gemini.part", gc=False):
    """How a part was spelled that is neither a call nor a result.

    - `snake_keys`, `inner_snake_keys`: the keys in snake_case, which Google's servers read as well
      (https://protobuf.dev/programming-guides/json/), of the part and of the object in it. llm.rb writes `inline_data`
      (recorded).
    - `data`: its data as it was sent, if that was not standard Base64. google-genai sends the alphabet for URLs
      (google-genai 3.6.1, `encode_unserializable_types`).
    - `key`: the key of the part that holds a call of a tool which the server runs, or its result
      (google-genai 3.6.1, `Part.tool_call` and `Part.executable_code`).
    """

    snake_keys: tuple[str, ...] = ()
    inner_snake_keys: tuple[str, ...] = ()
    data: str | None = None
    key: str | None = None


class GeminiCallSpelling(WireSpelling, frozen=True, tag="gemini.call", gc=False):
    """How a part with a `functionCall` was spelled.

    - `snake_keys`: its keys that were in snake_case. LiteLLM writes `function_call` (recorded).
    - `is_escaped`: its name had the escape that toolwire writes for this wire.
    - `has_no_id`: it had no `id`, or an empty one. Models before Gemini 3 write none (recorded).
    - `has_no_args`: it had no `args`, or none that are an object. Gemini may leave them out
      (https://github.com/JetBrains/koog/issues/2146; google-genai 3.6.1, `FunctionCall.args`).
    """

    snake_keys: tuple[str, ...] = ()
    is_escaped: bool = False
    has_no_id: bool = False
    has_no_args: bool = False


class GeminiResultSpelling(WireSpelling, frozen=True, tag="gemini.result", gc=False):
    """How a part with a `functionResponse` was spelled.

    - `snake_keys`: its keys that were in snake_case. LiteLLM writes `function_response` (recorded).
    - `is_escaped`: its name had the escape that toolwire writes for this wire.
    - `id`: it had no `id`, or that of no call. Clients of models before Gemini 3 send none (recorded).
    - `linked_id`: the call that it answers nevertheless. Its `id` is written as long as it answers that call.
    - `has_no_response`: it had `parts` alone, in which a function may return media (google-genai 3.6.1,
      `FunctionResponse.parts`). No client is known that sends no `response`, but the wire gets what was sent.
    - `response`: the `response` was neither `{"output": text}` nor `{"error": text}`. google-genai writes
      `{"result": value}`, and a function may return any object (recorded).
    """

    snake_keys: tuple[str, ...] = ()
    is_escaped: bool = False
    id: str | UnsetType | None = UNSET
    linked_id: str | None = None
    has_no_response: bool = False
    response: Any | UnsetType = UNSET
