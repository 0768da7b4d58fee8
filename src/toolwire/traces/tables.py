"""The table of traces for SQLAlchemy, and its guards: the statements that the database itself rejects.

Rules of this file:
- `Trace.metadata` is the table's MetaData. Creating the table also creates its guards.
- A namespace is a schema on PostgreSQL, and a prefix of the table's name on SQLite.
- Arguments, result and losses are canonical JSON in text columns: the stored text is the text that was hashed.
- Times are whole microseconds since 1970, UTC.
- UPDATE, DELETE and TRUNCATE are rejected. An INSERT must have the next position, the next sequence number and the last
  hash of its conversation, and a new id. So REPLACE, upserts and INSERT OR IGNORE cannot change a row.
- On PostgreSQL, guards fire in every replication role, and `grants` gives a role INSERT and SELECT only.
- The database's owner can drop guards. `lacking_guards` detects that, and the chain detects what was changed meanwhile.
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
    """Raise `InvalidField` for a namespace that is no plain name."""
    if namespace is not None and not (isinstance(namespace, str) and _NAMESPACE.fullmatch(namespace)):
        words = "must begin with a letter, have letters, digits and _ only, and 40 of them at most"
        raise InvalidField("namespace", words, path="traces")


def version_table(namespace: str | None, *, schemas: bool) -> str:
    """Return the name of the table with the migration version, without its schema."""
    return f"{namespace}_{_NAME}_version" if namespace and not schemas else f"{_NAME}_version"


@functools.cache
def table(namespace: str | None = None, *, schemas: bool = False) -> Table:
    """Return the table of a namespace, for a database with or without schemas."""
    name = f"{namespace}_{_NAME}" if namespace and not schemas else _NAME
    new_table = Table(
        name,
        MetaData(schema=namespace if schemas else None),
        Column("position", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
        *(
            Column(name, column_type, nullable=empty)
            for names, column_type, empty in _COLUMNS
            for name in names.split()
        ),
    )
    Index(f"{name}_id", new_table.c.id, unique=True)
    Index(f"{name}_conversation", new_table.c.conversation_id, new_table.c.tenant_id, new_table.c.position)
    Index(f"{name}_tenant", new_table.c.tenant_id, new_table.c.position)
    Index(f"{name}_tool", new_table.c.tool_name, new_table.c.position)
    Index(f"{name}_time", new_table.c.started_at)
    event.listen(new_table, "after_create", lambda table, connection, **_: create_guards(connection, table))
    return new_table


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


# Each trigger's pg_trigger.tgtype: the sum of 1 for each row, 2 before, 4 insert, 8 delete, 16 update, 32 truncate;
# src/include/catalog/pg_trigger.h of PostgreSQL 17 (2026-11-22).
_POSTGRESQL_TYPES = {"no_change": (27, "refuse"), "no_statement": (58, "refuse"), "next": (7, "next")}
_POSTGRESQL_GUARDS = text(
    "SELECT t.tgname, t.tgtype, p.proname, btrim(p.prosrc) FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid"
    " WHERE t.tgrelid = to_regclass(:named) AND t.tgenabled = 'A' AND t.tgqual IS NULL AND p.prokind = 'f'"
    " AND t.tgattr = ''::int2vector"
)


def lacking_guards(connection: Connection, table: Table) -> list[str]:
    """Return the names of a table's guards that are missing, changed or disabled."""
    if connection.dialect.name == "sqlite":
        triggers = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = :name"
        existing: dict[str, object] = {
            row[0]: row[1] for row in connection.execute(text(triggers), {"name": table.name})
        }
        expected: dict[str, object] = dict(_sqlite_triggers(table))
    else:
        qualified = _qualified_table(connection, table)
        existing = {row[0]: tuple(row[1:]) for row in connection.execute(_POSTGRESQL_GUARDS, {"named": qualified})}
        bodies = {name: body.format(**_placeholders(qualified)) for name, body in _POSTGRESQL_FUNCTIONS.items()}
        expected = {
            f"{table.name}_{name}": (type_code, f"{table.name}_{function}", bodies[function])
            for name, (type_code, function) in _POSTGRESQL_TYPES.items()
        }
    return [name for name, guard in expected.items() if existing.get(name) != guard]


