"""The bench of prices: a translated session costs what a native one costs, and much more without caches."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from bench import price
from bench.sessions import CLIENTS, NATIVE, Session, sessions
from toolwire.dialects import NAMES, dialect

TURNS = 12
PAIRS = [(source, target) for target in price.MODELS for source in NAMES if source != target]
SESSIONS = {one.name: one for one in sessions(TURNS) if isinstance(one, Session)}
MADE_UP, LATE, DEFERRED = (SESSIONS[name] for name in ("made up", "tools arrive late", "tools are deferred"))


@pytest.mark.sampled
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_session_costs_its_native_price(source: str, target: str) -> None:
    native = price.native(MADE_UP, target, TURNS)
    assert price.price(target, price.sent(MADE_UP, source, target, TURNS)) <= native * price.TARGET
    if target == "anthropic":
        assert price.price(target, price.sent(MADE_UP, source, target, TURNS, cache=False)) > 2 * native


@pytest.mark.parametrize("name", ["Claude Code", "Codex"])
def test_a_recorded_program_costs_its_native_price(name: str) -> None:
    if name not in SESSIONS:
        pytest.skip(next(one for one in sessions(TURNS) if isinstance(one, str) and one.startswith(name)))
    session = SESSIONS[name]
    for target in price.MODELS:
        native = price.native(session, target, TURNS)
        for source in NAMES:
            if source != target:
                assert price.price(target, price.sent(session, source, target, TURNS)) <= native * price.TARGET


@pytest.mark.sampled
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_tools_that_arrive_late_cost_their_native_price_where_a_wire_has_them_at_the_front(
    source: str, target: str
) -> None:
    paid = price.price(target, price.sent(LATE, source, target, TURNS))
    cheapest = price.native(LATE, target, TURNS)
    assert paid <= cheapest * (2 if target in price.ABOVE[LATE.name] else price.TARGET)
    assert paid > price.price(target, price.sent(MADE_UP, source, target, TURNS))


@pytest.mark.parametrize("target", ["openai-chat", "openai-responses", "gemini"])
def test_deferred_tools_cost_what_they_cost_a_client_that_learns_of_them_late(target: str) -> None:
    paid = price.price(target, price.sent(DEFERRED, "anthropic", target, TURNS))
    assert paid <= price.native(DEFERRED, target, TURNS) * (2 if target in price.ABOVE[DEFERRED.name] else price.TARGET)


def test_a_tool_in_mid_conversation_is_cheaper_than_one_at_the_front() -> None:
    for target, count in (("anthropic", 3), ("openai-responses", 2)):
        costs = [price.price(target, sent_by(write, LATE)) for write in NATIVE[target]]
        assert len(costs) == count
        assert min(costs) == costs[-1] < 0.9 * costs[-2]


def sent_by(write: Any, session: Session) -> Iterator[bytes]:
    return (json.dumps(write(session, turn)).encode() for turn in range(TURNS))


@pytest.mark.sampled
@pytest.mark.parametrize("name", SESSIONS)
@pytest.mark.parametrize("wire", CLIENTS)
def test_a_longer_conversation_begins_with_the_shorter_one(wire: str, name: str) -> None:
    """The sessions of the bench are what they say: only marks and tools that arrive change what was sent."""
    traits = dialect(wire)
    histories = [
        traits.decode_request(CLIENTS[wire](SESSIONS[name], turn), "/v1beta/models/m:generateContent")
        for turn in range(TURNS)
    ]
    texts = [[(one.role, one.text) for one in request.messages] for request in histories]
    for before, after in itertools.pairwise(texts):
        assert len(before) < len(after)
        assert after[: len(before)] == before


@pytest.mark.parametrize("target", price.MODELS)
def test_a_changed_prefix_is_paid_again(target: str) -> None:
    """The provider bills the bytes that are sent: another system prompt in each turn is never read from its cache."""
    bodies = [json.loads(data) for data in price.sent(MADE_UP, "ollama", target, TURNS)]
    provider, changed = price.Provider(target), price.Provider(target)
    for turn, body in enumerate(bodies):
        data = json.dumps(body)
        provider.answer(data.encode())
        changed.answer(data.replace("Work with care. ", f"Turn {turn:05} it is. ", 1).encode())
    assert sum(usage.cache_read_tokens or 0 for usage in provider.usages) > 0
    tools = 20 * 400  # those come before the system prompt on most wires, and may be read
    assert max(usage.cache_read_tokens or 0 for usage in changed.usages) < tools
    assert changed.dollars > 1.5 * provider.dollars


def test_a_provider_reads_only_what_it_has_written() -> None:
    provider = price.Provider("anthropic")
    text = {"type": "text", "text": "x" * 8000}
    body = {"system": [text], "messages": [{"role": "user", "content": "y" * 8000}]}
    marked = {**body, "cache_control": {"type": "ephemeral"}}
    for sent in (body, marked, marked):
        provider.answer(json.dumps(sent).encode())
    total = 4001
    assert [(usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens) for usage in provider.usages] == [
        (total, 0, 0),
        (total, 0, total),
        (total, total, 0),
    ]
    fresh, write, read = total * 2 / 1e6, total * 2.5 / 1e6, total * 0.2 / 1e6
    assert provider.dollars == pytest.approx(fresh + write + read + 3 * 200 * 10 / 1e6)


def test_the_table_names_the_worst_pair(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [price.Row("s", source, "anthropic", 1.0, paid, 5.0) for source, paid in (("gemini", 1.0), ("ollama", 1.2))]
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- prices -->\nold\n<!-- end of prices -->\nafter\n", "utf-8")
    monkeypatch.setattr(price, "PAGE", page)
    price.write_page(rows, ["Codex: no recorded request"])
    text = page.read_text("utf-8")
    assert "| s | anthropic | $1.00 | $1.20 | 1.00 to 1.20 | $5.00 |" in text
    assert text.startswith("before\n<!-- prices -->\n")
    assert text.endswith("\nCodex: no recorded request.\n\n<!-- end of prices -->\nafter\n")
    assert "old" not in text
