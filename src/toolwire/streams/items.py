"""Items and steps of a stream as they arrive, on a wire that names and numbers them.

Rules of this file:
- An event is about the item that it names, else about the one in its place, else about the last open one of
  its kind.
- A step that comes again, after a resumption, says nothing.
"""

from collections import Counter, deque
from heapq import heappop, heappush
from typing import Any

from msgspec import Struct


class NumberedSteps:
    """The numbered steps of a stream: after a resumption some come again, with the number and kind they had.

    Numbers that say something else, or nothing, are not minded. `next` is the number that is expected, `last` the
    body of the last step, `kinds` the length of the kind of each.
    """

    def __init__(self) -> None:
        self._first = 0
        self.next: Any = _NEVER
        self.kinds: bytearray | None = bytearray()
        self.last: dict[str, Any] = {}

    def came_before(self, body: dict[str, Any], kind: str) -> bool:
        """Whether a step was there before; the length of its kind is kept."""
        number = body.get("sequence_number")
        if number == self.next and self.kinds is not None:
            self.kinds.append(len(kind) & 255)
            self.next += 1
            self.last = body
            return False
        return type(number) is int and self.kinds is not None and self._repeats(number, body, kind)

    def _repeats(self, number: int, body: dict[str, Any], kind: str) -> bool:
        kinds: bytearray = self.kinds  # type: ignore[assignment]
        self._first = self._first if kinds else number
        place, size = number - self._first, len(kinds)
        if size <= place < size + _GAP:
            kinds += bytes(place - size)
            kinds.append(len(kind) & 255)
            self.next, self.last = number + 1, body
            return False
        again = 0 <= place < size and kinds[place] == len(kind) & 255
        if again and (place < size - 1 or self._is_last(body)):
            return True
        self.kinds, self.next = None, _NEVER
        return False

    def _is_last(self, body: dict[str, Any]) -> bool:
        """Whether a step is the last one that came."""
        unminded = {"obfuscation": None, "sequence_number": None}
        return {**body, **unminded} == {**self.last, **unminded}


_GAP = 1024
_NEVER = object()


_LIKE = {"message": "content", "reasoning": "summary", "function_call": "call_id", "custom_tool_call": "call_id"}
"""What an item of a kind has, and no other one in its place."""


class ItemSoFar(Struct, eq=False):
    """One item as it arrives: its body, its place, the item that leads it, and its parts by their places.

    `number` says how many items arrived before it, and `last` is the highest place of a part.
    """

    body: dict[str, Any]
    kind: Any
    place: int | None
    leader: "ItemSoFar | None"
    index: int
    number: int = 0
    parts: dict[int, Any] = {}
    ended: bool = False
    last: int | None = None

    def put(self, place: int, part: Any) -> None:
        """Put a part in its place."""
        self.parts[place] = part
        self.last = place if self.last is None else max(self.last, place)

    @property
    def led_by(self) -> str | None:
        """The id of the item that leads it."""
        item_id = None if self.leader is None else self.leader.body.get("id")
        return item_id if type(item_id) is str else None

    def is_said(self, item_id: Any, place: int | None) -> bool:
        """Whether an event names this item, or says its place."""
        return (type(item_id) is str and self.body.get("id") == item_id) or (place is not None and self.place == place)

    def may_be(self, kind: Any, item_id: Any, place: int | None) -> bool:
        """Whether an event may be about this item: it is open, and not both its id and its place differ."""
        other = type(item_id) is str and self.body.get("id", item_id) != item_id
        elsewhere = None not in (place, self.place) and place != self.place
        return self.kind == kind and not self.ended and not (other and elsewhere)


