"""The failed calls of yesterday, from PostgreSQL."""

from datetime import UTC, datetime, timedelta

from toolwire import Client, Store, Trace, traces


def yesterday(store: Store) -> list[Trace]:
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    page = store.traces(result_type="error", since=today - timedelta(days=1), until=today, limit=100)
    return list(page.rows)


def record(url: str) -> None:
    with traces.open(url) as store, Client("openai", "gpt-6-sol") as client:
        client.run("Go on.", traces=store.of("tenant", "conversation"))
        for trace in yesterday(store):
            print(trace.tool_name, trace.ending, trace.duration_ms, trace.result)
        assert store.verify().count >= 0
