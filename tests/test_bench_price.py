"""The bench of prices: a translated session costs what a native one costs, and much more without caches."""

import pytest

from bench import price
from toolwire.dialects import NAMES

PAIRS = [(source, target) for target in price.MODELS for source in NAMES if source != target]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = price.session
    monkeypatch.setattr(price, "session", lambda: whole(12))


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_session_costs_its_native_price(source: str, target: str) -> None:
    listed = price.price_of(target)
    native = price.native(target).dollars(listed)
    assert price.translated(source, target).dollars(listed) <= native * price.TARGET
    if target == "anthropic":
        assert price.translated(source, target, cache=False).dollars(listed) > 2 * native


def test_a_provider_reads_only_what_it_has_written() -> None:
    provider = price.Provider("anthropic")
    body = {"system": "x" * 400, "messages": [{"role": "user", "content": "y" * 400}]}
    marked = {**body, "cache_control": {"type": "ephemeral"}}
    for sent in (body, marked, marked):
        provider.answer(sent)
    bill = provider.bill
    assert (bill.read, bill.written) == (bill.fresh, bill.fresh)
    assert bill.answers == 600
