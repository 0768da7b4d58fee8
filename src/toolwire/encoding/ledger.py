"""A wire as its dialect sees it, and the state of one encode: what was lost, what is replayed, which names were given.

Rules of this file:
- A value that was read from a wire carries an opaque of that wire, `plain` where nothing is left over.
- What a wire said and nobody understood comes back only to that wire; elsewhere it is a loss.
- A value that was read from a wire is written to it as it was; what comes from elsewhere is made legal there.
- Where the encode stands is `at`, and `part` within a message's content; a path is written only for a loss.
- `constants` of a spelling are keys that a wire always sends and that mean nothing elsewhere. They are no loss.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from toolwire.encoding.quirks import PLAIN, Quirks, tuned
from toolwire.encoding.severities import Body, weigh, weigh_opaque, weights_of
from toolwire.errors import InvalidBody, InvalidSchema
from toolwire.schema import fit
from toolwire.schema.document import Allowance
from toolwire.schema.fitting import fit_root
from toolwire.schema.wrapping import VALUE, is_of_object, unwrap, wrap
from toolwire.types import Action, Cache, Loss, Message, Opaque, Severity, Text, ToolCall
from toolwire.types.frozen import copied
from toolwire.types.spelling import MessageSpelling, Spelling, WireSpelling
from toolwire.wire.names import Grammar, Ids, Names, read_grammar, restore


class CacheMarks(Struct, frozen=True):
    """How a wire marks what is to be cached: under which key, by which field and word, for how long.

    Where `asked` is set, a server takes marks only if its quirks say so.
    """

    key: str
    field: str
    word: str
    times: tuple[str, ...]
    asked: bool = False

    def take(self, rest: dict[str, Any]) -> Cache | None:
        """Take a cache mark out of what is left of a part; one that says anything else stays."""
        mark = rest.get(self.key)
        if type(mark) is not dict or mark.get(self.field) != self.word or not mark.keys() <= {self.field, "ttl"}:
            return None
        if "ttl" in mark and type(mark["ttl"]) is not str:
            return None
        del rest[self.key]
        return Cache(mark.get("ttl"))


class Wire:
    """One wire format: its dialect's name, its grammars of names and ids, its cache marks, its mark on values.

    `cut_reasons` are the finish reasons that it has a word for which claims no good end.

    - `knows_effort_alone`: the wire has no other word than effort for how much to think.
    - `thinks_between_tools`: its models can think between tools alone.
    - `takes_top_logprobs_alone`: `top_logprobs` needs no `logprobs` beside it.
    """

    __slots__ = (
        "cache",
        "cut_reasons",
        "dialect",
        "ids",
        "knows_effort_alone",
        "names",
        "plain",
        "takes_top_logprobs_alone",
        "thinks_between_tools",
    )

    def __init__(
        self,
        dialect: str,
        names: Grammar | None = None,
        ids: Grammar | None = None,
        cache: CacheMarks | None = None,
        cut_reasons: Iterable[str] = (),
        *,
        knows_effort_alone: bool = False,
        thinks_between_tools: bool = False,
        takes_top_logprobs_alone: bool = False,
    ) -> None:
        self.dialect: str = dialect
        self.knows_effort_alone: bool = knows_effort_alone
        self.thinks_between_tools: bool = thinks_between_tools
        self.takes_top_logprobs_alone: bool = takes_top_logprobs_alone
        self.names: Grammar | None = names
        self.ids: Grammar | None = ids
        self.cache: CacheMarks | None = cache
        self.cut_reasons: frozenset[str | None] = frozenset(cut_reasons)
        self.plain: Opaque = Opaque(dialect, {})

    def mark(self, unparsed: dict[str, Any], spelling: Spelling | None = None) -> Opaque:
        """Return the mark of a value that was read from this wire, with its unparsed keys and its spelling."""
        if spelling is None or spelling.is_usual:
            return Opaque(self.dialect, unparsed) if unparsed else self.plain
        return Opaque(self.dialect, unparsed, spelling=spelling)

    def take_cache(self, rest: dict[str, Any]) -> Cache | None:
        """Take a cache mark out of what is left of a part, on a wire that has them."""
        return None if self.cache is None else self.cache.take(rest)

    def restore_name(self, written: str) -> tuple[str, bool]:
        """Return a tool's name without the escape of this wire, and whether it had one."""
        name = restore(written, self.names) if "__tw" in written else written
        return name, name is not written

    def restore_id(self, written: str) -> tuple[str, bool]:
        """Return a call's id without the escape of this wire, and whether it had one."""
        call_id = restore(written, self.ids) if "__tw" in written else written
        return call_id, call_id is not written

    def decode(self, block: Any, decoders: Mapping[str, Callable[[dict[str, Any]], Any]]) -> Any:
        """Read a block by what its type says; a block that is not understood is kept whole.

        A decoder gets a copy of what is said beside the type, and takes from it what it understands.
        """
        kind = block.get("type") if type(block) is dict else None
        decode = decoders.get(kind) if type(kind) is str else None
        if decode is None:
            return Opaque(self.dialect, block)
        rest = block.copy()
        del rest["type"]
        part = decode(rest)
        return Opaque(self.dialect, block) if part is None else part

    def decode_text(self, unparsed: dict[str, Any]) -> Text | None:
        """Read a block of text that may have a cache mark."""
        text = take(unparsed, "text", str)
        return None if text is None else Text(text, cache=self.take_cache(unparsed), opaque=self.mark(unparsed))

    def unparsed_message(self, body: Any) -> Message:
        """Return a message of the user that holds all of `body`, which the dialect does not understand."""
        opaque = self.mark({}, MessageSpelling(is_unparsed=True))
        return Message("user", [Opaque(self.dialect, body)], opaque=opaque)


