"""The stored turns of Responses: an answer with its input, found by its id, and the items of answers.

Rules of this file:
- An answer is one entry of the memory. The ids of its items are pointers to it, so nothing is stored twice.
- An answer names the turn or the conversation that it continues. It never repeats what came before.
- An answer that was deleted stays deleted, also if it is stored a second time when its stream ends.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from toolwire.gateway.entries import Item, StoredEntry
from toolwire.gateway.memory import MemoryPart
from toolwire.types.readable import readable
from toolwire.wire.bodies import read_body

LONGEST_ID = 80
REFERS = b"item_reference"
_MOST = 16 * 1024 * 1024  # bytes of one stored turn
_read = msgspec.json.decode
_write = msgspec.json.encode


@readable
class StoredTurn(Struct, frozen=True, omit_defaults=True):
    """A stored turn: its input, its answer, and what it continues.

    `maker` is the provider that answered. If `there` is true, that provider stores the answer itself. `asked` is the
    input. `before` is the id of the turn or of the conversation that this one continues. For a conversation, `last` is
    the last item that it had then.
    """

    maker: str
    there: bool = False
    before: str = ""
    asked: Raw = Raw(b"null")
    answer: Raw = Raw(b"")
    last: str = ""

    @property
    def size(self) -> int:
        """The number of bytes that it adds to a request that continues it."""
        return len(bytes(self.asked)) + len(bytes(self.answer))

    @property
    def items(self) -> list[Any]:
        """The items of the input and of the answer."""
        return [*as_items(_read(self.asked)), *as_items(_read(self.answer).get("output"))]


@readable
class StoredItem(Struct, frozen=True):
    """An item of an answer that a client may refer to. `there` is true if the provider `maker` stores it."""

    maker: str
    there: bool
    item: Raw


class Turns(NamedTuple):
    """The stored turns of one owner, in `memories`, which are searched in order."""

    memories: Sequence[MemoryPart]
    owner: str

    def key(self, name: str) -> str:
        """Return the key under which a turn is stored."""
        return _key(name, self.memories[0].prefix)

    async def find(self, name: str) -> StoredTurn | None:
        """Return the turn with the id `name`, or None."""
        turns = await self.earlier(name, most=1)
        return turns[0] if turns else None

    async def earlier(self, name: str, most: int | None = None) -> list[StoredTurn]:
        """Return the turn `name` and those that it continues, the latest first, as far as they are stored."""
        turns = dict[str, StoredTurn]()
        while name and name not in turns and len(turns) != most:
            chain = await self._chain(name, most)
            for turn in chain:
                turns[name] = turn
                name = turn.before
            if not chain:
                break
            if chain[-1].last and (conversation := await self.conversation(name, chain[-1].last)) is not None:
                turns[name] = conversation
                break
        return list(turns.values())

    async def conversation(self, name: str, last: str = "") -> StoredTurn | None:
        """Return a conversation as one turn, up to the item `last`.

        Return None if the conversation or that item is missing.
        """
        entry = await self.memories[0].memory.read(self.owner, conversation_key(name), items=True)
        names = [] if entry is None else [item.name for item in entry.items]
        if entry is None or (last and last not in names):
            return None
        items = entry.items[: names.index(last) + 1] if last else entry.items
        asked = Raw(b"[" + b",".join(item.value or b"" for item in items) + b"]")
        return StoredTurn("", asked=asked, answer=Raw(b'{"output":[]}'), last=names[-1] if names else "")

    async def _chain(self, name: str, most: int | None) -> list[StoredTurn]:
        """Return the turns from `name` on of the first memory that has it."""
        for memory, prefix in self.memories if len(name) <= LONGEST_ID else ():
            if most == 1:
                entry = await memory.read(self.owner, _key(name, prefix))
                values = [] if entry is None else [entry.value]
            else:
                values = await memory.read_chain(self.owner, _key(name, prefix))
            if values:
                return [_read(value, type=StoredTurn) for value in values]
        return []

    async def items(self, inputs: Iterable[bytes]) -> dict[str, StoredItem]:
        """Return the stored items that `inputs` refer to, by id."""
        items = (item for raw in inputs if REFERS in raw for item in as_items(read_body(raw)))
        names = dict.fromkeys(name for item in items if (name := reference_in(item)) and len(name) <= LONGEST_ID)
        known = dict[str, StoredItem]()
        for memory, prefix in self.memories if names else ():
            for value, keys in await memory.read_named(self.owner, [_item_key(name, prefix) for name in names]):
                wanted = {key.removeprefix(_item_key("", prefix)) for key in keys}
                known |= _items_of(_read(value, type=StoredTurn), wanted)
        return known

    async def keep(self, name: str, turn: StoredTurn, *, again: bool = False) -> bool:
        """Store a turn. Return False if it is too large.

        With `again` the turn was stored before. If it was deleted since then, it stays deleted.
        """
        memory, prefix = self.memories[0]
        value = _write(turn)
        if len(value) > _MOST or len(name) > LONGEST_ID:
            return False
        pointers = [Item(_item_key(item, prefix)) for item in _names_in(turn)]
        entry = StoredEntry(value, _key(turn.before, prefix) if turn.before else "", pointers)
        return await (memory.replace if again else memory.write)(self.owner, _key(name, prefix), entry)

    async def forget(self, name: str) -> bool:
        """Delete a turn. Return False if there was none."""
        memory, prefix = self.memories[0]
        return await memory.delete(self.owner, _key(name, prefix))


def _key(name: str, prefix: str = "") -> str:
    return f"{prefix}resp:{name}"


def conversation_key(name: str) -> str:
    """Return the key under which a conversation is stored."""
    return f"conv:{name}"


def _item_key(name: str, prefix: str) -> str:
    return f"{prefix}item:{name}"


def _items_in(turn: StoredTurn) -> Iterator[dict[str, Any]]:
    """Yield the items of an answer that have an id."""
    for item in as_items(_read(turn.answer).get("output")) if turn.answer else ():
        if type(item) is dict and type(name := item.get("id")) is str and len(name) <= LONGEST_ID:
            yield item


def _names_in(turn: StoredTurn) -> list[str]:
    return list(dict.fromkeys(item["id"] for item in _items_in(turn)))


def _items_of(turn: StoredTurn, names: Collection[str]) -> dict[str, StoredItem]:
    """Return the items of an answer that have these ids."""
    items = (item for item in _items_in(turn) if item["id"] in names)
    return {item["id"]: StoredItem(turn.maker, turn.there, Raw(_write(item))) for item in items}


def reference_in(item: Any) -> str | None:
    """Return the id that an `item_reference` names. Return None if `item` is no reference."""
    is_reference = type(item) is dict and item.get("type") == "item_reference" and type(item.get("id")) is str
    return item["id"] if is_reference else None


def as_items(value: Any) -> list[Any]:
    """Return an input as a list of items. A text becomes a message of the user."""
    if type(value) is list:
        return value
    return [] if value is None else [{"type": "message", "role": "user", "content": value}]
