"""How servers deviate from their dialects, as data: never a subclass, never a server's name in an `if`.

Rule: each quirk is declared once, here. `make docs` writes `quirk_options.py` from it, for checkers and the reference.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.errors import InvalidField
from toolwire.wire.names import Grammar, read_grammar


class Quirks(Struct, frozen=True, kw_only=True):
    """How a server deviates from its dialect, or which version of it the server speaks.

    >>> from toolwire import Context, Message, Quirks, Request, dialect
    >>> request = Request(model="m", context=Context(messages=[Message("Hi.")]), max_tokens=9)
    >>> dialect("openai-chat").encode_request(request, Quirks(max_tokens_key="max_tokens")).body["max_tokens"]
    9
    """

    api_version: str | None = None
    """The version of Messages to write for: `2023-06-01` or `2026-10-21`."""
    reasoning_key: str | None = None
    """The field in which a Chat Completions server accepts thinking: `reasoning_content` or `reasoning`."""
    developer_role: bool = True
    """Whether the server knows the role `developer`. Otherwise the role `system` is sent."""
    mid_system: bool = False
    """Whether the model accepts system messages inside the conversation (Messages)."""
    cache_marks: bool | None = None
    """Whether to send cache marks to a Chat Completions or Responses server. None means: to models that take them."""
    request_cache_mark: bool = True
    """Whether a Messages server accepts a cache mark for a whole request. If not, blocks get it."""
    joined_texts: bool = False
    """Whether to join the texts of a message, for a server that accepts only a string."""
    custom_tools: bool = True
    """Whether the server accepts tools of free text. If not, they become functions with one text."""
    arguments_object: bool = False
    """Whether arguments are sent as an object instead of text (some Chat Completions servers)."""
    arguments_json: bool = False
    """Whether the server fails at arguments that are not JSON (llama.cpp). Then `{}` is sent."""
    id_grammar: Grammar | str | None = None
    """The pattern of the call ids that the server accepts, which may also be a text."""
    max_tokens_key: str | None = None
    """`max_tokens` for a Chat Completions server that does not know `max_completion_tokens`."""
    default_max_tokens: int = 8192
    """The `max_tokens` for Messages if the request has none."""
    reasons: bool | None = None
    """Whether the model reasons. A model that does not is sent no effort and no thinking. A model of OpenAI that does
    is sent no temperature. None means that it is not known: everything is sent."""
    skip_signature: bool = True
    """Whether calls of other providers get Google's documented placeholder for "no signature"."""
    stream_usage: bool = True
    """Whether a Chat Completions stream ends with its token counts."""
    stream_array: bool = False
    """Whether a Gemini stream is one JSON array instead of server-sent events."""

    def __post_init__(self) -> None:
        if isinstance(self.id_grammar, str):
            read_grammar(self.id_grammar)


PLAIN = Quirks()


def tuned(quirks: Quirks, settings: Mapping[str, Any]) -> Quirks:
    """Return `quirks` with the fields in `settings` changed. Raise `InvalidField` for an unknown field."""
    unknown = settings.keys() - set(Quirks.__struct_fields__)
    if unknown:
        raise InvalidField(", ".join(sorted(unknown)), f"is not a quirk; known: {', '.join(Quirks.__struct_fields__)}")
    return replace(quirks, **settings)