_OTHERWISE = "the result in the message says otherwise"
_SAYS_NOTHING: tuple[Any, ...] = (None, "", [], {})
_NO_LOSSES: Mapping[str, Loss] = {}
# Keys that ask for something by being there (openai 3.54.0, CompletionCreateParams; 2026-11-22).
_ASKS_EMPTY = frozenset({"web_search_options"})
_SOURCES = ("data", "url", "file_id", "text")


def _says_nothing(value: Any) -> bool:
    if type(value) is dict:
        return all(inner in _SAYS_NOTHING for inner in value.values())
    return not value and value in _SAYS_NOTHING


def _ids_of(grammar: Grammar | str) -> Ids:
    return Ids(read_grammar(grammar) if isinstance(grammar, str) else grammar, rewrites_all=True)


class Ledger:
    """What one encode has lost so far, where it stands, and what it has named."""

    __slots__ = ("allowance", "at", "dialect", "ids", "losses", "names", "of", "own", "part", "quirks", "wire")

    def __init__(
        self, wire: Wire, quirks: Quirks = PLAIN, settings: dict[str, Any] | None = None, of: Body = "request"
    ) -> None:
        self.wire: Wire = wire
        self.of: Body = of
        self.dialect: str = wire.dialect
        self.names: Names = Names(wire.names)
        for name in settings.pop("names", ()) if settings else ():
            self.names.keep(name)
        quirks = tuned(quirks, settings) if settings else quirks
        self.quirks: Quirks = quirks
        self.losses: list[Loss] = []
        self.allowance: Allowance | None = None
        self.at: tuple[str | int, ...] = ()
        self.part: int | None = None
        self.own: bool = False
        self.ids: Ids = Ids(wire.ids) if quirks.id_grammar is None else _ids_of(quirks.id_grammar)

    def lose(
        self, field: str, concept: str, detail: str, action: Action = "dropped", severity: Severity | None = None
    ) -> None:
        """Record one loss at the place where the encode stands; how much it matters its concept says."""
        path = self._path_to(field) if self.at else field
        self.losses.append(Loss(path, concept, action, detail, severity or weigh(concept, action, self.of)))

    def _path_to(self, field: str) -> str:
        """Name a field of what stands where the encode is; an empty one is that itself."""
        at = self.at
        if not at:
            return field
        if self.part is not None:
            at = (*at, "content", self.part)
        return join_path((*at, field) if field else at)

    def each(self, parts: Iterable[Any], first: int = 0) -> Iterator[Any]:
        """Give the parts of a message one by one, and stand at each of them."""
        for place, part in enumerate(parts, first):
            self.part = place
            yield part
        self.part = None

    def inside(self, parts: Iterable[Any]) -> Iterator[Any]:
        """Give the parts of the part at which the encode stands, and stand at each of them within it."""
        at, outer = self.at, self.part
        if outer is not None:
            self.at = (*at, "content", outer)
        yield from self.each(parts)
        self.at, self.part = at, outer

    def finish(self, body: dict[str, Any], part: Any) -> dict[str, Any]:
        """Add a part's cache mark and what its own wire had left."""
        if part.cache is not None:
            self._mark_cache(body, part)
        return body if part.opaque is None else self.replay(body, part.opaque)

    def _mark_cache(self, body: dict[str, Any], part: Any) -> None:
        marks, ttl, mine = self.wire.cache, part.cache.ttl, made_by(part.opaque, self.dialect)
        if marks is None or (marks.asked and not mine and not self.quirks.cache_marks):
            self.lose("cache", "cache_mark", f"{self.dialect} caches without marks")
            return
        mark = {marks.field: marks.word}
        if ttl is not None and (mine or ttl in marks.times):
            mark["ttl"] = ttl
        elif ttl is not None:
            detail = f"{self.dialect} keeps marks for {' or '.join(marks.times)}"
            self.lose("cache.ttl", "cache_mark", detail)
        body[marks.key] = mark

    def replay(self, body: dict[str, Any], opaque: Opaque | None) -> dict[str, Any]:
        """Add to a body what its own wire had left opaque; elsewhere each such thing is a loss."""
        if opaque is None or not (opaque.value or opaque.spelling):
            return body
        if opaque.dialect != self.dialect:
            if opaque.value:
                self.lose_opaque(opaque)
            return body
        for key, value in opaque.value.items():
            body.setdefault(key, value)
        if opaque.spelling is not None:
            for key, value in opaque.spelling.constants.items():
                body.setdefault(key, value)
        return body

    def said(self, block: Any, part: Any) -> bool:
        """Whether a part was written: encoders give None for what is lost, but a wire may have said null."""
        return block is not None or (type(part) is Opaque and part.value is None and part.dialect == self.dialect)

    def lose_opaque(self, opaque: Opaque | None, severity: Severity | None = None) -> None:
        """Name everything of another dialect that cannot go along; null, empty and a map of these say nothing."""
        if opaque is None or not (left := opaque.value) or opaque.dialect == self.dialect:
            return
        if type(left) is not dict and not isinstance(left, Mapping):
            self.lose("opaque", "opaque", f"only {opaque.dialect} understands this", severity=severity)
            return
        known = _NO_LOSSES if self.at or severity else _losses_of(opaque.dialect, self.of)
        for key, value in left.items():
            if not _says_nothing(value) or (value is not None and key in _ASKS_EMPTY):
                self.losses.append(known.get(key) or self._loss_of(key, value, opaque.dialect, severity))

    def _loss_of(self, key: str, value: Any, dialect: str, severity: Severity | None) -> Loss:
        path, detail = f"{self._path_to('opaque.')}{key}", f"only {dialect} understands this"
        found = severity or weigh_opaque(key, value, self.of, outermost=not self.at)
        return Loss(path, "opaque", "dropped", detail, found)

    def lose_part(self, part: Any, holder: str) -> None:
        """Lose a part that has no place where it stands; what it holds is lost with it."""
        if type(part) is Opaque:
            self.lose_opaque(part, "formal")
            self.lose("", "opaque", f"only {part.dialect} understands this part")
        else:
            self.lose("", kind_of_part(part), f"{holder} cannot hold it")

    def lose_call(self, call: ToolCall) -> None:
        """Lose a call that cannot be run, on a wire where it would look like one that can."""
        concept = "bad_arguments" if call.complete else "incomplete_call"
        self.lose("", concept, f"not to be run: {call.error or 'cut off before it was whole'}")

    def lose_cut(self) -> None:
        """Lose that a call was cut off, on a wire where nothing says so."""
        self.lose("complete", "incomplete_call", "nothing tells a call that was cut off from a whole one")

    def lose_around_result(self, message: Message) -> None:
        """Lose what a message says of its one result and what the result says otherwise."""
        parts = message.parts
        if len(parts) != 1:
            return
        if message.tool_call_id is not None and message.tool_call_id != getattr(parts[0], "tool_call_id", None):
            self.lose("tool_call_id", "tool_result", _OTHERWISE)
        if message.name is not None and message.name != getattr(parts[0], "name", None):
            self.lose("name", "tool_result", _OTHERWISE)

    def speaker(self, role: str) -> str:
        """Give a message's role, or the one that is nearest to it where a server knows no developers."""
        if role != "developer" or self.quirks.developer_role:
            return role
        self.lose("role", "developer", "this server knows no developers", "approximated")
        return "system"

    def lose_participant(self, message: Message) -> None:
        """Lose who speaks by name, and that a message which brings no result answers a call."""
        if message.name is not None:
            self.lose("name", "name", f"{self.dialect} has no names of participants")
        if message.tool_call_id is not None:
            self.lose("tool_call_id", "tool_result", f"a message of the {message.role} answers no call")

    def lose_state(self, state: Mapping[str, Any] | None, detail: str) -> None:
        """Lose every entry of another provider's state."""
        for key in state or ():
            self.lose(f"provider_state.{key}", "provider_state", detail)

    def _allowance(self) -> Allowance:
        if self.allowance is None:
            self.allowance = Allowance()
        return self.allowance

    def fit(self, schema: dict[str, Any], target: str, field: str = "parameters", within: str = "") -> dict[str, Any]:
        """Fit a schema to the target's schema dialect, and record what it could not say `within` it."""
        try:
            fitted = fit(schema, target, self._allowance())
        except InvalidSchema as problem:
            self.lose(field, "schema_unfit", f"sent as it is: {problem}", "approximated")
            return schema
        if fitted.schema is not schema and not fitted.notes:
            self.lose(field, "schema_form", f"said in the form that {target} wants", "approximated")
        notes = fitted.notes
        if within:
            notes = tuple(replace(note, path=note.path.removeprefix(within).lstrip(".")) for note in notes)
        self.note_schema(notes, field)
        return fitted.schema

    def fit_root(self, schema: dict[str, Any], target: str, field: str = "parameters") -> dict[str, Any]:
        """Give a schema whose root is an object as a server takes it, and record what that could not say."""
        try:
            fitted = fit_root(schema, target, self._allowance())
        except InvalidSchema as problem:
            self.lose(field, "schema_unfit", f"any object is taken: {problem}", "approximated")
            return {"type": "object", "properties": {}}
        if fitted.notes:
            self.note_schema(fitted.notes, field)
        return fitted.schema

    def fit_value(self, schema: dict[str, Any], target: str, field: str) -> dict[str, Any]:
        """Fit the schema of any value, where the target takes one that is no object's."""
        if is_of_object(schema):
            return self.fit(schema, target, field)
        wrapped = self.wrap(schema, field)
        return schema if wrapped is None else unwrap(self.fit(wrapped, target, field, f"properties.{VALUE}"))

    def wrap(self, schema: dict[str, Any], field: str) -> dict[str, Any] | None:
        """Give the schema of an object with the value in its one field; None, and a loss, for what is no schema."""
        try:
            return wrap(copied(schema))
        except (InvalidSchema, RecursionError) as problem:
            self.lose(field, "schema_unfit", f"sent as it is: {problem}", "approximated")
            return None

    def note_schema(self, notes: Iterable[Any], field: str = "parameters") -> None:
        """Record what a schema could not say in the target's schema dialect."""
        for note in notes:
            action: Action = "moved" if note.action == "described" else note.action
            severity: Severity | None = None if note.changes else "minor"
            path = f"{field}{note.path if note.path.startswith('[') else '.' + note.path if note.path else ''}"
            self.lose(path, f"schema_{note.keyword}", note.detail, action, severity)

    def lose_sources(self, part: Any, used: str) -> None:
        """Lose every source of a medium but the one that is used; only data needs a media type beside it."""
        for field in _SOURCES:
            if field != used and getattr(part, field, None) is not None:
                self.lose(field, "media_source", f"its {used} is used")
        if used != "data" and part.media_type is not None:
            self.lose("media_type", "media_type", f"{self.dialect} does not say it beside a {used}")

    def lose_signature(self, part: Any, why: str) -> None:
        """Lose what binds a thought to its provider; a thought that has no text is lost with it."""
        if part.signature is not None:
            self.lose("signature", "thinking_signature", why, severity=None if part.text else "semantic")

    def lose_fields(self, value: Any, concept: str, *fields: str) -> None:
        """Lose each of these fields that is set."""
        for field in fields:
            if getattr(value, field):
                self.lose(field, concept, f"{self.dialect} has no place for it")


