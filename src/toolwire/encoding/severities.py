"""How much a loss matters, by what was lost: one table for every dialect.

Rules of this file:
- Semantic: what the model may do or sees has changed. So has whatever no table names.
- Minor: it has not, but something was said in other words, or said that was asked of the server alone.
- Formal: an echo, an envelope, bookkeeping, or what every server does anyway. It is in the report, and nowhere else.
- In an answer, settings are an echo of the request, and a signature is needed again: there its loss is semantic.
  A request goes to a provider that cannot read it; the thinking that it binds is accounted for by itself.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

from toolwire.encoding.request_fields import REQUEST_FIELDS
from toolwire.types import Action, Severity

Body = Literal["request", "response", "error"]

_IN_OTHER_WORDS = frozenset({"moved", "renamed", "merged", "defaulted"})
_CONCEPTS: Mapping[str, Severity] = {
    **{name: field.lost for name, field in REQUEST_FIELDS.items() if field.lost != "semantic"},
    **dict.fromkeys(
        "cache cache_mark created id output_text request_id schema_form tool_metadata usage usage_details".split(),
        "formal",
    ),
    **dict.fromkeys(
        "blank developer document_name empty error_detail error_kind image_detail image_type media_detail "
        "media_source media_transcript media_type stop_sequence".split(),
        "minor",
    ),
}
_ACTED: Mapping[tuple[str, Action], Severity] = {
    **dict.fromkeys(
        (
            (concept, "approximated")
            for concept in "custom_tool document document_text effort max_tokens media_url output_json quoted_fence "
            "refusal strict thinking thinking_budget".split()
        ),
        "minor",
    ),
    ("effort", "defaulted"): "semantic",
    ("max_tokens", "defaulted"): "formal",
    ("tool_choice", "approximated"): "semantic",
}
_OF: Mapping[Body, Mapping[str, Severity]] = {
    "request": {"thinking_signature": "minor"},
    "response": {"provider_state": "formal", "service_tier": "formal"},
    "error": {},
}


@lru_cache(1024)
def severity_of_loss(concept: str, action: Action, of: Body = "request") -> Severity:
    """Say how much a loss matters in a body of this kind."""
    known = _OF[of].get(concept) or _ACTED.get((concept, action)) or _CONCEPTS.get(concept)
    usual: Severity = "minor" if action in _IN_OTHER_WORDS else "semantic"
    return known or usual


# Keys that say how a body travels, who it is for, what it costs, or which of several it is (openai 3.54.0,
# anthropic 2.12.0, google-genai 3.4.0, ollama 0.6.3; OpenRouter, Groq, llama.cpp, Cohere; 2026-11-22).
_ENVELOPE = frozenset(
    "anthropic_version cache_control client_metadata closed eager_input_streaming expires_at id include index "
    "item.status item_id keep_alive output_index prompt_cache_options prompt_cache_retention status stream_options "
    "system_fingerprint type".split()
)
_MINOR_KEYS = frozenset({"context_management", "defer_loading", "namespace", "prediction"})
_OF_ANSWERS = frozenset(
    "avgLogprobs billing completed_at content_filter_results content_filters createTime eval_count eval_duration "
    "finishMessage generationId latency_checkpoint load_duration matched_stop native_finish_reason nonce obfuscation p "
    "prompt_eval_count prompt_eval_duration prompt_filter_results provider provider_metadata remote_host remote_model "
    "request_id safetyRatings seed stop_reason time_info timings tool_usage total_duration usage_breakdown "
    "x_groq".split()
)
# What a server of Responses repeats of its request (openai 3.54.0, Response; 2026-11-22).
_ECHOES = frozenset(
    "background context_management conversation frequency_penalty instructions max_output_tokens max_tool_calls "
    "metadata moderation parallel_tool_calls presence_penalty previous_response_id prompt prompt_cache_key reasoning "
    "safety_identifier service_tier store temperature text tool_choice tools top_logprobs top_p truncation user".split()
)
# What a server does, or a value means, where the key is left out.
_USUAL: Mapping[str, tuple[Any, ...]] = {
    "background": (False,),
    "caller": ({"type": "direct"},),
    "prefix": (False,),
    "reasoning": ({"context": "auto"}, {"context": "all_turns"}),
    "thoughtSignature": ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go"),
    "toolConfig": ({"functionCallingConfig": {"mode": "AUTO"}},),
    "truncation": ("disabled",),
    "usage": ({"include": True},),
}


@lru_cache(16)
def severities_of_keys(of: Body, *, outermost: bool) -> Mapping[str, Severity]:
    """Give how much keys matter that only their own wire understands, of those of which the value says nothing."""
    formal = _ENVELOPE if of == "request" else _ENVELOPE | _OF_ANSWERS | (_ECHOES if outermost else frozenset())
    minor: dict[str, Severity] = dict.fromkeys(_MINOR_KEYS - _USUAL.keys(), "minor")
    return minor | dict.fromkeys(formal, "formal")


def severity_of_key(key: str, value: Any, of: Body, *, outermost: bool) -> Severity:
    """Say how much it matters that a key is lost which only its own wire understands."""
    if key in _ENVELOPE or value in _USUAL.get(key, ()):
        return "formal"
    if of != "request" and (key in _OF_ANSWERS or (outermost and key in _ECHOES)):
        return "formal"
    return "minor" if key in _MINOR_KEYS else "semantic"
