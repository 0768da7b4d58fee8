"""How Alembic runs the versions: in the transaction and the namespace of who asks for it."""

from alembic import context

from toolwire.traces.databases import StoreLocation
from toolwire.traces.tables import version_table

place: StoreLocation = context.config.attributes["place"]
schema: str | None = place.table.schema

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=place.table.metadata,
    version_table=version_table(place.namespace, schemas=schema is not None),
    version_table_schema=schema,
    transactional_ddl=True,
    table=place.table.name,
    schema=schema,
)
with context.begin_transaction():
    context.run_migrations(table=place.table.name, schema=schema)
