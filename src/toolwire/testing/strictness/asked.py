"""What a request is judged by: its body, what came with it, and what this server has said before."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from toolwire.types import ErrorKind

REMEMBERED = 10_000


class Memory:
    """What a server remembers: signatures of scripts, the answers it keeps, which item needs which."""

    def __init__(self) -> None:
        self.signatures: set[str] = set()
        self.answers: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self.inputs: dict[str, list[Any]] = {}
        self.items: dict[str, str | None] = {}

    def keep(self, body: dict[str, Any], items: list[Any]) -> None:
        """Remember an answer, with all items that led to it; the oldest is forgotten."""
        name = body["id"]
        self.answers[name], self.inputs[name] = body, [*items, *body.get("output", ())]
        thought: str | None = None
        for item in body.get("output", ()):
            if type(item.get("id")) is str:
                self.items[item["id"]] = None if item["type"] == "reasoning" else thought
            thought = item.get("id") if item["type"] == "reasoning" else None
        while len(self.answers) > REMEMBERED:
            oldest, _ = self.answers.popitem(last=False)
            for item in self.inputs.pop(oldest):
                known: Any = item.get("id") if type(item) is dict else None
                self.items.pop(known, None)


class Asked(Struct, frozen=True):
    """A request as it came; `model` is what body or path say, `judged` whether it is judged at all."""

    dialect: str
    body: dict[str, Any]
    model: str = ""
    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    judged: bool = True
    memory: Memory = field(default_factory=Memory)


class Rejection(Struct, frozen=True):
    """Why a server does not take a request."""

    message: str
    param: str | None = None
    code: str | None = None
    status: int = 400
    kind: ErrorKind = "invalid_request"


Check = Callable[[Asked], Iterator[Rejection]]
