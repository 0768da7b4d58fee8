"""The built-in data of the catalogue, row by row as its sources give it."""

import pytest

from toolwire import catalogue
from toolwire.providers.catalogue import Model, Price
from toolwire.types import Usage

SEED = "January 2025"
OCTOBER = "2026-10-07"
TRANSCRIBED = [("gemini-3.8-flash", 0.75, 3.75), ("gemini-3.5-flash", 1.5, 9.0), ("gemini-3.5-flash-lite", 0.3, 2.5)]
NOVEMBER = "2026-11-20"
BUILT_IN = catalogue.built_in()

LISTED_API = [
    ("openai", "gpt-4-turbo-2024-04-09", (), "`gpt-4-turbo-2024-04-09`"),
    ("openai", "gpt-4o", ("multimodal",), "`gpt-4o` (multimodal)"),
    ("openai", "gpt-4o-mini", (), "`gpt-4o-mini`"),
    ("openai", "o1", ("reasoning",), "`o1`, `o1-mini` (reasoning models)"),
    ("openai", "o1-mini", ("reasoning",), "`o1`, `o1-mini` (reasoning models)"),
    (
        "anthropic",
        "claude-sonnet-4-20250514",
        ("best for coding",),
        "`claude-sonnet-4-20250514` (Sonnet 4.5 - best for coding)",
    ),
    (
        "anthropic",
        "claude-opus-4-20250514",
        ("most capable",),
        "`claude-opus-4-20250514` (Opus 4 - most capable)",
    ),
    ("anthropic", "claude-haiku-4-20250514", ("fastest",), "`claude-haiku-4-20250514` (Haiku 4.5 - fastest)"),
]

LISTED_LOCAL = [
    ("llama3.1", ("8B", "70B", "405B"), "`llama3.1` (8B, 70B, 405B)"),
    ("codestral", ("22B",), "`codestral` (Mistral's code model, 22B)"),
    ("deepseek-coder", ("33B",), "`deepseek-coder` (33B)"),
    ("qwen2.5-coder", ("32B",), "`qwen2.5-coder` (32B)"),
    ("mistral-nemo", (), "`mistral-nemo`"),
    ("firefunction-v2", (), "`firefunction-v2`"),
]

PRICED = [
    ("claude-sonnet-4-20250514", "Sonnet 4.5", 3.0, 15.0, 200_000, "Coding tasks"),
    ("claude-opus-4-20250514", "Opus 4", 15.0, 75.0, 200_000, "Complex reasoning"),
    ("claude-haiku-4-20250514", "Haiku 4.5", 0.8, 4.0, 200_000, "Fast tasks"),
    ("gpt-4o", "GPT-4o", 2.5, 10.0, 128_000, "General purpose"),
    ("gpt-4-turbo-2024-04-09", "GPT-4 Turbo", 10.0, 30.0, 128_000, "Legacy"),
    ("o1", "o1", 15.0, 60.0, 128_000, "Reasoning"),
]

LOCAL = [
    ("deepseek-coder:33b", 19, 32, "Coding", True, False),
    ("qwen2.5-coder:32b", 18, 32, "Coding", True, False),
    ("codestral:22b", 13, 24, "Coding", True, False),
    ("llama3.1:8b", 4.7, 8, "Fast tasks", False, True),
]

COMPARED = [
    ("standard", "industry standard", "proprietary", "openai-compatible"),
    ("schema_key", "parameters", "input_schema", "parameters"),
    ("tool_call_structure", "tool_calls[]", 'content[type="tool_use"]', "tool_calls[]"),
    ("arguments", "JSON string", "Parsed object", "JSON string"),
    ("tool_result_role", "tool", "user", "tool"),
    ("parallel_tool_calls", True, True, True),
    ("streaming", True, True, True),
    ("fine_grained_streaming", False, True, False),
    ("local", False, False, True),
    ("label", "OpenAI", "Claude", "Ollama"),
    ("default_max_tokens", None, 1024, None),
]

