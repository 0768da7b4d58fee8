import signal

from toolwire import Cancel, Client

cancel = Cancel()
signal.signal(signal.SIGINT, lambda _signal, _frame: cancel())


def research(question: str) -> str:
    """Find something out."""
    return client.run(question, system="You are a researcher.").content or "nothing was found"


with Client("openai", "gpt-6-sol") as client:
    done = client.run("Write a report.", tools=research, limits={"tokens": 20_000, "cost": 0.5}, cancel=cancel)
print(done.ending, done.content, done.usage.total_tokens if done.usage else 0)
