"""The fields of `Quirks` as keyword arguments. Made by `make docs` from quirks.py."""

from typing import TypedDict

from toolwire.wire.names import Grammar


class QuirkOptions(TypedDict, total=False):
    """The fields of `Quirks`, one by one.

    >>> from toolwire import Context, Message, QuirkOptions, Request, dialect
    >>> request = Request(model="m", context=Context(messages=[Message("Hi.")]), max_tokens=9)
    >>> options: QuirkOptions = {"max_tokens_key": "max_tokens"}
    >>> dialect("openai-chat", **options).encode_request(request).body["max_tokens"]
    9
    """

    api_version: str | None
    """The version of Messages to write for: `2023-06-01` or `2026-10-21`."""
    reasoning_key: str | None
    """The field in which a Chat Completions server accepts thinking: `reasoning_content` or `reasoning`."""
    developer_role: bool
    """Whether the server knows the role `developer`. Otherwise the role `system` is sent. Default: `True`."""
    mid_system: bool
    """Whether the model accepts system messages inside the conversation (Messages). Default: `False`."""
    cache_marks: bool | None
    """Whether to send cache marks to a Chat Completions or Responses server. None means: to models that take them."""
    request_cache_mark: bool
    """Whether a Messages server accepts a cache mark for a whole request. If not, blocks get it. Default: `True`."""
    joined_texts: bool
    """Whether to join the texts of a message, for a server that accepts only a string. Default: `False`."""
    custom_tools: bool
    """Whether the server accepts tools of free text. If not, they become functions with one text. Default: `True`."""
    arguments_object: bool
    """Whether arguments are sent as an object instead of text (some Chat Completions servers). Default: `False`."""
    arguments_json: bool
    """Whether the server fails at arguments that are not JSON (llama.cpp). Then `{}` is sent. Default: `False`."""
    id_grammar: Grammar | str | None
    """The pattern of the call ids that the server accepts, which may also be a text."""
    max_tokens_key: str | None
    """`max_tokens` for a Chat Completions server that does not know `max_completion_tokens`."""
    default_max_tokens: int
    """The `max_tokens` for Messages if the request has none. Default: `8192`."""
    reasons: bool | None
    """Whether the model reasons. A model that does not is sent no effort and no thinking. A model of OpenAI that does
    is sent no temperature. None means that it is not known: everything is sent."""
    skip_signature: bool
    """Whether calls of other providers get Google's documented placeholder for "no signature". Default: `True`."""
    stream_usage: bool
    """Whether a Chat Completions stream ends with its token counts. Default: `True`."""
    stream_array: bool
    """Whether a Gemini stream is one JSON array instead of server-sent events. Default: `False`."""
