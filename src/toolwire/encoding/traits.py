"""The particulars of a wire that code above the dialects has to know.

Rule: code outside a dialect checks a trait, and never the dialect's name.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from toolwire.types import Part, ServerTool, ServerToolCall, Tool


class ToolSearchForm(Struct, frozen=True):
    """How a wire searches deferred tools: tools that its models can call only after a search has named them."""

    is_search: Callable[[ServerTool], bool]
    """Whether a tool of the provider is the search."""
    is_search_call: Callable[[ServerToolCall], bool]
    """Whether a call is one of the search."""
    names_in: Callable[[Part], Sequence[str] | None]
    """Return the names of the tools that a result of a search has, or None if the part is no such result."""
    search_parts: Callable[[ServerTool, str, Mapping[str, Any], Sequence[Tool]], list[Part]]
    """Return the call and the result of a search, given the tool, an id, the arguments and the tools that it found."""
    id_prefix: str
    """The beginning of the ids of calls that servers run."""


class WireTraits(Struct, frozen=True, kw_only=True):
    """The particulars of one wire, of its servers and of its clients."""

    history_key: str
    """The field of a request that holds its messages."""
    requires_messages: bool = True
    """Whether servers reject a request without messages. Ollama's load a model then; Responses has stored prompts."""
    model_role: str = "assistant"
    """The role of the model's messages."""
    model_items: tuple[str, ...] = ()
    """The types of the items that the model writes, if a history has items beside messages."""
    generated_id_prefix: str = ""
    """The beginning of the ids that the decoder generates, if calls have no ids on the wire."""
    repeats_call_ids: bool = False
    """Whether clients send the id of a call back as they received it."""
    splits_turns: bool = False
    """Whether clients may send one turn of the model as several messages."""
    has_response_ids: bool = False
    """Whether a response has an id."""
    response_id_prefix: str = ""
    """The beginning of the ids of responses that servers generate."""
    has_response_times: bool = False
    """Whether a response names the time at which it was created."""
    repeats_settings: bool = False
    """Whether a response repeats the settings of its request. Strict clients reject a response without them."""
    has_durations: bool = False
    """Whether a response has durations. Clients divide by these numbers, so they must be there."""
    stores_responses: bool = False
    """Whether servers store a response unless the request forbids it."""
    names_model_in_path: bool = False
    """Whether the path of a request names the model."""
    stream_verb: str = ""
    """The end of a path that asks for a stream, if the path does it and not the body."""
    streams_by_default: bool = False
    """Whether servers stream unless the request forbids it."""
    streams_usage_on_request: bool = False
    """Whether a stream reports usage only if the request asks for it."""
    streams_arrays: bool = False
    """Whether a stream is one JSON array unless the request asks for server-sent events."""
    stream_type: str = "text/event-stream; charset=utf-8"
    """The content type of a stream."""
    ends_frames_with_blank_line: bool = True
    """Whether a blank line ends a frame of a stream. Otherwise the end of the line does."""
    has_comments: bool = False
    """Whether clients skip comments in a stream."""
    keep_alive: bytes = b""
    """The bytes that keep a silent stream open. Empty if clients know none."""
    ending_field: bytes = b""
    """The field of a frame that ends an answer, if a stream has no last frame of its own."""
    request_id_header: str = "x-request-id"
    """The response header in which SDKs read the id of a request."""
    count_field: str = "input_tokens"
    """The field of a token count."""
    count_object: str = ""
    """The `object` of a token count. Empty if it has none."""
    other_api: str = ""
    """The API whose other endpoints (embeddings, images) its servers offer. Empty if no other wire belongs to it."""
    result_link: str = "tool_call_id"
    """The field of a `ToolResult` that links it to its call. Empty if the order alone does."""
    describes_keywords: bool = False
    """Whether keywords of a schema from another wire are written to descriptions, because servers drop them."""
    continues_turns: bool = False
    """Whether models continue an assistant message at the end of a request. Some families still reject it."""
    binds_thinking: bool = False
    """Whether signed thinking is only valid while the results before it are unchanged."""
    requires_thinking_before_calls: bool = False
    """Whether servers reject a request with a thinking budget if its calls were made without thinking."""
    shows_foreign_thinking: bool = False
    """Whether clients are shown the thinking of another wire's model, with a signature of toolwire."""
    has_billing_line: bool = False
    """Whether clients begin the system prompt with a line that their own vendor uses for billing."""
    wraps_output: bool = False
    """Whether servers accept only the schema of an object for an answer. Another value is sent as a field of one."""
    settings_by_history: frozenset[str] = frozenset()
    """The fields of a `Request` whose encoding depends on the messages of the request."""
    request_cache_mark: Mapping[str, Any] = {}
    """The member of a body that asks the provider to cache the whole request. Empty if servers cache without marks."""
    mark_blocks: Callable[[dict[str, Any]], tuple[dict[str, Any], list[str]]] | None = None
    """Mark single blocks of a body for the provider's cache. Return the body and the paths of the marks."""
    session_in_user: str = ""
    """A pattern that finds the client's session in the name of the user, if a client sends its session there."""
    tool_search: ToolSearchForm | None = None
    """How servers search deferred tools. None if they defer none."""
    losses_after_history: frozenset[str] = frozenset()
    """The concepts whose losses the encoder reports after those of the messages."""

    def session_of_user(self, user: str) -> str:
        """Return the client's session that the name of the user has. Empty if there is none."""
        match = re.search(self.session_in_user, user) if self.session_in_user else None
        return match[match.lastindex or 0] if match else ""
