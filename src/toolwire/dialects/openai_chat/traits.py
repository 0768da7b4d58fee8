"""The particulars of Chat Completions."""

from toolwire.encoding.traits import WireTraits

TRAITS = WireTraits(
    history_key="messages",
    repeats_call_ids=True,
    has_response_ids=True,
    response_id_prefix="chatcmpl-",
    has_response_times=True,
    streams_usage_on_request=True,
    has_comments=True,
    keep_alive=b": waiting\n\n",
    other_api="openai",
    wraps_output=True,  # OpenAI, "Structured model outputs", supported schemas, 2026-11-23
    losses_after_history=frozenset({"opaque", "output_json"}),
)
