"""The record of one tool call: what was called, by whom, with what, and what came of it; and whose calls are recorded.

Rules of this file:
- A call is one trace. Where it must be known that it had begun, as in a run that survives, there is a trace of the
  kind `begun` before it, which is not counted as a call.
- A trace is frozen, and one that is there is valid: it can be recorded in any store.
- Ids of tenants and conversations are opaque: a UUID and its 16 bytes are written as the canonical text, any
  other text stays as given, and None is "", nobody's.
- All that is wrong with a trace is said at once; keys that no field has are ignored.
- What the store fills in (position, sequence, previous, hash, ledger, inserted_at) is None until it is read.
"""

import math
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, Self

from msgspec import Struct, field
from msgspec.structs import asdict, force_setattr

from toolwire.errors import InvalidField, InvalidTrace, MissingFields, StoreFailed, UserError
from toolwire.scrubbing import scrub_text
from toolwire.types import Loss

_Ending = Literal["ok", "error", "denied", "cancelled", "timed_out", "unknown_tool", "invalid", "interrupted", "begun"]
AnyId = str | uuid.UUID | bytes | None
"""An id: any text, a UUID or its 16 bytes; None is nobody's."""
ENDINGS = ("ok", "error", "denied", "cancelled", "timed_out", "unknown_tool", "invalid", "interrupted", "begun")
"""How a call may end; a row of the kind `begun` says that it has begun, and is no call of its own."""
KINDS = ("begun",)
RESULT_TYPES = ("ok", "error")
LARGEST = 2**63 - 1
_UUID_BYTES = 16


class _Metadata:
    """The tables as SQLAlchemy knows them, loaded when they are asked for."""

    def __get__(self, instance: object, owner: type) -> Any:
        from toolwire.traces.tables import table  # noqa: PLC0415 - SQLAlchemy is loaded where it is used

        return table().metadata


class Trace(Struct, frozen=True, kw_only=True):
    """One tool call, whatever its ending."""

    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    tenant_id: str = ""
    conversation_id: str = ""
    tool_name: str
    arguments: dict[str, Any]
    result: dict[str, Any]
    result_type: Literal["ok", "error"]
    ending: _Ending | None = None
    duration_ms: float
    waited_ms: float | None = None
    kind: Literal["begun"] | None = None
    iteration: int
    call_id: str | None = None
    model: str | None = None
    provider: str | None = None
    dialect: str | None = None
    session: str | None = None
    sandbox: str | None = None
    approval: str | None = None
    losses: tuple[str, ...] = ()
    repair: str | None = None
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    request_digest: str | None = None
    response_digest: str | None = None
    position: int | None = None
    sequence: int | None = None
    previous: str | None = None
    hash: str | None = None
    ledger: str | None = None
    inserted_at: datetime | None = None

    REQUIRED: ClassVar = ("tool_name", "arguments", "result", "result_type", "duration_ms", "iteration")
    metadata: ClassVar[Any] = _Metadata()

    def __post_init__(self) -> None:
        if problems := _wrong(asdict(self)):
            raise InvalidTrace(problems)
        if self.ending is None:
            force_setattr(self, "ending", self.result_type)

    @classmethod
    def new(cls, *attrs: "Trace | Mapping[str, Any] | None", **fields: Any) -> Self:
        """Make a trace from maps, keywords or another trace; one exception lists everything that is wrong."""
        given = _given(attrs, fields)
        if missing := _missing(given):
            raise InvalidTrace(missing + _wrong(given))
        return cls(**given)

    @classmethod
    def check(cls, *attrs: "Trace | Mapping[str, Any] | None", **fields: Any) -> list[UserError]:
        """List what is wrong with the arguments of `new`, without raising."""
        return list(cls.changeset(*attrs, **fields).errors)

    @classmethod
    def changeset(cls, *attrs: "Trace | Mapping[str, Any] | None", **fields: Any) -> "_Changeset":
        """Give the fields that `new` would take, and what is wrong with them, without raising."""
        try:
            given = _given(attrs, fields)
        except InvalidTrace as problem:
            return _Changeset({}, tuple(problem.problems))
        return _Changeset(given, (*_missing(given), *_wrong(given)))


