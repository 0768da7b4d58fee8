"""The particulars of Messages."""

from toolwire.dialects.anthropic.parts import mark_blocks
from toolwire.dialects.anthropic.tools import TOOL_SEARCH
from toolwire.encoding.traits import WireTraits

TRAITS = WireTraits(
    history_key="messages",
    repeats_call_ids=True,
    splits_turns=True,
    has_response_ids=True,
    response_id_prefix="msg_",
    has_comments=True,
    keep_alive=b'event: ping\ndata: {"type":"ping"}\n\n',
    request_id_header="request-id",
    continues_turns=True,
    binds_thinking=True,
    requires_thinking_before_calls=True,
    shows_foreign_thinking=True,
    has_billing_line=True,  # Claude Code 2.1.197 sends one
    # anthropic 2.14.0, MessageCreateParams.cache_control (2026-11-27).
    request_cache_mark={"cache_control": {"type": "ephemeral"}},
    mark_blocks=mark_blocks,
    # `user_..._session_UUID` of Claude Code 2.0, and the JSON object of Claude Code 2.1 (2026-11-27).
    session_in_user=r'(?<=_session_)[\w-]+$|"session_id":\s*"([^"]+)"',
    settings_by_history=frozenset({"thinking", "thinking_budget"}),
    tool_search=TOOL_SEARCH,
    losses_after_history=frozenset({"opaque", "first_turn"}),
)
