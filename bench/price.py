"""Price a session of 60 turns for every pair of wires, beside its native price.

A coding agent's session (20 tools, a long system prompt, a call and its result in each turn) is sent through
`translate.exchange` to a simulated provider that bills by its vendor's rules. *Native* is the same session as a client
of the provider's own wire sends it, with a cache mark if the wire has one. The last price is that with `cache=False`.

Rules of the bills:
- A token is four bytes of the body. Every answer has 200 tokens.
- Anthropic reads a prefix that ends at most 20 blocks before a mark, and writes up to the last mark.
- OpenAI reads the longest prefix that it has written, and writes up to the end of the request.
- Gemini reads the longest prefix that an earlier request has, and charges nothing for writing it.

The session is made up, and deferred tools are not part of it.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from toolwire import translate
from toolwire.dialects import NAMES
from toolwire.providers import catalogue
from toolwire.providers.catalogue import Price

TURNS = 60
MODELS = {
    "openai-chat": "gpt-6-sol",
    "openai-responses": "gpt-6-sol",
    "anthropic": "claude-sonnet-5-5",
    "gemini": "gemini-4-argon",
}
TARGET = 1.05
_HISTORIES = {"gemini": "contents", "openai-responses": "input"}
_MARK = "cache_control"
_LOOKBACK = 20
_ANSWER = 200
Body = dict[str, Any]


class Bill(Struct):
    """The tokens that a session has cost."""

    fresh: int = 0
    read: int = 0
    written: int = 0
    answers: int = 0

    def dollars(self, price: Price) -> float:
        """Return the price of the tokens."""
        read = price.input if price.cache_read is None else price.cache_read
        written = price.input if price.cache_write is None else price.cache_write
        total = self.fresh * price.input + self.read * read + self.written * written + self.answers * price.output
        return total / 1e6


def session(turns: int = TURNS) -> Iterator[Body]:
    """Yield the bodies of a session, turn by turn, in the wire of Chat Completions."""
    schema = {"type": "object", "properties": {"path": {"type": "string", "description": "A path. " * 20}}}
    tools = [
        {"type": "function", "function": {"name": f"tool_{n}", "description": f"Does {n}. " * 60, "parameters": schema}}
        for n in range(20)
    ]
    messages: list[Any] = [
        {"role": "system", "content": "Work with care. " * 1000},
        {"role": "user", "content": "Fix it."},
    ]
    for turn in range(turns):
        yield {"model": "m", "messages": list(messages), "tools": tools, "max_tokens": 1000}
        arguments = json.dumps({"path": f"src/{turn}.py"})
        call = {"id": f"call_{turn}", "type": "function", "function": {"name": "tool_3", "arguments": arguments}}
        messages += [
            {"role": "assistant", "content": f"I look at {turn}.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{turn}", "content": f"line {turn} of the file\n" * 80},
        ]


def pieces(body: Body, wire: str) -> list[tuple[bytes, bool]]:
    """Return the parts of a prompt in the order in which a cache sees them, and whether each is marked."""
    system: Any = body.get("system") or body.get("instructions") or body.get("systemInstruction") or []
    found = [*body.get("tools", []), *(system if type(system) is list else [system])]
    for message in body[_HISTORIES.get(wire, "messages")]:
        content = message.get("content", message.get("parts"))
        found += content if type(content) is list else [message]
    parts = []
    for part in found:
        plain = {name: value for name, value in part.items() if name != _MARK} if type(part) is dict else part
        parts.append((json.dumps(plain).encode(), type(part) is dict and _MARK in part))
    if _MARK in body:
        parts[-1] = parts[-1][0], True
    return parts


class Provider:
    """A provider that caches and bills by its vendor's rules."""

    def __init__(self, wire: str) -> None:
        self.wire = wire
        self.bill = Bill()
        self._written: set[bytes] = set()

    def answer(self, body: Body) -> None:
        """Bill one request and its answer."""
        parts = pieces(body, self.wire)
        ends, digest, total = [], hashlib.sha256(), 0
        for data, _ in parts:
            digest.update(data)
            total += len(data) // 4
            ends.append((digest.copy().digest(), total))
        marks = [index for index, (_, is_marked) in enumerate(parts) if is_marked]
        if self.wire != "anthropic":
            marks = [len(parts) - 1]
        lookback = _LOOKBACK if self.wire == "anthropic" else len(parts)
        hits = [
            ends[index][1]
            for mark in marks
            for index in range(max(0, mark - lookback), mark + 1)
            if ends[index][0] in self._written
        ]
        read = max(hits, default=0)
        written = max(0, ends[marks[-1]][1] - read) if marks else 0
        self._written.update(ends[mark][0] for mark in marks)
        self.bill.read += read
        self.bill.written += written if self.wire != "gemini" else 0
        self.bill.fresh += total - read - (written if self.wire != "gemini" else 0)
        self.bill.answers += _ANSWER


def native(wire: str) -> Bill:
    """Return the bill of the session as a client of the wire itself sends it."""
    provider = Provider(wire)
    for body in session():
        sent = translate.request(body, "openai-chat", wire).body
        provider.answer({**sent, _MARK: {"type": "ephemeral"}} if wire == "anthropic" else sent)
    return provider.bill


def translated(source: str, target: str, *, cache: bool = True) -> Bill:
    """Return the bill of the session of a client of `source`, translated for `target`."""
    provider = Provider(target)
    for body in session():
        sent = translate.request(body, "openai-chat", source)
        given: Any = {"source": source, "target": target, "path": sent.path, "model": MODELS[target], "cache": cache}
        provider.answer(translate.exchange(sent.body, **given).encoded.body)
    return provider.bill


def price_of(target: str) -> Price:
    """Return the price of the model of a target."""
    known = catalogue.model(MODELS[target])
    if known is None or known.price is None:
        raise LookupError(MODELS[target])
    return known.price


def main() -> None:
    """Print the price of the session for each pair. Exit with an error if one is above the target."""
    print(f"A session of {TURNS} turns, in dollars: native, translated, and translated with cache=False.\n")
    worst = 0.0
    for target in MODELS:
        price = price_of(target)
        base = native(target).dollars(price)
        for source in NAMES:
            if source == target:
                continue
            with_cache, without = (translated(source, target, cache=cache).dollars(price) for cache in (True, False))
            worst = max(worst, with_cache / base)
            row = f"{source:>16} -> {target:<16} {base:7.3f} {with_cache:7.3f} ({with_cache / base:.2f})"
            print(f"{row} {without:7.3f} ({without / base:.2f})")
    if worst > TARGET:
        raise SystemExit(f"{worst:.2f} of the native price is more than {TARGET}")


if __name__ == "__main__":
    main()
