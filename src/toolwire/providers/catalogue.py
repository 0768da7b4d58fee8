"""The catalogue of models, prices and providers: dated data, with the words of its sources.

Rules of this file:
- Every entry names its source (`source`) and its date (`as_of`). Nothing claims to be current.
- A name must match as a whole: as name, alias or `provider/name`. An unknown value is None, never a near guess.
- A flag is None if the source does not mention it.
- Of two entries with one name the later wins. The earlier one can be found by its `as_of`.
- Money is a float in USD: `tokens / 1e6 * price`, summed over the kinds of tokens.
- The data file is read on first use, not on import.
"""

from collections.abc import Iterable, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from re import fullmatch
from sys import float_info
from typing import Annotated, Any, Literal, Self, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from toolwire.errors import InvalidField
from toolwire.types.answer import Usage, is_count
from toolwire.types.readable import readable

_BUILT_IN = Path(__file__).with_name("catalogue.json")
_CONTEXT_FOR_TOOLS = 32_000
_MILLION = 1e6

_Amount = Annotated[float, Meta(ge=0, le=float_info.max)]
_Count = Annotated[int, Meta(ge=1)]
Text = Annotated[str, Meta(min_length=1)]


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    """A price in USD per million tokens. `until` is its last day, and `after` the price that is announced to follow.

    `cache_write_long` is the price of a cache write with the provider's longer lifetime, if it differs.
    """

    input: _Amount
    output: _Amount
    cache_read: _Amount | None = None
    cache_write: _Amount | None = None
    cache_write_long: _Amount | None = None
    currency: Literal["USD"] = "USD"
    as_of: str = ""
    source: str = ""
    until: date | None = None
    after: "Price | None" = None

    def on(self, day: date) -> "Price | None":
        """Return the price on `day`, or None if it is after the last day of the last known price."""
        if self.until is None or day <= self.until:
            return self
        return self.after.on(day) if self.after else None


@readable
class Model(Struct, frozen=True, forbid_unknown_fields=True):
    """One model as one source describes it; `words` are the source's own, by heading or column.

    `cache_minimum` is the number of tokens from which on its provider caches a prompt.
    """

    name: Text
    providers: tuple[Text, ...] = ()
    aliases: tuple[Text, ...] = ()
    label: str | None = None
    tags: tuple[str, ...] = ()
    purpose: str | None = None
    context_window: _Count | None = None
    max_output: _Count | None = None
    cache_minimum: _Count | None = None
    price: Price | None = None
    local: bool = False
    tools: bool | None = None
    parallel_tool_calls: bool | None = None
    streaming: bool | None = None
    structured_output: bool | None = None
    reasoning: bool | None = None
    multimodal: bool | None = None
    small_model_may_struggle: bool | None = None
    recommended: bool = False
    parameter_sizes: tuple[str, ...] = ()
    size_gb: _Amount | None = None
    ram_gb: _Amount | None = None
    note: str | None = None
    words: dict[str, str] = {}
    as_of: str = ""
    source: str = ""
    third_party: bool = False


class ProviderTraits(Struct, frozen=True, forbid_unknown_fields=True):
    """How one provider handles tools, as one source compares it with others."""

    name: Text
    label: str
    standard: Literal["industry standard", "proprietary", "openai-compatible"]
    schema_key: str
    tool_call_structure: str
    arguments: str
    tool_result_role: str
    parallel_tool_calls: bool
    streaming: bool
    fine_grained_streaming: bool
    local: bool
    default_max_tokens: Annotated[int, Meta(ge=1024)] | None = None
    default_model: Text | None = None
    words: dict[str, str] = {}
    as_of: str = ""
    source: str = ""


class Retirement(Struct, frozen=True, forbid_unknown_fields=True):
    """The day on which a provider shuts a model down, as a source reports it."""

    model: Text
    provider: Text
    on: date
    as_of: str = ""
    source: str = ""


class Layer(Struct, frozen=True, forbid_unknown_fields=True):
    """The entries of one source at one date; an entry may name a source or a date of its own."""

    as_of: Text
    source: Text
    third_party: bool = False
    models: tuple[Model, ...] = ()
    providers: tuple[ProviderTraits, ...] = ()
    retirements: tuple[Retirement, ...] = ()


@readable
class _CatalogueFile(Struct, frozen=True, forbid_unknown_fields=True):
    """A catalogue file: its layers, oldest first."""

    layers: tuple[Layer, ...]


