"""A tool that leads a run of its own, in the budget of the run around it, and can be stopped."""

import threading

from toolwire import Cancel, Client, Done, LoopLimits


def ask(client: Client, seconds: float) -> Done[None]:
    cancel = Cancel()

    def research(question: str) -> str:
        """Find something out."""
        found = client.run(question, system="You are a researcher.", limits=LoopLimits(turns=3), cancel=cancel)
        return found.content or found.reason

    timer = threading.Timer(seconds, cancel)
    timer.start()
    try:
        return client.run(
            "Write a report.", tools=[research], limits=LoopLimits(cost=0.5, tokens=20_000), cancel=cancel
        )
    finally:
        timer.cancel()


def report(done: Done) -> str:
    return f"{done.ending}: {done.cost} USD, {done.usage.total_tokens if done.usage else 0} tokens"