@lru_cache(16)
def _losses_of(dialect: str, of: Body) -> Mapping[str, Loss]:
    """Give the losses of what a body says beside its fields, by key, of those of which the value says nothing."""
    weights = weights_of(of, outermost=True)
    detail = f"only {dialect} understands this"
    return {key: Loss(f"opaque.{key}", "opaque", "dropped", detail, weight) for key, weight in weights.items()}


def join_path(steps: tuple[str | int, ...]) -> str:
    """Write steps as a path: names joined by dots, positions in brackets."""
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


def kind_of_part(part: Any) -> str:
    """Name the kind of a part as the model does."""
    return str(type(part).__struct_config__.tag)


def made_by(opaque: Opaque | None, dialect: str) -> bool:
    """Whether a value was read from this dialect's wire."""
    return opaque is not None and opaque.dialect == dialect


_Spelling = TypeVar("_Spelling", bound=WireSpelling)


def spelling_of(opaque: Opaque | None, spelling_type: type[_Spelling]) -> _Spelling:
    """Return how a wire spelled a value.

    `spelling_type` names the wire and the kind of value. The spelling of a value from elsewhere has no field set, and
    neither has that of a value which its wire spelled as usual.
    """
    spelling = None if opaque is None else opaque.spelling
    return spelling if type(spelling) is spelling_type else spelling_type()


