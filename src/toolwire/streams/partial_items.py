"""The items and the numbered events of a stream as they arrive (Responses).

The type of an item or an event is its `type`. The output index of an item is the `output_index` of its events.

Rules of this file:
- An event belongs to the item with its id. If no item has it, the event belongs to the item at its output index,
  or else to the latest open item of its type.
- After a stream was resumed, some events arrive a second time. They are ignored.
"""

from collections import Counter, deque
from heapq import heappop, heappush
from typing import Any

from msgspec import Struct


class SequenceTracker:
    """Finds events that arrive again after a stream was resumed: they have the number and the type of an earlier event.

    A server whose numbers do not count events is recognized, and its numbers are ignored from then on. `next` is the
    expected number and `last` the body of the last event. `type_lengths` has the length of the type of each event, or
    is None once the numbers are ignored.
    """

    def __init__(self) -> None:
        self._first = 0
        self.next: Any = _NEVER
        self.type_lengths: bytearray | None = bytearray()
        self.last: dict[str, Any] = {}

    def is_repeated(self, body: dict[str, Any], event_type: str) -> bool:
        """Return True if an event arrived before. Otherwise note it."""
        number = body.get("sequence_number")
        if number == self.next and self.type_lengths is not None:
            self.type_lengths.append(len(event_type) & 255)
            self.next += 1
            self.last = body
            return False
        return type(number) is int and self.type_lengths is not None and self._read_number(number, body, event_type)

    def _read_number(self, number: int, body: dict[str, Any], event_type: str) -> bool:
        """Return True if an event whose number was not expected arrived before."""
        type_lengths: bytearray = self.type_lengths  # type: ignore[assignment]
        self._first = self._first if type_lengths else number
        position, count = number - self._first, len(type_lengths)
        if count <= position < count + _GAP:
            type_lengths += bytes(position - count)
            type_lengths.append(len(event_type) & 255)
            self.next, self.last = number + 1, body
            return False
        is_repetition = 0 <= position < count and type_lengths[position] == len(event_type) & 255
        if is_repetition and (position < count - 1 or self._is_last(body)):
            return True
        self.type_lengths, self.next = None, _NEVER
        return False

    def _is_last(self, body: dict[str, Any]) -> bool:
        """Return True if `body` is that of the last event, apart from its number and its padding."""
        ignored = {"obfuscation": None, "sequence_number": None}
        return {**body, **ignored} == {**self.last, **ignored}


_GAP = 1024  # so many events may be missing before the numbers are ignored
_NEVER = object()


_TYPICAL_FIELD = {
    "message": "content",
    "reasoning": "summary",
    "function_call": "call_id",
    "custom_tool_call": "call_id",
}
"""A field that items of a type have, and that items of the other types do not have."""


class PartialItem(Struct, eq=False):
    """An item of the output while it arrives.

    `reasoning` is the reasoning item that it follows. `counted_index` is the number of calls that arrived before it,
    `number` the number of items. `parts` are its parts by their index, and `last` is the highest of these indexes.
    """

    body: dict[str, Any]
    item_type: Any
    output_index: int | None
    reasoning: "PartialItem | None"
    counted_index: int
    number: int = 0
    parts: dict[int, Any] = {}
    ended: bool = False
    last: int | None = None

    def add_part(self, index: int, part: Any) -> None:
        """Add a part at `index`."""
        self.parts[index] = part
        self.last = index if self.last is None else max(self.last, index)

    @property
    def reasoning_id(self) -> str | None:
        """The id of the reasoning item that it follows."""
        item_id = None if self.reasoning is None else self.reasoning.body.get("id")
        return item_id if type(item_id) is str else None

    def is_named_by(self, item_id: Any, output_index: int | None) -> bool:
        """Return True if an event with this id and output index names this item by one of them."""
        return (type(item_id) is str and self.body.get("id") == item_id) or (
            output_index is not None and self.output_index == output_index
        )

    def may_be(self, item_type: Any, item_id: Any, output_index: int | None) -> bool:
        """Return True if an event may be about this item: it is open, and its id or its output index fits."""
        has_other_id = type(item_id) is str and self.body.get("id", item_id) != item_id
        has_other_index = None not in (output_index, self.output_index) and output_index != self.output_index
        return self.item_type == item_type and not self.ended and not (has_other_id and has_other_index)


