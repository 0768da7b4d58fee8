"""The settings of a request as a table that is read in both directions.

Rules of this file:
- Only what is understood becomes a canonical field; everything else stays in the body's rest, to be replayed.
- The request's spelling has the settings as the client wrote them. One is written again only as long as it means the
  canonical value.
- A canonical setting that a dialect's table does not name is a loss; so no setting can be forgotten.
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
# openai 3.52.0, ResponseFormatJSONSchema.name (2026-11-20).
_FORM_NAMES = Grammar(WORD_CHARS, 64)
_NOT_SETTINGS = frozenset({"context", "opaque"})
# All but the first and the last field of a request, which hold what is said and what was left.
_FIELDS = tuple(name for name in Request.__struct_fields__ if name not in _NOT_SETTINGS)
_values = attrgetter(*_FIELDS)
_CHOICE = ("tool_choice", "parallel_tool_calls")


class Understood(Struct):
    """The meaning of a setting's value: its canonical fields, the rest, and whether the value is stored as written."""

    fields: dict[str, Any]
    left: Any = ABSENT
    keep: bool = False


class Setting(Struct, frozen=True):
    """One key of a request's body and the canonical fields that it carries.

    A value of one of its `kinds` is read as it is; where it is `plain`, it is written as it is, too.
    """

    key: str
    fields: tuple[str, ...]
    decode: Callable[[Any], Understood | None]
    encode: Callable[[Request, Ledger], Any]
    kinds: tuple[type, ...] = ()
    plain: bool = False

    def written(self, encode: Callable[[Request, Ledger], Any]) -> "Setting":
        """Return the setting, read as it is, and written by `encode`."""
        return replace(self, encode=encode, plain=False)


def plain(key: str, field: str, *kinds: type) -> Setting:
    """Make a setting whose value is the same on the wire and in the model."""

    def decode(value: Any) -> Understood | None:
        return Understood({field: value}) if type(value) in kinds else None

    def encode(request: Request, ledger: Ledger) -> Any:
        given = getattr(request, field)
        if type(given) is not float or given - given == 0 or made_by(request.opaque, ledger.dialect):
            return given
        ledger.lose(field, field, f"JSON has no number {given}")
        return ABSENT

    return Setting(key, (field,), decode, encode, kinds, plain=float not in kinds)


def checked(setting: Setting, takes: Callable[[Any], bool], why: str) -> Setting:
    """Make a setting of which this wire accepts some values; another one from elsewhere is lost, because of `why`."""
    field = setting.fields[0]

    def encode(request: Request, ledger: Ledger) -> Any:
        given = getattr(request, field)
        if takes(given) or made_by(request.opaque, ledger.dialect):
            return given
        ledger.lose(field, field, f"{ledger.dialect} {why.format(given)}")
        return ABSENT

    return setting.written(encode)


def within(key: str, field: str, least: float, most: float) -> Setting:
    """Make a setting of a number that this wire refuses outside of its bounds; from elsewhere it is lost."""
    return checked(plain(key, field, *NUMBER), lambda given: least <= given <= most, f"takes {least} to {most}")


def sampling(field: str, most: float) -> Setting:
    """Make a setting of how words are drawn; a model of OpenAI that is known to reason takes only 1."""
    return unless_reasoning(within(field, field, 0, most), 1)


