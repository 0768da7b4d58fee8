"""Which call a fragment belongs to, on a wire that says it by an id, by an index, by both or by neither.

Rules of this file, in order:
- An id that is known is that call's, unless its index is free or the text so far is whole and a name comes
  again: then another call has the same id.
- An id that is new is a new call, whatever its index; only a call that has no id yet takes it.
- Without an id the index decides; without both, the last call.
- A name that comes again is a repetition, unless the text so far is whole: then a new call begins. Another
  name never joins the first: it is a new call after a whole text, or where neither id nor index says that it
  is the same one. Else it makes the call unusable.
- Text that repeats a whole text is a repetition.
"""

from typing import Any

import msgspec

from toolwire.arguments import parse_arguments
from toolwire.errors import FrameTooLarge
from toolwire.framing import LIMIT, JsonObjects


class CallText:
    """One call as it arrives: what is known of it, and the text of its arguments in pieces."""

    __slots__ = (
        *("_objects", "_read", "_whole", "closed", "entry", "id", "index", "key", "name"),
        *("pieces", "problem", "size"),
    )

    def __init__(self, call_id: str | None = None, name: str = "", index: int = 0) -> None:
        self.id = call_id
        self.name = name
        self.index = index
        self.key: int | None = None
        self.pieces: list[str] = []
        self.size = 0
        self.entry: dict[str, Any] = {}
        self.closed = False
        self.problem: str | None = None
        self._read = 0
        self._objects = JsonObjects(4 * LIMIT)
        self._whole: bool | None = None

    def add(self, piece: str) -> None:
        """Add a piece of the text; too much of it is an error."""
        self.pieces.append(piece)
        self.size += len(piece)
        if self.size > LIMIT:
            raise FrameTooLarge(LIMIT)

    def grow(self, piece: str) -> bool:
        """Add a piece that is certainly new; whether it was."""
        size = len(piece)
        if self.closed or size == self.size or self.size + size > LIMIT:
            return False
        self.pieces.append(piece)
        self.size += size
        return True

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self.pieces)

    def merge(self, news: dict[str, Any]) -> None:
        """Add what the wire says of the call beside its text: objects grow, anything else is replaced."""
        for key, value in news.items():
            before = self.entry.get(key)
            if type(before) is dict and type(value) is dict:
                self.entry[key] = {**before, **value}
            elif value is not None or key not in self.entry:
                self.entry[key] = value

    def is_whole(self) -> bool:
        """Whether the text so far is an object; it could not go on. Each piece is looked at once."""
        for place in range(self._read, len(self.pieces)):
            piece = self.pieces[place]
            if self._whole is not None:
                self._whole = self._whole and not piece.strip()
            elif self._objects.feed(piece.encode(errors="replace")):
                self._whole = parse_arguments("".join(self.pieces[: place + 1]))[1] is None
        self._read = len(self.pieces)
        return bool(self._whole)

    def repeats(self, text: str) -> bool:
        """Whether this text repeats the whole text."""
        return len(text) == self.size and text == self.text and self.is_whole()


class Slots:
    """The calls of one answer, and which of them a fragment goes to."""

    __slots__ = ("_by_id", "_by_index", "calls")

    def __init__(self) -> None:
        self.calls: list[CallText] = []
        self._by_id: dict[str, CallText] = {}
        self._by_index: dict[int, CallText] = {}

    def find(self, call_id: str | None, index: int | None, name: str | None, text: Any) -> CallText:
        """Give the call that a fragment belongs to, a new one if it is none of those before."""
        call = self._by_index.get(index) if index is not None else None
        again = bool(name)
        if call_id is not None:
            known = self._by_id.get(call_id)
            if known is not None:
                free = index is not None and call is None and again
                call = None if free else known
                again = again and not (type(text) is str and known.repeats(text))
            elif call is not None and call.id is not None:
                call = None
        elif index is None:
            call = self.calls[-1] if self.calls else None
            if call is not None and again and name != call.name:
                call = None
        if call is None or (again and call.is_whole()):
            return self._open(call_id, index)
        return self._complete(call, call_id, name)

    def _open(self, call_id: str | None, index: int | None) -> CallText:
        call = CallText(call_id, "", len(self.calls))
        self.calls.append(call)
        if call_id is not None:
            self._by_id[call_id] = call
        if index is not None:
            self._by_index[index] = call
        return call

    def _complete(self, call: CallText, call_id: str | None, name: str | None) -> CallText:
        if call_id is not None and call.id is None:
            call.id = call_id
            self._by_id[call_id] = call
        if name and call.name and name != call.name and call.problem is None:
            call.problem = f"it was named both {call.name!r} and {name!r}"
        return call


