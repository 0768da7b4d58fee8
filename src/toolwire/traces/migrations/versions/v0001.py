"""The table of traces and its indexes."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

POSITION = sa.BigInteger().with_variant(sa.Integer, "sqlite")
COLUMNS = (
    ("id", sa.Text, True),
    ("tenant_id", sa.Text, True),
    ("conversation_id", sa.Text, True),
    ("sequence", sa.BigInteger, True),
    ("tool_name", sa.Text, True),
    ("arguments", sa.Text, True),
    ("result", sa.Text, True),
    ("result_type", sa.Text, True),
    ("ending", sa.Text, True),
    ("duration_ms", sa.Double, True),
    ("iteration", sa.BigInteger, True),
    ("call_id", sa.Text, False),
    ("model", sa.Text, False),
    ("provider", sa.Text, False),
    ("dialect", sa.Text, False),
    ("session", sa.Text, False),
    ("sandbox", sa.Text, False),
    ("approval", sa.Text, False),
    ("losses", sa.Text, True),
    ("repair", sa.Text, False),
    ("started_at", sa.BigInteger, True),
    ("request_digest", sa.Text, False),
    ("response_digest", sa.Text, False),
    ("inserted_at", sa.BigInteger, True),
    ("previous", sa.Text, True),
    ("hash", sa.Text, True),
    ("ledger", sa.Text, True),
)
INDEXES = {
    "conversation": ("conversation_id", "tenant_id", "position"),
    "tenant": ("tenant_id", "position"),
    "tool": ("tool_name", "position"),
    "time": ("started_at",),
}


def upgrade(table: str, schema: str | None) -> None:
    """Make the table."""
    op.create_table(
        table,
        sa.Column("position", POSITION, primary_key=True, autoincrement=False),
        *(sa.Column(name, kind, nullable=not needed) for name, kind, needed in COLUMNS),
        schema=schema,
    )
    op.create_index(f"{table}_id", table, ["id"], unique=True, schema=schema)
    for name, columns in INDEXES.items():
        op.create_index(f"{table}_{name}", table, list(columns), schema=schema)
