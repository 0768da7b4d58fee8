"""A wire as its dialect uses it, and the state of one encode: its losses, and the names and ids that it wrote.

Rules of this file:
- A value that was read from a wire has an `opaque` of that wire. It is `Wire.plain` if every key was parsed.
- Keys that the dialect did not parse are written only to the same wire. On every other wire they are losses.
- A value that was read from a wire is written to it unchanged. A value from elsewhere is changed so that the wire
  accepts it.
- `path` is the position of the encode in the canonical value, and `part_index` its position in a message's content.
  The text of a path is made only for a loss.
- `constants` of a spelling are keys that a wire always sends and that mean nothing elsewhere. They are not losses.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from toolwire.encoding.families import family_of
from toolwire.encoding.quirks import PLAIN, Quirks, tuned
from toolwire.encoding.severities import Body, severities_of_keys, severity_of_key, severity_of_loss
from toolwire.errors import InvalidBody, InvalidSchema
from toolwire.schema import fit
from toolwire.schema.document import Allowance
from toolwire.schema.fitting import fit_root
from toolwire.schema.wrapping import VALUE, is_of_object, unwrap, wrap
from toolwire.types import Action, Cache, Loss, Message, Opaque, Request, Severity, Text, ToolCall
from toolwire.types.frozen import copy_json
from toolwire.types.spelling import MessageSpelling, Spelling, WireSpelling
from toolwire.wire.names import Grammar, Ids, Names, read_grammar, restore

Clock = Callable[[], float]
"""A function that returns the present time in seconds of the epoch."""
_TTL = re.compile(r"(\d{1,9})([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def _seconds(ttl: str) -> int:
    """Return the seconds of a lifetime such as `5m`. An unknown one is short."""
    match = _TTL.fullmatch(ttl)
    return int(match[1]) * _UNITS[match[2]] if match else 0


def nearest_time(ttl: str, times: tuple[str, ...]) -> str:
    """Return the lifetime among `times` that is nearest to `ttl`."""
    wanted = _seconds(ttl)
    return min(times, key=lambda time: abs(_seconds(time) - wanted))


class CacheMarks(Struct, frozen=True):
    """The cache marks of a wire, such as `"cache_control": {"type": "ephemeral", "ttl": "1h"}`.

    - `key`: the key of the mark in a part.
    - `field`, `word`: the field of the mark that makes it one, and its value.
    - `times`: the values of `ttl` that servers accept.
    - `opt_in`: if true, only models that take marks are sent them, or servers with the quirk `cache_marks`.
    - `blocks`: the types of the blocks that may have a mark. Empty if all may.
    - `most`: how many marks a request may have. 0 if servers do not count them.
    """

    key: str
    field: str
    word: str
    times: tuple[str, ...]
    opt_in: bool = False
    blocks: frozenset[str] = frozenset()
    most: int = 0

    def take(self, unparsed: dict[str, Any]) -> Cache | None:
        """Remove the cache mark from the unparsed keys of a part, and return it. A mark with other fields stays."""
        mark = unparsed.get(self.key)
        if type(mark) is not dict or mark.get(self.field) != self.word or not mark.keys() <= {self.field, "ttl"}:
            return None
        if "ttl" in mark and type(mark["ttl"]) is not str:
            return None
        del unparsed[self.key]
        return Cache(mark.get("ttl"))


class Wire:
    """One wire format: the name of its dialect, its grammars of names and ids, and its cache marks.

    - `plain`: the `opaque` of a value of this wire that has no unparsed keys.
    - `cut_reasons`: the finish reasons of a cut answer that the wire can express.
    - `knows_effort_alone`: a request can ask for more or less thinking only by an effort.
    - `thinks_between_tools`: a request can ask for thinking between tools only.
    - `takes_top_logprobs_alone`: a request may have `top_logprobs` without `logprobs`.
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
        """Return the `opaque` of a value that was read from this wire: its unparsed keys and its spelling."""
        if spelling is None or spelling.is_usual:
            return Opaque(self.dialect, unparsed) if unparsed else self.plain
        return Opaque(self.dialect, unparsed, spelling=spelling)

    def take_cache(self, unparsed: dict[str, Any]) -> Cache | None:
        """Remove the cache mark from the unparsed keys of a part, and return it. None on a wire without marks."""
        return None if self.cache is None else self.cache.take(unparsed)

    def restore_name(self, written: str) -> tuple[str, bool]:
        """Return a tool's name without the escape of this wire, and whether it had one."""
        name = restore(written, self.names) if "__tw" in written else written
        return name, name is not written

    def restore_id(self, written: str) -> tuple[str, bool]:
        """Return a call's id without the escape of this wire, and whether it had one."""
        call_id = restore(written, self.ids) if "__tw" in written else written
        return call_id, call_id is not written

    def decode(self, block: Any, decoders: Mapping[str, Callable[[dict[str, Any]], Any]]) -> Any:
        """Decode a block by the decoder of its `type`. A block that no decoder understands becomes an `Opaque`.

        A decoder gets a copy of the other keys, and removes those that it parses. It returns None if it does not
        understand the block.
        """
        block_type = block.get("type") if type(block) is dict else None
        decode = decoders.get(block_type) if type(block_type) is str else None
        if decode is None:
            return Opaque(self.dialect, block)
        unparsed = block.copy()
        del unparsed["type"]
        part = decode(unparsed)
        return Opaque(self.dialect, block) if part is None else part

    def decode_text(self, unparsed: dict[str, Any]) -> Text | None:
        """Decode a block of text, which may have a cache mark. Return None if it has no text."""
        text = take(unparsed, "text", str)
        return None if text is None else Text(text, cache=self.take_cache(unparsed), opaque=self.mark(unparsed))

    def unparsed_message(self, body: Any) -> Message:
        """Return a message of the user that holds all of `body`, which the dialect does not understand."""
        opaque = self.mark({}, MessageSpelling(is_unparsed=True))
        return Message("user", [Opaque(self.dialect, body)], opaque=opaque)


