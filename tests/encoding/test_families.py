"""What is known of a model by its name: the facts, the spellings of a name, and that no code names a model."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import toolwire
from toolwire import text
from toolwire.encoding.families import UNKNOWN, Family, family_of, rows

SOURCE = Path(toolwire.__file__).parent
FEW = ("low", "medium", "high")
NEW_GPT = {"reasons": True, "functions_while_reasoning": False}
O_SERIES = {"reasons": True, "parallel_tool_calls": False, "efforts": FEW}
GPT_5 = {"reasons": True, "stop": False, "efforts": ("minimal", *FEW)}
OLDER_CLAUDE = {"adaptive_thinking": False, "efforts": (), "sampling": True}
OLD_CLAUDE = OLDER_CLAUDE | {"adaptive_thinking": False, "efforts": (), "structured_output": False}
NO_PREFILL = {"prefill": False}
ONE_DRAW = {"temperature_with_top_p": False}
SHORT_OF_MUCH = {"much_effort_without_thinking": False}
ADAPTIVE = NO_PREFILL | {"sampling": False, "thinking_budget": False}
NEWEST_CLAUDE = ADAPTIVE | {"system_messages": True, "thoughts_bound": True}
OLD_GEMINI = {"efforts": (), "media_in_results": False, "structured_output_with_tools": False, "signed_calls": False}
NEW_GEMINI = {"signed_calls": True, "efforts": FEW, "thinking_budget": False}

KNOWN: dict[str, dict[str, Any]] = {
    "gpt-3.5-turbo": {"reasons": False, "structured_output": False},
    "gpt-35-turbo": {"reasons": False, "structured_output": False},
    "gpt-4-0613": {"reasons": False, "structured_output": False},
    "gpt-4o-2024-08-06": {"reasons": False},
    "ft:gpt-4o-mini-2024-07-18:org::id": {"reasons": False},
    "gpt-4.1": {"reasons": False},
    "chatgpt-4o-latest": {"reasons": False},
    "o1": O_SERIES,
    "o1-mini": O_SERIES | {"structured_output": False},
    "o4-mini-2025-04-16": O_SERIES | {"stop": False},
    "gpt-5": GPT_5,
    "gpt-5-pro": GPT_5 | {"efforts": ("high",)},
    "gpt-5-codex": GPT_5 | {"efforts": FEW},
    "gpt-5-2025-08-07": GPT_5,
    "gpt-5-chat-latest": {},
    "gpt-5.1-chat-latest": {},
    "gpt-5.1": GPT_5 | {"reasons_unasked": False, "efforts": ("none", *FEW)},
    "gpt-5.1-codex-max": GPT_5 | {"reasons_unasked": False, "efforts": (*FEW, "xhigh")},
    "gpt-5.2": GPT_5 | {"reasons_unasked": False, "efforts": ("none", *FEW, "xhigh")},
    "gpt-5.2-pro": GPT_5 | {"reasons_unasked": False, "efforts": ("medium", "high", "xhigh")},
    "gpt-5.5": NEW_GPT | {"reasons_unasked": False, "efforts": ("none", *FEW, "xhigh")},
    "gpt-5.6-sol": NEW_GPT | {"efforts": ("none", *FEW, "xhigh", "max"), "cache_marks": True},
    "gpt-6-sol": NEW_GPT | {"efforts": ("none", *FEW, "xhigh", "max"), "cache_marks": True},
    "gpt-6.2-astra": NEW_GPT | {"efforts": (*FEW, "xhigh", "max"), "cache_marks": True},
    "gpt-oss:20b": {},
    "claude-instant-1.2": OLD_CLAUDE,
    "claude-3-5-sonnet-20241022": OLD_CLAUDE,
    "claude-sonnet-4-20250514": OLD_CLAUDE,
    "claude-sonnet-4@20250514": OLD_CLAUDE,
    "claude-opus-4-0": OLD_CLAUDE,
    "claude-opus-4-1-20250805": OLDER_CLAUDE | ONE_DRAW,
    "claude-sonnet-4-5": OLDER_CLAUDE | ONE_DRAW,
    "claude-opus-4-5-20251101": {"adaptive_thinking": False, "sampling": True, "efforts": FEW} | ONE_DRAW,
    "claude-sonnet-4-5-20250929": OLDER_CLAUDE | ONE_DRAW,
    "us.anthropic.claude-haiku-4-5-20251001-v1:0": OLDER_CLAUDE | ONE_DRAW,
    "claude-opus-4-6": {"sampling": True, "efforts": (*FEW, "max")} | NO_PREFILL | ONE_DRAW,
    "claude-opus-4.7": ADAPTIVE,
    "claude-mythos-preview": {"always_thinks": True, "thinking_budget": False, "efforts": (*FEW, "max")},
    "claude-sonnet-5": ADAPTIVE | {"system_messages": True},
    "claude-fable-5": ADAPTIVE | {"system_messages": True, "always_thinks": True},
    "claude-fable-5-1": NEWEST_CLAUDE | {"always_thinks": True},
    "claude-sonnet-5-5": NEWEST_CLAUDE | SHORT_OF_MUCH | {"thinking_off": "between_tools", "forced_choice": False},
    "claude-haiku-5-5": NEWEST_CLAUDE | SHORT_OF_MUCH,
    "claude-opus-5": ADAPTIVE | SHORT_OF_MUCH | {"system_messages": True},
    "claude-opus-5-5-20260922": NEWEST_CLAUDE | SHORT_OF_MUCH | {"always_thinks": True},
    "gemini-2.5-pro": {**OLD_GEMINI, "always_thinks": True},
    "gemini-2.5-flash-lite": OLD_GEMINI,
    "gemini-3-pro-preview": {"signed_calls": True, "efforts": ("low", "high")},
    "gemini-3.1-pro": {"signed_calls": True, "efforts": ("low", "medium", "high")},
    "gemini-3.6-flash": {"signed_calls": True, "efforts": ("minimal", "low", "medium", "high")},
    "gemini-3.8-flash": {"signed_calls": True, "efforts": ("low", "medium", "high")},
    "gemini-4-argon": NEW_GEMINI,
    "gemini-flash-latest": NEW_GEMINI,
    "gemini-embedding-001": {},
    "qwen3": {},
    "m": {},
}


@pytest.mark.parametrize("model", KNOWN)
def test_a_family_is_known_by_the_name_of_a_model(model: str) -> None:
    of_openai = re.match(r"(ft:)?(gpt-(?!oss)|chatgpt-|o\d)", model) is not None
    assert family_of(model) == Family(**KNOWN[model], unstored_metadata=False if of_openai else None)


@pytest.mark.parametrize(
    ("spelled", "model"),
    [
        ("openai/gpt-5", "gpt-5"),
        ("openai.gpt-5-v1:0", "gpt-5"),
        ("anthropic/claude-opus-5-5", "claude-opus-5-5"),
        ("openrouter/anthropic/claude-opus-4.7", "claude-opus-4-7"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("us.anthropic.claude-opus-5-5-v1:0", "claude-opus-5-5"),
        ("arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-3-haiku-20240307-v1:0", "claude-3-haiku"),
        ("models/gemini-3-pro", "gemini-3-pro"),
        ("publishers/google/models/gemini-4-argon", "gemini-4-argon"),
    ],
)
def test_what_servers_put_around_a_name_does_not_matter(spelled: str, model: str) -> None:
    assert family_of(spelled) == family_of(model)


def test_an_unknown_name_has_no_facts() -> None:
    assert family_of(None) == family_of("") == family_of("gpt-4" * 100) == UNKNOWN == Family()


def test_every_row_says_facts_that_are_read_and_where_they_come_from() -> None:
    for row in rows():
        assert msgspec.convert(row.facts, Family) != UNKNOWN
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", row.as_of)
        assert re.search(r"https://|SDK|platform\.claude\.com|github\.com", row.source)


NAMES_A_MODEL = re.compile(
    r"gpt-[\d(]|\bo[1-9]\b|claude-|gemini-(?!openapi|api/)|(?:llama|qwen)-?\d|grok-|deepseek-|mi[sx]tral-|codestral"
)


def named_models(text: str) -> list[str]:
    """List the texts of a module that name a model; its docstrings may."""
    if not NAMES_A_MODEL.search(text):
        return []  # there is none in any text: reading the code takes much longer
    tree = ast.parse(text)
    words = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [node.value for node in texts_of(tree) if id(node) not in words and NAMES_A_MODEL.search(node.value)]


def texts_of(tree: ast.AST) -> Iterator[Any]:
    """List the nodes that are texts."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))


