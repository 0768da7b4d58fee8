"""Price sessions of 60 turns for every pair of wires, beside their native price.

Each session of `sessions.py` is sent through `translate.exchange` to a simulated provider that bills by its vendor's
rules (`toolwire.testing.prompt_cache`). The provider reads the bytes that are sent. *Native* is the cheapest session
that a client of the provider's own wire can send, with the same tools known in the same turns. The last price is that
with `cache=False`.

Rules of the bills:
- A token is four bytes of the prompt. Settings are free. Every answer has 200 tokens.
- A turn takes 20 seconds. Prices and minimums are those of the catalogue.

usage: price.py [--docs]. With `--docs`, the table in docs/prompt-caches.md is written again, with its date.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT)]

from bench.sessions import CLIENTS, NATIVE, PATHS, Body, Session, sessions  # noqa: E402 - it may be run as a script
from toolwire import translate  # noqa: E402 - as above
from toolwire.dialects import NAMES  # noqa: E402 - as above
from toolwire.providers import catalogue  # noqa: E402 - as above
from toolwire.testing.prompt_cache import PromptCache  # noqa: E402 - as above
from toolwire.types import Usage  # noqa: E402 - as above

TURNS = 60
MODELS = {
    "openai-chat": "gpt-6-sol",
    "openai-responses": "gpt-6-sol",
    "anthropic": "claude-sonnet-5-5",
    "gemini": "gemini-4-argon",
}
TARGET = 1.05
# The sessions that may cost more: the target's wire has tools that arrive in mid-conversation, so that the prompt
# before them stays cached. A translated request has all of its tools at the front.
ABOVE = {"tools arrive late": ("anthropic", "openai-responses"), "tools are deferred": ("openai-responses",)}
PAGE = ROOT / "docs" / "prompt-caches.md"
_MARKS = "<!-- prices -->\n", "<!-- end of prices -->\n"
_ANSWER = 200
_SECONDS = 20.0


class Row(NamedTuple):
    """The prices of a session for one pair, in dollars."""

    session: str
    source: str
    target: str
    native: float
    translated: float
    uncached: float

    @property
    def ratio(self) -> float:
        """How many times the native price it is."""
        return self.translated / self.native


class Provider:
    """A provider that caches and bills by its vendor's rules."""

    def __init__(self, wire: str) -> None:
        self.wire, self.model = wire, MODELS[wire]
        self.dollars = 0.0
        self.usages: list[Usage] = []
        self._cache, self._now = PromptCache(), 0.0

    def answer(self, data: bytes) -> None:
        """Bill one request and its answer. `data` is what was sent."""
        self._now += _SECONDS
        tokens = self._cache.use(self.wire, json.loads(data), self.model, self._now)
        usage = Usage(
            tokens.prompt,
            _ANSWER,
            cache_read_tokens=tokens.read,
            cache_write_tokens=tokens.written,
            cache_write_long_tokens=tokens.written_long,
        )
        cost = catalogue.cost(usage, self.model)
        if cost is None:
            raise LookupError(f"{self.model} has no price")
        self.usages.append(usage)
        self.dollars += cost


def price(wire: str, requests: Iterable[bytes]) -> float:
    """Return the price of requests in dollars."""
    provider = Provider(wire)
    for data in requests:
        provider.answer(data)
    return provider.dollars


def native(session: Session, target: str, turns: int = TURNS) -> float:
    """Return the price of a session that a client of the target's own wire sends in the cheapest way."""
    plain = session._replace(own={}, recorded_wire="")
    return min(
        price(target, (json.dumps(write(plain, turn)).encode() for turn in range(turns))) for write in NATIVE[target]
    )


def sent(session: Session, source: str, target: str, turns: int = TURNS, *, cache: bool = True) -> Iterator[bytes]:
    """Yield the translated requests of a session of a client of `source`."""
    for turn in range(turns):
        body: Body = CLIENTS[source](session, turn)
        exchange = translate.exchange(
            json.dumps(body).encode(),
            source=source,
            target=target,
            path=PATHS.get(source, ""),
            model=MODELS[target],
            cache=cache,
        )
        yield exchange.encoded.json


def prices(turns: int = TURNS) -> Iterator[Row | str]:
    """Yield the prices of each session for each pair, or the reason why a session is left out."""
    for session in sessions(turns):
        if isinstance(session, str):
            yield session
            continue
        for target in MODELS:
            base = native(session, target, turns)
            for source in NAMES:
                if source == target or (session.defers and source != "anthropic"):
                    continue
                dollars = [price(target, sent(session, source, target, turns, cache=cache)) for cache in (True, False)]
                yield Row(session.name, source, target, base, *dollars)


def table(rows: Iterable[Row]) -> str:
    """Return the rows as a table of Markdown: the worst pair of each session and target."""
    lines = ["| session | to | native | translated | of native | without `cache` |", "|---|---|---|---|---|---|"]
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.session, row.target), []).append(row)
    for (session, target), pairs in groups.items():
        worst = max(pairs, key=lambda row: row.translated)
        ratios = sorted({f"{row.ratio:.2f}" for row in pairs})
        money = f"${worst.native:.2f} | ${worst.translated:.2f} | {' to '.join(ratios[:1] + ratios[1:][-1:])}"
        lines.append(f"| {session} | {target} | {money} | ${worst.uncached:.2f} |")
    return "\n".join(lines) + "\n"


def write_page(rows: list[Row], reasons: list[str]) -> None:
    """Write the table into its page, with the date."""
    text = PAGE.read_text("utf-8")
    start, end = (text.index(mark) for mark in _MARKS)
    head = f"Written by `bench/price.py --docs` on {datetime.now(UTC).date()}:\n\n"
    notes = "".join(f"\n{reason}.\n" for reason in reasons)
    PAGE.write_text(f"{text[:start]}{_MARKS[0]}\n{head}{table(rows)}{notes}\n{text[end:]}", "utf-8")


def main() -> None:
    """Print the prices of each pair. Exit with an error if one is above the target."""
    print(f"Sessions of {TURNS} turns, in dollars: native, translated, and translated with cache=False.\n")
    rows, reasons = [], []
    for row in prices():
        if isinstance(row, str):
            reasons.append(row)
            print(f"{row}\n")
            continue
        rows.append(row)
        pair = f"{row.session:<18} {row.source:>16} -> {row.target:<16}"
        ratio = row.uncached / row.native
        print(f"{pair} {row.native:7.3f} {row.translated:7.3f} ({row.ratio:.2f}) {row.uncached:7.3f} ({ratio:.2f})")
    if "--docs" in sys.argv:
        write_page(rows, reasons)
    above = [row for row in rows if row.ratio > TARGET]
    known = [row for row in above if row.target in ABOVE.get(row.session, ())]
    print(f"\n{len(above)} of {len(rows)} are above {TARGET} of the native price; of {len(known)} it is known why")
    if len(known) < len(above):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
