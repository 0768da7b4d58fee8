"""Old results, saved conversations, and going on elsewhere."""

from pathlib import Path

from toolwire import Clearing, Client, Context, LoopLimits, Message
from toolwire.client.saving import load, save


def ask(client: Client, history: list[Message]) -> str:
    done = client.run("Go on.", messages=history, clearing=Clearing(at=0.5, keep=2), limits=LoopLimits(turns=None))
    other = client.run("Go on.", messages=history, clearing=True)
    return save(Context("Be brief.", [*history, *done.messages, *other.messages]), "openai", "gpt-6-sol")


def go_on(path: Path) -> str | None:
    context, losses = load(path.read_bytes()).at("anthropic", "claude-sonnet-5-5")
    print([str(loss) for loss in losses])
    with Client("anthropic", "claude-sonnet-5-5") as client:
        return client.run(context).content