def test_no_code_names_a_model() -> None:
    """A model is data: `encoding/families.json`, `providers/catalogue.json`."""
    found = {str(path.relative_to(SOURCE)): named_models(path.read_text("utf-8")) for path in SOURCE.rglob("*.py")}
    assert set(found.pop("text/usual_forms.py")) <= set(text.names()), "names of formats"
    # Programs that are named like models, and the model that one of them has to be told, whichever answers it.
    programs = ["@anthropic-ai/claude-code", "@google/gemini-cli", "gpt-4o-mini", "gemini-api-key"]
    assert sorted(text.rpartition(" ")[2] for text in found.pop("cli/programs.py")) == sorted(programs)
    # What the demo tells its reader to try next.
    assert {text.rpartition(": ")[2].split()[1] for text in found.pop("cli/demo.py")} == {"ask", "run", "launch"}
    # How names begin for which a file of LiteLLM names no provider.
    assert [text.rpartition(" ")[2] for text in found.pop("config/litellm_providers.py")] == ["claude-"]
    assert {path: texts for path, texts in found.items() if texts} == {}


@pytest.mark.parametrize("text", ["gpt-5.4", "gpt-([5-9])", "o3", "claude-opus", "gemini-([0-9])", "qwen2.5-coder"])
def test_a_model_that_is_named_is_reported(text: str) -> None:
    assert named_models(f"def f():\n    '''Of {text}.'''\n    return model.startswith({text!r})") == [text]