def create_guards(connection: Connection, table: Table) -> None:
    """Create the guards of a table, and replace existing ones."""
    database = connection.dialect.name
    if database not in ("sqlite", "postgresql"):
        words = f"must be of SQLite or PostgreSQL for the table {table.name}, not of {database}"
        raise InvalidField("engine", words, path="traces")
    if database == "postgresql":
        statements = _postgresql_statements(connection, table)
    else:
        statements = [
            statement
            for name, sql in _sqlite_triggers(table)
            for statement in (f'DROP TRIGGER IF EXISTS "{name}"', sql)
        ]
    for statement in statements:
        connection.execute(text(statement.replace(":", r"\:")))


def grants(table: Table, role: str) -> list[str]:
    """Return the SQL statements that give a PostgreSQL role the rights to record and read, and no others."""
    if not (isinstance(role, str) and ROLE.fullmatch(role)):
        raise InvalidField("role", "must be the plain name of a role", path="traces")
    quoted = _quoted_table(table)
    version = _quoted(table, f"{table.name}_version")
    schema = [f'GRANT USAGE ON SCHEMA "{table.schema}" TO "{role}"'] if table.schema else []
    return [
        f'REVOKE ALL ON {quoted} FROM PUBLIC, "{role}"',
        *schema,
        f'GRANT SELECT, INSERT ON {quoted} TO "{role}"',
        f'GRANT SELECT ON {version} TO "{role}"',
    ]


def _quoted(table: Table, name: str) -> str:
    return f'"{table.schema}"."{name}"' if table.schema else f'"{name}"'


def _quoted_table(table: Table) -> str:
    return _quoted(table, table.name)


def _placeholders(quoted: str) -> dict[str, str]:
    return {"table": quoted, "refused": _REFUSED, "next": _NEXT, "zeros": "0" * 64}


def _sqlite_triggers(table: Table) -> list[tuple[str, str]]:
    """Return the names of the SQLite triggers and the statements that create them."""
    placeholders, prefix = _placeholders(_quoted_table(table)), f"{table.name}_"
    return [
        (prefix + name, f'CREATE TRIGGER "{prefix}{name}" {body.format(**placeholders)}')
        for name, body in _SQLITE.items()
    ]


def _qualified_table(connection: Connection, table: Table) -> str:
    """Return the table's name with its schema. Without it, a temporary table of the same name would take precedence."""
    query = text("SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = to_regclass(:named)")
    schema = connection.execute(query, {"named": _quoted_table(table)}).scalar_one()
    return f'{schema}."{table.name}"'


def _postgresql_statements(connection: Connection, table: Table) -> list[str]:
    qualified = _qualified_table(connection, table)
    schema = qualified.removesuffix(f'."{table.name}"')
    functions = {name: f'{schema}."{table.name}_{name}"' for name in _POSTGRESQL_FUNCTIONS}
    statements = [
        f"CREATE OR REPLACE FUNCTION {functions[name]}() RETURNS trigger LANGUAGE plpgsql"
        f" SET search_path = pg_catalog, pg_temp AS $guard$ {body.format(**_placeholders(qualified))} $guard$"
        for name, body in _POSTGRESQL_FUNCTIONS.items()
    ]
    placeholders = {"table": qualified, "refuse": functions["refuse"], "follow": functions["next"]}
    for name, body in _POSTGRESQL_TRIGGERS.items():
        trigger = f'"{table.name}_{name}"'
        statements += [
            f"DROP TRIGGER IF EXISTS {trigger} ON {qualified}",
            f"CREATE TRIGGER {trigger} {body.format(**placeholders)}",
            f"ALTER TABLE {qualified} ENABLE ALWAYS TRIGGER {trigger}",
        ]
    return statements
