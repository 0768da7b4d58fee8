"""Recorded streams that a vendor's own client misreads: which fields of what it tells are wrong, and why.

A stream that its client begins to read right is a failure of the law, and leaves this table.
"""

FORGETS = "a later chunk says no usage, and the client forgets what an earlier one said"
EMPTY = "the finish reason is an empty text, and beside it stands an empty call"
ARRAY = "the stream is a JSON array, for which this client asks no server"
ALL_BUT_CALLS = {"text", "finish", "usage", "error"}
BLOCKS = "the content is a list of blocks, which the client takes for text, or joins by what it is not"
MISREAD: dict[str, tuple[set[str], str]] = {
    "openai-chat/datadog-dd-trace-py__completion_stream_multiple_choices_proxy-0": ({"usage"}, FORGETS),
    "openai-chat/pydantic-pydantic-ai__test_openai-test_openai_moderation_stream-0": ({"usage"}, FORGETS),
    "openai-chat/pydantic-pydantic-ai__test_openrouter-test_openrouter_stream_error-0": (
        {"usage"},
        "the chunk that has the usage also has an error, at which the client stops",
    ),
    "openai-chat/pydantic-pydantic-ai__test_openrouter-test_openrouter_web_search_annotations_stream-0": (
        {"text", "finish", "usage", "error"},
        "annotations come without an index, and the client raises at the second",
    ),
    "mistral-chat/crmne-ruby_llm__chat_mistral_hybrid_reasoning_streams_thinking_separately_from_content-0": (
        {"text", "thinking"},
        BLOCKS,
    ),
    "mistral-chat/pydantic-pydantic-ai__test_mistral-test_mistral_model_thinking_part_iter-0": (
        {"thinking"},
        BLOCKS,
    ),
    "openai-chat/pydantic-pydantic-ai__test_snowflake-test_snowflake_model_streaming-0": (
        {"finish"},
        "there is no finish reason, and the end of the stream is none for the client",
    ),
    "openai-chat/pydantic-pydantic-ai__test_snowflake-test_snowflake_thinking_streaming-0": (
        {"finish"},
        "there is no finish reason, and the end of the stream is none for the client",
    ),
    "openai-chat/alexrudall-ruby-openai__groq_llama3-8b-8192_streamed_chat-0": (
        {"usage"},
        "the counts stand in `x_groq`, where the client does not look",
    ),
    "openai-chat: a call of two kinds": ({"calls"}, "an empty call of the old kind stands beside the call"),
    "openai-responses/crmne-ruby_llm__providers_bedrock_mantle_responses_chat"
    "_streams_through_the_responses_surface-0": (
        {"text", "thinking", "finish", "usage", "error"},
        "the first block of a message has the index 1, and the client raises",
    ),
    "gemini: array": ({"calls", *ALL_BUT_CALLS}, ARRAY),
    **{
        f"gemini/tmc-langchaingo__testgoogleai{case}": (ALL_BUT_CALLS, ARRAY)
        for case in (
            "generatecontentwithmultiplemessages-0",
            "generatecontentwithsystemmessage-0",
            "toolcallresponse-1",
            "withstreaming-0",
        )
    },
    "ollama-chat/prism-php-prism__ollama-stream-with-client-executed-tool-1-0": (
        {"error"},
        "empty lines stand between the others, and the client raises",
    ),
    "mistral-chat/vercel-ai__mistral-tool-call-0": (
        {"usage", "error"},
        "a call comes without an index, and the client raises",
    ),
}
TURNS = "thoughts and words take turns, and a response of this wire has one place for each"
MESSAGE = "a chunk has a message beside its delta, which is the place of the answer in a response"
# Streams that tell what a response of their dialect cannot say.
NO_RESPONSE = {
    "openai-chat/charmbracelet-fantasy__avian-kimi-multi_tool_streaming-0": TURNS,
    "openai-chat/charmbracelet-fantasy__avian-kimi-thinking-streaming-0": TURNS,
    "openai-chat/charmbracelet-fantasy__gemini-3-pro-preview-thinking-streaming-0": TURNS,
    "openai-chat/charmbracelet-fantasy__gemini-3-pro-preview-thinking-streaming-1": TURNS,
    "openai-chat/tmc-langchaingo__testtool_integration-0": MESSAGE,
}
NO_REASON = "the stream has no finish reason, and ends nevertheless"
NO_RESPONSE |= dict.fromkeys(
    (
        "openai-chat/pydantic-pydantic-ai__test_snowflake-test_snowflake_model_streaming-0",
        "openai-chat/pydantic-pydantic-ai__test_snowflake-test_snowflake_thinking_streaming-0",
        "openai-chat/datadog-dd-trace-py__completion_stream_multiple_choices_proxy-0",
    ),
    NO_REASON,
)
DELTA = "a delta stands beside the message, which is the place of the answer in a chunk"
# Recorded responses that a stream of their dialect cannot say, or not so that the client reads it.
NO_STREAM: dict[str, str] = {
    f"{folder}{name}": reason
    for folder, reason, names in (
        (
            "openai-chat/crmne-ruby_llm__chat_",
            DELTA,
            (
                "document_models_perplexity_sonar-pro_understands_docx_documents-0",
                "with_extended_thinking_perplexity_s-ing_signatures_between_turns_when_provided-11368-0",
                "with_params_perplexity_sonar_supports_json_schema_response_format_param-0",
            ),
        ),
        (
            "openai-chat/pydantic-pydantic-ai__test_snowflake-test_snowflake_",
            EMPTY,
            ("llama-0", "native_output-0", "openai_model-0", "thinking-0", "thinking-1", "tool_calling-0"),
        ),
        (
            "openai-responses/social-growth-studio-req_llm__openai-o4_mini",
            "a count of tokens is negative, which the client takes for a count",
            ("_deep_research-usage-0",),
        ),
        (
            "openai-responses/crmne-ruby_llm__chat_web_search_with_xai_grok-4_3",
            "two items have one id, and the client raises",
            ("_searches_cites_and_counts_the_sources_it_used-0",),
        ),
        (
            "gemini/",
            "the finish reason is a number, and the client raises",
            (
                "open-telemetry-opentelemetry-python-contrib__test_function_call_choice-0",
                "open-telemetry-opentelemetry-python-contrib__test_generate_content_extra_params-0",
                "open-telemetry-opentelemetry-python-contrib__test_tool_events_no_content-0",
                "tmc-langchaingo__testgoogleaimultimodalcontent-0",
                "tmc-langchaingo__testgoogleaiwithjsonmode-0",
                "tmc-langchaingo__testgoogleaiwithtools-0",
            ),
        ),
        (
            "gemini/",
            "thoughts follow each other, which are one in a stream",
            ("crewaiinc-crewai__google-test_gemini_crew_structured_output_with_tools-0",),
        ),
        (
            "mistral-chat/",
            BLOCKS,
            (
                "crmne-ruby_llm__chat_mistral_hybrid_reasoning_replays_thinking_chunks_across_turns-1",
                (
                    "crmne-ruby_llm__chat_with_extended_thinking_mistral_mist"
                    "-ing_signatures_between_turns_when_provided-fc510-1"
                ),
                (
                    "crmne-ruby_llm__chat_with_extended_thinking_mistral_mistral-small-latest"
                    "_returns_thinking_when_available-0"
                ),
                "pydantic-pydantic-ai__test_mistral-test_mistral_model_thinking_part-1",
                (
                    "pydantic-pydantic-ai__test_thinking_wire_contract"
                    "-test_reasoning_wire_contract-mistral-small-thinking-high-0"
                ),
            ),
        ),
    )
    for name in names
}
