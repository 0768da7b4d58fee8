"""The particulars of Ollama."""

from toolwire.encoding.traits import WireTraits

TRAITS = WireTraits(
    history_key="messages",
    requires_messages=False,
    has_response_times=True,
    has_durations=True,
    streams_by_default=True,
    stream_type="application/x-ndjson",
    ends_frames_with_blank_line=False,
    result_link="",
    describes_keywords=True,
    continues_turns=True,  # the maintainers of Ollama in https://github.com/ollama/ollama/issues/6778
    settings_by_history=frozenset({"tool_choice"}),
    losses_after_history=frozenset({"opaque", "output_with_tools"}),
)