Entry = TypeVar("Entry", Model, Price, ProviderTraits, Retirement)
_Overrides = Mapping[str, Model | Mapping[str, Any]]


class Catalogue:
    """A catalogue of models, providers and retirements. Of two entries with one name, the later one is used."""

    __slots__ = ("_models", "_providers", "_retirements", "entries")

    def __init__(
        self,
        entries: Iterable[Model] = (),
        providers: Iterable[ProviderTraits] = (),
        retirements: Iterable[Retirement] = (),
    ) -> None:
        self.entries: tuple[Model, ...] = tuple(entries)
        self._providers = tuple(providers)
        self._retirements = tuple(retirements)
        dates = {entry.as_of for entry in self.entries}
        self._models: dict[str | None, dict[str, Model]] = {
            day: _by_name(entry for entry in self.entries if entry.as_of == day) for day in dates
        }
        self._models[None] = _by_name(self.entries)

    @classmethod
    def load(cls, source: str | Path | Mapping[str, Any] | None = None) -> Self:
        """Return the catalogue in `source`: the path of a JSON file, or a map of the same shape.

        Without `source`, return the built-in catalogue. Raise `InvalidField` for another shape.
        """
        if isinstance(source, Mapping):
            layers = _read(source, _CatalogueFile, "catalogue").layers
        else:
            file = _BUILT_IN if source is None else Path(source)
            layers = _read(file.read_bytes(), _CatalogueFile, str(file)).layers
        return cls(
            [_dated(entry, layer) for layer in layers for entry in layer.models],
            [_dated(entry, layer) for layer in layers for entry in layer.providers],
            [_dated(entry, layer) for layer in layers for entry in layer.retirements],
        )

    def with_models(self, overrides: _Overrides, *, as_of: str = "undated", source: str = "override") -> "Catalogue":
        """Return a catalogue with `overrides`: a map changes the fields that it names, a Model replaces the entry.

        Raises `InvalidField` for an override that is neither, or has wrong fields.
        """
        if not isinstance(overrides, Mapping):
            raise InvalidField("overrides", "must be a map of model names to fields")
        layer = Layer(as_of, source)
        added = [self._overridden(layer, name, override) for name, override in overrides.items()]
        return Catalogue((*self.entries, *added), self._providers, self._retirements)

    def _overridden(self, layer: Layer, name: str, override: Model | Mapping[str, Any]) -> Model:
        path = f"overrides[{name!r}]"
        fields = _plain_fields(override, path)
        base = None if isinstance(override, Model) else self.model(name)
        known = {"name": name} if base is None else msgspec.to_builtins(base) | {"as_of": "", "source": ""}
        if fields.get("name", name) not in (name, known["name"]):
            raise InvalidField("name", f"must be {known['name']!r}, the name that is its key", path=path)
        entry = _dated(_read(known | fields, Model, path), layer)
        return entry if base is None else replace(entry, source=f"{entry.source}; otherwise {base.source}")

    def model(self, name: str | None, as_of: str | None = None) -> Model | None:
        """Return the entry with this name, alias or `provider/name`, or None."""
        if not name:
            return None
        known = self._models.get(as_of, {})
        provider, _, bare = name.partition("/")
        entry = known.get(bare)
        return known.get(name) or (entry if entry and provider in entry.providers else None)

    def models(self, provider: str | None = None, as_of: str | None = None) -> tuple[Model, ...]:
        """Return the latest entry of each name, oldest first: all, or those of `provider` and of the date `as_of`."""
        unique = {entry.name: entry for entry in self.entries if as_of is None or entry.as_of == as_of}
        return tuple(entry for entry in unique.values() if provider is None or provider in entry.providers)

    def provider(self, name: str, as_of: str | None = None) -> ProviderTraits | None:
        """Return the traits of a provider, or None."""
        return next((traits for traits in reversed(self.providers(as_of)) if traits.name == name), None)

    def providers(self, as_of: str | None = None) -> tuple[ProviderTraits, ...]:
        """Return the traits of every provider, oldest first."""
        return tuple(traits for traits in self._providers if as_of is None or traits.as_of == as_of)

    def cost(
        self,
        usage: "Usage | Mapping[str, Any] | None",
        model: str | Model | None,
        *,
        overrides: _Overrides | None = None,
        on: date | None = None,
    ) -> float | None:
        """Return the cost of `usage` in USD.

        Return None if model, price or usage is unknown, and 0.0 if the model is free.

        `on` selects the price of a day. Without it the price is that of the entry's `as_of`.
        """
        entry = model if isinstance(model, Model) else self.model(model)
        if overrides:
            known = self.with_models({model.name: model}) if isinstance(model, Model) else self
            entry = known.with_models(overrides).model(model.name if isinstance(model, Model) else model)
        if entry is None:
            return None
        if entry.price is None:
            return 0.0 if entry.local else None
        return _charge(Usage.of(usage), entry.price if on is None else entry.price.on(on))

    def hints(self, model: str | Model, context_window: int | None = None) -> tuple[str, ...]:
        """Return advice for tool calls with this model and this context window. Return nothing if nothing is known."""
        entry = model if isinstance(model, Model) else self.model(model)
        name = entry.name if entry else str(model)
        traits = self.provider(name.partition("/")[0]) if entry is None and "/" in name else None
        hints = _model_hints(entry) if entry else []
        local = entry.local if entry else traits is not None and traits.local
        if local and context_window is not None and context_window < _CONTEXT_FOR_TOOLS:
            least = f"{_CONTEXT_FOR_TOOLS // 1000}k"
            hints.insert(0, f"a context of {context_window} tokens is below {least}, too small for local tool use")
        for end in self._retirements:
            if name in (end.model, f"{end.provider}/{end.model}"):
                hints.append(f"{end.model} is to be shut down on {end.on} ({end.source}; {end.as_of})")
        return tuple(hints)


