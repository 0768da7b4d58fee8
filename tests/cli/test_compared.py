"""docs/compared.md: each feature that the page says toolwire has is shown by tests, and each other one has a reason."""

import argparse
import re
from pathlib import Path

import pytest

from toolwire.cli.chat_commands import COMMANDS as CHAT
from toolwire.cli.commands import COMMANDS
from toolwire.cli.parsing import whole_parser

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "compared.md").read_text("utf-8")
NOTHING = "-"
# The tests that show each row.
TESTS = {
    "one question without tools": "ask: one_question_is_one_request, several_words_are_a_question",
    "standard input is context": "ask: standard_input_is_the_context; pipes: standard_input_is_context",
    "system prompt": "ask: the_last_question_is_continued_with_its_model_and; instructions: a_system_prompt_replaces",
    "images, files, URLs": "ask: files_are_attached, a_url_is_attached; run: a_picture_goes_with_the_task; "
    "chat_commands: a_file_goes_with_the_next_prompt",
    "structured output": "ask: an_answer_of_a_schema_is_json, a_schema_in_short",
    "code of the answer alone": "ask: only_the_code_of_an_answer",
    "effort, temperature and other settings": "ask: settings_are_those_of_a_request; run: settings_of_the_request",
    "own Python functions as tools": "ask: an_own_tool_runs; instructions: an_own_tool_is_asked_for_approval",
    "MCP servers": "ask: the_tools_of_an_mcp_server; instructions: an_mcp_server_serves_a_run; long_session: a_session",
    "continue the last conversation": "ask: the_last_question_is_continued; run: a_conversation_goes_on_with_another",
    "search in what was asked": "ask: what_was_asked_is_found_again",
    "edits files and runs commands": "run: each_step_is_shown; long_session: a_session_with_everything",
    "the project's rules": "instructions: agents_md_wins, run_sends_and_shows_them",
    "look only, or edit without questions": "rules: the_modes; chat_commands: modes_change_what_is_asked",
    "allow a pattern of commands": "rules: an_allowed_command, a_denied_command; chat_commands: always_adds_a_rule",
    "commands in a sandbox": "../codetools/sandbox: outside_nothing_is_written, the_rest_of_the_host_is_not_there",
    "take back edits": "edits: the_last_prompt_comes_back; chat_commands: undo_and_diff",
    "see the changes": "chat_commands: undo_and_diff",
    "summary of a long conversation": "chat_commands: a_summary_replaces, a_context_that_fills",
    "begin anew, see the cost": "chat_commands: clear_begins_anew; on_terminals: every_command_of_a_chat",
    "another model in the middle": "chat: another_provider_goes_on",
    "events as JSON": "pipes: json_is_one_event_a_line",
    "Markdown on the screen": "markdown: it_reads_like_this, on_a_terminal",
    "stored keys": "auth: a_key_is_stored_used_and_removed",
    "default model": "user_settings: the_model_of_the_file_is_the_last_choice; pipes: a_variable_names_the_usual_model",
    "settings file": "user_settings: defaults_come_from_the_file, a_project_is_asked_about_once",
    "list the models": "auth: a_live_server_lists_its_models",
    "completion in the shell": "auth: a_script_has_every_command_and_completes",
    "Tab in the chat": "on_terminals: tab_completes_commands_and_files",
}


def rows(part: str) -> dict[str, list[str]]:
    """Return the rows of the tables in a part of the page, by their first cells."""
    lines = [line[2:-2].split(" | ") for line in part.splitlines() if re.match(r"\| [^|]", line)]
    return {name: cells for name, *cells in lines}


COMPARED, _, LEFT_OUT = PAGE.partition("## What toolwire leaves out")
HAS = {name: cells[0] for name, cells in rows(COMPARED).items()}


def test_every_row_has_a_test_or_a_reason() -> None:
    assert [name for name, cell in HAS.items() if cell != NOTHING] == [*TESTS]
    reasons = rows(LEFT_OUT)
    assert {name for name, cell in HAS.items() if cell == NOTHING} <= {*reasons}
    assert all(text.endswith(".") and len(text.split()) > 5 for [text] in reasons.values())


@pytest.mark.parametrize("name", TESTS)
def test_the_tests_of_a_row_exist(name: str) -> None:
    for entry in TESTS[name].split("; "):
        module, _, begins = entry.partition(": ")
        text = (Path(__file__).parent / module).with_name(f"test_{Path(module).name}.py").read_text("utf-8")
        for begin in begins.split(", "):
            assert re.search(rf"^(?:async )?def test_{begin}", text, re.MULTILINE), f"{module}: {begin}"


def _names(parser: argparse.ArgumentParser) -> set[str]:
    """Return the options and commands of a parser and of those below it."""
    names = {option for action in parser._actions for option in action.option_strings}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            names |= {*action.choices}.union(*map(_names, action.choices.values()))
    return names


def test_every_option_and_command_of_the_page_exists() -> None:
    known = {*CHAT, *COMMANDS, "toolwire", "[cli]", "$TOOLWIRE_MODEL"} | _names(whole_parser())
    words = [word for cell in HAS.values() for code in re.findall(r"`([^`]+)`", cell) for word in code.split()]
    assert [word for word in words if word not in known and word != '"..."'] == []
    assert len(words) > 30