def shared_spelling_of(opaque: Opaque | None, dialect: str, spelling_type: type[_Spelling]) -> _Spelling:
    """Return how the wire of `dialect` spelled a value, where the spellings of several wires extend `spelling_type`.

    The spelling of a value from elsewhere has no field set.
    """
    spelling = opaque.spelling if opaque is not None and opaque.dialect == dialect else None
    return spelling if isinstance(spelling, spelling_type) else spelling_type()


def is_unparsed(message: Message, dialect: str) -> bool:
    """Return True if `message` holds a body of this dialect's wire that the dialect did not understand."""
    is_marked = shared_spelling_of(message.opaque, dialect, MessageSpelling).is_unparsed
    return is_marked and type(next(iter(message.parts), None)) is Opaque


def left_of(opaque: Opaque | None, dialect: str, key: str) -> dict[str, Any]:
    """Give what this dialect's wire had left of an object inside a value; nothing when it came from elsewhere."""
    left = opaque.value.get(key) if opaque is not None and opaque.dialect == dialect else None
    return left if isinstance(left, dict) else {}


def copy_body(body: Any, what: str) -> dict[str, Any]:
    """Return a copy of `body`, to take from what is understood. Raise `InvalidBody` if it is no object."""
    if type(body) is not dict:
        raise InvalidBody(f"a {what}'s body must be a JSON object", path="$")
    return body.copy()


def unusual_path(path: str, usual: str) -> str:
    """Return the path that a request was sent to if it is another one than `usual`, else an empty one."""
    return "" if path == usual else path


def take(rest: dict[str, Any], key: str, kind: type) -> Any:
    """Take a field out of what is left of a body if it is of its kind; all else stays, to be replayed."""
    value = rest.get(key)
    if type(value) is kind:
        del rest[key]
        return value
    return None


def take_constants(unparsed: dict[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """Take the keys that have their `usual` value out of the `unparsed` ones, and return them."""
    return {key: unparsed.pop(key) for key, value in usual.items() if unparsed.get(key) == value}


def take_entries(rest: dict[str, Any], key: str) -> list[Any]:
    """Take a list out of what is left of a body; an empty one stays, to be replayed."""
    value = rest.get(key)
    return rest.pop(key) if type(value) is list and value else []
