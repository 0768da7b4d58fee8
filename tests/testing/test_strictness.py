"""What the simulated model refuses, and in which words; beside it what it takes."""

from typing import Any

import pytest

from tests.testing.changes import ANTHROPIC, CHAT, GEMINI, OLLAMA, RESPONSES, add, drop, put
from tests.testing.histories import AGAIN, LEGAL, NEWEST, STRICT, Change, judged
from tests.testing.wrong_openai import CHAT_ROWS, RESPONSES_ROWS
from tests.testing.wrong_others import ANTHROPIC_ROWS, GEMINI_ROWS, OLLAMA_ROWS

WRONG = [*CHAT_ROWS, *RESPONSES_ROWS, *ANTHROPIC_ROWS, *GEMINI_ROWS, *OLLAMA_ROWS]


@pytest.mark.parametrize("name", LEGAL)
def test_a_legal_history_is_taken(name: str) -> None:
    assert judged(name) is None


@pytest.mark.parametrize(("name", "change", "words"), WRONG, ids=[f"{row[0]}: {row[2][:60]}" for row in WRONG])
def test_what_is_wrong_is_refused(name: str, change: Change, words: str) -> None:
    refused = judged(name, change)
    assert refused is not None
    assert words in refused.message


def only_added(tool: dict[str, Any]) -> Change:
    """Declare one tool in an item instead of those of the request, and choose among it."""

    def change(body: dict[str, Any]) -> None:
        del body["tools"]
        body |= {"parallel_tool_calls": False, "tool_choice": "required"}
        body["input"].insert(0, {"type": "additional_tools", "role": "developer", "tools": [tool]})

    return change


