"""What is known of families of models: which ones reason, what each refuses, and what each needs.

Rules of this file:
- The facts are the rows of `families.json`: a pattern over names, what is true of them, who says so, and as of when.
- Every row that fits a name counts. Of two that speak of one thing, the later wins. What no row speaks of is None.
- `#` in a pattern is a version, such as 5, 4.1 or 4-7; a date is none. `since` and `before` bound it.
- A name counts without what servers put before it: `openai/`, `models/`, `us.anthropic.`, `ft:`.
- The file is read when the first model is asked for, and not on import.
"""

import re
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from toolwire.types.readable import readable

_FILE = Path(__file__).with_name("families.json")
# A longer name is nobody's, and is not kept.
_LONGEST = 256
_BEFORE = re.compile(r"(?:.*/)?(?:ft:)?(?:[a-z-]+\.)*")
_VERSION = r"(?P<version>\d{1,2}(?:[.-]\d{1,2}(?![\da-z]))?)(?!\d)"


@readable
class Family(Struct, frozen=True, forbid_unknown_fields=True):
    """What is known of one model by its family; None is what nobody has told."""

    reasons: bool | None = None
    """Whether it can reason. While a model of OpenAI does, it takes no sampling settings."""
    reasons_unasked: bool | None = None
    """Whether it reasons where a request says nothing of effort."""
    functions_while_reasoning: bool | None = None
    """Whether Chat Completions runs functions with it while it reasons."""
    always_thinks: bool | None = None
    """Whether its thinking cannot be turned off."""
    thinking_off: str | None = None
    """The kind of thinking that is asked for in the place of none, where it does not take `disabled`."""
    forced_choice: bool | None = None
    """Whether a request may force it to call a tool, as long as it does not think."""
    thinking_budget: bool | None = None
    """Whether it takes a number of tokens to think with."""
    adaptive_thinking: bool | None = None
    """Whether it decides by itself how much to think; one that does not needs a number of tokens for it."""
    efforts: tuple[str, ...] | None = None
    """The levels of effort that it takes, from the least; none of them where it takes a number only."""
    much_effort_without_thinking: bool | None = None
    """Whether it takes an effort above high while its thinking is turned off."""
    thoughts_bound: bool | None = None
    """Whether a signature of its thinking is bound to all that stood before."""
    signed_calls: bool | None = None
    """Whether its calls come back with a signature. A call from elsewhere needs a stand-in for one."""
    sampling: bool | None = None
    """Whether it takes temperature, top_p and top_k."""
    temperature_with_top_p: bool | None = None
    """Whether one request may say both temperature and top_p."""
    parallel_tool_calls: bool | None = None
    """Whether a request may say how many calls an answer holds."""
    stop: bool | None = None
    """Whether Chat Completions ends its answer at words that a request names."""
    unstored_metadata: bool | None = None
    """Whether Chat Completions takes metadata of what is not stored."""
    prefill: bool | None = None
    """Whether it goes on writing an answer that a request has begun."""
    system_messages: bool | None = None
    """Whether a system message may stand in the middle of a conversation."""
    media_in_results: bool | None = None
    """Whether the result of a tool may hold media."""
    structured_output: bool | None = None
    """Whether it is held to a schema."""
    structured_output_with_tools: bool | None = None
    """Whether it is held to a schema where tools are declared too."""


@readable
class _FamilyRow(Struct, frozen=True, forbid_unknown_fields=True):
    """Some facts of some models, with their source."""

    pattern: str
    facts: dict[str, Any]
    source: str
    as_of: str
    since: str = "0"
    before: str = "100"

    def fits(self, name: str) -> bool:
        """Whether the row speaks of a model."""
        match = re.fullmatch(self.pattern.replace("#", _VERSION), name)
        version = match.groupdict().get("version") if match else None
        return match is not None and (version is None or _number(self.since) <= _number(version) < _number(self.before))


UNKNOWN = Family()


def family_of(model: str | None) -> Family:
    """Say what is known of a model by its name; of an unknown one, every fact is None."""
    return _family_of(model) if model and len(model) <= _LONGEST else UNKNOWN


@lru_cache(maxsize=1024)
def _family_of(model: str) -> Family:
    before = _BEFORE.match(model)
    name = model[before.end() :] if before else model
    facts = {key: fact for row in rows() if row.fits(name) for key, fact in row.facts.items()}
    return msgspec.convert(facts, Family) if facts else UNKNOWN


@cache
def rows() -> tuple[_FamilyRow, ...]:
    """Read the rows, once."""
    return msgspec.json.decode(_FILE.read_bytes(), type=tuple[_FamilyRow, ...])


def _number(version: str) -> tuple[int, int]:
    major, _, minor = version.replace("-", ".").partition(".")
    return int(major), int(minor or 0)
