"""How Gemini spells calls and results."""

from typing import Any

from msgspec import UNSET, UnsetType

from toolwire.types.spelling.base import WireSpelling


class GeminiCallSpelling(WireSpelling, frozen=True, tag="gemini.call", gc=False):
    """How a part with a `functionCall` was spelled.

    - `snake_keys`: its keys that were in snake_case. LiteLLM writes `function_call` (recorded).
    - `is_escaped`: its name had the escape that toolwire writes for this wire.
    - `has_no_id`: it had no `id`, or an empty one. Models before Gemini 3 write none (recorded).
    - `has_no_args`: it had no `args`, or none that are an object. Gemini leaves them out if there are none
      (https://github.com/JetBrains/koog/pull/2147).
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
    - `has_no_response`: it had `parts` alone, in which a function may return media
      (https://ai.google.dev/api/caching#FunctionResponse).
    - `response`: the `response` was neither `{"output": text}` nor `{"error": text}`. google-genai writes
      `{"result": value}`, and a function may return any object (recorded).
    """

    snake_keys: tuple[str, ...] = ()
    is_escaped: bool = False
    id: str | UnsetType | None = UNSET
    linked_id: str | None = None
    has_no_response: bool = False
    response: Any | UnsetType = UNSET
