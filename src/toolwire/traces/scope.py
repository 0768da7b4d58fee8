"""Whose calls are recorded: a store, with the tenant, the conversation and the session of its traces."""

import uuid
from datetime import UTC, datetime
from typing import Any, Self

from msgspec import Struct

from toolwire.errors import InvalidField, StoreFailed
from toolwire.scrubbing import scrub_text
from toolwire.traces.trace import Trace, opaque


class Scope(Struct, frozen=True):
    """A store for the traces of one conversation."""

    store: Any
    tenant_id: str = ""
    conversation_id: str = ""
    session: str | None = None

    @classmethod
    def of(cls, given: Any, tenant_id: Any = None, conversation_id: Any = None, session: str | None = None) -> Self:
        """Read what was given as `traces`: a scope, or a store; a conversation without an id gets one."""
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
        """Raise why nothing is recorded any more."""
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
