"""A listener that is told of everything."""

from toolwire import Done, LoopLimits, OnEvent, Ran, RunEvent, TextDelta, generate
from toolwire.loop import AskModel, RunTools


class Log:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, event: RunEvent) -> None:
        match event:
            case AskModel(turn=turn):
                self.lines.append(f"turn {turn}")
            case RunTools(calls=calls):
                self.lines.extend(call.name for call in calls)
            case Ran(ending=ending, seconds=seconds):
                self.lines.append(f"{ending} after {seconds:.1f} s")
            case TextDelta(text=text):
                self.lines.append(text)
            case Done(reason=reason):
                self.lines.append(reason)
            case _:
                pass


async def tell(event: RunEvent) -> None:
    print(event)


def ask(listener: OnEvent) -> None:
    generate("Hello", model="openai/gpt-6-sol", on_event=listener, limits=LoopLimits(seconds=60))


def both() -> list[str]:
    log = Log()
    ask(log)
    ask(tell)
    ask(lambda event: print(type(event)))
    return log.lines
