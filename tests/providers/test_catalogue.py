"""The rules of the catalogue: lookup, cost, overrides, files and hints."""

import json
import subprocess
import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolwire import catalogue
from toolwire.errors import InvalidField
from toolwire.providers.catalogue import Catalogue, Model, Price
from toolwire.types import Usage

SEED = "January 2025"
MILLION = 1_000_000
BUILT_IN = catalogue.built_in()


def known(name: str, as_of: str | None = None) -> Model:
    found = catalogue.model(name, as_of)
    assert found is not None, name
    return found


def price_of(entry: Model) -> Price:
    assert entry.price is not None, entry.name
    return entry.price


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("gpt-4o", "gpt-4o"),
        ("openai/gpt-4o", "gpt-4o"),
        ("openai/GPT-4o", "gpt-4o"),
        ("Sonnet 4.5", "claude-sonnet-4-20250514"),
        ("ollama/llama3.1:8b", "llama3.1:8b"),
        ("gemini/gemini-4-argon", "gemini-4-argon"),
        ("google/gemini-4-argon", "gemini-4-argon"),
        ("ollama/gpt-4o", None),
        ("/gpt-4o", None),
        ("gpt-4o/", None),
        ("gpt-4", None),
        ("gpt-4o-2024-08-06", None),
        ("GPT-4O", None),
        (" gpt-4o", None),
        ("gpt-oss", None),
        ("gpt-oss:20b", None),
        ("gpt-oss:120b-cloud", None),
        ("openai/gpt-oss-120b", None),
        ("ollama/gpt-oss:20b", None),
        ("llama3.1:70b", None),
        ("gpt-6.2-astra", "gpt-6.2-astra"),
        ("openai/GPT-6.2 Astra", "gpt-6.2-astra"),
        ("gpt-6.2-luna", None),
        ("claude-sonnet-4-5", None),
        ("claude", None),
        ("o", None),
        ("", None),
        (None, None),
    ],
)
def test_a_name_is_matched_whole(name: str | None, found: str | None) -> None:
    entry = catalogue.model(name)
    assert (entry.name if entry else None) == found
    if found is None:
        assert catalogue.cost(Usage(1000, 1000), name) is None


@pytest.mark.parametrize(
    ("model", "usage", "cost"),
    [
        ("gpt-4o", Usage(1000, 500), 1000 / 1e6 * 2.5 + 500 / 1e6 * 10.0),
        ("gpt-4o", Usage(MILLION, MILLION), 12.5),
        ("gpt-4o", Usage(0, 0), 0.0),
        ("Sonnet 4.5", Usage(2 * MILLION, MILLION), 21.0),
        ("gpt-4o", Usage(MILLION, 0, cache_read_tokens=400_000, cache_write_tokens=100_000), 2.5),
        ("gpt-4o", Usage(0, MILLION, reasoning_tokens=MILLION), 10.0),
        ("gemini-4-argon", Usage(MILLION, 0, cache_read_tokens=MILLION), 0.1),
        ("gemini-4-argon", Usage(MILLION, 0, cache_read_tokens=500_000), 1.05),
        ("gemini-4-argon", Usage(MILLION, 0, cache_write_tokens=500_000), 2.0),
        ("gpt-4o", None, None),
        ("gpt-4o", Usage(), None),
        ("gpt-4o", Usage(5, None), None),
        ("gpt-4o", Usage(None, 5), None),
        ("gpt-4o", Usage(5, 5, cache_read_tokens=6), None),
        ("gpt-4o", Usage(-1, 5), None),
        ("gpt-4o", Usage(5, -1), None),
        ("gpt-4o", Usage(5, 5, cache_read_tokens=-1), None),
        ("gpt-4o-mini", Usage(5, 5), None),
        ("llama3.1:8b", Usage(5, 5), 0.0),
        ("mistral-nemo", Usage(5, 5), 0.0),
        ("ollama/llama3.1", None, 0.0),
        ("ollama/qwen3", Usage(5, 5), 0.0),
        ("ollama/unheard-of", Usage(5, 5), None),
    ],
)
@pytest.mark.row("R001-50")
def test_cost(model: str, usage: Usage | None, cost: float | None) -> None:
    """In and out by their prices; what is not known costs None, and not 0."""
    found = catalogue.cost(usage, model)
    assert found == (cost if cost is None else pytest.approx(cost, rel=1e-12, abs=0))
    assert catalogue.cost(usage, catalogue.model(model)) == found


