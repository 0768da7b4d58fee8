"""The state of one encode: what could not be said, what is replayed, which names and ids were given.

Rules of this file:
- What a wire said and nobody understood comes back only to that wire; elsewhere it is a loss.
- A value that was read from a wire is written to it as it was; what comes from elsewhere is made legal there.
- Where the encode stands is `at`, and `part` within a message's content; a path is written only for a loss.
- `form["said"]` holds keys that a wire always says and that mean nothing elsewhere (its constants): no loss.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolwire.encoding.marks import Wire
from toolwire.errors import InvalidField, InvalidSchema
from toolwire.schema import fit
from toolwire.types import Action, Loss, Opaque, Severity, ToolCall
from toolwire.wire.names import Grammar, Ids, Names


class Quirks(Struct, frozen=True, kw_only=True):
    """How a server deviates from its dialect, or which version of it the server speaks."""

    api_version: str | None = None
    reasoning_key: str | None = None
    developer_role: bool = True
    mid_system: bool = False
    cache_marks: bool = False
    arguments_object: bool = False
    arguments_json: bool = False
    id_grammar: Grammar | None = None
    max_tokens_key: str | None = None
    default_max_tokens: int = 8192
    reasons: bool | None = None
    skip_signature: bool = True
    stream_usage: bool = True
    stream_array: bool = False


PLAIN = Quirks()


def tuned(quirks: Quirks, settings: dict[str, Any]) -> Quirks:
    """Give quirks with some of them set otherwise."""
    unknown = settings.keys() - set(Quirks.__struct_fields__)
    if unknown:
        raise InvalidField(", ".join(sorted(unknown)), f"is no quirk; known: {', '.join(Quirks.__struct_fields__)}")
    return replace(quirks, **settings)


# What says how an answer travels or who served it, and nothing of what it means.
ENVELOPE = frozenset({"stream_options", "system_fingerprint"})
SOURCES = ("data", "url", "file_id", "text")


class Ledger:
    """What one encode has lost so far, where it stands, and what it has named."""

    __slots__ = ("at", "dialect", "ids", "losses", "names", "own", "part", "quirks")

    def __init__(self, wire: Wire, quirks: Quirks = PLAIN) -> None:
        self.dialect = wire.dialect
        self.quirks = quirks
        self.losses: list[Loss] = []
        self.at: tuple[str | int, ...] = ()
        self.part: int | None = None
        self.own = False
        self.names = Names(wire.names)
        self.ids = Ids(quirks.id_grammar or wire.ids, every=quirks.id_grammar is not None)

    def lose(
        self,
        field: str,
        concept: str,
        detail: str,
        action: Action = "dropped",
        severity: Severity = "semantic",
    ) -> None:
        """Record one loss at the place where the encode stands."""
        path = field
        if self.at:
            place = self.at if self.part is None else (*self.at, "content", self.part)
            path = join_path((*place, field) if field else place)
        self.losses.append(Loss(path, concept, action, detail, severity))

    def replay(self, body: dict[str, Any], opaque: Opaque | None) -> dict[str, Any]:
        """Add to a body what its own wire had left opaque; elsewhere each such thing is a loss."""
        if opaque is None:
            return body
        if opaque.dialect != self.dialect:
            self.lose_opaque(opaque)
            return body
        for key, value in opaque.value.items():
            if key not in body:
                body[key] = value
        if opaque.form is not None and "said" in opaque.form:
            for key, value in opaque.form["said"].items():
                if key not in body:
                    body[key] = value
        return body

    def said(self, block: Any, part: Any) -> bool:
        """Whether a part was written: encoders give None for what is lost, but a wire may have said null."""
        return block is not None or (type(part) is Opaque and part.value is None and part.dialect == self.dialect)

    def lose_opaque(self, opaque: Opaque | None) -> None:
        """Name everything of another dialect that cannot go along; null and empty say nothing."""
        if opaque is None or not opaque.value or opaque.dialect == self.dialect:
            return
        if not isinstance(opaque.value, Mapping):
            self.lose("opaque", "opaque", f"only {opaque.dialect} understands this")
            return
        for key, value in opaque.value.items():
            if value not in (None, "", [], {}):
                severity: Severity = "minor" if key in ENVELOPE else "semantic"
                self.lose(f"opaque.{key}", "opaque", f"only {opaque.dialect} understands this", severity=severity)

    def lose_call(self, call: ToolCall) -> None:
        """Lose a call that cannot be run, on a wire where it would look like one that can."""
        concept = "bad_arguments" if call.complete else "incomplete_call"
        self.lose("", concept, f"not to be run: {call.error or 'cut off before it was whole'}")

    def lose_state(self, state: Mapping[str, Any] | None, detail: str, severity: Severity = "semantic") -> None:
        """Lose every entry of another provider's state."""
        for key in state or ():
            self.lose(f"provider_state.{key}", "provider_state", detail, severity=severity)

    def fit(self, schema: dict[str, Any], target: str, field: str = "parameters") -> dict[str, Any]:
        """Fit a schema to the target's schema dialect, and record what it could not say."""
        try:
            fitted = fit(schema, target)
        except InvalidSchema as problem:
            self.lose(field, "schema_unfit", f"sent as it is: {problem}", "approximated")
            return schema
        if fitted.schema is not schema and not fitted.notes:
            self.lose(field, "schema_form", f"said in the form that {target} wants", "approximated", "minor")
        self.note_schema(fitted.notes, field)
        return fitted.schema

    def note_schema(self, notes: Iterable[Any], field: str = "parameters") -> None:
        """Record what a schema could not say in the target's schema dialect."""
        for note in notes:
            action: Action = "moved" if note.action == "described" else note.action
            severity: Severity = "minor" if action == "moved" else "semantic"
            path = f"{field}{note.path if note.path.startswith('[') else '.' + note.path if note.path else ''}"
            self.lose(path, f"schema_{note.keyword}", note.detail, action, severity)

    def lose_sources(self, part: Any, used: str) -> None:
        """Lose every source of a medium but the one that is used; only data needs a media type beside it."""
        for field in SOURCES:
            if field != used and getattr(part, field, None) is not None:
                self.lose(field, "media_source", f"its {used} is used", severity="minor")
        if used != "data" and part.media_type is not None:
            self.lose(
                "media_type",
                "media_type",
                f"{self.dialect} does not say it beside a {used}",
                severity="minor",
            )

    def lose_fields(self, value: Any, concept: str, *fields: str) -> None:
        """Lose each of these fields that is set."""
        for field in fields:
            if getattr(value, field):
                self.lose(field, concept, f"{self.dialect} has no place for it")


def join_path(steps: tuple[str | int, ...]) -> str:
    """Write steps as a path: names joined by dots, positions in brackets."""
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


def made_by(opaque: Opaque | None, dialect: str) -> bool:
    """Whether a value was read from this dialect's wire."""
    return opaque is not None and opaque.dialect == dialect


def form_of(opaque: Opaque | None, dialect: str) -> Mapping[str, Any]:
    """How this dialect's wire spelled a value; nothing when it came from elsewhere."""
    if opaque is None or opaque.form is None or opaque.dialect != dialect:
        return {}
    return opaque.form


def take(rest: dict[str, Any], key: str, kind: type) -> Any:
    """Take a field out of what is left of a body if it is of its kind; all else stays, to be replayed."""
    value = rest.get(key)
    if type(value) is kind:
        del rest[key]
        return value
    return None
