"""A store brought to the newest version of its table, or refused with words.

Rules of this file:
- A store of the newest version costs one query; Alembic is loaded where there is something to do.
- All steps and the guards are one transaction, and no two processes are in it at once.
- A table that the host made, with all the columns, is taken as it is; a newer version is never opened.
- Guards that are gone or disabled are told of in the log, and made again by whoever may; `create=False` tells only.
"""

import logging
import threading
from pathlib import Path

from sqlalchemy import Column, Connection, MetaData, Table, Text, inspect, select
from sqlalchemy.exc import SQLAlchemyError

from toolwire.errors import MissingExtra, StoreFailed
from toolwire.traces.databases import StoreLocation, reading, saying, words_of, writing
from toolwire.traces.tables import create_guards, lacking_guards, version_table

_LOG = logging.getLogger("toolwire.traces")
VERSIONS = ("0001", "0002", "0003")
NEWEST = VERSIONS[-1]
_ALEMBIC = threading.Lock()  # it keeps what it works on in its modules
HERE = Path(__file__).parent / "migrations"


def prepare(place: StoreLocation, *, create: bool) -> None:
    """Make the table, bring it to the newest version, or say why it cannot be used."""
    with reading(place) as connection:
        version = _version(connection, place)
        made = _adoptable(connection, place) if version is None else False
        usable = version == NEWEST or (made and not create)
        lacking = lacking_guards(connection, place.table) if usable else []
    if lacking:
        _guard(place, lacking, create=create)
    if usable:
        return
    if not create:
        words = "the store is not of the newest version" if version else "there is no store"
        raise StoreFailed(f"{words}: open it with create=True", path="traces")
    _migrate(place)


def _guard(place: StoreLocation, lacking: list[str], *, create: bool) -> None:
    """Tell that guards are gone, and make them again; a role that only records may not."""
    _LOG.warning("guards of %s were gone or disabled, verify the store: %s", place.table.name, ", ".join(lacking))
    if not create:
        return
    try:
        with writing(place, lock=False) as connection:
            create_guards(connection, place.table)
    except SQLAlchemyError as problem:
        _LOG.warning("the guards cannot be put back: %s", words_of(problem))


def _migrate(place: StoreLocation) -> None:
    with saying("the store cannot be made or brought to the newest version", place.engine):
        if place.table.schema:
            # Under the lock that migrations hold: PostgreSQL waits for nobody here.
            with writing(place) as connection:
                if not inspect(connection).has_schema(place.table.schema):
                    connection.exec_driver_sql(f'CREATE SCHEMA "{place.table.schema}"')
        with writing(place, lock=False) as connection:
            version = _version(connection, place)
            if version == NEWEST:
                return
            _upgrade(connection, place, stamp=version is None and _adoptable(connection, place))
            create_guards(connection, place.table)


def _version(connection: Connection, place: StoreLocation) -> str | None:
    """Read the version of a store; None where there is none, and one that nobody knows here is refused."""
    name = version_table(place.namespace, schemas=place.table.schema is not None)
    if not inspect(connection).has_table(name, schema=place.table.schema):
        return None
    versions = Table(name, MetaData(schema=place.table.schema), Column("version_num", Text))
    version = connection.execute(select(versions.c.version_num)).scalar()
    if version is not None and version not in VERSIONS:
        words = f"the store has version {version}, this toolwire knows {NEWEST}: it needs a newer toolwire"
        raise StoreFailed(words, path="traces")
    return version


def _adoptable(connection: Connection, place: StoreLocation) -> bool:
    """Whether the host made the table already; one that lacks columns is refused."""
    found = inspect(connection)
    if not found.has_table(place.table.name, schema=place.table.schema):
        return False
    names = {column["name"] for column in found.get_columns(place.table.name, schema=place.table.schema)}
    if lacking := [column.name for column in place.table.columns if column.name not in names]:
        words = f"there is a table {place.table.name} already, without {', '.join(lacking)}"
        raise StoreFailed(words, path="traces")
    return True


def _upgrade(connection: Connection, place: StoreLocation, *, stamp: bool) -> None:
    try:
        from alembic import command  # noqa: PLC0415 - it is loaded where there is something to do
        from alembic.config import Config  # noqa: PLC0415 - the same
    except ModuleNotFoundError:
        raise MissingExtra("Alembic", "traces", "to make or migrate a store of traces") from None
    config = Config()
    config.set_main_option("script_location", str(HERE).replace("%", "%%"))
    config.attributes |= {"connection": connection, "place": place}
    with _ALEMBIC:
        (command.stamp if stamp else command.upgrade)(config, "head")
