"""A setting that Chat Completions and Responses both have is a setting of both dialects, and not opaque to one."""

import pytest

from toolwire.dialects import dialect

chat = pytest.importorskip("openai.types.chat.completion_create_params")
responses = pytest.importorskip("openai.types.responses.response_create_params")

DIALECTS = ("openai-chat", "openai-responses")
PARAMETERS = (
    set(chat.CompletionCreateParamsBase.__annotations__),
    set(responses.ResponseCreateParamsBase.__annotations__),
)
FILES = {name: f"src/toolwire/dialects/{name.replace('-', '_')}/request.py" for name in DIALECTS}


def missing(tables: dict[str, dict[str, str]]) -> list[str]:
    """Name each key that both SDK types have, if one dialect has a row for it and the other has none."""
    shared = set.intersection(*PARAMETERS)
    rows = {name: {path.partition(".")[0] for path in table.values()} & shared for name, table in tables.items()}
    return [
        f"{key}: {other} has a row, so add one to the settings in {FILES[name]}"
        for name, other in (DIALECTS, DIALECTS[::-1])
        for key in sorted(rows[other] - rows[name])
    ]


def test_a_setting_of_both_apis_has_a_row_in_both_dialects() -> None:
    assert missing({name: dict(dialect(name).SETTING_PATHS) for name in DIALECTS}) == []


def test_a_row_that_was_forgotten_is_named() -> None:
    tables = {name: dict(dialect(name).SETTING_PATHS) for name in DIALECTS}
    del tables["openai-responses"]["cache_key"]
    [named] = missing(tables)
    assert named.startswith("prompt_cache_key: openai-chat has a row")
    assert named.endswith("dialects/openai_responses/request.py")
