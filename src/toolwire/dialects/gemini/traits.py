"""The particulars of Gemini."""

from toolwire.encoding.traits import WireTraits

TRAITS = WireTraits(
    history_key="contents",
    model_role="model",
    generated_id_prefix="gemini_",
    splits_turns=True,  # google-genai sends each piece of a stream as a separate content (3.4.0)
    has_response_ids=True,
    names_model_in_path=True,
    stream_verb=":streamGenerateContent",
    streams_arrays=True,
    ending_field=b'"finishReason"',
    count_field="totalTokens",
    result_link="name",
    losses_after_history=frozenset({"opaque", "first_turn"}),
)