REPORTED = [
    ("gpt-6-astra", 10, 50, 1_050_000, 128_000, True),
    ("gpt-6-sol", 2, 10, 1_050_000, 128_000, True),
    ("gpt-6-luna", 0.1, 0.5, 1_050_000, 128_000, True),
    ("gpt-6.2-astra", 8, 40, 1_050_000, 128_000, True),
    ("gpt-6.2-sol", 2, 10, 1_050_000, 128_000, True),
    ("claude-fable-5-2", 8, 40, 1_000_000, 128_000, False),
    ("claude-fable-5-1", 10, 50, 1_000_000, 128_000, False),
    ("claude-opus-5-5", 4, 20, 1_000_000, 128_000, False),
    ("claude-sonnet-5-5", 2, 10, 1_000_000, 128_000, False),
    ("claude-haiku-5-5", 0.1, 0.5, 1_000_000, 128_000, False),
    ("claude-opus-5", 5, 25, None, None, False),
    ("gemini-4-argon", 2, 10, 1_048_576, 65_536, True),
    ("gemini-4-carbon", 2, 10, 1_048_576, 65_536, True),
]

UNPRICED = [
    "gpt-6.1-sol",
    "gpt-6.1-terra",
    "claude-mythos-5-2",
    "gemini-3.7-flash",
    "gemini-3.6-flash",
    "gemini-3.1-pro-preview",
]


def known(name: str, as_of: str | None = None) -> Model:
    found = catalogue.model(name, as_of)
    assert found is not None, name
    return found


def price_of(entry: Model) -> Price:
    assert entry.price is not None, entry.name
    return entry.price


@pytest.mark.parametrize(("provider", "name", "tags", "words"), LISTED_API)
@pytest.mark.row("R001-14", "R001-15")
def test_hosted_models_are_listed(provider: str, name: str, tags: tuple[str, ...], words: str) -> None:
    entry = known(name, SEED)
    assert (entry.providers, entry.tags, entry.local) == ((provider,), tags, False)
    assert entry.words["Latest Models (2025)"] == words
    assert (entry.tools, entry.parallel_tool_calls, entry.streaming) == (True, True, True)
    assert entry.structured_output == (True if provider == "openai" else None)
    assert entry.multimodal == (True if name == "gpt-4o" else None)
    assert entry.reasoning == (True if provider == "anthropic" or name.startswith("o1") else None)


@pytest.mark.parametrize(("name", "sizes", "words"), LISTED_LOCAL)
@pytest.mark.row("R001-28", "R001-32")
def test_local_models_are_listed(name: str, sizes: tuple[str, ...], words: str) -> None:
    entry = known(name, SEED)
    assert (entry.providers, entry.parameter_sizes, entry.local) == (("ollama",), sizes, True)
    assert entry.words["Supported Models (2025)"] == words
    assert (entry.tools, entry.parallel_tool_calls, entry.streaming) == (True, True, True)


def test_the_first_source_lists_nothing_else() -> None:
    listed = {row[1] for row in LISTED_API} | {row[0] for row in LISTED_LOCAL} | {row[0] for row in LOCAL}
    assert {entry.name for entry in catalogue.models(as_of=SEED)} == listed


@pytest.mark.parametrize(("name", "label", "price_in", "price_out", "window", "purpose"), PRICED)
@pytest.mark.row("R001-47", "R001-48")
def test_prices_of_the_first_source(
    name: str, label: str, price_in: float, price_out: float, window: int, purpose: str
) -> None:
    """Dated, in the words of the source."""
    entry = known(name, SEED)
    price = price_of(entry)
    assert (price.input, price.output, price.currency, price.as_of) == (price_in, price_out, "USD", SEED)
    assert (price.cache_read, price.cache_write) == (None, None)
    assert (entry.context_window, entry.purpose) == (window, purpose)
    assert catalogue.model(label) == entry


