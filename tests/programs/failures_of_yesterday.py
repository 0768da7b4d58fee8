import sys
from datetime import UTC, datetime, timedelta

from toolwire import generate, traces


def pay(order: int) -> str:
    """Pay an order."""
    raise ValueError(f"there is no order {order}")


with traces.open(sys.argv[1]) as store:
    generate("Pay order 17.", model="openai/gpt-6-sol", tools=pay, traces=store)
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    for trace in store.traces(result_type="error", since=today - timedelta(days=1), until=today).rows:
        print(trace.tool_name, trace.arguments, trace.result)