TAKEN: list[tuple[str, Change]] = [
    (CHAT, add("messages", AGAIN)),
    (CHAT, put("messages", 2, "content", "I look.")),
    (CHAT, put("tool_choice", "required")),
    (
        CHAT,
        put("tools", 1, "function", {"name": "g", "strict": True, "parameters": STRICT | {"required": ["a"]}}),
    ),
    (CHAT, put("messages", 2, "reasoning_content", "Hm.")),
    (RESPONSES, put("input", "Weather?")),
    (RESPONSES, add("input", {"type": "item_reference", "id": "rs_1"})),
    (RESPONSES, put("input", 1, {"type": "reasoning", "id": "rs_1", "summary": []})),
    (RESPONSES, put("client_metadata", {"session": "s"})),
    (RESPONSES, lambda body: body.update({"tools": [], "tool_choice": "auto", "parallel_tool_calls": False})),
    (RESPONSES, only_added({"type": "custom", "name": "exec"})),
    (RESPONSES, only_added({"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "exec"}]})),
    (
        ANTHROPIC,
        put("system", [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]),
    ),
    (ANTHROPIC, put("messages", 0, "content", [{"type": "text", "text": "Weather?"}])),
    (ANTHROPIC, drop("messages", 1, "content", 0)),
    (ANTHROPIC, add("messages", {"role": "system", "content": "Hurry."})),
    (ANTHROPIC, drop("messages", 4, "content", 0, "content")),
    (GEMINI, put("contents", 3, "parts", 0, "thoughtSignature", "skip_thought_signature_validator")),
    (GEMINI, lambda body: body["contents"].insert(1, {"role": "user", "parts": [{"text": "Well?"}]})),
    (GEMINI, put("contents", 0, {"parts": [{"inline_data": {"mime_type": "image/png", "data": ""}}]})),
    (OLLAMA, drop("messages", 2)),
    (OLLAMA, put("unheard_of", 1)),
    (OLLAMA, put("messages", 0, "content", None)),
]


def test_a_choice_among_no_tools_is_refused() -> None:
    for tool in ({"type": "namespace", "name": "n", "tools": []}, {"type": "namespace"}):
        refused = judged(RESPONSES, only_added(tool))
        assert refused is not None
        assert "only allowed when 'tools' are specified" in refused.message


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "change"), TAKEN)
def test_what_is_right_is_taken(name: str, change: Change) -> None:
    assert judged(name, change) is None


BUDGET = put("thinking", {"type": "enabled", "budget_tokens": 2000})
BY_MODEL: list[tuple[str, Change | None, str, str | None]] = [
    (CHAT, None, "gpt-6-sol", "Function tools with reasoning_effort are not supported for gpt-6-sol"),
    (CHAT, put("reasoning_effort", "none"), "gpt-6-sol", None),
    (
        CHAT,
        put("reasoning_effort", "low"),
        "gpt-5.4",
        "Function tools with reasoning_effort are not supported for gpt-5.4",
    ),
    (CHAT, None, "gpt-5.4", None),
    (CHAT, put("max_tokens", 5), "o3", "Use 'max_completion_tokens' instead."),
    (CHAT, put("max_tokens", 5), "gpt-4.1", None),
    (CHAT, put("temperature", 0.2), "gpt-5-mini", "'temperature' does not support 0.2"),
    (CHAT, put("temperature", 0.2), "gpt-5.2", None),
    (CHAT, put("temperature", 0.2), "gpt-35-turbo", None),
    (RESPONSES, put("reasoning", {"effort": "low"}), "gpt-4.1", "'reasoning.effort' is not supported"),
    (ANTHROPIC, put("system", "Be long."), "claude-sonnet-4-5", "Invalid `signature`"),
    (ANTHROPIC, drop("messages", 1, "content", 0), "claude-sonnet-4-5", None),
    (GEMINI, drop("contents", 1, "parts", 1, "thoughtSignature"), "gemini-2.5-pro", None),
    (
        GEMINI,
        drop("contents", 1, "parts", 1, "thoughtSignature"),
        "gemini-4-argon",
        "missing a thought_signature",
    ),
]


@pytest.mark.parametrize(("name", "change", "model", "words"), BY_MODEL)
def test_what_is_refused_depends_on_the_model(name: str, change: Change | None, model: str, words: str | None) -> None:
    refused = judged(name, change, model)
    assert (refused is None) == (words is None)
    assert (words or "") in (refused.message if refused else "")


def test_the_version_of_the_api_says_what_is_taken() -> None:
    warm = put("temperature", 0.5)

    def colder(body: Any) -> None:
        drop("messages", 1, "content", 0)(body)
        warm(body)

    older = {"anthropic-version": "2023-06-01"}
    assert judged(ANTHROPIC, colder, "claude-sonnet-4-5", older) is None
    newest = judged(ANTHROPIC, colder, "claude-sonnet-4-5", NEWEST)
    assert newest is not None
    assert newest.message == "temperature: Extra inputs are not permitted"
    deprecated = judged(ANTHROPIC, warm, "claude-opus-4-8", older)
    assert deprecated is not None
    assert deprecated.message == "`temperature` is deprecated for this model."
    missing = judged(ANTHROPIC, None, None, {})
    assert missing is not None
    assert missing.message == "anthropic-version: header is required"


def test_a_turn_with_a_budget_begins_with_its_thinking() -> None:
    def change(body: Any) -> None:
        drop("messages", 1, "content", 0)(body)
        BUDGET(body)

    refused = judged(ANTHROPIC, change, "claude-sonnet-4-5")
    assert refused is not None
    assert refused.message.startswith("messages.3.content.0.type: Expected `thinking` or `redacted_thinking`")


def test_only_the_present_turn_needs_signatures() -> None:
    def change(body: Any) -> None:
        drop("contents", 1, "parts", 1, "thoughtSignature")(body)
        body["contents"] += [
            {"role": "model", "parts": [{"text": "Sunny."}]},
            {"role": "user", "parts": [{"text": "Thanks."}]},
        ]

    assert judged(GEMINI, change) is None