@pytest.mark.parametrize(("on", "cost"), [(None, 12.0), (date(2026, 11, 30), 12.0), (date(2026, 12, 1), 24.0)])
def test_an_announced_price_holds_from_its_day(on: date | None, cost: float) -> None:
    assert catalogue.cost(Usage(MILLION, MILLION), "gemini-4-carbon", on=on) == cost


def test_a_price_that_ended_without_a_successor_is_unknown() -> None:
    ended = Model("m", price=Price(1, 2, until=date(2026, 1, 1)))
    assert catalogue.cost(Usage(MILLION, 0), ended, on=date(2026, 1, 1)) == 1.0
    assert catalogue.cost(Usage(MILLION, 0), ended, on=date(2026, 1, 2)) is None


def test_cache_writes_have_a_price_where_one_is_given() -> None:
    model = Model("m", price=Price(10, 0, cache_read=1, cache_write=12.5))
    usage = Usage(3 * MILLION, 0, cache_read_tokens=MILLION, cache_write_tokens=MILLION)
    assert catalogue.cost(usage, model) == 23.5


@pytest.mark.parametrize(
    ("price", "long", "cost"),
    [
        (Price(10, 0, cache_write=12.5, cache_write_long=20), MILLION, 32.5),
        (Price(10, 0, cache_write=12.5), MILLION, 25.0),
        (Price(10, 0, cache_write_long=20), MILLION, 30.0),
        (Price(10, 0, cache_write=12.5, cache_write_long=20), 3 * MILLION, None),
        (Price(10, 0, cache_write=12.5, cache_write_long=20), -1, None),
    ],
)
def test_cache_writes_of_a_longer_lifetime_have_their_own_price(price: Price, long: int, cost: float | None) -> None:
    usage = Usage(2 * MILLION, 0, cache_write_tokens=2 * MILLION, cache_write_long_tokens=long)
    assert catalogue.cost(usage, Model("m", price=price)) == cost


def test_a_model_is_local_and_free_though_no_price_is_given() -> None:
    assert catalogue.cost(Usage(1, 1), Model("m", local=True)) == 0.0
    assert catalogue.cost(Usage(1, 1), Model("m")) is None


@pytest.mark.parametrize(
    ("model", "overrides", "cost"),
    [
        ("gpt-4o", {"gpt-4o": {"price": {"input": 1, "output": 2}}}, 3.0),
        ("openai/gpt-4o", {"GPT-4o": {"price": Price(1, 2)}}, 3.0),
        ("gpt-4o", {"openai/gpt-4o": {"price": {"input": 1, "output": 2}}}, 3.0),
        ("mine", {"mine": {"price": {"input": 1, "output": 2}}}, 3.0),
        ("mine", {"mine": Model("mine", price=Price(4, 5))}, 9.0),
        ("gpt-4o", {"gpt-4o": Model("gpt-4o")}, None),
        ("gpt-4o", {"gpt-4o": {"price": None}}, None),
        ("gpt-4o", {"gpt-oss:20b": {"local": True}}, 12.5),
        ("gpt-oss:20b", {"gpt-oss:20b": {"local": True}}, 0.0),
        ("groq/llama3.1", {"groq/llama3.1": {"price": {"input": 1, "output": 0}}}, 1.0),
        ("llama3.1", {"groq/llama3.1": {"price": {"input": 1, "output": 0}}}, 0.0),
        ("llama3.1", {"llama3.1": {"price": {"input": 0.5, "output": 0}}}, 0.5),
        ("gemini-4-argon", {"gemini-4-argon": {"price": {"input": 7, "output": 0}}}, 7.0),
        ("gpt-4o", {}, 12.5),
        ("gpt-4o", None, 12.5),
    ],
)
def test_overrides_win(model: str, overrides: Mapping[str, Any] | None, cost: float | None) -> None:
    assert catalogue.cost(Usage(MILLION, MILLION), model, overrides=overrides) == cost


def test_overrides_win_over_an_entry_in_hand() -> None:
    entry, overrides = known("gpt-4o"), {"gpt-4o": {"price": {"input": 1, "output": 2}}}
    assert catalogue.cost(Usage(MILLION, MILLION), entry, overrides=overrides) == 3.0
    stranger = Model("mine", price=Price(1, 1))
    assert catalogue.cost(Usage(MILLION, MILLION), stranger, overrides=overrides) == 2.0