@cache
def built_in() -> Catalogue:
    """Return the built-in catalogue, read once.

    >>> from toolwire import catalogue
    >>> catalogue.built_in() is catalogue.built_in()
    True
    """
    return Catalogue.load()


def models(provider: str | None = None, as_of: str | None = None) -> tuple[Model, ...]:
    """Return the built-in models, all or those of `provider`.

    `as_of` selects the entries with that date, instead of the newest.

    >>> from toolwire import catalogue
    >>> "gpt-4o" in {model.name for model in catalogue.models("openai")}
    True
    """
    return built_in().models(provider, as_of)


def model(name: str | None, as_of: str | None = None) -> Model | None:
    """Return the built-in model with this `name`, alias or `provider/name`, or None.

    `as_of` selects the entry with that date, instead of the newest.

    >>> from toolwire import catalogue
    >>> catalogue.model("openai/gpt-4o").price.input
    2.5
    >>> catalogue.model("an-unknown-model") is None
    True
    """
    return built_in().model(name, as_of)


def provider(name: str, as_of: str | None = None) -> ProviderTraits | None:
    """Return the built-in traits of the provider `name`, or None.

    `as_of` selects the entry with that date, instead of the newest.

    >>> from toolwire import catalogue
    >>> catalogue.provider("ollama").local
    True
    """
    return built_in().provider(name, as_of)


def providers(as_of: str | None = None) -> tuple[ProviderTraits, ...]:
    """Return the built-in traits of every provider.

    `as_of` selects the entries with that date, instead of all.

    >>> from toolwire import catalogue
    >>> "anthropic" in {traits.name for traits in catalogue.providers()}
    True
    """
    return built_in().providers(as_of)


def cost(
    usage: "Usage | Mapping[str, Any] | None",
    model: str | Model | None,
    *,
    overrides: _Overrides | None = None,
    on: date | None = None,
) -> float | None:
    """Return the cost of `usage` in USD by the built-in catalogue. Return None if model, price or usage is unknown.

    `model` is a name or a `Model`. `overrides` maps names of models to `Model`s, or to fields that replace those of the
    catalogue. `on` selects the price of a day. `usage` may be a map, in OpenAI's words (`prompt_tokens`) or in ours.

    >>> from toolwire import Usage, cost
    >>> cost({"prompt_tokens": 1_000_000, "completion_tokens": 0}, "gpt-4o")
    2.5
    >>> cost(Usage(input_tokens=1_000_000, output_tokens=0), "gpt-4o")
    2.5
    >>> cost(Usage(input_tokens=1), "an-unknown-model") is None
    True
    """
    return built_in().cost(usage, model, overrides=overrides, on=on)


