"""The tables of records: one of lines for lists, and one of the whole records.

Rules of this file:
- A list reads only the first table, so it costs the same however large the bodies are.
- A position is never used twice. Positions grow in the order of the commits, so a reader that follows misses nothing:
  each writer takes its positions from the one row of `toolwire_record_state`, which it locks until its commit.
"""

from msgspec import Struct
from msgspec.structs import fields
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

from toolwire.records.record import Summary

TABLES = MetaData()
_TYPES = {str: Text, int: BigInteger, float: Double, bool: Boolean, int | None: BigInteger, float | None: Double}
_POSITION = BigInteger().with_variant(Integer, "sqlite")


def _columns(row: type[Struct]) -> list[Column[object]]:
    """Return a column for each field of `row` but its position and its id."""
    return [
        Column(one.name, _TYPES[one.type], nullable=one.type in (int | None, float | None))
        for one in fields(row)
        if one.name not in ("position", "id")
    ]


LINES = Table(
    "toolwire_records",
    TABLES,
    Column("position", _POSITION, primary_key=True, autoincrement=False),
    Column("id", String(100), nullable=False, unique=True),
    *_columns(Summary),
)
WHOLE = Table(
    "toolwire_record_bodies",
    TABLES,
    Column("position", _POSITION, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
)
STATE = Table(
    "toolwire_record_state",
    TABLES,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
)
Index("toolwire_records_key", LINES.c.key, LINES.c.position)
Index("toolwire_records_time", LINES.c.time)
Index("toolwire_records_conversation", LINES.c.conversation, LINES.c.position)