def unless_reasoning(setting: Setting, neutral: Any = ABSENT) -> Setting:
    """Make a setting that OpenAI's models refuse while they reason, but for a neutral value.

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
        lose_setting(request, field, f"{request.model} reasons, and takes no {field} then", ledger)
        return ABSENT

    return setting.written(encode)


def effort(setting: Setting) -> Setting:
    """Make a setting of how hard to think: the level nearest to it, of those that the model is known to take."""

    def encode(request: Request, ledger: Ledger) -> Any:
        asked, levels = request.effort or "", family_of(request.model).efforts
        level = nearest_effort(asked, levels) if levels else asked
        if level == asked or made_by(request.opaque, ledger.dialect):
            return setting.encode(request, ledger)
        severity: Severity | None = "semantic" if asked == "none" else None
        ledger.lose("effort", "effort", f"{request.model} takes {level} instead of {asked}", "approximated", severity)
        return level

    return setting.written(encode)


def parallel() -> Setting:
    """Make the setting of whether an answer may hold several calls; models that make one at a time take none of it."""
    field = "parallel_tool_calls"

    def encode(request: Request, ledger: Ledger) -> Any:
        if family_of(request.model).parallel_tool_calls is not False or made_by(request.opaque, ledger.dialect):
            return request.parallel_tool_calls
        lose_setting(request, field, f"{request.model} takes no such setting", ledger, carried=True)
        return ABSENT

    return plain(field, field, bool).written(encode)


def labels(*, stored: bool = False) -> Setting:
    """Make the setting of what an application notes of a request: texts, for some models only of what is `stored`."""

    def encode(request: Request, ledger: Ledger) -> Any:
        metadata = request.metadata or {}
        if made_by(request.opaque, ledger.dialect):
            return metadata
        if stored and not request.store and family_of(request.model).unstored_metadata is False:
            ledger.lose("metadata", "metadata", f"{ledger.dialect} takes it of {request.model} only with `store`")
            return ABSENT
        for key, value in metadata.items():
            if type(value) is not str:
                ledger.lose(f"metadata.{key}", "metadata", f"{ledger.dialect} takes only strings, not {value!r}")
        return {key: value for key, value in metadata.items() if type(value) is str}

    return plain("metadata", "metadata", dict).written(encode)


# litellm#26241 (2026-04); openai 3.57.0, ResponseCreateParams.safety_identifier (2026-11-26).
_NAMES_OF_USERS = {"user": Grammar("!-~", 64), "safety_identifier": Grammar("!-~", 128)}


def identifier(field: str) -> Setting:
    """Make a setting that names the user; a longer name from elsewhere is cut, with a digest that keeps it apart."""
    grammar = _NAMES_OF_USERS[field]

    def encode(request: Request, ledger: Ledger) -> Any:
        value: str = getattr(request, field)
        if len(value) <= grammar.limit or made_by(request.opaque, ledger.dialect):
            return value
        ledger.lose(field, field, f"{ledger.dialect} takes at most {grammar.limit} characters", "approximated")
        return shorten(value, grammar)

    return plain(field, field, str).written(encode)


def at_least(key: str, field: str, least: int) -> Setting:
    """Make a setting of a whole number that this wire wants not to be smaller."""

    def encode(request: Request, ledger: Ledger) -> Any:
        value = getattr(request, field)
        if value >= least or made_by(request.opaque, ledger.dialect):
            return value
        ledger.lose(field, field, f"the least here is {least}", "approximated")
        return least

    return plain(key, field, int).written(encode)


def lose_setting(request: Request, field: str, detail: str, ledger: Ledger, *, carried: bool = False) -> None:
    """Lose a setting; one that says what every server does anyway asked for nothing, others may have carried it."""
    severity: Severity | None = "minor" if carried else None
    if REQUEST_FIELDS[field].usual == getattr(request, field):
        severity = "formal"
    ledger.lose(field, field, detail, severity=severity)


def tier(key: str, words: Mapping[str, str]) -> Setting:
    """Make a setting of the tier that serves a request: canonical words, and what this wire says for each."""

    def encode(request: Request, ledger: Ledger) -> Any:
        wanted = request.service_tier or ""
        if wanted in words or made_by(request.opaque, ledger.dialect):
            return words.get(wanted, wanted)
        ledger.lose("service_tier", "service_tier", f"{ledger.dialect} has no tier {wanted}")
        return ABSENT

    return plain(key, "service_tier", str).written(encode)


def lose_beside_schema(output: Output, ledger: Ledger) -> None:
    """Lose what a request says of its answer's schema, on a wire that takes the schema alone."""
    for field in ("name", "description", "strict"):
        if getattr(output, field) is not None:
            ledger.lose(f"output.{field}", "output", f"{ledger.dialect} takes the schema alone", severity="minor")