class ItemsSoFar:
    """The items of an answer in the order of their arrival, and which of them an event is about.

    It is the one that the event names, else the one in its place, else the last open one of its kind. Items
    of the kind `leading` lead those that follow; those of the kinds `counted` are numbered.
    """

    def __init__(self, leading: str, counted: tuple[str, ...]) -> None:
        self.items: list[ItemSoFar] = []
        self.leader: ItemSoFar | None = None
        self._leading = leading
        self._counted = counted
        self._count = 0
        self._by_id: dict[Any, ItemSoFar] = {}
        self._by_place: dict[Any, ItemSoFar] = {}
        self._count_of: Counter[int | None] = Counter()  # how many items say a place
        self._open: dict[Any, list[int]] = {}  # the numbers of open items below zero, as heaps: the latest is first

    def add(self, body: dict[str, Any], place: int | None) -> ItemSoFar:
        """Add an item."""
        item = ItemSoFar(body, body.get("type", "message"), place, self.leader, self._count, len(self.items))
        self.items.append(item)
        self._count_of[place] += 1
        for key in _keys_of(item):
            heappush(self._open.setdefault(key, []), -item.number)
        if type(body.get("id")) is str:
            self._by_id[body["id"]] = item
        if place is not None:
            self._by_place[place] = item
        if item.kind in self._counted:
            self._count += 1
        elif item.kind == self._leading:
            self.leader = item
        return item

    def knows(self, item_id: Any, kind: Any) -> bool:
        """Whether an item of this id and kind has arrived."""
        return type(item_id) is str and item_id in self._by_id and self._by_id[item_id].kind == kind

    def typed(self, body: dict[str, Any]) -> dict[str, Any]:
        """Give an item with the type that it had under its id, where it is still like that, and says another."""
        kind = body.get("type", "message")
        if (
            type(body.get("type")) is not str
            and type(body.get("id")) is str
            and {"call_id", "arguments"} <= body.keys()
        ):
            return {**body, "type": "function_call"}
        known = self._by_id.get(body["id"]) if type(body.get("id")) is str else None
        if known is None or known.kind == kind or type(known.kind) is not str or _LIKE.get(known.kind) not in body:
            return body
        return body if type(kind) is str and kind in _LIKE else {**body, "type": known.kind}

    def begun(self, body: dict[str, Any], place: int | None) -> ItemSoFar | None:
        """Give the open item in a place whose beginning this is: it is like that, and has no id yet."""
        item = self._by_place.get(place)
        if item is None or item.ended or item.kind != body.get("type", "message") or "id" in item.body:
            return None
        return item if item.body.get("call_id") in (None, body.get("call_id")) else None

    def is_placed(self, item: ItemSoFar) -> bool:
        """Whether an item has an id, and a place of its own."""
        return is_text(item.body.get("id")) and item.place is not None and self._count_of[item.place] == 1

    def complete(self, item: ItemSoFar, body: dict[str, Any]) -> None:
        """Add what the beginning of an item says, where that came late."""
        before = _keys_of(item)
        item.body = {**item.body, **{key: body[key] for key in body if body[key] is not None}}
        for key in _keys_of(item):
            if key not in before:
                heappush(self._open.setdefault(key, []), -item.number)
        if type(body.get("id")) is str:
            self._by_id[body["id"]] = item

    def named(self, item_id: Any, place: int | None = None) -> ItemSoFar | None:
        """Find an item by its id, or by its place if it has none."""
        return self._by_id.get(item_id) if type(item_id) is str else self._by_place.get(place)

    def find(self, kind: Any, item_id: Any, place: int | None) -> ItemSoFar | None:
        """Find the open item of a kind that an event is about."""
        named = self._by_id.get(item_id) if type(item_id) is str else None
        if named is not None and named.kind == kind:
            return None if named.ended else named
        placed = self._by_place.get(place)
        if placed is not None and placed.may_be(kind, item_id, place):
            return placed
        if type(item_id) is not str or place is None:
            return self._latest((_name(kind), "any", None))
        asked = (("id", item_id), ("id", None), ("place", place), ("place", None))
        found = [item for said, value in asked if (item := self._latest((_name(kind), said, value))) is not None]
        return max(found, key=lambda item: item.number, default=None)

    def _latest(self, key: tuple[Any, str, Any]) -> ItemSoFar | None:
        """Find the latest open item of a kind with an id or in a place."""
        heap = self._open.get(key)
        while heap:
            item = self.items[-heap[0]]
            if not item.ended and key in _keys_of(item):
                return item
            heappop(heap)
        return None

    def match(self, output: list[Any]) -> list[tuple[Any, ItemSoFar | None]]:
        """Give each final item with what arrived of it: the one of its id, else the next one of its kind."""
        bodies = [body if type(body) is dict else {} for body in output]
        named = [(self.named(body.get("id", "")), body.get("type", "message")) for body in bodies]
        items = [item if item is not None and item.kind == kind else None for item, kind in named]
        known = {item.number for item in items if item is not None}
        left: dict[tuple[Any, Any], deque[ItemSoFar]] = {}
        for item in self.items:
            if item.number not in known:
                left.setdefault((_name(item.kind), _name(item.body.get("call_id"))), deque()).append(item)
        for place, body in enumerate(bodies):
            if items[place] is None and body:
                kind, call_id = _name(body.get("type", "message")), _name(body.get("call_id"))
                queues = [left[kind, one] for one in {None, call_id} if left.get((kind, one))]
                if queues:
                    items[place] = min(queues, key=lambda queue: queue[0].number).popleft()
        return list(zip(output, items, strict=True))


def _name(value: Any) -> Any:
    """Give what stands for a value in a key: a text or none as it is."""
    return value if value is None or type(value) is str else (repr(value),)


def _keys_of(item: ItemSoFar) -> tuple[tuple[Any, str, Any], ...]:
    """Name what an open item is found by: its kind, with its id and its place where it says them."""
    kind, item_id = _name(item.kind), item.body.get("id")
    said = item_id if type(item_id) is str or "id" not in item.body else (repr(item_id),)
    return (kind, "any", None), (kind, "id", said), (kind, "place", item.place)


def is_text(value: object) -> bool:
    """Whether a value is text that says something."""
    return type(value) is str and value != ""
