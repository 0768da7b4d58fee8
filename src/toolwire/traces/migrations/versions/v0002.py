"""How long a call waited for somebody to approve it; rows from before have nothing there, as they had."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade(table: str, schema: str | None) -> None:
    """Add the column."""
    op.add_column(table, sa.Column("waited_ms", sa.Double), schema=schema)
