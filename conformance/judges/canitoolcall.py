"""Read the fixtures of CanIToolCall with `toolwire.text`, and judge them with the checks of their authors.

The text of a fixture is decoded as a whole and in pieces. It runs in the environment of `canitoolcall`, and writes one
outcome for each fixture: its id, its family, its status and the complaints of its checks. `--every N` takes one fixture
of N.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from canitoolcall.checks import case_status, run_checks
from canitoolcall.fixtures import Family, Fixture, default_fixtures_dir, load_families, load_fixtures
from canitoolcall.results import Observation, ParsedToolCall, ParseResult, Status

from toolwire import text
from toolwire.streams.accumulation import accumulate
from toolwire.types import Text, Thinking

_SIZES = (1, 3, 11)
# Where a model has two formats, the family of the fixtures names the one that its texts are in.
_VARIANTS = {"llama4-pythonic": "llama4-pythonic"}


def main() -> None:
    """Judge the fixtures, and write the outcomes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1)
    every = parser.parse_args().every
    folder = default_fixtures_dir()
    families = load_families(folder)
    fixtures = load_fixtures()[::every]
    json.dump([judge(fixture, families.get(fixture.family)) for fixture in fixtures], sys.stdout)


def judge(fixture: Fixture, family: Family | None) -> dict[str, Any]:
    """Decode a fixture as a whole and in pieces, and return the outcome of its checks."""
    pieces = {f"pieces:{size}": _cut(fixture.raw_output, size) for size in _SIZES}
    streams = {name: decode(fixture, family, cut) for name, cut in pieces.items()}
    rows = run_checks(fixture, family, Observation(decode(fixture, family, [fixture.raw_output]), streams))
    status = case_status(rows)
    worst = [row for row in rows if row.status is status and status not in (Status.PASS, Status.SOFT_PASS)]
    detail = "; ".join(dict.fromkeys(f"{row.check}: {row.detail}" for row in worst))
    return {"id": fixture.id, "family": fixture.family, "status": status.value, "detail": detail}


def decode(fixture: Fixture, family: Family | None, pieces: Sequence[str]) -> ParseResult:
    """Decode a text that arrives in pieces."""
    try:
        stream = format_of(fixture, family).decode_stream(
            list(fixture.tools), thinking=opens_a_thought(fixture, family)
        )
        events = [event for piece in pieces for event in stream.feed(piece)]
        response = accumulate([*events, *stream.close(whole=not fixture.truncated)])
    except Exception as error:  # the suite counts what a parser raises
        return ParseResult(exception=f"{type(error).__name__}: {error}")
    parts = response.message.parts
    return ParseResult(
        "".join(part.text for part in parts if isinstance(part, Text)) or None,
        "".join(part.text for part in parts if isinstance(part, Thinking)) or None,
        tuple(ParsedToolCall(call.name, json.dumps(call.arguments)) for call in response.tool_calls if call.runs),
    )


def format_of(fixture: Fixture, family: Family | None) -> text.Format:
    """Return the format of the fixture's model, as `text.detect` finds it."""
    reference = family.reference_for(fixture.reference_model) if family else None
    name = _VARIANTS.get(reference.variant if reference else "")
    known = text.format(name) if name else text.detect(model=fixture.reference_model).format
    if known is None:
        raise LookupError(f"no format is known of {fixture.reference_model}")
    return known


def opens_a_thought(fixture: Fixture, family: Family | None) -> bool:
    """Return True if the generation prompt ends inside a thought."""
    reference = family.reference_for(fixture.reference_model) if family else None
    default = reference.default_generation_prompt if reference else None
    prompt = fixture.generation_prompt if fixture.generation_prompt is not None else default
    return (prompt or "").rstrip().endswith(("<think>", "<|open|>think<|sep|>", "[THINK]"))


def _cut(value: str, size: int) -> Iterable[Any]:
    return [value[start : start + size] for start in range(0, len(value), size)]


if __name__ == "__main__":
    main()
