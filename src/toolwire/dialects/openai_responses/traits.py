"""The particulars of Responses."""

from toolwire.dialects.openai_responses.tools import TOOL_SEARCH
from toolwire.encoding.traits import WireTraits

TRAITS = WireTraits(
    history_key="input",
    requires_messages=False,
    model_items=("reasoning", "function_call", "custom_tool_call"),
    repeats_call_ids=True,
    has_response_ids=True,
    response_id_prefix="resp_",
    has_response_times=True,
    repeats_settings=True,
    has_comments=True,
    keep_alive=b": waiting\n\n",
    count_object="response.input_tokens",
    other_api="openai",
    stores_responses=True,
    wraps_output=True,  # OpenAI, "Structured model outputs", supported schemas, 2026-11-23
    tool_search=TOOL_SEARCH,
    losses_after_history=frozenset({"opaque", "output_json"}),
)
