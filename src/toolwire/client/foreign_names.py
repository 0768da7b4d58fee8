"""The names that other libraries use for settings, and what stands for them here.

Rules of this file:
- The names are those of the openai, anthropic and google-genai SDKs, LiteLLM, pydantic-ai, LangChain, instructor, the
  OpenAI Agents SDK and the AI SDK, as their reference pages list them (November 2026).
- A value is the end of the sentence "use ...". It names a setting or an option of this library.
"""

from collections.abc import Iterable
from re import sub

from toolwire.errors import suggestion

FOREIGN_NAMES = {
    # openai, Chat Completions and Responses
    "max_completion_tokens": "max_tokens=",
    "max_output_tokens": "max_tokens=",
    "instructions": "system=",
    "input": "the prompt, the first argument",
    "response_format": "output=: a type, or a JSON Schema",
    "text_format": "output=: a type, or a JSON Schema",
    "reasoning_effort": "effort=",
    "reasoning": "effort=",
    "functions": "tools=",
    "function_call": "tool_choice=",
    "max_tool_calls": "limits={'turns': N}",
    "prompt_cache_key": "cache_key=",
    "previous_response_id": "messages=done.history",
    "conversation": "messages=done.history",
    "timeout": "timeouts=",
    "max_retries": "retries=",
    "organization": "headers={'OpenAI-Organization': ...}",
    "default_headers": "headers=",
    "extra_headers": "headers=",
    "default_query": "query=",
    "extra_query": "query=",
    "azure_endpoint": "base_url=",
    "http_client": "transport=",
    # anthropic
    "stop_sequences": "stop=",
    "max_tokens_to_sample": "max_tokens=",
    "budget_tokens": "thinking_budget=",
    "output_config": "effort= and output=",
    # google-genai
    "contents": "the prompt, the first argument, or messages=",
    "system_instruction": "system=",
    "response_schema": "output=",
    "response_json_schema": "output=",
    "thinking_config": "thinking= and thinking_budget=",
    "generation_config": "each setting by its name: temperature=0.2",
    "tool_config": "tool_choice=",
    # LiteLLM
    "api_base": "base_url=",
    "num_retries": "retries=",
    "request_timeout": "timeouts=",
    "custom_llm_provider": "provider=",
    "fallbacks": "a list of providers: provider=[...]",
    "max_budget": "limits={'cost': N}",
    "callbacks": "on_event=",
    # pydantic-ai
    "system_prompt": "system=",
    "output_type": "output=",
    "result_type": "output=",
    "message_history": "messages=",
    "deps": "context=",
    "model_settings": "each setting by its name: temperature=0.2",
    "usage_limits": "limits=",
    "toolsets": "tools=",
    "request_limit": "max_iterations=",
    # LangChain, instructor, agents
    "model_kwargs": "each setting by its name: temperature=0.2",
    "streaming": "stream=",
    "openai_api_key": "api_key=",
    "anthropic_api_key": "api_key=",
    "openai_api_base": "base_url=",
    "checkpointer": "`Runs`, the durable runs",
    "recursion_limit": "max_iterations=",
    "response_model": "output=",
    "schema": "output=",
    "max_turns": "max_iterations=",
    "max_steps": "max_iterations=",
    "tool_use_behavior": "terminal_tool=",
}
"""What stands here for a name of another library."""


def hint_for(name: str, known: Iterable[str]) -> str:
    """Return the hint for an unknown setting: what stands for another library's name, or the nearest known name.

    The AI SDK writes `maxOutputTokens` for `max_output_tokens`, so a name is compared in its snake case as well.
    """
    known = list(known)
    snake = sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", str(name)).lower()
    if snake in FOREIGN_NAMES:
        return f"use {FOREIGN_NAMES[snake]}"
    if snake in known:
        return f"use {snake}="
    return suggestion(name, known)