def legal_form(output: Output, ledger: Ledger) -> tuple[str, dict[str, Any] | None]:
    """Return the name and the schema of an answer, from elsewhere, as both wires of OpenAI accept them.

    The schema is that of an object. Another value stands in the one field of an object.
    """
    schema = output.schema
    if schema is not None and not is_of_object(schema) and (wrapped := ledger.wrap(schema, "output.schema")):
        why = f"OpenAI takes the schema of an object: the value stands in its field `{VALUE}`"
        ledger.lose("output.schema", "schema_form", why, "approximated")
        schema = wrapped
    if schema is not None:
        fit = ledger.fit if output.strict else ledger.fit_root
        schema = fit(schema, "openai-strict" if output.strict else "openai", "output.schema")
    legal = escape(output.name or "response", _FORM_NAMES)
    if output.name and legal != output.name:
        ledger.lose("output.name", "output_name", f"written as {legal}", "renamed")
    return legal, schema


def word(key: str, field: str, words: Container[str]) -> Setting:
    """Make a setting of one of some words; another word is lost."""

    def decode(value: Any) -> Understood | None:
        return Understood({field: value}) if type(value) is str and value in words else None

    return checked(replace(plain(key, field), decode=decode), lambda given: given in words, f"knows no {key} {{!r}}")


def texts(key: str, field: str, most: int | None = None) -> Setting:
    """Make a setting that is a list of texts on the wire and in the model; an empty list says nothing.

    A list from elsewhere that is longer than this wire takes is cut.
    """

    def decode(value: Any) -> Understood | None:
        return Understood({field: value}) if type(value) is list and set(map(type, value)) == {str} else None

    def encode(request: Request, ledger: Ledger) -> Any:
        given = getattr(request, field)
        if most is None or len(given) <= most or made_by(request.opaque, ledger.dialect):
            return given
        ledger.lose(field, field, f"{ledger.dialect} takes at most {most} of them", "approximated")
        return given[:most]

    listed = replace(plain(key, field), decode=decode)
    return listed if most is None else listed.written(encode)


def settle(request: Request, ledger: Ledger, declared: Sized) -> Request:
    """Return a request from elsewhere without what this wire refuses: a choice among no tools, reasoning of none.

    `declared` is what was written of its tools.
    """
    opaque, choice, changed = request.opaque, request.tool_choice, dict[str, Any]()
    if opaque is not None and opaque.dialect == ledger.dialect:
        return request if ledger.quirks.custom_tools else _without_written_choice(request)
    request = without_progress_notes(request, ledger)
    if not declared:
        if choice is not None or request.parallel_tool_calls is not None:
            changed = _without_choice(request, ledger)
    elif choice is not None and choice.names is not None:
        changed = _settle_names(request, ledger)
    changed |= limit_reasoning(request, ledger)
    alone = ledger.wire.takes_top_logprobs_alone
    if request.top_logprobs is not None and request.logprobs is not True and not alone:
        ledger.lose("top_logprobs", "top_logprobs", "no logprobs are asked for", severity="minor")
        changed["top_logprobs"] = None
    return replace(request, **changed) if changed else request


def _without_choice(request: Request, ledger: Ledger) -> dict[str, Any]:
    chosen = [field for field in _CHOICE if getattr(request, field) is not None]
    for field in chosen:
        ledger.lose(field, field, "there is no tool to choose", severity="minor")
    return dict.fromkeys(chosen)


def _without_written_choice(request: Request) -> Request:
    """Return a request without its choice among tools as written: the custom tools in it become functions here."""
    opaque: Any = request.opaque
    spelling = shared_spelling_of(opaque, opaque.dialect, RequestSpelling)
    if "tool_choice" not in spelling.settings:
        return request
    settings = {key: value for key, value in spelling.settings.items() if key != "tool_choice"}
    return replace(request, opaque=replace(opaque, spelling=replace(spelling, settings=settings)))


def _settle_names(request: Request, ledger: Ledger) -> dict[str, Any]:
    """Narrow a choice to those of its tools that are declared; no other one stands in for another server's tool."""
    choice: Any = request.tool_choice
    server_tools = [tool for tool in request.tools if isinstance(tool, ServerTool)]
    native = [tool for tool in server_tools if tool.dialect == ledger.dialect]
    declared = {tool.name for tool in request.tools if not isinstance(tool, ServerTool)} | {*_names_of(native)}
    unknown = [name for name in choice.names if name not in declared]
    if not unknown:
        return {}
    names = [name for name in choice.names if name in declared]
    detail = f"no tool is declared as {', '.join(unknown)}"
    ledger.lose("tool_choice.names", "tool_choice", detail, "approximated")
    if not names and not set(unknown).isdisjoint(_names_of(server_tools)):
        choice = replace(choice, mode="auto")
    return {"tool_choice": replace(choice, names=names or None)}


