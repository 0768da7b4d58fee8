"""How generateContent spells contents and their parts."""

from toolwire.types.spelling.base import MessageSpelling, TextSpelling


class GeminiMessageSpelling(MessageSpelling, frozen=True, tag="gemini.message", gc=False):
    """How a content was spelled.

    - `role`: its role, if that was neither `user` nor `model`. Clients send results in the role `function`, as Google
      once did, or `tool` (https://hexdocs.pm/gemini_ex/Gemini.Types.Content.html).
    - `has_no_role`: it had none, which a request of one turn does not need (recorded of LiteLLM;
      https://ai.google.dev/api/caching#Content).
    - `has_one_part`: its `parts` was an object and no list of one, as in Google's samples for curl
      (https://ai.google.dev/gemini-api/docs/text-generation#system-instructions).
    """

    role: str | None = None
    has_no_role: bool = False
    has_one_part: bool = False


class GeminiPartSpelling(TextSpelling, frozen=True, tag="gemini.part", gc=False):
    """How a part was spelled that is no call and no result.

    - `snake_keys`, `inner_snake_keys`: the keys in snake_case, which Google's servers read as well
      (https://protobuf.dev/programming-guides/json/), of the part and of the object in it.
    - `data`: its data as it was sent, if that was no standard Base64. google-genai sends the alphabet for URLs
      (https://github.com/googleapis/python-genai).
    - `key`: the key of the part that holds a call of a tool which the server runs, or its result
      (https://ai.google.dev/api/caching#Part).
    """

    snake_keys: tuple[str, ...] = ()
    inner_snake_keys: tuple[str, ...] = ()
    data: str | None = None
    key: str | None = None
