"""Migrations: a store is brought to the newest version of its table, or rejected with a reason.

Rules of this file:
- A store of the newest version costs one query. Alembic is imported only if there is something to migrate.
- All migration steps and the guards are one transaction. No two processes migrate at the same time.
- A table that the host created is used as it is, if it has all columns. A store of a newer version is never opened.
- Guards that are missing or disabled are logged, and restored if the role may do so. With `create=False` they are only
  logged.
"""

import logging
import threading
from pathlib import Path

from sqlalchemy import Column, Connection, MetaData, Table, Text, inspect, select
from sqlalchemy.exc import SQLAlchemyError

from toolwire.databases.opening import first_line
from toolwire.errors import MissingExtra, StoreFailed
from toolwire.traces.databases import StoreLocation, read_transaction, store_errors, write_transaction
from toolwire.traces.tables import create_guards, lacking_guards, version_table

_LOG = logging.getLogger("toolwire.traces")
VERSIONS = ("0001", "0002", "0003")
NEWEST = VERSIONS[-1]
_ALEMBIC = threading.Lock()  # Alembic keeps the current migration in module globals
SCRIPTS = Path(__file__).parent / "migrations"


def prepare(location: StoreLocation, *, create: bool) -> None:
    """Create the table or migrate it to the newest version. Raise `StoreFailed` if the store cannot be used."""
    with read_transaction(location) as connection:
        version = _version(connection, location)
        is_host_table = _is_adoptable(connection, location) if version is None else False
        usable = version == NEWEST or (is_host_table and not create)
        missing_guards = lacking_guards(connection, location.table) if usable else []
    if missing_guards:
        _restore_guards(location, missing_guards, create=create)
    if usable:
        return
    if not create:
        words = "the store has an older version" if version else "there is no store"
        raise StoreFailed(f"{words}: open it with create=True", path="traces")
    _migrate(location)


def _restore_guards(location: StoreLocation, missing_guards: list[str], *, create: bool) -> None:
    """Log missing guards, and restore them. A role with INSERT and SELECT only may not restore them."""
    _LOG.warning(
        "guards of %s were gone or disabled, verify the store: %s", location.table.name, ", ".join(missing_guards)
    )
    if not create:
        return
    try:
        with write_transaction(location, lock=False) as connection:
            create_guards(connection, location.table)
    except SQLAlchemyError as problem:
        _LOG.warning("the guards cannot be restored: %s", first_line(problem))


def _migrate(location: StoreLocation) -> None:
    with store_errors("the store cannot be created or migrated", location.engine):
        if location.table.schema:
            # Under the migrations' lock: PostgreSQL itself does not serialize CREATE SCHEMA.
            with write_transaction(location) as connection:
                if not inspect(connection).has_schema(location.table.schema):
                    connection.exec_driver_sql(f'CREATE SCHEMA "{location.table.schema}"')
        with write_transaction(location, lock=False) as connection:
            version = _version(connection, location)
            if version == NEWEST:
                return
            _upgrade(connection, location, stamp=version is None and _is_adoptable(connection, location))
            create_guards(connection, location.table)


def _version(connection: Connection, location: StoreLocation) -> str | None:
    """Return the version of the store, or None if there is none. Raise `StoreFailed` for an unknown version."""
    name = version_table(location.namespace, schemas=location.table.schema is not None)
    if not inspect(connection).has_table(name, schema=location.table.schema):
        return None
    versions = Table(name, MetaData(schema=location.table.schema), Column("version_num", Text))
    version = connection.execute(select(versions.c.version_num)).scalar()
    if version is not None and version not in VERSIONS:
        words = f"the store has version {version}, this toolwire knows {NEWEST}: install a newer toolwire"
        raise StoreFailed(words, path="traces")
    return version


def _is_adoptable(connection: Connection, location: StoreLocation) -> bool:
    """Return True if the host created the table. Raise `StoreFailed` if it lacks columns."""
    inspector = inspect(connection)
    if not inspector.has_table(location.table.name, schema=location.table.schema):
        return False
    names = {column["name"] for column in inspector.get_columns(location.table.name, schema=location.table.schema)}
    if missing_columns := [column.name for column in location.table.columns if column.name not in names]:
        words = f"there is a table {location.table.name} already, without {', '.join(missing_columns)}"
        raise StoreFailed(words, path="traces")
    return True


def _upgrade(connection: Connection, location: StoreLocation, *, stamp: bool) -> None:
    try:
        from alembic import command  # noqa: PLC0415 - loaded only if there is something to migrate
        from alembic.config import Config  # noqa: PLC0415 - likewise
    except ModuleNotFoundError:
        raise MissingExtra("Alembic", "traces", "to make or migrate a store of traces") from None
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.attributes |= {"connection": connection, "location": location}
    with _ALEMBIC:
        (command.stamp if stamp else command.upgrade)(config, "head")