def _names_of(tools: Iterable[ServerTool]) -> list[str]:
    """Return the names by which a choice names these tools: a declaration may be any JSON."""
    named = [(tool.value.get("name") if type(tool.value) is dict else None, tool.type) for tool in tools]
    return [name if type(name) is str and name else kind for name, kind in named]


class Settings:
    """A dialect's table of settings, indexed for both directions."""

    def __init__(self, *settings: Setting) -> None:
        self.by_key: Mapping[str, Setting] = {setting.key: setting for setting in settings}
        self.by_field: dict[str, list[Setting]] = {}
        for setting in settings:
            for field in setting.fields:
                self.by_field.setdefault(field, []).append(setting)
        alone = {field: found[0] for field, found in self.by_field.items() if len(found) == 1}
        self._fields = {(one.key, kind): field for field, one in alone.items() for kind in one.kinds}
        self._writers = {
            field: [(one, [other for other in _FIELDS[:place] if other in one.fields]) for one in self.by_field[field]]
            for place, field in enumerate(_FIELDS)
            if field in self.by_field
        }

    def encode(self, request: Request, ledger: Ledger, body: dict[str, Any]) -> None:
        """Write every setting that is set; what the dialect has no key for is a loss."""
        for field, value in zip(_FIELDS, _values(request), strict=True):
            if value is None:
                continue
            for setting, earlier in self._writers.get(field, ()):
                if any(getattr(request, other) is not None for other in earlier):
                    continue  # a setting of several fields is written where the first of them is
                if setting.plain:
                    body[setting.key] = value
                else:
                    _write(setting, request, ledger, body)
            if field not in self.by_field:
                _lose_unknown(field, request, ledger)

    def paths(self, within: str = "") -> dict[str, str]:
        """Return the path in a body of each canonical field."""
        prefix = f"{within}." if within else ""
        firsts = {field: settings[0].key for field, settings in self.by_field.items()}
        return {field: f"{prefix}{key}" for field, key in firsts.items() if key}

    def decode(self, unparsed: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Take the settings out of the unparsed keys: return their canonical fields, and those to store as written."""
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
                if understood.left is ABSENT:
                    del unparsed[key]
                else:
                    unparsed[key] = understood.left
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
    """Make a setting that is an object of settings, each of one field."""
    settings = list(inner.by_key.values())
    fields_of = attrgetter(*(setting.fields[0] for setting in settings))

    def decode(value: Any) -> Understood | None:
        if type(value) is not dict:
            return None
        left = value.copy()
        fields, _ = inner.decode(left)
        return Understood(fields, left or ABSENT) if fields else None

    def encode(request: Request, ledger: Ledger) -> Any:
        body = {}
        for setting, given in zip(settings, fields_of(request), strict=True):
            if given is not None:
                value = given if setting.plain else setting.encode(request, ledger)
                if value is not ABSENT:
                    body[setting.key] = value
        return body or ABSENT

    return Setting(key, tuple(inner.by_field), decode, encode)


def _as_written(setting: Setting, value: Any, request: Request, opaque: Opaque) -> Any:
    """Return a setting as its own wire wrote it while that means the same, else `value` with what was left of it."""
    key = setting.key
    written = shared_spelling_of(opaque, opaque.dialect, RequestSpelling).settings.get(key, ABSENT)
    if written is not ABSENT:
        meant = setting.decode(written)
        if meant is not None and all(getattr(request, field) == meant.fields.get(field) for field in setting.fields):
            return written
    return merge(opaque.value.get(key), value)


def merge(left: Any, value: Any) -> Any:
    """Add what was not understood of an object to what is understood of it, at every depth. The latter wins."""
    if not isinstance(left, dict) or not isinstance(value, dict):
        return value
    return {**left, **{key: merge(left.get(key), inner) for key, inner in value.items()}}