@pytest.mark.parametrize("name", [row[0] for row in PRICED])
def test_numbers_follow_from_the_words_of_the_source(name: str) -> None:
    entry, words = known(name, SEED), known(name, SEED).words
    price = price_of(entry)
    assert words["Input (per 1M tokens)"] == f"${price.input:.2f}"
    assert words["Output (per 1M tokens)"] == f"${price.output:.2f}"
    assert words["Context Window"] == f"{(entry.context_window or 0) // 1000}k"
    assert words["Best For"].strip("*") == entry.purpose
    assert words["Model"] in (entry.label, entry.name)


@pytest.mark.parametrize(("name", "size", "ram", "purpose", "recommended", "small"), LOCAL)
@pytest.mark.row("R001-34", "R001-35", "R001-36", "R001-49")
def test_local_table(name: str, size: float, ram: float, purpose: str, recommended: bool, small: bool) -> None:
    entry = known(name, SEED)
    assert (entry.size_gb, entry.ram_gb, entry.purpose) == (size, ram, purpose)
    assert (entry.recommended, entry.small_model_may_struggle) == (recommended, small)
    assert (entry.words["Size"], entry.words["RAM Required"]) == (f"{size:g}GB", f"{ram:g}GB+")
    assert entry.words["Best For"].strip("*") == purpose


@pytest.mark.row("R001-34", "R001-35")
def test_who_may_struggle_and_who_is_recommended() -> None:
    entries = catalogue.models()
    assert [entry.name for entry in entries if entry.small_model_may_struggle] == ["llama3.1", "llama3.1:8b"]
    assert [entry.name for entry in entries if entry.recommended] == [row[0] for row in LOCAL[:3]]


@pytest.mark.row("R001-36")
def test_both_ram_figures_of_the_first_source_are_kept() -> None:
    entry = known("deepseek-coder:33b")
    assert entry.words["RAM Required"] == "32GB+"
    assert "16GB+ RAM for 33B" in entry.words["Performance Notes"]


@pytest.mark.parametrize(("field", "openai", "anthropic", "ollama"), COMPARED)
@pytest.mark.row("R001-37", "R001-38", "R001-39", "R001-40", "R001-41", "R001-42", "R001-43", "R001-44")
def test_provider_comparison(field: str, openai: object, anthropic: object, ollama: object) -> None:
    found = [catalogue.provider(name, SEED) for name in ("openai", "anthropic", "ollama")]
    assert [getattr(traits, field) for traits in found] == [openai, anthropic, ollama]


@pytest.mark.row("R001-37", "R001-38", "R001-39", "R001-40", "R001-41", "R001-42", "R001-43", "R001-44")
def test_provider_comparison_keeps_the_eight_rows_in_their_words() -> None:
    rows = [list(traits.words)[:8] for traits in catalogue.providers()]
    assert rows[0] == rows[1] == rows[2]
    assert rows[0] == [
        "Standard",
        "Schema key",
        "Tool call structure",
        "Arguments",
        "Tool result role",
        "Parallel calls",
        "Streaming",
        "Local support",
    ]
    assert [traits.words["Streaming"] for traits in catalogue.providers()] == [
        "✅ Yes",
        "✅ Fine-grained",
        "✅ Yes",
    ]
    assert catalogue.provider("gpt") is None
    assert catalogue.provider("openai", NOVEMBER) is None


@pytest.mark.parametrize(("name", "price_in", "price_out", "window", "output", "third_party"), REPORTED)
def test_prices_of_november_2026(
    name: str, price_in: float, price_out: float, window: int | None, output: int | None, third_party: bool
) -> None:
    entry = known(name, NOVEMBER)
    price = price_of(entry)
    assert (price.input, price.output, price.as_of) == (price_in, price_out, NOVEMBER)
    assert (entry.context_window, entry.max_output, entry.third_party) == (window, output, third_party)
    assert ("third-party" in entry.source) == third_party
    assert f"${price_in:g}" in " ".join(entry.words.values()).replace("0.10", "0.1").replace("0.50", "0.5")