def test_an_override_changes_what_it_names_and_leaves_the_original_alone() -> None:
    changed = BUILT_IN.with_models(
        {"GPT-4o": {"price": {"input": 1, "output": 2}}}, as_of="2026-12-01", source="our contract"
    )
    entry = changed.model("gpt-4o")
    assert entry is not None
    assert (entry.name, entry.context_window, entry.purpose) == ("gpt-4o", 128_000, "General purpose")
    assert entry.price == Price(1, 2, as_of="2026-12-01", source="our contract")
    assert entry.source == f"our contract; otherwise {known('gpt-4o').source}"
    assert changed.model("GPT-4o") == entry
    assert changed.model("gpt-4o", as_of="2026-12-01") == entry
    assert changed.model("gpt-4o", as_of=SEED) == BUILT_IN.model("gpt-4o") == known("gpt-4o", SEED)
    assert len(changed.models()) == len(BUILT_IN.models())
    assert price_of(known("gpt-4o")).input == 2.5


def test_an_override_without_a_date_says_so() -> None:
    entry = Catalogue().with_models({"m": {"local": True}}).model("m")
    assert entry == Model("m", local=True, as_of="undated", source="override")


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        ({"m": {"price": {"input": "3", "output": 1}}}, "price.input"),
        ({"m": {"price": {"input": -3, "output": 1}}}, "price.input"),
        ({"m": {"price": {"input": float("nan"), "output": 1}}}, "price.input"),
        ({"m": {"price": {"input": float("inf"), "output": 1}}}, "price.input"),
        ({"m": {"price": {"input": 1}}}, "price.output"),
        ({"m": {"price": Price("x", 1)}}, "price.input"),  # type: ignore[arg-type]
        ({"m": {"price": {"input": 1, "output": 1, "currency": "EUR"}}}, "price.currency"),
        ({"m": {"price": {"input": 1, "output": 1, "until": "soon"}}}, "price.until"),
        ({"m": {"prise": {}}}, "prise"),
        ({"m": {"price": {"input": 1, "output": 1, "cached": 1}}}, "price.cached"),
        ({"m": {"context_window": 0}}, "context_window"),
        ({"gpt-4o": {"context_window": "128k"}}, "context_window"),
        ({"m": {"providers": "openai"}}, "providers"),
        ({"m": {"aliases": ["a", 1]}}, "aliases[1]"),
        ({"m": {"name": "other"}}, "name"),
        ({"m": {"note": object()}}, "note"),
        ({"": {"local": True}}, "name"),
        ({"m": Model("m", local="yes")}, "local"),  # type: ignore[arg-type]
        ({"m": 3}, "value"),
        ([("m", {})], "overrides"),
    ],
)
def test_a_bad_override_names_the_field(overrides: Any, field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        catalogue.cost(Usage(1, 1), "gpt-4o", overrides=overrides)
    assert caught.value.field == field
    assert field in str(caught.value)


LAYERS = {
    "layers": [
        {"as_of": "2025", "source": "old list", "models": [{"name": "m", "aliases": ["em"], "note": "old"}]},
        {
            "as_of": "2026",
            "source": "new list",
            "third_party": True,
            "models": [
                {"name": "m", "price": {"input": 1, "output": 2}},
                {"name": "n", "source": "n's page", "price": {"input": 1, "output": 2, "source": "a bill"}},
            ],
        },
    ]
}


def test_the_newer_layer_wins_and_the_older_stays_reachable() -> None:
    loaded = Catalogue.load(LAYERS)
    newer, older = loaded.model("m"), loaded.model("m", as_of="2025")
    assert newer is not None
    assert (newer.source, newer.third_party, newer.note) == ("new list", True, None)
    assert newer.price == Price(1, 2, as_of="2026", source="new list")
    assert older == Model("m", aliases=("em",), note="old", as_of="2025", source="old list")
    assert loaded.model("em") == newer
    assert loaded.model("em", as_of="2025") == older
    assert [entry.name for entry in loaded.models()] == ["m", "n"]
    assert loaded.model("m", as_of="2024") is None


def test_an_entry_may_name_its_own_source() -> None:
    entry = Catalogue.load(LAYERS).model("n")
    assert entry is not None
    assert (entry.source, price_of(entry).source, entry.as_of) == ("n's page", "a bill", "2026")


def test_a_file_is_read_like_a_map(tmp_path: Path) -> None:
    file = tmp_path / "models.json"
    file.write_text(json.dumps(LAYERS))
    assert Catalogue.load(file).entries == Catalogue.load(LAYERS).entries
    assert Catalogue.load(str(file)).entries == Catalogue.load(LAYERS).entries
    assert Catalogue.load().entries == BUILT_IN.entries


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"layers": [{"as_of": "2025", "models": []}]}', "layers[0].source"),
        ('{"layers": [{"source": "s", "models": []}]}', "layers[0].as_of"),
        ('{"layers": [{"as_of": "a", "source": "s", "models": [{}]}]}', "layers[0].models[0].name"),
        ('{"layers": [{"as_of": "a", "source": "", "models": []}]}', "layers[0].source"),
        ("{}", "layers"),
        ("[]", "value"),
        ("{", "catalogue"),
    ],
)
def test_a_bad_file_names_the_field(tmp_path: Path, text: str, field: str) -> None:
    file = tmp_path / "models.json"
    file.write_text(text)
    with pytest.raises(InvalidField) as caught:
        Catalogue.load(file)
    assert (caught.value.field, caught.value.path) == (field, str(file))