def hints(model: str | Model, context_window: int | None = None) -> tuple[str, ...]:
    """Return advice for tool calls with this `model` and this `context_window`.

    >>> from toolwire import catalogue
    >>> catalogue.hints("ollama/qwen3", context_window=4096)[0]
    'a context of 4096 tokens is below 32k, too small for local tool use'
    """
    return built_in().hints(model, context_window)


def _charge(usage: "Usage | None", price: Price | None) -> float | None:
    if price is None:
        return None
    if not (price.input or price.output or price.cache_read or price.cache_write):
        return 0.0
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    read, write = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    long = usage.cache_write_long_tokens or 0
    if not all(map(is_count, (usage.input_tokens, usage.output_tokens, read, write, long))) or long > write:
        return None
    fresh = usage.input_tokens - read - write
    if fresh < 0:
        return None
    long_rate = price.cache_write if price.cache_write_long is None else price.cache_write_long
    cached = [(read, price.cache_read), (write - long, price.cache_write), (long, long_rate)]
    fresh += sum([tokens for tokens, rate in cached if rate is None])
    total = fresh / _MILLION * price.input + usage.output_tokens / _MILLION * price.output
    return total + sum([tokens / _MILLION * rate for tokens, rate in cached if rate is not None])


def _model_hints(entry: Model) -> list[str]:
    name, price = entry.name, entry.price
    hints = []
    if entry.small_model_may_struggle:
        which = "models of 8B to 13B parameters, of which it has one," if entry.parameter_sizes[1:] else "it"
        hints.append(f"{name}: {which} may struggle with complex tool schemas")
    if entry.ram_gb is not None:
        hints.append(f"{name} needs {entry.ram_gb:g} GB of RAM or more")
    if entry.note is not None:
        hints.append(f"{name}: {entry.note}")
    if price is not None and price.until is not None:
        then = f"${price.after.input:g}/${price.after.output:g}" if price.after else "unknown"
        hints.append(f"{name}: ${price.input:g}/${price.output:g} holds until {price.until}, then {then}")
    return hints


def _by_name(entries: Iterable[Model]) -> dict[str, Model]:
    listed = list(entries)
    named = {entry.name: entry for entry in listed}
    return {alias: named[entry.name] for entry in listed for alias in entry.aliases} | named


def _dated(entry: Entry, around: Layer | Model | Price) -> Entry:
    """Return `entry` with the date and the source of `around`, if it has none of its own."""
    entry = replace(entry, as_of=entry.as_of or around.as_of, source=entry.source or around.source)
    if isinstance(entry, Model):
        third_party = entry.third_party or (isinstance(around, Layer) and around.third_party)
        return replace(entry, third_party=third_party, price=entry.price and _dated(entry.price, entry))
    return replace(entry, after=_dated(entry.after, entry)) if isinstance(entry, Price) and entry.after else entry


def _plain_fields(entry: Model | Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return the fields of `entry` as plain data. Raise `InvalidField` for any other value."""
    if not isinstance(entry, Model | Mapping):
        raise InvalidField("value", f"must be a Model or a map, not {type(entry).__name__}", path=path)
    plain = {}
    for field, value in (asdict(entry) if isinstance(entry, Model) else entry).items():
        try:
            plain[str(field)] = msgspec.to_builtins(value)
        except TypeError as problem:
            raise InvalidField(str(field), f"must be plain data: {problem}", path=path) from problem
    return plain


_Data = TypeVar("_Data", Model, _CatalogueFile)


def _read(data: Mapping[str, Any] | bytes, struct: type[_Data], path: str) -> _Data:
    """Return `data`, JSON or a map, as `struct`. Raise `InvalidField` with `path` if it has another shape."""
    try:
        return msgspec.json.decode(data, type=struct) if isinstance(data, bytes) else msgspec.convert(data, struct)
    except msgspec.ValidationError as problem:
        raise _invalid(problem, path) from problem
    except msgspec.DecodeError as problem:
        raise InvalidField("catalogue", f"must be a JSON document: {problem}", path=path) from problem


def _invalid(problem: msgspec.ValidationError, path: str) -> InvalidField:
    reason, _, location = str(problem).partition(" - at `$")
    named = fullmatch(r"Object (?:missing required|contains unknown) field `(.*)`", reason)
    steps = [location.rstrip("`").lstrip("."), named[1] if named else ""]
    field = ".".join(step for step in steps if step) or "value"
    if named:
        return InvalidField(field, "is missing" if "missing" in reason else "is not a known field", path=path)
    return InvalidField(field, f"is wrong: {reason}", path=path)