@pytest.mark.parametrize(("name", "given", "taken"), TRANSCRIBED)
def test_a_price_of_googles_page_names_its_own_date(name: str, given: float, taken: float) -> None:
    entry = catalogue.model(f"gemini/{name}")
    assert entry is not None
    assert entry.price is not None
    assert (entry.price.input, entry.price.output, entry.price.as_of) == (given, taken, OCTOBER)
    assert "ai.google.dev" in entry.price.source


def test_a_model_without_a_published_price_has_no_cost() -> None:
    assert [entry.name for entry in catalogue.models(as_of=NOVEMBER) if entry.price is None] == UNPRICED
    assert [catalogue.cost(Usage(1, 1), name) for name in UNPRICED] == [None] * len(UNPRICED)


def test_the_two_dates_do_not_overlap_and_nothing_else_is_built_in() -> None:
    names = {row[0] for row in (*REPORTED, *TRANSCRIBED)} | {"qwen3", *UNPRICED}
    assert {entry.name for entry in catalogue.models(as_of=NOVEMBER)} == names
    assert {entry.as_of for entry in BUILT_IN.entries} == {SEED, NOVEMBER}


def test_every_entry_says_where_it_comes_from_and_when() -> None:
    entries = [(entry.source, entry.as_of, entry.words) for entry in BUILT_IN.entries]
    traits = [(entry.source, entry.as_of, entry.words) for entry in BUILT_IN.providers()]
    for source, as_of, words in entries + traits:
        assert source
        assert as_of in (SEED, NOVEMBER)
        assert words
    for price in [entry.price for entry in BUILT_IN.entries if entry.price]:
        for dated in [price, price.after] if price.after else [price]:
            assert dated.source
            assert dated.as_of in (SEED, OCTOBER, NOVEMBER)


def test_names_and_aliases_are_unique_within_the_built_in_data() -> None:
    spelled = [word for entry in BUILT_IN.entries for word in {entry.name, *entry.aliases}]
    assert sorted(spelled) == sorted(set(spelled))


def test_labels_are_names_too() -> None:
    for entry in BUILT_IN.entries:
        if entry.label is not None:
            assert catalogue.model(entry.label) == entry


def test_models_of_a_provider() -> None:
    assert [entry.name for entry in catalogue.models("anthropic", SEED)] == [row[0] for row in PRICED[:3]]
    assert {entry.local for entry in catalogue.models("ollama")} == {True}
    assert catalogue.models("google") == catalogue.models("gemini")
    assert len(catalogue.models("google")) == 8
    assert catalogue.models("nobody") == ()
    assert catalogue.models(as_of="yesterday") == ()


@pytest.mark.row("R001-32")
def test_every_local_model_is_free() -> None:
    local = [entry for entry in catalogue.models() if entry.local]
    assert len(local) == 11
    assert [catalogue.cost(Usage(10, 10), entry) for entry in local] == [0.0] * 11


@pytest.mark.parametrize(
    ("name", "minimum"),
    [("gpt-6.2-sol", 1024), ("gemini-4-argon", 4096), ("claude-opus-5", 512), ("claude-fable-5-2", None)],
)
def test_the_shortest_prompt_that_a_provider_caches(name: str, minimum: int | None) -> None:
    """The guides to prompt caching; None where they do not name the model."""
    assert known(name, NOVEMBER).cache_minimum == minimum


def test_caches_of_anthropics_models_cost_by_their_lifetimes() -> None:
    """Twice the input price for an hour, by the guide to prompt caching; Opus 5.5 by its own page."""
    for entry in catalogue.models("anthropic", NOVEMBER):
        if entry.price is not None:
            price = entry.price
            assert (price.cache_write, price.cache_write_long) == (1.25 * price.input, 2 * price.input)
            share = 0.05 if entry.name == "claude-opus-5-5" else 0.1
            assert price.cache_read == pytest.approx(share * price.input)