def test_the_provider_default_of_max_tokens_is_not_below_its_floor() -> None:
    traits = msgspec.to_builtins(catalogue.provider("anthropic")) | {"default_max_tokens": 1023}
    with pytest.raises(InvalidField) as caught:
        Catalogue.load({"layers": [{"as_of": "a", "source": "s", "providers": [traits]}]})
    assert caught.value.field == "layers[0].providers[0].default_max_tokens"


SHORT = "below 32k"
STRUGGLE = "may struggle with complex tool schemas"


@pytest.mark.parametrize(
    ("model", "context_window", "said"),
    [
        ("llama3.1:8b", 8192, [SHORT, STRUGGLE, "needs 8 GB of RAM"]),
        ("llama3.1:8b", 31_999, [SHORT, STRUGGLE, "needs 8 GB of RAM"]),
        ("llama3.1:8b", 32_000, [STRUGGLE, "needs 8 GB of RAM"]),
        ("llama3.1:8b", None, [STRUGGLE, "needs 8 GB of RAM"]),
        ("llama3.1", 32_768, [STRUGGLE]),
        ("deepseek-coder:33b", 4096, [SHORT, "needs 32 GB of RAM", "16GB+ for 33B models"]),
        ("codestral", 40_000, []),
        ("mistral-nemo", 4096, [SHORT]),
        ("ollama/qwen3", 4096, [SHORT]),
        ("ollama/qwen3", 32_000, []),
        ("unheard-of", 4096, []),
        ("openai/gpt-oss", 4096, []),
        ("claude-opus-5-5", 4096, []),
        ("gpt-4o", 4096, ["shut down on 2027-01-14"]),
        ("GPT-4o", None, ["shut down on 2027-01-14"]),
        ("openai/o3", None, ["shut down on 2026-12-11"]),
        ("claude-sonnet-4-5", None, ["shut down on 2026-11-30"]),
        ("Sonnet 4.5", None, []),
        ("claude-haiku-5-5", None, ["lower bound"]),
        ("gemini-4-argon", None, ["$2/$10 holds until 2026-11-30, then $4/$20"]),
    ],
)
@pytest.mark.row("R001-33")
def test_hints(model: str, context_window: int | None, said: list[str]) -> None:
    found = catalogue.hints(model, context_window)
    assert len(found) == len(said)
    for hint, words in zip(found, said, strict=True):
        assert words in hint
    entry = catalogue.model(model)
    assert entry is None or catalogue.hints(entry, context_window) == found


def test_a_hint_follows_an_override() -> None:
    local = BUILT_IN.with_models({"gpt-oss:20b": {"local": True, "ram_gb": 16}})
    found = local.hints("gpt-oss:20b", 8192)
    assert [SHORT in found[0], "needs 16 GB of RAM" in found[1], len(found)] == [True, True, 2]


IMPORT_READS_NOTHING = """
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from toolwire import catalogue
def reads(): return sum(name.endswith("catalogue.json") for name in opened)
before = reads(), catalogue.built_in.cache_info().currsize
catalogue.model("gpt-4o"), catalogue.models(), catalogue.cost(None, "gpt-4o")
print(before, (reads(), catalogue.built_in.cache_info().currsize))
"""


def test_the_data_is_read_on_first_use_and_once() -> None:
    # The child finds the package where this process found it.
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{IMPORT_READS_NOTHING}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "(0, 0) (1, 1)"