_OTHER_VALUE = "the result in the message has another value, which is sent"
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_NO_LOSSES: Mapping[str, Loss] = {}
# Keys that have a meaning even if their value is empty (openai 3.54.0, CompletionCreateParams; 2026-11-22).
_MEANT_IF_EMPTY = frozenset({"web_search_options"})
_SOURCES = ("data", "url", "file_id", "text")


def _is_empty(value: Any) -> bool:
    if type(value) is dict:
        return all(inner in _EMPTY for inner in value.values())
    return not value and value in _EMPTY


def _ids_of(grammar: Grammar | str) -> Ids:
    return Ids(read_grammar(grammar) if isinstance(grammar, str) else grammar, rewrites_all=True)


class Ledger:
    """The state of one encode: its position in the value, its losses, and the names and ids that it wrote.

    - `is_native` is true while the encode writes a value that was read from the same wire.
    - `request` is the request that a response answers, if it is known. Some wires repeat its settings.
    - `clock` returns the present time in seconds of the epoch, if the caller has one.
    """

    __slots__ = (
        "allowance",
        "clock",
        "dialect",
        "ids",
        "is_native",
        "losses",
        "model",
        "names",
        "of",
        "part_index",
        "path",
        "quirks",
        "request",
        "wire",
    )

    def __init__(
        self, wire: Wire, quirks: Quirks = PLAIN, settings: dict[str, Any] | None = None, of: Body = "request"
    ) -> None:
        self.wire: Wire = wire
        self.of: Body = of
        self.dialect: str = wire.dialect
        self.names: Names = Names(wire.names)
        for name in settings.pop("names", ()) if settings else ():
            self.names.keep(name)
        self.request: Request | None = settings.pop("request", None) if settings else None
        self.clock: Clock | None = settings.pop("clock", None) if settings else None
        quirks = tuned(quirks, settings) if settings else quirks
        self.quirks: Quirks = quirks
        self.losses: list[Loss] = []
        self.allowance: Allowance | None = None
        self.path: tuple[str | int, ...] = ()
        self.part_index: int | None = None
        self.is_native: bool = False
        self.model: str | None = None
        self.ids: Ids = Ids(wire.ids) if quirks.id_grammar is None else _ids_of(quirks.id_grammar)

    def lose(
        self, field: str, concept: str, detail: str, action: Action = "dropped", severity: Severity | None = None
    ) -> None:
        """Record the loss of `field` at the present position. By default the severity is that of concept and action."""
        path = self._path_to(field) if self.path else field
        self.losses.append(Loss(path, concept, action, detail, severity or severity_of_loss(concept, action, self.of)))

    def _path_to(self, field: str) -> str:
        """Return the path of `field` at the present position. An empty field is the value at the position itself."""
        steps = self.path
        if not steps:
            return field
        if self.part_index is not None:
            steps = (*steps, "content", self.part_index)
        return join_path((*steps, field) if field else steps)

    def each_part(self, parts: Iterable[Any], first: int = 0) -> Iterator[Any]:
        """Yield the parts of a message. The position is that of the part, until the next one is asked for."""
        for index, part in enumerate(parts, first):
            self.part_index = index
            yield part
        self.part_index = None

    def each_inner_part(self, parts: Iterable[Any]) -> Iterator[Any]:
        """Yield the parts within the present part, such as those of a result. The position is that of each of them."""
        path, outer = self.path, self.part_index
        if outer is not None:
            self.path = (*path, "content", outer)
        yield from self.each_part(parts)
        self.path, self.part_index = path, outer

    def finish(self, body: dict[str, Any], part: Any) -> dict[str, Any]:
        """Add to `body` the cache mark of `part`, and its unparsed keys if it is of this wire. Return `body`."""
        if part.cache is not None:
            self._mark_cache(body, part)
        return body if part.opaque is None else self.replay(body, part.opaque)

    @property
    def takes_marks(self) -> bool:
        """True if the server accepts cache marks for this model."""
        marks, asked = self.wire.cache, self.quirks.cache_marks
        if marks is None or not marks.opt_in:
            return marks is not None
        return family_of(self.model).cache_marks is True if asked is None else asked

    def keeps_blocks(self, message: Message) -> bool:
        """Return True if a text of the user is written as a block, although it came from elsewhere as the only one.

        Clients of other wires move a mark from turn to turn. A block has the same bytes without its mark.
        """
        if message.role != "user" or message.opaque is None or message.opaque.dialect == self.dialect:
            return False
        return self.takes_marks and not self.quirks.joined_texts

    def _mark_cache(self, body: dict[str, Any], part: Any) -> None:
        marks, ttl, is_native = self.wire.cache, part.cache.ttl, made_by(part.opaque, self.dialect)
        if marks is None or (not is_native and not self.takes_marks):
            why = "has no cache marks" if marks is None else "gets cache marks only for models that take them"
            self.lose("cache", "cache_mark", f"{self.dialect} {why}")
            return
        if not is_native and marks.blocks and body.get("type") not in marks.blocks:
            self.lose("cache", "cache_mark", f"{self.dialect} has cache marks only on content of the user")
            return
        mark = {marks.field: marks.word}
        written = ttl if ttl is None or is_native else self.nearest_ttl(ttl, "cache.ttl")
        if written is not None:
            mark["ttl"] = written
        body[marks.key] = mark

    def nearest_ttl(self, ttl: str, field: str, times: tuple[str, ...] = ()) -> str | None:
        """Return the lifetime of this wire that is nearest to `ttl`, or None if that is the usual one, the first.

        Another lifetime than `ttl` is a loss at `field`. `times` are the lifetimes, if not those of marks.
        """
        times = times or (self.wire.cache.times if self.wire.cache is not None else ())
        if ttl in times:
            return ttl
        nearest = nearest_time(ttl, times)
        is_usual = nearest == times[0]
        detail = f"{self.dialect} caches only for {' or '.join(times)}: {nearest} is the nearest"
        self.lose(field, "cache_mark", detail, "dropped" if is_usual else "approximated")
        return None if is_usual else nearest

    def replay(self, body: dict[str, Any], opaque: Opaque | None) -> dict[str, Any]:
        """Add the unparsed keys of `opaque`, and the constant keys of its spelling, to `body`, and return it.

        Unparsed keys of another wire are losses.
        """
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

    def was_written(self, block: Any, part: Any) -> bool:
        """Return True if `block` is to be sent.

        An encoder returns None for a part that is lost. The block of an opaque part may also be None, if the wire has
        null there.
        """
        return block is not None or (type(part) is Opaque and part.value is None and part.dialect == self.dialect)

    def lose_opaque(self, opaque: Opaque | None, severity: Severity | None = None) -> None:
        """Report the loss of each unparsed key of another wire. A value that is null or empty is no loss."""
        if opaque is None or not (unparsed := opaque.value) or opaque.dialect == self.dialect:
            return
        if type(unparsed) is not dict and not isinstance(unparsed, Mapping):
            self.lose("opaque", "opaque", f"only {opaque.dialect} understands this", severity=severity)
            return
        known = _NO_LOSSES if self.path or severity else _losses_of(opaque.dialect, self.of)
        for key, value in unparsed.items():
            if not _is_empty(value) or (value is not None and key in _MEANT_IF_EMPTY):
                self.losses.append(known.get(key) or self._loss_of(key, value, opaque.dialect, severity))

    def _loss_of(self, key: str, value: Any, dialect: str, severity: Severity | None) -> Loss:
        path, detail = f"{self._path_to('opaque.')}{key}", f"only {dialect} understands this"
        severity = severity or severity_of_key(key, value, self.of, outermost=not self.path)
        return Loss(path, "opaque", "dropped", detail, severity)

    def lose_part(self, part: Any, holder: str) -> None:
        """Report the loss of a part, with all that it contains, because `holder` cannot contain it."""
        if type(part) is Opaque:
            self.lose_opaque(part, "formal")
            self.lose("", "opaque", f"only {part.dialect} understands this part")
        else:
            self.lose("", kind_of_part(part), f"{holder} cannot contain it")

    def lose_call(self, call: ToolCall) -> None:
        """Report the loss of a call that cannot run, on a wire where it would look like a call that can."""
        concept = "bad_arguments" if call.complete else "incomplete_call"
        self.lose("", concept, f"the call cannot run: {call.error or 'cut off before it was whole'}")

    def lose_cut(self) -> None:
        """Report that a call was cut off, on a wire that cannot mark such a call."""
        self.lose("complete", "incomplete_call", f"{self.dialect} cannot mark a call as cut off")

    def lose_around_result(self, message: Message) -> None:
        """Report the loss of the message's id and name, if the one result in it has others."""
        parts = message.parts
        if len(parts) != 1:
            return
        if message.tool_call_id is not None and message.tool_call_id != getattr(parts[0], "tool_call_id", None):
            self.lose("tool_call_id", "tool_result", _OTHER_VALUE)
        if message.name is not None and message.name != getattr(parts[0], "name", None):
            self.lose("name", "tool_result", _OTHER_VALUE)

    def supported_role(self, role: str) -> str:
        """Return `role`, or `system` instead of `developer` for a server that does not know it."""
        if role != "developer" or self.quirks.developer_role:
            return role
        self.lose("role", "developer", "the server does not know the role developer: system is sent", "approximated")
        return "system"

    def lose_participant(self, message: Message) -> None:
        """Report the loss of a participant's name, and of the id of a call in a message that has no result."""
        if message.name is not None:
            self.lose("name", "name", f"{self.dialect} has no names of participants")
        if message.tool_call_id is not None:
            self.lose(
                "tool_call_id", "tool_result", f"only a tool message answers a call, not one of the {message.role}"
            )

    def lose_state(self, state: Mapping[str, Any] | None, detail: str) -> None:
        """Report the loss of each entry of a provider's `state`. `detail` is the reason."""
        for key in state or ():
            self.lose(f"provider_state.{key}", "provider_state", detail)

    def _allowance(self) -> Allowance:
        if self.allowance is None:
            self.allowance = Allowance()
        return self.allowance

    def fit(self, schema: dict[str, Any], target: str, field: str = "parameters", within: str = "") -> dict[str, Any]:
        """Return `schema` as `target` supports it, and report each keyword that was lost.

        `within` is the start of the paths that belongs to a wrapper, and is left out. A schema that cannot be fitted is
        returned as it is, with a loss.
        """
        try:
            fitted = fit(schema, target, self._allowance())
        except InvalidSchema as problem:
            self.lose(
                field,
                "schema_unfit",
                f"the schema does not fit {target}, and is sent unchanged: {problem}",
                "approximated",
            )
            return schema
        if fitted.schema is not schema and not fitted.notes:
            self.lose(field, "schema_form", f"the schema is sent in the form that {target} requires", "approximated")
        notes = fitted.notes
        if within:
            notes = tuple(replace(note, path=note.path.removeprefix(within).lstrip(".")) for note in notes)
        self.note_schema(notes, field)
        return fitted.schema

    def fit_root(self, schema: dict[str, Any], target: str, field: str = "parameters") -> dict[str, Any]:
        """Return the schema of an object as `target` supports it at its root, and report each keyword that was lost.

        If the schema cannot be fitted, return that of any object, with a loss.
        """
        try:
            fitted = fit_root(schema, target, self._allowance())
        except InvalidSchema as problem:
            self.lose(
                field,
                "schema_unfit",
                f"the schema does not fit {target}, and that of any object is sent: {problem}",
                "approximated",
            )
            return {"type": "object", "properties": {}}
        if fitted.notes:
            self.note_schema(fitted.notes, field)
        return fitted.schema

    def fit_value(self, schema: dict[str, Any], target: str, field: str) -> dict[str, Any]:
        """Return the schema of any value as `target` supports it. The value need not be an object."""
        if is_of_object(schema):
            return self.fit(schema, target, field)
        wrapped = self.wrap(schema, field)
        return schema if wrapped is None else unwrap(self.fit(wrapped, target, field, f"properties.{VALUE}"))

    def wrap(self, schema: dict[str, Any], field: str) -> dict[str, Any] | None:
        """Return the schema of an object with the value in its one field. None, with a loss, for an invalid schema."""
        try:
            return wrap(copy_json(schema))
        except (InvalidSchema, RecursionError) as problem:
            self.lose(
                field, "schema_unfit", f"the schema cannot be read, and is sent unchanged: {problem}", "approximated"
            )
            return None

    def note_schema(self, notes: Iterable[Any], field: str = "parameters") -> None:
        """Report the losses in `notes`: the keywords of a schema that the target does not support."""
        for note in notes:
            action: Action = "moved" if note.action == "described" else note.action
            severity: Severity | None = None if note.changes else "minor"
            path = f"{field}{note.path if note.path.startswith('[') else '.' + note.path if note.path else ''}"
            self.lose(path, f"schema_{note.keyword}", note.detail, action, severity)

    def lose_sources(self, part: Any, used: str) -> None:
        """Report the loss of each source of a medium except the `used` one, and of a media type without data."""
        for field in _SOURCES:
            if field != used and getattr(part, field, None) is not None:
                self.lose(field, "media_source", f"{self.dialect} accepts one source, and its {used} is sent")
        if used != "data" and part.media_type is not None:
            self.lose("media_type", "media_type", f"{self.dialect} has no media type beside a {used}")

    def lose_signature(self, part: Any, why: str) -> None:
        """Report the loss of the signature of thinking, with the reason `why`. Without text, the loss is semantic."""
        if part.signature is not None:
            self.lose("signature", "thinking_signature", why, severity=None if part.text else "semantic")

    def lose_fields(self, value: Any, concept: str, *fields: str) -> None:
        """Report the loss of each of the `fields` of `value` that is set."""
        for field in fields:
            if getattr(value, field):
                self.lose(field, concept, f"{self.dialect} has no field for it")


