"""The table of traces as SQLAlchemy knows it; `Trace.metadata` is its MetaData.

Rules of this file:
- A namespace is a schema on PostgreSQL, and the beginning of the table's name on SQLite.
- Values of arguments, result and losses are canonical JSON in text: what is hashed is what is stored.
- Instants are whole microseconds since 1970, UTC.
- Creating the table creates its guards, whoever creates it.
"""

import functools
import re

from sqlalchemy import BigInteger, Column, Double, Index, Integer, MetaData, Table, Text, event

from toolwire.errors import InvalidField
from toolwire.traces import guards

NAME = "tool_traces"
NAMESPACE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")


def table(namespace: str | None = None, *, schemas: bool = False) -> Table:
    """Give the table of a namespace, for a database that has schemas or has none."""
    if namespace is not None and not (isinstance(namespace, str) and NAMESPACE.fullmatch(namespace)):
        words = "must begin with a letter, have letters, digits and _ only, and 40 of them at most"
        raise InvalidField("namespace", words, path="traces")
    return _table(namespace, schemas)


def version_table(namespace: str | None, *, schemas: bool) -> str:
    """Name the table that holds the version of the migrations, without its schema."""
    return f"{namespace}_{NAME}_version" if namespace and not schemas else f"{NAME}_version"


@functools.cache
def _table(namespace: str | None, schemas: bool) -> Table:
    name = f"{namespace}_{NAME}" if namespace and not schemas else NAME
    made = Table(
        name,
        MetaData(schema=namespace if schemas else None),
        Column("position", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
        Column("id", Text, nullable=False),
        Column("tenant_id", Text, nullable=False),
        Column("conversation_id", Text, nullable=False),
        Column("sequence", BigInteger, nullable=False),
        Column("tool_name", Text, nullable=False),
        Column("arguments", Text, nullable=False),
        Column("result", Text, nullable=False),
        Column("result_type", Text, nullable=False),
        Column("ending", Text, nullable=False),
        Column("duration_ms", Double, nullable=False),
        Column("iteration", BigInteger, nullable=False),
        *(Column(name, Text) for name in ("call_id", "model", "provider", "dialect", "session", "sandbox")),
        Column("approval", Text),
        Column("losses", Text, nullable=False),
        Column("repair", Text),
        Column("started_at", BigInteger, nullable=False),
        Column("request_digest", Text),
        Column("response_digest", Text),
        Column("inserted_at", BigInteger, nullable=False),
        Column("previous", Text, nullable=False),
        Column("hash", Text, nullable=False),
        Column("ledger", Text, nullable=False),
    )
    Index(f"{name}_id", made.c.id, unique=True)
    Index(f"{name}_conversation", made.c.conversation_id, made.c.tenant_id, made.c.position)
    Index(f"{name}_tenant", made.c.tenant_id, made.c.position)
    Index(f"{name}_tool", made.c.tool_name, made.c.position)
    Index(f"{name}_time", made.c.started_at)
    event.listen(made, "after_create", guards.after_create)
    return made