class PartialItems:
    """The items of an answer in the order of their arrival; finds the item that an event is about.

    `reasoning_type` is the type of reasoning items. Items of the `counted_types` (calls) are numbered.
    """

    def __init__(self, reasoning_type: str, counted_types: tuple[str, ...]) -> None:
        self.items: list[PartialItem] = []
        self.reasoning: PartialItem | None = None
        self._reasoning_type = reasoning_type
        self._counted_types = counted_types
        self._counted = 0
        self._by_id: dict[Any, PartialItem] = {}
        self._by_index: dict[Any, PartialItem] = {}
        self._items_at: Counter[int | None] = Counter()  # the number of items at each output index
        self._open: dict[Any, list[int]] = {}  # the negated numbers of open items, as heaps: the latest comes first

    def add(self, body: dict[str, Any], output_index: int | None) -> PartialItem:
        """Add an item that begins with `body`."""
        item = PartialItem(
            body, body.get("type", "message"), output_index, self.reasoning, self._counted, len(self.items)
        )
        self.items.append(item)
        self._items_at[output_index] += 1
        for key in _search_keys(item):
            heappush(self._open.setdefault(key, []), -item.number)
        if type(body.get("id")) is str:
            self._by_id[body["id"]] = item
        if output_index is not None:
            self._by_index[output_index] = item
        if item.item_type in self._counted_types:
            self._counted += 1
        elif item.item_type == self._reasoning_type:
            self.reasoning = item
        return item

    def knows(self, item_id: Any, item_type: Any) -> bool:
        """Return True if an item with this id and type has arrived."""
        return type(item_id) is str and item_id in self._by_id and self._by_id[item_id].item_type == item_type

    def restore_type(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body of an item with the type that it had when it arrived.

        Some servers send a later body of an item without its type, or with an unknown one. Its type is restored if the
        body has the typical field of that type.
        """
        item_type = body.get("type", "message")
        if (
            type(body.get("type")) is not str
            and type(body.get("id")) is str
            and {"call_id", "arguments"} <= body.keys()
        ):
            return {**body, "type": "function_call"}
        known = self._by_id.get(body["id"]) if type(body.get("id")) is str else None
        if (
            known is None
            or known.item_type == item_type
            or type(known.item_type) is not str
            or _TYPICAL_FIELD.get(known.item_type) not in body
        ):
            return body
        return body if type(item_type) is str and item_type in _TYPICAL_FIELD else {**body, "type": known.item_type}

    def find_unnamed(self, body: dict[str, Any], output_index: int | None) -> PartialItem | None:
        """Return the open item at an output index that `body` may begin: it has the same type, and no id yet."""
        item = self._by_index.get(output_index)
        if item is None or item.ended or item.item_type != body.get("type", "message") or "id" in item.body:
            return None
        return item if item.body.get("call_id") in (None, body.get("call_id")) else None

    def has_own_index(self, item: PartialItem) -> bool:
        """Return True if an item has an id, and an output index that no other item has."""
        return is_text(item.body.get("id")) and item.output_index is not None and self._items_at[item.output_index] == 1

    def complete(self, item: PartialItem, body: dict[str, Any]) -> None:
        """Add the fields of `body`, the beginning of an item that arrived after other events of the item."""
        before = _search_keys(item)
        item.body = {**item.body, **{key: body[key] for key in body if body[key] is not None}}
        for key in _search_keys(item):
            if key not in before:
                heappush(self._open.setdefault(key, []), -item.number)
        if type(body.get("id")) is str:
            self._by_id[body["id"]] = item

    def get(self, item_id: Any, output_index: int | None = None) -> PartialItem | None:
        """Return the item with this id. If `item_id` is no string, return the item at this output index."""
        return self._by_id.get(item_id) if type(item_id) is str else self._by_index.get(output_index)

    def find(self, item_type: Any, item_id: Any, output_index: int | None) -> PartialItem | None:
        """Return the open item of a type that an event is about, or None."""
        named = self._by_id.get(item_id) if type(item_id) is str else None
        if named is not None and named.item_type == item_type:
            return None if named.ended else named
        at_index = self._by_index.get(output_index)
        if at_index is not None and at_index.may_be(item_type, item_id, output_index):
            return at_index
        if type(item_id) is not str or output_index is None:
            return self._latest((_key_value(item_type), "any", None))
        criteria = (("id", item_id), ("id", None), ("index", output_index), ("index", None))
        candidates = [
            item
            for field, value in criteria
            if (item := self._latest((_key_value(item_type), field, value))) is not None
        ]
        return max(candidates, key=lambda item: item.number, default=None)

    def _latest(self, key: tuple[Any, str, Any]) -> PartialItem | None:
        """Return the latest open item with this search key."""
        heap = self._open.get(key)
        while heap:
            item = self.items[-heap[0]]
            if not item.ended and key in _search_keys(item):
                return item
            heappop(heap)
        return None

    def match(self, output: list[Any]) -> list[tuple[Any, PartialItem | None]]:
        """Pair each item of the final `output` with the item that arrived: by its id, or else the next of its type."""
        bodies = [body if type(body) is dict else {} for body in output]
        named = [(self.get(body.get("id", "")), body.get("type", "message")) for body in bodies]
        items = [item if item is not None and item.item_type == item_type else None for item, item_type in named]
        known = {item.number for item in items if item is not None}
        unmatched: dict[tuple[Any, Any], deque[PartialItem]] = {}
        for item in self.items:
            if item.number not in known:
                unmatched.setdefault(
                    (_key_value(item.item_type), _key_value(item.body.get("call_id"))), deque()
                ).append(item)
        for position, body in enumerate(bodies):
            if items[position] is None and body:
                item_type, call_id = _key_value(body.get("type", "message")), _key_value(body.get("call_id"))
                queues = [unmatched[item_type, one] for one in {None, call_id} if unmatched.get((item_type, one))]
                if queues:
                    items[position] = min(queues, key=lambda queue: queue[0].number).popleft()
        return list(zip(output, items, strict=True))


def _key_value(value: Any) -> Any:
    """Return `value` in a form that can be hashed. A string and None stay as they are."""
    return value if value is None or type(value) is str else (repr(value),)


def _search_keys(item: PartialItem) -> tuple[tuple[Any, str, Any], ...]:
    """Return the keys by which an open item is found: its type, alone, with its id and with its output index."""
    item_type, item_id = _key_value(item.item_type), item.body.get("id")
    item_id = item_id if type(item_id) is str or "id" not in item.body else (repr(item_id),)
    return (item_type, "any", None), (item_type, "id", item_id), (item_type, "index", item.output_index)


def is_text(value: object) -> bool:
    """Return True if a value is a string that is not empty."""
    return type(value) is str and value != ""
