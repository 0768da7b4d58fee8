"""The column `kind`: NULL for a call, `begun` for the start of one. Rows from before are calls."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade(table: str, schema: str | None) -> None:
    """Add the column."""
    op.add_column(table, sa.Column("kind", sa.Text), schema=schema)
