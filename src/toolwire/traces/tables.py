"""The table of traces as SQLAlchemy knows it, and its guards: what the database itself refuses.

Rules of this file:
- `Trace.metadata` is the MetaData of the table. Whoever creates the table creates its guards.
- A namespace is a schema on PostgreSQL, and the beginning of the table's name on SQLite.
- Values of arguments, result and losses are canonical JSON in text: what is hashed is what is stored.
- Instants are whole microseconds since 1970, UTC.
- No UPDATE, no DELETE, no TRUNCATE. An INSERT is the next position, the next of its conversation after its
  last hash, and has a new id: so REPLACE, upserts and INSERT OR IGNORE have nothing to take hold of.
- On PostgreSQL guards fire in every replication role, and `grants` gives a role INSERT and SELECT, no more.
- Who owns the database can drop guards: `lacking_guards` finds that, and the chain finds what is changed then.
"""

import functools
import re

from sqlalchemy import BigInteger, Column, Connection, Double, Index, Integer, MetaData, Table, Text, event, text

from toolwire.errors import InvalidField

_NAME = "tool_traces"
_COLUMNS = (
    ("id tenant_id conversation_id", Text, False),
    ("sequence", BigInteger, False),
    ("tool_name arguments result result_type ending", Text, False),
    ("duration_ms", Double, False),
    ("iteration", BigInteger, False),
    ("call_id model provider dialect session sandbox approval", Text, True),
    ("losses", Text, False),
    ("repair", Text, True),
    ("started_at", BigInteger, False),
    ("request_digest response_digest", Text, True),
    ("inserted_at", BigInteger, False),
    ("previous hash ledger", Text, False),
    ("waited_ms", Double, True),
    ("kind", Text, True),
)
_NAMESPACE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")


def check_namespace(namespace: str | None) -> None:
    """Refuse a namespace that is no plain name."""
    if namespace is not None and not (isinstance(namespace, str) and _NAMESPACE.fullmatch(namespace)):
        words = "must begin with a letter, have letters, digits and _ only, and 40 of them at most"
        raise InvalidField("namespace", words, path="traces")


def version_table(namespace: str | None, *, schemas: bool) -> str:
    """Name the table that holds the version of the migrations, without its schema."""
    return f"{namespace}_{_NAME}_version" if namespace and not schemas else f"{_NAME}_version"


@functools.cache
def table(namespace: str | None = None, *, schemas: bool = False) -> Table:
    """Give the table of a namespace, for a database that has schemas or has none."""
    name = f"{namespace}_{_NAME}" if namespace and not schemas else _NAME
    made = Table(
        name,
        MetaData(schema=namespace if schemas else None),
        Column("position", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
        *(Column(name, kind, nullable=empty) for names, kind, empty in _COLUMNS for name in names.split()),
    )
    Index(f"{name}_id", made.c.id, unique=True)
    Index(f"{name}_conversation", made.c.conversation_id, made.c.tenant_id, made.c.position)
    Index(f"{name}_tenant", made.c.tenant_id, made.c.position)
    Index(f"{name}_tool", made.c.tool_name, made.c.position)
    Index(f"{name}_time", made.c.started_at)
    event.listen(made, "after_create", lambda table, connection, **_: create_guards(connection, table))
    return made


_REFUSED = "traces are never changed"
_NEXT = "a trace is the next row of its store and of its conversation, or it is refused"
ROLE = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}")

_SQLITE = {
    "no_update": "BEFORE UPDATE ON {table} BEGIN SELECT RAISE(ABORT, '{refused}'); END",
    "no_delete": "BEFORE DELETE ON {table} BEGIN SELECT RAISE(ABORT, '{refused}'); END",
    "next": """BEFORE INSERT ON {table} WHEN
 NEW.position IS NOT (SELECT coalesce(max(position), 0) + 1 FROM {table})
 OR EXISTS (SELECT 1 FROM {table} WHERE id = NEW.id)
 OR NEW.sequence IS NOT coalesce((SELECT sequence FROM {table} WHERE conversation_id = NEW.conversation_id
  AND tenant_id = NEW.tenant_id ORDER BY position DESC LIMIT 1), 0) + 1
 OR NEW.previous IS NOT coalesce((SELECT hash FROM {table} WHERE conversation_id = NEW.conversation_id
  AND tenant_id = NEW.tenant_id ORDER BY position DESC LIMIT 1), '{zeros}')
 BEGIN SELECT RAISE(ABORT, '{next}'); END""",
}

_POSTGRESQL_FUNCTIONS = {
    "refuse": "BEGIN RAISE EXCEPTION '{refused}' USING ERRCODE = 'insufficient_privilege'; END",
    "next": """DECLARE last record;
BEGIN
 IF NEW.position IS DISTINCT FROM (SELECT coalesce(max(position), 0) + 1 FROM {table})
  OR EXISTS (SELECT 1 FROM {table} WHERE id = NEW.id) THEN
  RAISE EXCEPTION '{next}' USING ERRCODE = 'unique_violation';
 END IF;
 SELECT sequence, hash INTO last FROM {table} WHERE conversation_id = NEW.conversation_id
  AND tenant_id = NEW.tenant_id ORDER BY position DESC LIMIT 1;
 IF NEW.sequence IS DISTINCT FROM coalesce(last.sequence, 0) + 1
  OR NEW.previous IS DISTINCT FROM coalesce(last.hash, '{zeros}') THEN
  RAISE EXCEPTION '{next}' USING ERRCODE = 'unique_violation';
 END IF;
 RETURN NEW;
END""",
}
_POSTGRESQL_TRIGGERS = {
    "no_change": "BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION {refuse}()",
    "no_statement": "BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION {refuse}()",
    "next": "BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {follow}()",
}


