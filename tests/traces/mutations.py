"""Statements that would change traces, or forge one, each in the words of its database."""

from typing import Any

from toolwire.traces.tables import table

COLUMNS = [column.name for column in table().columns]
LAST = "(SELECT max(position) FROM tool_traces)"
ZEROS = "'" + "0" * 64 + "'"
WITH = "WITH o AS (SELECT 1 AS p)"
UPSERT = "DO UPDATE SET result = '{}'"


def copied(how: str = "INSERT INTO", end: str = "", **changes: Any) -> str:
    """Write an INSERT of the first row as it is, but for some columns."""
    values = ", ".join(str(changes.get(name, name)) for name in COLUMNS)
    where = "WHERE position = 1 " + end
    return f"{how} tool_traces ({', '.join(COLUMNS)}) SELECT {values} FROM tool_traces {where}"


NEXT: dict[str, Any] = {"position": f"{LAST} + 1", "id": "'new'"}
FIRST: dict[str, Any] = {**NEXT, "conversation_id": "'new'", "sequence": 1, "previous": ZEROS}
FORGED = {
    "a gap": copied(position=f"{LAST} + 2", id="'new'"),
    "before the first": copied(position=0, id="'new'"),
    "below zero": copied(position=-5, id="'new'"),
    "the sequence again": copied(**NEXT),
    "a sequence that is skipped": copied(**NEXT, sequence=1000),
    "a sequence without the hash": copied(**NEXT, sequence="(SELECT max(sequence) + 1 FROM tool_traces)"),
    "another beginning": copied(**{**FIRST, "previous": "hash"}),
    "a new conversation in the middle": copied(**{**FIRST, "sequence": 2}),
    "another tenant in the middle": copied(**NEXT, tenant_id="'other'", sequence=7),
    "a copy of all": copied(position=f"position + {LAST}", id="id || 'x'").replace("WHERE position = 1", ""),
    "the same id, if it is new": copied(end="ON CONFLICT DO NOTHING", position=f"{LAST} + 1"),
    "an upsert of the position": copied(end=f"ON CONFLICT (position) {UPSERT}"),
    "an upsert of the id": copied(end=f"ON CONFLICT (id) {UPSERT}", **{**FIRST, "id": "id"}),
    "an upsert that does nothing": copied(end="ON CONFLICT (position) DO NOTHING"),
}
CHANGED = {
    "an update of all": "UPDATE tool_traces SET result = '{}'",
    "an update of one": "UPDATE tool_traces SET tool_name = 'x' WHERE position = 2",
    "an update to the same": "UPDATE tool_traces SET result = result WHERE position = 2",
    "an update of a hash": "UPDATE tool_traces SET hash = 'x' WHERE position = 2",
    "an update of a position": "UPDATE tool_traces SET position = 1000 WHERE position = 1",
    "an update to NULL": "UPDATE tool_traces SET model = NULL",
    "an update from another table": "UPDATE tool_traces SET result = o.r FROM (SELECT 'x' AS r) AS o",
    "an update that returns": "UPDATE tool_traces SET result = 'x' RETURNING position",
    "an update behind WITH": f"{WITH} UPDATE tool_traces SET result = '' WHERE position IN (SELECT p FROM o)",
    "a delete of all": "DELETE FROM tool_traces",
    "a delete of one": "DELETE FROM tool_traces WHERE position = 2",
    "a delete of the last": f"DELETE FROM tool_traces WHERE position = {LAST}",
    "a delete that returns": "DELETE FROM tool_traces WHERE position = 1 RETURNING position",
    "a delete behind WITH": f"{WITH} DELETE FROM tool_traces WHERE position IN (SELECT p FROM o)",
}
SQLITE = {
    **FORGED,
    **CHANGED,
    "INSERT OR REPLACE": copied("INSERT OR REPLACE INTO", result="'{}'"),
    "INSERT OR REPLACE of the id": copied("INSERT OR REPLACE INTO", **{**FIRST, "id": "id"}),
    "REPLACE": copied("REPLACE INTO", result="'{}'"),
    "REPLACE of the last": copied("REPLACE INTO", position=LAST, id="'new'"),
    "INSERT OR IGNORE": copied("INSERT OR IGNORE INTO"),
    "INSERT OR IGNORE of the id": copied("INSERT OR IGNORE INTO", position=f"{LAST} + 1"),
    "INSERT OR FAIL": copied("INSERT OR FAIL INTO", **NEXT),
    "INSERT OR ROLLBACK": copied("INSERT OR ROLLBACK INTO", **NEXT),
    "no position": copied(position="NULL", id="'new'"),
    "UPDATE OR REPLACE": "UPDATE OR REPLACE tool_traces SET position = 1 WHERE position = 2",
    "UPDATE OR IGNORE": "UPDATE OR IGNORE tool_traces SET result = 'x'",
    "an update of the rowid": "UPDATE tool_traces SET rowid = 500 WHERE position = 1",
}
MERGE = "MERGE INTO tool_traces t USING (SELECT 1 AS p) s ON t.position = s.p WHEN MATCHED THEN {}"
POSTGRESQL = {
    **FORGED,
    **CHANGED,
    "TRUNCATE": "TRUNCATE tool_traces",
    "TRUNCATE CASCADE": "TRUNCATE tool_traces RESTART IDENTITY CASCADE",
    "MERGE that updates": MERGE.format("UPDATE SET result = 'x'"),
    "MERGE that deletes": MERGE.format("DELETE"),
    "DROP TABLE": "DROP TABLE tool_traces",
    "DROP TABLE CASCADE": "DROP TABLE tool_traces CASCADE",
    "RENAME": "ALTER TABLE tool_traces RENAME TO gone",
    "DROP COLUMN": "ALTER TABLE tool_traces DROP COLUMN ledger",
    "ALTER TYPE": "ALTER TABLE tool_traces ALTER COLUMN result TYPE text USING ''",
    "OWNER": "ALTER TABLE tool_traces OWNER TO CURRENT_USER",
    "a rule": "CREATE RULE quiet AS ON INSERT TO tool_traces DO INSTEAD NOTHING",
    "a child": "CREATE TABLE child () INHERITS (tool_traces)",
    "DROP INDEX": "DROP INDEX tool_traces_id",
    "FOR UPDATE": "SELECT * FROM tool_traces FOR UPDATE",
    "LOCK": "LOCK TABLE tool_traces IN ACCESS EXCLUSIVE MODE",
    "the version": "UPDATE tool_traces_version SET version_num = '9999'",
    "row security": "ALTER TABLE tool_traces ENABLE ROW LEVEL SECURITY",
    "replication role": "SET session_replication_role = replica",
}
# What takes the guards away needs guards to be there.
AGAINST_GUARDS = {
    "DISABLE TRIGGER": "ALTER TABLE tool_traces DISABLE TRIGGER tool_traces_no_change",
    "DISABLE TRIGGER ALL": "ALTER TABLE tool_traces DISABLE TRIGGER ALL",
    "DROP TRIGGER": "DROP TRIGGER tool_traces_next ON tool_traces",
    "DROP FUNCTION": "DROP FUNCTION tool_traces_refuse() CASCADE",
    "another function": "CREATE OR REPLACE FUNCTION tool_traces_refuse() RETURNS trigger LANGUAGE plpgsql"
    " AS $$ BEGIN RETURN NEW; END $$",
}
BY_ROLE = {"a role": "SET ROLE owner", "a grant": "GRANT ALL ON tool_traces TO PUBLIC"}
