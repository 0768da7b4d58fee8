"""The record of one tool call (who called what, with which arguments and result), and the conversation it belongs to.

Rules of this file:
- A call is one trace. A durable run also records a trace of the kind `begun` before it starts a call, so that an
  interrupted call is known. It does not count as a call.
- A trace is frozen and always valid: it can be recorded in any store.
- Ids of tenants and conversations are opaque: a UUID or its 16 bytes are stored as the canonical text, other text is
  stored as it is. None is stored as "", which belongs to nobody.
- One exception lists everything that is wrong with a trace. Unknown keys are ignored.
- Fields that the store fills in (position, sequence, previous, hash, ledger, inserted_at) are None until it is read.
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
"""An id: any text, a UUID or its 16 bytes. None belongs to nobody."""
ENDINGS = ("ok", "error", "denied", "cancelled", "timed_out", "unknown_tool", "invalid", "interrupted", "begun")
"""How a call may end. `begun` is the ending of a row that records only a call's start."""
KINDS = ("begun",)
RESULT_TYPES = ("ok", "error")
LARGEST = 2**63 - 1
_UUID_BYTES = 16


class _Metadata:
    """The table's MetaData. SQLAlchemy is imported when it is read."""

    def __get__(self, instance: object, owner: type) -> Any:
        from toolwire.traces.tables import table  # noqa: PLC0415 - SQLAlchemy is imported only if it is used

        return table().metadata


class Trace(Struct, frozen=True, kw_only=True):
    """The record of one tool call, whatever its ending.

    >>> from toolwire import Trace
    >>> call = {"tool_name": "look", "arguments": {}, "result": "ok", "result_type": "ok", "duration_ms": 1}
    >>> [error.fields for error in Trace.check(call)]
    [['iteration']]
    """

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
        if problems := _find_problems(asdict(self)):
            raise InvalidTrace(problems)
        if self.ending is None:
            force_setattr(self, "ending", self.result_type)

    @classmethod
    def new(cls, *attrs: "Trace | Mapping[str, Any] | None", **fields: Any) -> Self:
        """Return a trace from mappings, keywords or another trace.

        Raise `InvalidTrace` with everything that is wrong.
        """
        values = _merge_fields(attrs, fields)
        if missing := _find_missing(values):
            raise InvalidTrace(missing + _find_problems(values))
        return cls(**values)

    @classmethod
    def check(cls, *attrs: "Trace | Mapping[str, Any] | None", **fields: Any) -> list[UserError]:
        """Return what is wrong with the arguments of `new`, without raising."""
        return list(cls.changeset(*attrs, **fields).errors)

    @classmethod
    def changeset(cls, *attrs: "Trace | Mapping[str, Any] | None", **fields: Any) -> "_Changeset":
        """Return the fields that `new` would use, and what is wrong with them, without raising."""
        try:
            values = _merge_fields(attrs, fields)
        except InvalidTrace as problem:
            return _Changeset({}, tuple(problem.problems))
        return _Changeset(values, (*_find_missing(values), *_find_problems(values)))


class _Changeset(Struct, frozen=True):
    """The fields of a possible trace, and what is wrong with them. `valid` is True if nothing is."""

    changes: dict[str, Any]
    errors: tuple[UserError, ...] = ()

    @property
    def valid(self) -> bool:
        """True if the fields make a trace."""
        return not self.errors


def _merge_fields(attrs: tuple[Trace | Mapping[str, Any] | None, ...], fields: dict[str, Any]) -> dict[str, Any]:
    """Merge the sources, later ones last, and convert each field to the type that a trace has."""
    values: dict[str, Any] = {}
    for source in attrs:
        if isinstance(source, Trace):
            values |= asdict(source)
        elif isinstance(source, Mapping):
            values |= {str(key): value for key, value in source.items()}
        elif source is not None:
            raise InvalidTrace([InvalidField("attributes", "must be a map")])
    values |= fields
    set_fields = {name: values[name] for name in Trace.__struct_fields__ if values.get(name) is not None}
    for name in _CASTS.keys() & set_fields.keys():
        set_fields[name] = _CASTS[name](set_fields[name])
    return set_fields


def id_text(value: Any) -> Any:
    """Return a UUID, or its 16 bytes, as the canonical text. Return any other value unchanged."""
    match value:
        case uuid.UUID():
            return str(value)
        case bytes() if len(value) == _UUID_BYTES:
            return str(uuid.UUID(bytes=value))
    return value


def _to_dict(value: Any) -> Any:
    match value:
        case str():
            return {"content": value}
        case Mapping() if type(value) is not dict:
            return dict(value)
    return value


def _to_float(value: Any) -> Any:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) and value < LARGEST else value


def _to_texts(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        return value
    return tuple(str(loss) if isinstance(loss, Loss) else loss for loss in value)


_CASTS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("id", "tenant_id", "conversation_id"), id_text),
    "arguments": lambda value: dict(value) if isinstance(value, Mapping) else value,
    "result": _to_dict,
    **dict.fromkeys(("duration_ms", "waited_ms"), _to_float),
    "losses": _to_texts,
}


def _find_missing(values: dict[str, Any]) -> list[UserError]:
    missing = [name for name in Trace.REQUIRED if values.get(name) is None]
    return [MissingFields("Trace", missing)] if missing else []


def _find_problems(values: Mapping[str, Any]) -> list[UserError]:
    problems: list[UserError] = []
    for name, value in values.items():
        if value is not None:
            test, words = _TESTS.get(name, TEXT)
            if not test(value):
                problems.append(InvalidField(name, words))
    return problems


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
    "kind": (lambda value: value in KINDS, "must be begun, or None for a call"),
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
    """The store and the conversation of a client's traces.

    >>> import tempfile
    >>> from toolwire import Scope, traces
    >>> with traces.open(f"sqlite:///{tempfile.mkdtemp()}/traces.db") as store:
    ...     scope: Scope = store.of(conversation_id="chat-7")
    ...     scope.conversation_id
    'chat-7'
    """

    store: Any
    tenant_id: str = ""
    conversation_id: str = ""
    session: str | None = None

    @classmethod
    def of(cls, given: Any, tenant_id: AnyId = None, conversation_id: AnyId = None, session: str | None = None) -> Self:
        """Return the scope for a client's `traces=`: a scope, or a store.

        A conversation without an id gets a new one. Raise InvalidField if `given` is neither, or if an id looks like a
        key.
        """
        if isinstance(given, cls):
            return given
        if not callable(getattr(given, "record", None)):
            raise InvalidField("traces", "must be a store from `traces.open`, or its `of(...)`")
        for name, id_ in (("tenant_id", tenant_id), ("conversation_id", conversation_id)):
            if isinstance(id_, str) and scrub_text(id_) != id_:
                raise InvalidField(name, "looks like a key, and would be stored in each row: use a name", path="traces")
        conversation = uuid.uuid4() if conversation_id is None else conversation_id
        return cls(given, id_text(tenant_id) or "", id_text(conversation), session)

    def check(self) -> None:
        """Raise `StoreFailed` if the store has failed."""
        if self.store.failed is not None:
            raise StoreFailed(str(self.store.failed))

    def trace(self, started: float | None = None, **fields: Any) -> Trace:
        """Return a trace of this conversation. `started` is Unix time."""
        started_at = datetime.now(UTC) if started is None else datetime.fromtimestamp(started, UTC)
        return Trace(
            tenant_id=self.tenant_id,
            conversation_id=self.conversation_id,
            started_at=started_at,
            **{"session": self.session, **fields},
        )