# What each trigger is in pg_trigger.tgtype: 1 for each row, 2 before, 4 insert, 8 delete, 16 update, 32 truncate;
# src/include/catalog/pg_trigger.h of PostgreSQL 17 (2026-11-22).
_POSTGRESQL_KINDS = {"no_change": (27, "refuse"), "no_statement": (58, "refuse"), "next": (7, "next")}
_POSTGRESQL_THERE = text(
    "SELECT t.tgname, t.tgtype, p.proname, btrim(p.prosrc) FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid"
    " WHERE t.tgrelid = to_regclass(:named) AND t.tgenabled = 'A' AND t.tgqual IS NULL AND p.prokind = 'f'"
    " AND t.tgattr = ''::int2vector"
)


def lacking_guards(connection: Connection, table: Table) -> list[str]:
    """Name the guards of a table that are not there, are not as they were made, or are disabled."""
    if connection.dialect.name == "sqlite":
        triggers = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = :name"
        there: dict[str, object] = {row[0]: row[1] for row in connection.execute(text(triggers), {"name": table.name})}
        wanted: dict[str, object] = dict(_sqlite(table))
    else:
        named = _named_in_server(connection, table)
        there = {row[0]: tuple(row[1:]) for row in connection.execute(_POSTGRESQL_THERE, {"named": named})}
        bodies = {name: body.format(**_words(named)) for name, body in _POSTGRESQL_FUNCTIONS.items()}
        wanted = {
            f"{table.name}_{name}": (kind, f"{table.name}_{function}", bodies[function])
            for name, (kind, function) in _POSTGRESQL_KINDS.items()
        }
    return [name for name, guard in wanted.items() if there.get(name) != guard]


def create_guards(connection: Connection, table: Table) -> None:
    """Make the guards of a table anew."""
    database = connection.dialect.name
    if database not in ("sqlite", "postgresql"):
        words = f"must be of SQLite or PostgreSQL to hold {table.name}, not of {database}"
        raise InvalidField("engine", words, path="traces")
    if database == "postgresql":
        made = _postgresql(connection, table)
    else:
        made = [one for name, sql in _sqlite(table) for one in (f'DROP TRIGGER IF EXISTS "{name}"', sql)]
    for statement in made:
        connection.execute(text(statement.replace(":", r"\:")))


def grants(table: Table, role: str) -> list[str]:
    """List the statements that let a role of PostgreSQL record and read, and nothing else."""
    if not (isinstance(role, str) and ROLE.fullmatch(role)):
        raise InvalidField("role", "must be the plain name of a role", path="traces")
    named = _named(table)
    version = _quoted(table, f"{table.name}_version")
    schema = [f'GRANT USAGE ON SCHEMA "{table.schema}" TO "{role}"'] if table.schema else []
    return [
        f'REVOKE ALL ON {named} FROM PUBLIC, "{role}"',
        *schema,
        f'GRANT SELECT, INSERT ON {named} TO "{role}"',
        f'GRANT SELECT ON {version} TO "{role}"',
    ]


def _quoted(table: Table, name: str) -> str:
    return f'"{table.schema}"."{name}"' if table.schema else f'"{name}"'


def _named(table: Table) -> str:
    return _quoted(table, table.name)


def _words(named: str) -> dict[str, str]:
    return {"table": named, "refused": _REFUSED, "next": _NEXT, "zeros": "0" * 64}


def _sqlite(table: Table) -> list[tuple[str, str]]:
    """List the triggers of SQLite by name, each as the statement that makes it."""
    words, named = _words(_named(table)), f"{table.name}_"
    return [(named + name, f'CREATE TRIGGER "{named}{name}" {body.format(**words)}') for name, body in _SQLITE.items()]


def _named_in_server(connection: Connection, table: Table) -> str:
    """Name the table with its schema: a temporary table of that name would be found first."""
    question = text("SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = to_regclass(:named)")
    schema = connection.execute(question, {"named": _named(table)}).scalar_one()
    return f'{schema}."{table.name}"'


def _postgresql(connection: Connection, table: Table) -> list[str]:
    named = _named_in_server(connection, table)
    schema = named.removesuffix(f'."{table.name}"')
    functions = {name: f'{schema}."{table.name}_{name}"' for name in _POSTGRESQL_FUNCTIONS}
    made = [
        f"CREATE OR REPLACE FUNCTION {functions[name]}() RETURNS trigger LANGUAGE plpgsql"
        f" SET search_path = pg_catalog, pg_temp AS $guard$ {body.format(**_words(named))} $guard$"
        for name, body in _POSTGRESQL_FUNCTIONS.items()
    ]
    words = {"table": named, "refuse": functions["refuse"], "follow": functions["next"]}
    for name, body in _POSTGRESQL_TRIGGERS.items():
        trigger = f'"{table.name}_{name}"'
        made += [
            f"DROP TRIGGER IF EXISTS {trigger} ON {named}",
            f"CREATE TRIGGER {trigger} {body.format(**words)}",
            f"ALTER TABLE {named} ENABLE ALWAYS TRIGGER {trigger}",
        ]
    return made