@lru_cache(16)
def _losses_of(dialect: str, of: Body) -> Mapping[str, Loss]:
    """Return the losses of the outermost keys of `dialect` whose severity does not depend on their value, by key."""
    severities = severities_of_keys(of, outermost=True)
    detail = f"only {dialect} understands this"
    return {key: Loss(f"opaque.{key}", "opaque", "dropped", detail, one) for key, one in severities.items()}


def join_path(steps: tuple[str | int, ...]) -> str:
    """Return the text of a path: names joined by dots, indexes in brackets."""
    path = ""
    for step in steps:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


def kind_of_part(part: Any) -> str:
    """Return the name of the kind of `part`, such as `tool_call`."""
    return str(type(part).__struct_config__.tag)


def made_by(opaque: Opaque | None, dialect: str) -> bool:
    """Return True if the value with this `opaque` was read from the wire of `dialect`."""
    return opaque is not None and opaque.dialect == dialect


_Spelling = TypeVar("_Spelling", bound=WireSpelling)


def spelling_of(opaque: Opaque | None, spelling_type: type[_Spelling]) -> _Spelling:
    """Return how a wire spelled a value.

    `spelling_type` determines the wire and the kind of value. If the value was read from another wire, or its wire
    spelled it as the encoder does by default, return a spelling with no field set.
    """
    spelling = None if opaque is None else opaque.spelling
    return spelling if type(spelling) is spelling_type else spelling_type()


