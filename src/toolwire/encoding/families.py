"""Facts about families of models: which of them reason, and which settings each rejects or needs.

Rules of this file:
- The facts are in `families.json`. A row has a pattern for names of models, their facts, its source and its date.
- The facts of a model are those of every row that matches its name. If two rows have the same fact, the later row wins.
  A fact that no row has is None.
- `#` in a pattern is a version, such as 5, 4.1 or 4-7, but not a date. `since` and `before` are its bounds.
- A name is matched without the prefixes of servers: `openai/`, `models/`, `us.anthropic.`, `ft:`.
- The file is read when the facts of a model are first needed, and not on import.
"""

import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from toolwire.types.readable import readable

_FILE = Path(__file__).with_name("families.json")
# No model has a longer name. Such a name would fill the cache.
_MAX_NAME = 256
_PREFIX = re.compile(r"(?:.*/)?(?:ft:)?(?:[a-z-]+\.)*")
_VERSION = r"(?P<version>\d{1,2}(?:[.-]\d{1,2}(?![\da-z]))?)(?!\d)"


@readable
class Family(Struct, frozen=True, forbid_unknown_fields=True):
    """The facts about one model, from its family. A fact that is not known is None."""

    reasons: bool | None = None
    """Whether it can reason. A model of OpenAI rejects sampling settings while it reasons."""
    reasons_unasked: bool | None = None
    """Whether it reasons if a request has no effort."""
    functions_while_reasoning: bool | None = None
    """Whether Chat Completions accepts functions while it reasons."""
    always_thinks: bool | None = None
    """Whether its thinking cannot be turned off."""
    thinking_off: str | None = None
    """The type of thinking to send instead of `disabled`, if it rejects that."""
    forced_choice: bool | None = None
    """Whether a request may force it to call a tool while thinking is off."""
    thinking_budget: bool | None = None
    """Whether it accepts a number of tokens for thinking."""
    adaptive_thinking: bool | None = None
    """Whether it decides by itself how much to think. A model that does not needs a number of tokens."""
    efforts: tuple[str, ...] | None = None
    """The levels of effort that it accepts, from the lowest. Empty if it accepts only a number of tokens."""
    much_effort_without_thinking: bool | None = None
    """Whether it accepts an effort above high while thinking is off."""
    thoughts_bound: bool | None = None
    """Whether a signature of its thinking is valid only after the same messages as before."""
    signed_calls: bool | None = None
    """Whether its calls must be sent with their signature. A call of another model needs a placeholder for it."""
    sampling: bool | None = None
    """Whether it accepts temperature, top_p and top_k."""
    temperature_with_top_p: bool | None = None
    """Whether one request may have both temperature and top_p."""
    parallel_tool_calls: bool | None = None
    """Whether a request may allow or forbid several calls in one answer."""
    stop: bool | None = None
    """Whether Chat Completions accepts stop sequences for it."""
    unstored_metadata: bool | None = None
    """Whether Chat Completions accepts metadata if the response is not stored."""
    prefill: bool | None = None
    """Whether it continues an answer that the request begins."""
    system_messages: bool | None = None
    """Whether a conversation may have system messages after its beginning."""
    media_in_results: bool | None = None
    """Whether the result of a tool may contain media."""
    structured_output: bool | None = None
    """Whether its answer can be required to match a schema."""
    cache_marks: bool | None = None
    """Whether OpenAI's API accepts cache marks and `prompt_cache_options` for it."""
    structured_output_with_tools: bool | None = None
    """Whether its answer can be required to match a schema in a request that declares tools."""


@readable
class _FamilyRow(Struct, frozen=True, forbid_unknown_fields=True):
    """Facts about some models, with their source."""

    pattern: str
    facts: dict[str, Any]
    source: str
    as_of: str
    since: str = "0"
    before: str = "100"

    def matches(self, name: str) -> bool:
        """Return True if the row has facts about the model `name`."""
        match = re.fullmatch(self.pattern.replace("#", _VERSION), name)
        version = match.groupdict().get("version") if match else None
        return match is not None and (version is None or _number(self.since) <= _number(version) < _number(self.before))


UNKNOWN = Family()


def family_of(model: str | None) -> Family:
    """Return the facts about a model. For a name that is not known, every fact is None."""
    return _family_of(model) if model and len(model) <= _MAX_NAME else UNKNOWN


@lru_cache(maxsize=1024)
def _family_of(model: str) -> Family:
    prefix = _PREFIX.match(model)
    name = model[prefix.end() :] if prefix else model
    facts = {key: fact for row in rows() if row.matches(name) for key, fact in row.facts.items()}
    return msgspec.convert(facts, Family) if facts else UNKNOWN


@cache
def rows() -> tuple[_FamilyRow, ...]:
    """Return the rows of `families.json`, which is read once."""
    return msgspec.json.decode(_FILE.read_bytes(), type=tuple[_FamilyRow, ...])


def _number(version: str) -> tuple[int, int]:
    major, _, minor = version.replace("-", ".").partition(".")
    return int(major), int(minor or 0)