class Steps:
    """The numbered steps of a stream: after a resumption some come again, with the number and kind they had.

    Numbers that say something else, or nothing, are not minded.
    """

    __slots__ = ("_first", "_kinds", "_last", "_next")

    def __init__(self) -> None:
        self._first = 0
        self._next: Any = NEVER
        self._kinds: bytearray | None = bytearray()
        self._last: Any = None

    def may_follow(self, number: int | None) -> bool:
        """Whether this number is the next one, or none."""
        return number is None or number == self._next

    def follow(self, number: int | None, kind: str, step: Any) -> None:
        """Go to the step that follows, given as its body or as bytes; the length of its kind is kept."""
        if number is not None:
            self._kinds.append(len(kind) & 255)  # type: ignore[union-attr]
            self._next, self._last = number + 1, step

    def came_before(self, body: dict[str, Any], kind: str) -> bool:
        """Whether a step was there before."""
        number = body.get("sequence_number")
        if number == self._next:
            self.follow(number, kind, body)
            return False
        return type(number) is int and self._kinds is not None and self._repeats(number, body, kind)

    def _repeats(self, number: int, body: dict[str, Any], kind: str) -> bool:
        kinds: bytearray = self._kinds  # type: ignore[assignment]
        self._first = self._first if kinds else number
        place, size = number - self._first, len(kinds)
        if size <= place < size + GAP:
            kinds += bytes(place - size)
            self.follow(number, kind, body)
            return False
        again = 0 <= place < size and kinds[place] == len(kind) & 255
        if again and (place < size - 1 or _is_same(body, self._last)):
            return True
        self._kinds, self._next = None, NEVER
        return False


GAP = 1024
NEVER = object()


def _is_same(body: dict[str, Any], step: Any) -> bool:
    other = step if type(step) is dict else msgspec.json.decode(step[step.index(b"{") :])
    alike = {"obfuscation": None, "sequence_number": None}
    return {**body, **alike} == {**other, **alike}


class Item:
    """One item as it arrives: its body, its place, the item that leads it, and what was said in it."""

    __slots__ = ("before", "body", "ended", "index", "kind", "place", "said")

    def __init__(self, body: dict[str, Any], place: int | None, before: "Item | None", index: int) -> None:
        self.body = body
        self.kind: Any = body.get("type", "message")
        self.place = place
        self.before = before
        self.index = index
        self.said: dict[int, Any] = {}
        self.ended = False

    @property
    def led_by(self) -> str | None:
        """The id of the item that leads it."""
        given = None if self.before is None else self.before.body.get("id")
        return given if type(given) is str else None

    def may_be(self, kind: Any, item_id: Any, place: int | None) -> bool:
        """Whether an event may be about this item: it is open, and not both its id and its place differ."""
        other = type(item_id) is str and self.body.get("id", item_id) != item_id
        elsewhere = None not in (place, self.place) and place != self.place
        return self.kind == kind and not self.ended and not (other and elsewhere)


class Arrival:
    """The items of an answer in the order of their arrival, and which of them an event is about.

    It is the one that the event names, else the one in its place, else the last open one of its kind. Items
    of the kind `leading` lead those that follow; those of the kinds `counted` are numbered.
    """

    __slots__ = ("_by_id", "_by_place", "_count", "_counted", "_leading", "items", "leader")

    def __init__(self, leading: str, counted: tuple[str, ...]) -> None:
        self.items: list[Item] = []
        self.leader: Item | None = None
        self._leading = leading
        self._counted = counted
        self._count = 0
        self._by_id: dict[Any, Item] = {}
        self._by_place: dict[Any, Item] = {}

    def add(self, body: dict[str, Any], place: int | None) -> Item:
        """Add an item."""
        item = Item(body, place, self.leader, self._count)
        self.items.append(item)
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

    def named(self, item_id: Any, place: int | None = None) -> Item | None:
        """Find an item by its id, or by its place if it has none."""
        return self._by_id.get(item_id) if type(item_id) is str else self._by_place.get(place)

    def find(self, kind: Any, item_id: Any, place: int | None) -> Item | None:
        """Find the open item of a kind that an event is about."""
        named = self._by_id.get(item_id) if type(item_id) is str else None
        if named is not None and named.kind == kind:
            return None if named.ended else named
        for item in (self._by_place.get(place), *reversed(self.items)):
            if item is not None and item.may_be(kind, item_id, place):
                return item
        return None

    def match(self, output: list[Any]) -> list[tuple[Any, Item | None]]:
        """Give each final item with what arrived of it: the one of its id, else the next one of its kind."""
        bodies = [body if type(body) is dict else {} for body in output]
        found = [self.named(body.get("id", "")) for body in bodies]
        found = [
            item if item is not None and item.kind == body.get("type", "message") else None
            for item, body in zip(found, bodies, strict=True)
        ]
        left = [item for item in self.items if item not in found]
        for place, body in enumerate(bodies):
            if found[place] is None and body:
                kind, call_id = body.get("type", "message"), body.get("call_id")
                fitting = (item for item in left if item.body.get("call_id") in (None, call_id))
                found[place] = same = next((item for item in fitting if item.kind == kind), None)
                left = [item for item in left if item is not same]
        return list(zip(output, found, strict=True))


def is_text(value: object) -> bool:
    """Whether a value is text that says something."""
    return type(value) is str and value != ""


def index_of(value: object) -> int | None:
    """Read an index; one that is no number says nothing."""
    match value:
        case bool():
            return None
        case int():
            return value
        case float() if value.is_integer():
            return int(value)
        case str() if value.isdecimal() and len(value) < 18:
            return int(value)
    return None
