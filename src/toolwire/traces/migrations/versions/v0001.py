"""The table of traces and its indexes."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

POSITION = sa.BigInteger().with_variant(sa.Integer, "sqlite")
COLUMNS = (
    ("id tenant_id conversation_id", sa.Text, True),
    ("sequence", sa.BigInteger, True),
    ("tool_name arguments result result_type ending", sa.Text, True),
    ("duration_ms", sa.Double, True),
    ("iteration", sa.BigInteger, True),
    ("call_id model provider dialect session sandbox approval", sa.Text, False),
    ("losses", sa.Text, True),
    ("repair", sa.Text, False),
    ("started_at", sa.BigInteger, True),
    ("request_digest response_digest", sa.Text, False),
    ("inserted_at", sa.BigInteger, True),
    ("previous hash ledger", sa.Text, True),
)
INDEXES = {
    "conversation": ("conversation_id", "tenant_id", "position"),
    "tenant": ("tenant_id", "position"),
    "tool": ("tool_name", "position"),
    "time": ("started_at",),
}


def upgrade(table: str, schema: str | None) -> None:
    """Create the table and its indexes."""
    op.create_table(
        table,
        sa.Column("position", POSITION, primary_key=True, autoincrement=False),
        *(
            sa.Column(name, column_type, nullable=not needed)
            for names, column_type, needed in COLUMNS
            for name in names.split()
        ),
        schema=schema,
    )
    op.create_index(f"{table}_id", table, ["id"], unique=True, schema=schema)
    for name, columns in INDEXES.items():
        op.create_index(f"{table}_{name}", table, list(columns), schema=schema)
