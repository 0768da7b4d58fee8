"""A run that survives: this program kills its own process in the middle of a payment, and goes on with the same run.

    python examples/durable.py

It needs no key and no network. `pay` is idempotent: it is run again with the same key, and pays once.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from toolwire import CallKey, Runs, ToolCall, tool
from toolwire.testing import simulate

FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())


@tool(effects="idempotent")
def pay(order: str, key: CallKey) -> str:
    """Pay an order."""
    account = FOLDER / f"payment-{key}"
    paid_before = account.exists()
    account.write_text(order)
    if not paid_before:
        print("paid, and the process ends before anybody knows it", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return f"order {order} is paid"


def main() -> None:
    """Lead the run, from its beginning or from where it stopped."""
    asked = (FOLDER / "runs.db").exists()
    turns = [] if asked else [ToolCall(None, "pay", {"order": "17"})]
    with simulate([*turns, "Order 17 is paid."]) as model, Runs(f"sqlite:///{FOLDER / 'runs.db'}") as runs:
        options = {"base_url": model.url, "api_key": "any"}
        run = runs.start("Pay order 17.", "openai", "m", id="order-17", tools=[pay], options=options)
        done = run.result(30)
        print(done.messages[1].parts[0].content)
        print(done.content)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main()
    else:
        for _ in range(2):
            subprocess.run([sys.executable, __file__, str(FOLDER)], check=False)  # noqa: S603 - this very file