class _Changeset(Struct, frozen=True):
    """What a trace would be made of, and what is wrong with it; `valid` says that nothing is."""

    changes: dict[str, Any]
    errors: tuple[UserError, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether a trace can be made."""
        return not self.errors


def _given(attrs: tuple[Trace | Mapping[str, Any] | None, ...], fields: dict[str, Any]) -> dict[str, Any]:
    """Merge what is given, later ones last, with each field in the form that a trace holds."""
    given: dict[str, Any] = {}
    for one in attrs:
        if isinstance(one, Trace):
            given |= asdict(one)
        elif isinstance(one, Mapping):
            given |= {str(key): value for key, value in one.items()}
        elif one is not None:
            raise InvalidTrace([InvalidField("attributes", "must be a map")])
    given |= fields
    known = {name: given[name] for name in Trace.__struct_fields__ if given.get(name) is not None}
    for name in _CASTS.keys() & known.keys():
        known[name] = _CASTS[name](known[name])
    return known


def opaque(value: Any) -> Any:
    """Write a UUID, or its 16 bytes, as its canonical text; anything else stays as it is."""
    match value:
        case uuid.UUID():
            return str(value)
        case bytes() if len(value) == _UUID_BYTES:
            return str(uuid.UUID(bytes=value))
    return value


def _map(value: Any) -> Any:
    match value:
        case str():
            return {"content": value}
        case Mapping() if type(value) is not dict:
            return dict(value)
    return value


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) and value < LARGEST else value


def _losses(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        return value
    return tuple(str(loss) if isinstance(loss, Loss) else loss for loss in value)


_CASTS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("id", "tenant_id", "conversation_id"), opaque),
    "arguments": lambda value: dict(value) if isinstance(value, Mapping) else value,
    "result": _map,
    **dict.fromkeys(("duration_ms", "waited_ms"), _number),
    "losses": _losses,
}


def _missing(given: dict[str, Any]) -> list[UserError]:
    missing = [name for name in Trace.REQUIRED if given.get(name) is None]
    return [MissingFields("Trace", missing)] if missing else []


def _wrong(given: Mapping[str, Any]) -> list[UserError]:
    found: list[UserError] = []
    for name, value in given.items():
        if value is not None:
            test, words = _TESTS.get(name, TEXT)
            if not test(value):
                found.append(InvalidField(name, words))
    return found


_Test = tuple[Callable[[Any], bool], str]


TEXT: _Test = (lambda value: isinstance(value, str), "must be a string")
_ID: _Test = (TEXT[0], "must be a string, a UUID or its 16 bytes")
_NAMED: _Test = (lambda value: isinstance(value, str) and value != "", "must be a string that is not empty")
_MAP: _Test = (lambda value: type(value) is dict, "must be a map")
_COUNT: _Test = (lambda value: type(value) is int and 0 <= value <= LARGEST, "must be a whole number, 0 or more")
_INSTANT: _Test = (
    lambda value: isinstance(value, datetime) and value.utcoffset() is not None,
    "must be a datetime with a time zone",
)
_DURATION: _Test = (
    lambda value: type(value) is float and value >= 0 and math.isfinite(value),
    "must be a number, 0 or more",
)
_TESTS: dict[str, _Test] = {
    "id": (_NAMED[0], "must be a string that is not empty, a UUID or its 16 bytes"),
    "tenant_id": _ID,
    "conversation_id": _ID,
    "tool_name": TEXT,
    "arguments": _MAP,
    "result": (_MAP[0], "must be a map or a string"),
    "result_type": (lambda value: value in RESULT_TYPES, 'must be "ok" or "error"'),
    "kind": (lambda value: value in KINDS, "must be begun, or nothing for a call"),
    "ending": (lambda value: value in ENDINGS, f"must be one of {', '.join(ENDINGS)}"),
    **dict.fromkeys(("duration_ms", "waited_ms"), _DURATION),
    "losses": (
        lambda value: isinstance(value, tuple) and all(isinstance(loss, str) for loss in value),
        "must be a list of strings",
    ),
    **dict.fromkeys(("started_at", "inserted_at"), _INSTANT),
    **dict.fromkeys(("iteration", "position", "sequence"), _COUNT),
}


class Scope(Struct, frozen=True):
    """A store for the traces of one conversation."""

    store: Any
    tenant_id: str = ""
    conversation_id: str = ""
    session: str | None = None

    @classmethod
    def of(cls, given: Any, tenant_id: AnyId = None, conversation_id: AnyId = None, session: str | None = None) -> Self:
        """Make a scope of the value of `traces`: a scope, or a store; a conversation without an id gets one."""
        if isinstance(given, cls):
            return given
        if not callable(getattr(given, "record", None)):
            raise InvalidField("traces", "must be a store that `traces.open` gave, or its `of(...)`")
        for name, said in (("tenant_id", tenant_id), ("conversation_id", conversation_id)):
            if isinstance(said, str) and scrub_text(said) != said:
                raise InvalidField(name, "looks like a key, and would be in each row: give a name", path="traces")
        conversation = uuid.uuid4() if conversation_id is None else conversation_id
        return cls(given, opaque(tenant_id) or "", opaque(conversation), session)

    def check(self) -> None:
        """Raise the failure of the store, if it has failed."""
        if self.store.failed is not None:
            raise StoreFailed(str(self.store.failed))

    def trace(self, started: float | None = None, **fields: Any) -> Trace:
        """Make a trace of this conversation; `started` is Unix time."""
        begun = datetime.now(UTC) if started is None else datetime.fromtimestamp(started, UTC)
        return Trace(
            tenant_id=self.tenant_id,
            conversation_id=self.conversation_id,
            started_at=begun,
            **{"session": self.session, **fields},
        )
