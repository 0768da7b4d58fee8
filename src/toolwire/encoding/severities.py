"""The severities of losses, in one table for every dialect.

Rules of this file:
- Semantic: the model sees something else, or may do something else. A loss that no table names is semantic too.
- Minor: the model sees the same in other words, or the lost value concerned only the server.
- Formal: an echo, an envelope, bookkeeping, or what every server does anyway. Only the report of losses has it.
- The settings in an answer are an echo of the request, so their loss is formal.
- The loss of a signature is semantic in an answer, because the client has to send it back. In a request it is minor,
  because the provider could not read it, and the loss of the thinking itself is reported separately.
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
_CONCEPTS_BY_ACTION: Mapping[tuple[str, Action], Severity] = {
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
_CONCEPTS_BY_BODY: Mapping[Body, Mapping[str, Severity]] = {
    "request": {"thinking_signature": "minor"},
    "response": {"provider_state": "formal", "service_tier": "formal"},
    "error": {},
}


@lru_cache(1024)
def severity_of_loss(concept: str, action: Action, of: Body = "request") -> Severity:
    """Return the severity of a loss of `concept` by `action`, in a body of this kind."""
    severity = (
        _CONCEPTS_BY_BODY[of].get(concept) or _CONCEPTS_BY_ACTION.get((concept, action)) or _CONCEPTS.get(concept)
    )
    by_action: Severity = "minor" if action in _IN_OTHER_WORDS else "semantic"
    return severity or by_action


# Keys about how a body is sent, whom it is for, what it costs, or which of several it is (openai 3.54.0,
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
# Keys of the request that a server of Responses repeats in its response (openai 3.54.0, Response; 2026-11-22).
_ECHOES = frozenset(
    "background context_management conversation frequency_penalty instructions max_output_tokens max_tool_calls "
    "metadata moderation parallel_tool_calls presence_penalty previous_response_id prompt prompt_cache_key reasoning "
    "safety_identifier service_tier store temperature text tool_choice tools top_logprobs top_p truncation user".split()
)
# Values that mean the same as no key at all.
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
    """Return the severities of losing known opaque keys, except for keys whose severity depends on their value.

    `outermost` is true for the keys of the body itself.
    """
    formal = _ENVELOPE if of == "request" else _ENVELOPE | _OF_ANSWERS | (_ECHOES if outermost else frozenset())
    minor: dict[str, Severity] = dict.fromkeys(_MINOR_KEYS - _USUAL.keys(), "minor")
    return minor | dict.fromkeys(formal, "formal")


def severity_of_key(key: str, value: Any, of: Body, *, outermost: bool) -> Severity:
    """Return the severity of losing `key` with `value`, which only its own wire understands."""
    if key in _ENVELOPE or value in _USUAL.get(key, ()):
        return "formal"
    if of != "request" and (key in _OF_ANSWERS or (outermost and key in _ECHOES)):
        return "formal"
    return "minor" if key in _MINOR_KEYS else "semantic"
