"""The settings of a request, as a table that both the decoder and the encoder use.

Rules of this file:
- A value that the table can parse becomes a canonical field. Every other value stays among the unparsed keys of the
  body, and is written again to the same wire.
- The spelling of a request has the settings as the client wrote them. A setting is written so again only if it still
  means the canonical value.
- A canonical setting that the table of a dialect does not have is a loss, so that no setting can be forgotten.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sized
from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.encoding.families import family_of
from toolwire.encoding.ledger import Ledger, made_by, shared_spelling_of, spelling_of
from toolwire.encoding.reasoning import (
    WITH_EFFORT,
    limit_reasoning,
    nearest_effort,
    will_reason,
    without_progress_notes,
)
from toolwire.encoding.request_fields import ABSENT, REQUEST_FIELDS
from toolwire.schema.wrapping import VALUE, is_of_object
from toolwire.types import Opaque, Output, Request, ServerTool, Severity
from toolwire.types.spelling import RequestSpelling
from toolwire.types.spelling.openai_chat import ChatRequestSpelling
from toolwire.wire.names import WORD_CHARS, Grammar, escape, shorten

NUMBER = (int, float)
# The names that OpenAI accepts for a schema (openai 3.52.0, ResponseFormatJSONSchema.name, 2026-11-20).
_OUTPUT_NAMES = Grammar(WORD_CHARS, 64)
_NOT_SETTINGS = frozenset({"context", "opaque"})
# All fields of a request except the conversation and the opaque data.
_FIELDS = tuple(name for name in Request.__struct_fields__ if name not in _NOT_SETTINGS)
_values = attrgetter(*_FIELDS)
_CHOICE = ("tool_choice", "parallel_tool_calls")


class Understood(Struct):
    """The meaning of a setting's value.

    - `fields`: its canonical fields.
    - `unparsed`: the part of the value that has no canonical field.
    - `keep`: whether the value is stored as the client wrote it.
    """

    fields: dict[str, Any]
    unparsed: Any = ABSENT
    keep: bool = False


class Setting(Struct, frozen=True):
    """One key of a request's body, and the canonical fields for it.

    - `decode`: return the meaning of a value, or None if it is not understood.
    - `encode`: return the value to write, or `ABSENT`.
    - `kinds`: a value of one of these types is the canonical value.
    - `plain`: whether the canonical value is also written unchanged.
    """

    key: str
    fields: tuple[str, ...]
    decode: Callable[[Any], Understood | None]
    encode: Callable[[Request, Ledger], Any]
    kinds: tuple[type, ...] = ()
    plain: bool = False

    def written(self, encode: Callable[[Request, Ledger], Any]) -> "Setting":
        """Return the setting with another `encode`."""
        return replace(self, encode=encode, plain=False)


def plain(key: str, field: str, *kinds: type) -> Setting:
    """Return a setting whose value is the same on the wire and in the canonical model."""

    def decode(value: Any) -> Understood | None:
        return Understood({field: value}) if type(value) in kinds else None

    def encode(request: Request, ledger: Ledger) -> Any:
        value = getattr(request, field)
        if type(value) is not float or value - value == 0 or made_by(request.opaque, ledger.dialect):
            return value
        ledger.lose(field, field, f"JSON has no number {value}")
        return ABSENT

    return Setting(key, (field,), decode, encode, kinds, plain=float not in kinds)


def checked(setting: Setting, accepts: Callable[[Any], bool], why: str) -> Setting:
    """Return a setting that drops a value of another wire unless `accepts` returns True for it.

    `why` follows the dialect's name in the loss, and `{}` in it is replaced by the value.
    """
    field = setting.fields[0]

    def encode(request: Request, ledger: Ledger) -> Any:
        value = getattr(request, field)
        if accepts(value) or made_by(request.opaque, ledger.dialect):
            return value
        ledger.lose(field, field, f"{ledger.dialect} {why.format(value)}")
        return ABSENT

    return setting.written(encode)


def within(key: str, field: str, least: float, most: float) -> Setting:
    """Return a setting that drops numbers from elsewhere that are not from `least` to `most`."""
    return checked(plain(key, field, *NUMBER), lambda value: least <= value <= most, f"accepts {least} to {most}")


def sampling(field: str, most: float) -> Setting:
    """Return the setting of a sampling parameter. A model of OpenAI accepts only 1 while it reasons."""
    return unless_reasoning(within(field, field, 0, most), 1)


def unless_reasoning(setting: Setting, neutral: Any = ABSENT) -> Setting:
    """Return a setting that OpenAI's models reject while they reason, except for its `neutral` value.

    https://learn.microsoft.com/azure/ai-foundry/openai/how-to/reasoning (2026-11-20)
    """
    field = setting.fields[0]

    def encode(request: Request, ledger: Ledger) -> Any:
        if (
            not will_reason(request, ledger)
            or getattr(request, field) == neutral
            or made_by(request.opaque, ledger.dialect)
        ):
            return setting.encode(request, ledger)
        lose_setting(request, field, f"{request.model} rejects {field} while it reasons", ledger)
        return ABSENT

    return setting.written(encode)


def effort(setting: Setting) -> Setting:
    """Return a setting for the effort that encodes the nearest level that the model accepts, with a loss."""

    def encode(request: Request, ledger: Ledger) -> Any:
        wanted, levels = request.effort or "", family_of(request.model).efforts
        level = nearest_effort(wanted, levels) if levels else wanted
        if level == wanted or made_by(request.opaque, ledger.dialect):
            return setting.encode(request, ledger)
        severity: Severity | None = "semantic" if wanted == "none" else None
        detail = f"{request.model} has no effort {wanted}: {level} is sent"
        ledger.lose("effort", "effort", detail, "approximated", severity)
        return level

    return setting.written(encode)


def parallel() -> Setting:
    """Return the setting `parallel_tool_calls`. Models that make one call at a time reject it, and are not sent it."""
    field = "parallel_tool_calls"

    def encode(request: Request, ledger: Ledger) -> Any:
        if family_of(request.model).parallel_tool_calls is not False or made_by(request.opaque, ledger.dialect):
            return request.parallel_tool_calls
        lose_setting(request, field, f"{request.model} rejects this setting", ledger, carried=True)
        return ABSENT

    return plain(field, field, bool).written(encode)


def labels(*, stored: bool = False) -> Setting:
    """Return the setting `metadata`, whose values are texts. With `stored`, some models get it only with `store`."""

    def encode(request: Request, ledger: Ledger) -> Any:
        metadata = request.metadata or {}
        if made_by(request.opaque, ledger.dialect):
            return metadata
        if stored and not request.store and family_of(request.model).unstored_metadata is False:
            detail = f"{ledger.dialect} accepts it for {request.model} only if `store` is true"
            ledger.lose("metadata", "metadata", detail)
            return ABSENT
        for key, value in metadata.items():
            if type(value) is not str:
                ledger.lose(f"metadata.{key}", "metadata", f"{ledger.dialect} accepts only strings, not {value!r}")
        return {key: value for key, value in metadata.items() if type(value) is str}

    return plain("metadata", "metadata", dict).written(encode)


# The limits of OpenAI (litellm#26241, 2026-04; openai 3.57.0, ResponseCreateParams.safety_identifier, 2026-11-26).
_USER_IDS = {"user": Grammar("!-~", 64), "safety_identifier": Grammar("!-~", 128)}


def identifier(field: str) -> Setting:
    """Return a setting that identifies the user. A too long value from elsewhere is cut, and ends with its digest."""
    grammar = _USER_IDS[field]

    def encode(request: Request, ledger: Ledger) -> Any:
        value: str = getattr(request, field)
        if len(value) <= grammar.limit or made_by(request.opaque, ledger.dialect):
            return value
        detail = f"{ledger.dialect} accepts at most {grammar.limit} characters: a digest replaces the end"
        ledger.lose(field, field, detail, "approximated")
        return shorten(value, grammar)

    return plain(field, field, str).written(encode)


def at_least(key: str, field: str, least: int) -> Setting:
    """Return a setting of an integer that is raised to `least` if it comes from elsewhere."""

    def encode(request: Request, ledger: Ledger) -> Any:
        value = getattr(request, field)
        if value >= least or made_by(request.opaque, ledger.dialect):
            return value
        ledger.lose(field, field, f"{ledger.dialect} accepts at least {least}", "approximated")
        return least

    return plain(key, field, int).written(encode)


def lose_setting(request: Request, field: str, detail: str, ledger: Ledger, *, carried: bool = False) -> None:
    """Report the loss of a setting.

    The loss is formal if every server does the same without the setting. It is minor if it was `carried` out otherwise:
    by another setting, or by the model's default.
    """
    severity: Severity | None = "minor" if carried else None
    if REQUEST_FIELDS[field].usual == getattr(request, field):
        severity = "formal"
    ledger.lose(field, field, detail, severity=severity)


def tier(key: str, words: Mapping[str, str]) -> Setting:
    """Return the setting of the service tier. `words` has the word of this wire for each canonical one."""

    def encode(request: Request, ledger: Ledger) -> Any:
        wanted = request.service_tier or ""
        if wanted in words or made_by(request.opaque, ledger.dialect):
            return words.get(wanted, wanted)
        ledger.lose("service_tier", "service_tier", f"{ledger.dialect} has no service tier {wanted}")
        return ABSENT

    return plain(key, "service_tier", str).written(encode)


_CACHE_MODES = frozenset({"implicit", "explicit"})


def cache_options(times: tuple[str, ...]) -> Setting:
    """Return the setting `prompt_cache_options`, which only newer models of OpenAI accept.

    `times` are the lifetimes that this wire accepts for a request.
    """

    def encode_mode(request: Request, ledger: Ledger) -> Any:
        mode = request.cache_mode
        if made_by(request.opaque, ledger.dialect) or (ledger.takes_marks and mode in _CACHE_MODES):
            return mode
        why = f"has no such mode {mode}" if ledger.takes_marks else "caches without being asked"
        ledger.lose("cache_mode", "cache_mode", f"{ledger.dialect} {why}")
        return ABSENT

    def encode_ttl(request: Request, ledger: Ledger) -> Any:
        ttl = request.cache_ttl or ""
        if made_by(request.opaque, ledger.dialect):
            return ttl
        if ledger.takes_marks:
            return ledger.nearest_ttl(ttl, "cache_ttl", times) or ABSENT
        ledger.lose("cache_ttl", "cache_ttl", f"{ledger.dialect} takes it only for models that take cache marks")
        return ABSENT

    mode, ttl = plain("mode", "cache_mode", str), plain("ttl", "cache_ttl", str)
    return nested("prompt_cache_options", Settings(mode.written(encode_mode), ttl.written(encode_ttl)))


def lose_beside_schema(output: Output, ledger: Ledger) -> None:
    """Report the loss of the name, the description and `strict` of an output, on a wire that has only its schema."""
    for field in ("name", "description", "strict"):
        if getattr(output, field) is not None:
            ledger.lose(f"output.{field}", "output", f"{ledger.dialect} accepts only the schema", severity="minor")


def legal_form(output: Output, ledger: Ledger) -> tuple[str, dict[str, Any] | None]:
    """Return the name and the schema of an output from elsewhere as both wires of OpenAI accept them.

    They accept only the schema of an object. For any other value, it is that of an object with the value in one field.
    """
    schema = output.schema
    if schema is not None and not is_of_object(schema) and (wrapped := ledger.wrap(schema, "output.schema")):
        detail = f"{ledger.dialect} accepts only the schema of an object: its field `{VALUE}` has the value"
        ledger.lose("output.schema", "schema_form", detail, "approximated")
        schema = wrapped
    if schema is not None:
        fit = ledger.fit if output.strict else ledger.fit_root
        schema = fit(schema, "openai-strict" if output.strict else "openai", "output.schema")
    legal = escape(output.name or "response", _OUTPUT_NAMES)
    if output.name and legal != output.name:
        ledger.lose("output.name", "output_name", f"{ledger.dialect} rejects this name: {legal} is sent", "renamed")
    return legal, schema


def word(key: str, field: str, words: Container[str]) -> Setting:
    """Return a setting whose value is one of `words`. Another word is lost."""

    def decode(value: Any) -> Understood | None:
        return Understood({field: value}) if type(value) is str and value in words else None

    return checked(replace(plain(key, field), decode=decode), lambda value: value in words, f"has no {key} {{!r}}")


def texts(key: str, field: str, most: int | None = None) -> Setting:
    """Return a setting that is a list of texts on the wire and in the canonical model. An empty list is not parsed.

    A list from elsewhere is cut to `most` texts.
    """

    def decode(value: Any) -> Understood | None:
        return Understood({field: value}) if type(value) is list and set(map(type, value)) == {str} else None

    def encode(request: Request, ledger: Ledger) -> Any:
        values = getattr(request, field)
        if most is None or len(values) <= most or made_by(request.opaque, ledger.dialect):
            return values
        ledger.lose(field, field, f"{ledger.dialect} accepts at most {most}: the others are dropped", "approximated")
        return values[:most]

    setting = replace(plain(key, field), decode=decode)
    return setting if most is None else setting.written(encode)


def apply_model_limits(request: Request, ledger: Ledger, declared: Sized) -> Request:
    """Return a request from elsewhere with the settings that its model and this wire accept, and report the losses.

    A tool choice needs a tool, reasoning needs a model that reasons, and `top_logprobs` may need `logprobs`. `declared`
    has the encoded declarations of tools.
    """
    opaque, choice, changed = request.opaque, request.tool_choice, dict[str, Any]()
    if opaque is not None and opaque.dialect == ledger.dialect:
        return request if ledger.quirks.custom_tools else _without_written_choice(request)
    request = without_progress_notes(request, ledger)
    if not declared:
        if choice is not None or request.parallel_tool_calls is not None:
            changed = _without_choice(request, ledger)
    elif choice is not None and choice.names is not None:
        changed = _without_undeclared_names(request, ledger)
    changed |= limit_reasoning(request, ledger)
    alone = ledger.wire.takes_top_logprobs_alone
    if request.top_logprobs is not None and request.logprobs is not True and not alone:
        ledger.lose(
            "top_logprobs", "top_logprobs", f"{ledger.dialect} accepts it only if `logprobs` is true", severity="minor"
        )
        changed["top_logprobs"] = None
    return replace(request, **changed) if changed else request


def _without_choice(request: Request, ledger: Ledger) -> dict[str, Any]:
    chosen = [field for field in _CHOICE if getattr(request, field) is not None]
    for field in chosen:
        ledger.lose(field, field, "the request declares no tool", severity="minor")
    return dict.fromkeys(chosen)


def _without_written_choice(request: Request) -> Request:
    """Return a request without the spelling of its tool choice, in which custom tools have become functions."""
    opaque: Any = request.opaque
    spelling = shared_spelling_of(opaque, opaque.dialect, RequestSpelling)
    if "tool_choice" not in spelling.settings:
        return request
    settings = {key: value for key, value in spelling.settings.items() if key != "tool_choice"}
    return replace(request, opaque=replace(opaque, spelling=replace(spelling, settings=settings)))


def _without_undeclared_names(request: Request, ledger: Ledger) -> dict[str, Any]:
    """Return changes that remove undeclared tools from the tool choice.

    If only tools that another server runs were chosen, the model may call any tool, but need not call one.
    """
    choice: Any = request.tool_choice
    server_tools = [tool for tool in request.tools if isinstance(tool, ServerTool)]
    native = [tool for tool in server_tools if tool.dialect == ledger.dialect]
    declared = {tool.name for tool in request.tools if not isinstance(tool, ServerTool)} | {*_names_of(native)}
    unknown = [name for name in choice.names if name not in declared]
    if not unknown:
        return {}
    names = [name for name in choice.names if name in declared]
    detail = f"the request declares no tool {', '.join(unknown)}"
    ledger.lose("tool_choice.names", "tool_choice", detail, "approximated")
    if not names and not set(unknown).isdisjoint(_names_of(server_tools)):
        choice = replace(choice, mode="auto")
    return {"tool_choice": replace(choice, names=names or None)}


def _names_of(tools: Iterable[ServerTool]) -> list[str]:
    """Return the name of each tool in a tool choice: its own, or its type. A declaration may be any JSON."""
    named = [(tool.value.get("name") if type(tool.value) is dict else None, tool.type) for tool in tools]
    return [name if type(name) is str and name else tool_type for name, tool_type in named]


class Settings:
    """The table of a dialect's settings, indexed by keys of the wire and by canonical fields."""

    def __init__(self, *settings: Setting) -> None:
        self.by_key: Mapping[str, Setting] = {setting.key: setting for setting in settings}
        self.by_field: dict[str, list[Setting]] = {}
        for setting in settings:
            for field in setting.fields:
                self.by_field.setdefault(field, []).append(setting)
        alone = {field: settings[0] for field, settings in self.by_field.items() if len(settings) == 1}
        self._fields = {
            (setting.key, value_type): field for field, setting in alone.items() for value_type in setting.kinds
        }
        self._writers = {
            field: [
                (setting, [earlier for earlier in _FIELDS[:index] if earlier in setting.fields])
                for setting in self.by_field[field]
            ]
            for index, field in enumerate(_FIELDS)
            if field in self.by_field
        }

    def encode(self, request: Request, ledger: Ledger, body: dict[str, Any]) -> None:
        """Write every setting of `request` to `body`. A setting without a key in this dialect is a loss."""
        for field, value in zip(_FIELDS, _values(request), strict=True):
            if value is None:
                continue
            for setting, earlier in self._writers.get(field, ()):
                if any(getattr(request, other) is not None for other in earlier):
                    continue  # a setting of several fields was written with the first of them
                if setting.plain:
                    body[setting.key] = value
                else:
                    _write(setting, request, ledger, body)
            if field not in self.by_field:
                _lose_unknown(field, request, ledger)

    def paths(self, within: str = "") -> dict[str, str]:
        """Return the path of each canonical field in a body."""
        prefix = f"{within}." if within else ""
        firsts = {field: settings[0].key for field, settings in self.by_field.items()}
        return {field: f"{prefix}{key}" for field, key in firsts.items() if key}

    def decode(self, unparsed: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Remove the settings from the unparsed keys. Return their canonical fields, and the values to store as is."""
        fields: dict[str, Any] = {}
        written: dict[str, Any] = {}
        known, by_key = self._fields, self.by_key
        for key, value in list(unparsed.items()):
            if (field := known.get((key, type(value)))) is not None and field not in fields:
                fields[field] = value
                del unparsed[key]
            elif key in by_key and (understood := by_key[key].decode(value)) is not None:
                if not fields.keys().isdisjoint(understood.fields):
                    continue
                fields |= understood.fields
                if understood.keep:
                    written[key] = value
                if understood.unparsed is ABSENT:
                    del unparsed[key]
                else:
                    unparsed[key] = understood.unparsed
        return fields, written


def _write(setting: Setting, request: Request, ledger: Ledger, body: dict[str, Any]) -> None:
    value = setting.encode(request, ledger)
    if value is not ABSENT:
        opaque = request.opaque
        has_more = opaque is not None and opaque.dialect == ledger.dialect and (opaque.spelling or opaque.value)
        body[setting.key] = _as_written(setting, value, request, opaque) if has_more else value  # type: ignore[arg-type]


def _lose_unknown(field: str, request: Request, ledger: Ledger) -> None:
    thinks = request.effort is not None or will_reason(request, ledger) is True
    carried = field in WITH_EFFORT and thinks and getattr(request, field) not in ("disabled", 0)
    carried = carried or (field == "parallel_tool_calls" and _has_serial_functions(request))
    lose_setting(request, field, f"{ledger.dialect} has no such setting", ledger, carried=carried)


def _has_serial_functions(request: Request) -> bool:
    """Return True if one call at a time is not asked for, but implied by the `functions` of Chat Completions."""
    return spelling_of(request.opaque, ChatRequestSpelling).has_serial_functions


def nested(key: str, inner: Settings) -> Setting:
    """Return a setting that is an object of settings with one canonical field each."""
    settings = list(inner.by_key.values())
    fields_of = attrgetter(*(setting.fields[0] for setting in settings))

    def decode(value: Any) -> Understood | None:
        if type(value) is not dict:
            return None
        unparsed = value.copy()
        fields, _ = inner.decode(unparsed)
        return Understood(fields, unparsed or ABSENT) if fields else None

    def encode(request: Request, ledger: Ledger) -> Any:
        body = {}
        for setting, field in zip(settings, fields_of(request), strict=True):
            if field is not None:
                value = field if setting.plain else setting.encode(request, ledger)
                if value is not ABSENT:
                    body[setting.key] = value
        return body or ABSENT

    return Setting(key, tuple(inner.by_field), decode, encode)


def _as_written(setting: Setting, value: Any, request: Request, opaque: Opaque) -> Any:
    """Return a setting as the client wrote it, if that means the same, else `value` with its unparsed keys."""
    key = setting.key
    written = shared_spelling_of(opaque, opaque.dialect, RequestSpelling).settings.get(key, ABSENT)
    if written is not ABSENT:
        meaning = setting.decode(written)
        if meaning is not None and all(
            getattr(request, field) == meaning.fields.get(field) for field in setting.fields
        ):
            return written
    return merge(opaque.value.get(key), value)


def merge(unparsed: Any, value: Any) -> Any:
    """Return the object `value` with the `unparsed` keys of the same object, at every depth. `value` wins."""
    if not isinstance(unparsed, dict) or not isinstance(value, dict):
        return value
    return {**unparsed, **{key: merge(unparsed.get(key), inner) for key, inner in value.items()}}
