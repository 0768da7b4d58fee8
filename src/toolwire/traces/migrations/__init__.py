"""The versions of the table of traces, as Alembic runs them."""