def shared_spelling_of(opaque: Opaque | None, dialect: str, spelling_type: type[_Spelling]) -> _Spelling:
    """Return how the wire of `dialect` spelled a value. The spellings of several wires extend `spelling_type`.

    If the value was read from another wire, return a spelling with no field set.
    """
    spelling = opaque.spelling if opaque is not None and opaque.dialect == dialect else None
    return spelling if isinstance(spelling, spelling_type) else spelling_type()


def is_unparsed(message: Message, dialect: str) -> bool:
    """Return True if `message` holds a body of this dialect's wire that the dialect did not understand."""
    is_marked = shared_spelling_of(message.opaque, dialect, MessageSpelling).is_unparsed
    return is_marked and type(next(iter(message.parts), None)) is Opaque


def unparsed_of(opaque: Opaque | None, dialect: str, key: str) -> dict[str, Any]:
    """Return the unparsed keys of the object under `key` in a value of `dialect`. A value of another wire has none."""
    unparsed = opaque.value.get(key) if opaque is not None and opaque.dialect == dialect else None
    return unparsed if isinstance(unparsed, dict) else {}


def copy_body(body: Any, what: str) -> dict[str, Any]:
    """Return a copy of `body`, from which a decoder removes the keys that it parses.

    Raise `InvalidBody` if `body` is not an object. `what` names it: a request or a response.
    """
    if type(body) is not dict:
        raise InvalidBody(f"a {what}'s body must be a JSON object", path="$")
    return body.copy()


def unusual_path(path: str, usual: str) -> str:
    """Return the path that a request was sent to, or "" if it is the `usual` one."""
    return "" if path == usual else path


def take(unparsed: dict[str, Any], key: str, value_type: type) -> Any:
    """Remove `key` from the unparsed keys, and return its value, if it has this type. Otherwise return None."""
    value = unparsed.get(key)
    if type(value) is value_type:
        del unparsed[key]
        return value
    return None


def take_constants(unparsed: dict[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """Remove the keys that have their `usual` value from the `unparsed` ones, and return them."""
    return {key: unparsed.pop(key) for key, value in usual.items() if unparsed.get(key) == value}


def take_entries(unparsed: dict[str, Any], key: str) -> list[Any]:
    """Remove a list from the unparsed keys, and return it. An empty list stays, so that it is written again."""
    value = unparsed.get(key)
    return unparsed.pop(key) if type(value) is list and value else []
