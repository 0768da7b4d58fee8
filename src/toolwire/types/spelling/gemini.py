"""How generateContent spells responses and errors."""

from typing import Any

from msgspec import UNSET, UnsetType

from toolwire.types.spelling.base import WireSpelling


class GeminiResponseSpelling(WireSpelling, frozen=True, tag="gemini.response", gc=False):
    """How a response was spelled.

    - `snake_keys`: its keys that were in snake_case. Proxies send what `to_dict` of Google's older client returns
      (https://github.com/google-gemini/deprecated-generative-ai-python/pull/337).
    - `order`: the positions of its candidates in the order of their `index`, if they stood in another one. The `index`
      says which one is the answer (https://ai.google.dev/api/generate-content#candidate).
    """

    snake_keys: tuple[str, ...] = ()
    order: tuple[int, ...] = ()


class GeminiChoiceSpelling(WireSpelling, frozen=True, tag="gemini.choice", gc=False):
    """How a candidate was spelled.

    - `snake_keys`: its keys that were in snake_case, as in `GeminiResponseSpelling`.
    - `has_no_candidate`: there was none, because the prompt was blocked. `promptFeedback` says so
      (https://ai.google.dev/api/generate-content#PromptFeedback).
    - `has_no_content`: it had no `content`. Vertex sends none if Model Armor blocks the answer (recorded).
    - `finish_reason`: its `finishReason` was this number. Vertex sends numbers for `$alt=json;enum-encoding=int`
      (https://cloud.google.com/apis/docs/system-parameters).
    """

    snake_keys: tuple[str, ...] = ()
    has_no_candidate: bool = False
    has_no_content: bool = False
    finish_reason: Any | UnsetType = UNSET


class GeminiErrorSpelling(WireSpelling, frozen=True, tag="gemini.error", gc=False):
    """How an error was spelled.

    - `is_list`: it stood in a list of one. `streamGenerateContent` without `alt=sse` sends a JSON array
      (https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent).
    - `body`: the whole body, which was no error of this wire. Proxies send HTML.
    """

    is_list: bool = False
    body: Any | UnsetType = UNSET
