"""The Alembic environment: runs the migrations in the caller's transaction and namespace."""

from alembic import context

from toolwire.traces.databases import StoreLocation
from toolwire.traces.tables import version_table

location: StoreLocation = context.config.attributes["location"]
schema: str | None = location.table.schema

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=location.table.metadata,
    version_table=version_table(location.namespace, schemas=schema is not None),
    version_table_schema=schema,
    transactional_ddl=True,
    table=location.table.name,
    schema=schema,
)
with context.begin_transaction():
    context.run_migrations(table=location.table.name, schema=schema)
