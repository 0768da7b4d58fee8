"""Values with what is sensitive hidden: nested, in JSON inside of text, in bytes.

Rules of this file:
- A value is never changed. What has nothing to hide is given back as it is.
- What stood in a sensitive field is hidden wherever else it stands in the same value.
- What is too deep, too large, circular or cannot be read is replaced; the rest stays.
"""

import contextlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

from toolwire.scrubbing.fields import HEADERS, NOWHERE, Fields, States, declared_as, usual
from toolwire.scrubbing.forms import HIDDEN, LONG, SHORTEST, UNREADABLE, Known, forms_of, loose_forms_of, mask
from toolwire.scrubbing.texts import SHORTEST_KEY, SIGNED, keys_in, spans, without

_DEEPEST = 64
MOST_NODES = 300_000
_MOST_NAMES = 100
_PLAIN_NAME = 40
_MOST_TEXT = 16 * 1024 * 1024
_CIRCULAR, _TOO_DEEP = mask("circular"), mask("too deep")
_PLAIN = (int, float, bool, type(None))
_SAFE = (bool, date, time, timedelta, type(None))
_WORDS = (str, bytes, bytearray, memoryview)
_PAIR = 2
# How a map names a value that it holds.
_NAMES, _VALUES = ("name", "key", "Name", "Key"), ("value", "Value")
ENDINGS = {"{": "}", "[": "]", '"': '"'}


def scrub(value: Any, fields: Collection[str] = (), secrets: Collection[str] = ()) -> Any:
    """Give the value with sensitive fields, known secrets and what looks like a key hidden.

    Secrets that are `Known` learn those of the value.
    """
    try:
        return _clean(value, fields, secrets, secrets if isinstance(secrets, Known) else None)
    except Exception:  # noqa: BLE001 - whatever it is, nothing gets through
        return _replaced(value, secrets)


def scrub_text(text: str, secrets: Collection[str] = (), fields: Collection[str] = ()) -> str:
    """Take known secrets, the values of sensitive names and what looks like a key out of a text."""
    try:
        return str(_clean(str(text), fields, secrets))
    except Exception:  # noqa: BLE001 - whatever it is, nothing gets through
        return UNREADABLE


def _clean(value: Any, fields: Collection[str], secrets: Collection[str], learning: Known | None = None) -> Any:
    """Hide what is sensitive, then what stood in sensitive fields wherever else it stands."""
    walk = _ValueWalk(declared_as(*fields), forms_of(secrets), loose_forms_of(secrets))
    clean = walk.value(value)
    more = [secret for secret in walk.found if len(secret) >= LONG]
    if more and learning is not None:
        learning.learn(more)
    return _ValueWalk(walk.fields, forms_of(more), loose_forms_of(more)).value(clean) if more else clean


def _replaced(value: Any, secrets: Collection[str]) -> Any:
    """Give what stands for a value that cannot be shown: of a map, the names that are plain words stay."""
    if type(value) is not dict or len(value) > _MOST_NAMES:
        return UNREADABLE
    names = [name for name in value if type(name) is str and name.isidentifier() and len(name) < _PLAIN_NAME]
    shown = [name for name in names if not any(secret in name for secret in secrets if secret)]
    return {name: UNREADABLE for name in shown if not any(keys_in(name))}


def secrets_of(value: Any, fields: Collection[str]) -> list[str]:
    """List the texts and numbers that stand in sensitive fields, the longest first."""
    walk = _ValueWalk(declared_as(*fields))
    with contextlib.suppress(Exception):  # what was found until then is told
        walk.value(value)
    return sorted((one for one in walk.found if len(one) >= SHORTEST), key=lambda one: (-len(one), one))


class _ValueWalk:
    """One walk through a value; what it hides by a field's name is in `found`."""

    def __init__(self, fields: Fields, forms: Sequence[str] = (), loose: Sequence[str] = ()) -> None:
        self.fields = fields
        self.forms = forms
        self.loose = loose
        self.found: set[str] = set()
        self._nodes = 0
        self._text = 0
        self._above: set[int] = set()
        self._keys: dict[str, tuple[str, str | None]] = {}

    def value(self, value: Any, depth: int = 0, states: States = NOWHERE) -> Any:
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise OverflowError("too many values")
        kind = type(value)
        if kind is str:
            return self.text(value, depth)
        if kind is dict or kind is list:
            return self._deeper(value, depth, states)
        if not self.forms and kind in _PLAIN:
            return value
        match value:
            case str():
                return self.text(value, depth)
            case int() | float() | Decimal() if not isinstance(value, bool):
                return HIDDEN if self.forms and str(value) in self.forms else value
            case _ if isinstance(value, _SAFE):
                return value
            case bytes() | bytearray() | memoryview():
                return self._bytes(value)
        return self._deeper(value, depth, states)

    def _deeper(self, value: Any, depth: int, states: States) -> Any:
        if depth > _DEEPEST:
            return _TOO_DEEP
        if id(value) in self._above:
            return _CIRCULAR
        self._above.add(id(value))
        try:
            match value:
                case dict() | Mapping():
                    return self._mapping(value, depth + 1, states)
                case list() | tuple():
                    return self._items(value, depth + 1, states)
                case set() | frozenset():
                    items = list(value)
                    clean = self._items(items, depth + 1, states)
                    return value if clean is items else clean
            return self._object(value, depth + 1, states)
        finally:
            self._above.discard(id(value))

    def _mapping(self, value: Mapping[Any, Any], depth: int, states: States) -> Any:
        clean: dict[Any, Any] = {}
        changed = False
        for key, inner in value.items():
            spelling = key.decode(errors="replace") if isinstance(key, bytes) else str(key)
            shown, name = self._key(spelling)
            label, below = self.fields.below(states, spelling)
            if spelling in _VALUES and (named := _name_beside(value)) is not None:
                label, name = label or self.fields.below(states, named)[0], usual(named)
            new = self._below(inner, depth, label, below, name)
            changed = changed or new is not inner or shown is not spelling
            if shown is not spelling:  # two names may look the same now
                key = shown if shown not in clean else f"{shown} {len(clean)}"  # noqa: PLW2901 - as it is shown
            clean[key] = new
        return clean if changed else value

    def _key(self, spelling: str) -> tuple[str, str | None]:
        """Give how a key is shown, and what it names that is sensitive without being declared."""
        known = self._keys.get(spelling)
        if known is None:
            known = self._keys[spelling] = (self.text(spelling, _DEEPEST), usual(spelling))
        return spelling if known[0] == spelling else known[0], known[1]

    def _items(self, value: Iterable[Any], depth: int, states: States) -> Any:
        clean, changed = [], False
        header = _header_in(value)
        for index, inner in enumerate(value):
            label, below = self.fields.inside(states, index)
            new = self._below(inner, depth, label, below, header if index else None)
            changed = changed or new is not inner
            clean.append(new)
        return (tuple(clean) if isinstance(value, tuple) else clean) if changed else value

    def _below(self, inner: Any, depth: int, label: str | None, states: States, name: str | None) -> Any:
        """Give what stands in a field or in a list; what is in a value of the caller's own fails alone."""
        if label is None and name is not None and (_is_said(inner) or (name in HEADERS and _are_words(inner))):
            label = name
        if label is not None:
            self._keep(inner)
            return inner if _is_mask(inner) else mask(label)
        if depth > 1:
            return self.value(inner, depth, states)
        try:
            return self.value(inner, depth, states)
        except Exception:  # noqa: BLE001 - the other values can still be shown
            return UNREADABLE

    def _keep(self, value: Any) -> None:
        """Note what is hidden, to find it elsewhere."""
        waiting, seen = [(value, 0)], 0
        while waiting and seen < MOST_NODES:
            one, depth = waiting.pop()
            seen += 1
            match one:
                case str() if not _is_mask(one):
                    self.found.add(one)
                case bytes() | bytearray() | memoryview():
                    self.found.add(bytes(one).decode(errors="replace"))
                case str() | bool() | None:
                    pass
                case Mapping() if depth < _DEEPEST:
                    waiting += [(inner, depth + 1) for inner in one.values()]
                case list() | tuple() | set() | frozenset() if depth < _DEEPEST:
                    waiting += [(inner, depth + 1) for inner in one]
                case _:
                    with contextlib.suppress(Exception):  # it is hidden, whatever it says
                        inner = _fields_of(one)
                        waiting += [(inner, depth + 1)] if inner else []
                        self.found |= set() if inner else {str(one)}

    def _object(self, value: Any, depth: int, states: States) -> Any:
        """Give an object as it is, if nothing that it says is sensitive; else what of it may be text."""
        fields = _fields_of(value)
        clean = self._mapping(fields, depth, states) if fields else fields
        if clean is not fields:
            return clean
        text = str(value)
        shown = self.text(text, depth)
        same = shown is text and self.text(repr(value), depth) == repr(value)
        return value if same else shown

    def _bytes(self, value: Any) -> Any:
        text = bytes(value).decode(errors="surrogateescape")
        clean = self.text(text, _DEEPEST)
        return value if clean is text else clean.encode(errors="surrogateescape")

    def text(self, text: str, depth: int) -> str:
        """Give a text without what is sensitive in it; JSON is read, and written anew if it has to be."""
        self._text += len(text)
        if self._text > _MOST_TEXT:
            raise OverflowError("too much text")
        if len(text) < SHORTEST or (len(text) < SHORTEST_KEY and not (self.forms or SIGNED.search(text))):
            return text
        if depth < _DEEPEST and self._is_json(text):
            try:
                read, doubled = _read_json(text)
            except ValueError:
                pass
            except RecursionError:
                return _TOO_DEEP
            else:
                clean = self.value(read, depth + 1)
                if clean is not read or doubled:
                    return json.dumps(clean, ensure_ascii=False)
        hidden = spans(text, self.fields, self.forms, self.loose)
        for start, end, name in hidden:
            if name in self.fields.labels:
                self._keep(text[start:end])
        return without(text, hidden) if hidden else text

    def _is_json(self, text: str) -> bool:
        stripped = text.strip()
        if not stripped or ENDINGS.get(stripped[0]) != stripped[-1] or len(stripped) < SHORTEST:
            return False
        return "\\u" in text or "\\/" in text or '"value"' in text or '"Value"' in text or self.fields.hinted(text)


def _fields_of(value: Any) -> dict[str, Any]:
    names = getattr(type(value), "__struct_fields__", None) or getattr(value, "__dict__", None) or ()
    return {name: getattr(value, name) for name in names}


def _is_said(value: Any) -> bool:
    """Whether a value is a text that is not empty, or a number."""
    if isinstance(value, _WORDS):
        return len(value) > 0
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _are_words(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(one, _WORDS) for one in value)


def _name_beside(value: Mapping[Any, Any]) -> str | None:
    """Give the name of a map that says one, and its value: `{"name": "DB_PASSWORD", "value": "..."}`."""
    return next((name for key in _NAMES if isinstance(name := value.get(key), str)), None)


def _header_in(value: Any) -> str | None:
    """Name what a pair says of which the first is the name of a header: `("authorization", "...")`."""
    if len(value) != _PAIR or not isinstance(value, list | tuple) or not _are_words(value):
        return None
    name = value[0] if isinstance(value[0], str) else bytes(value[0]).decode(errors="replace")
    found = usual(name)
    return found if found in HEADERS or "-" in name else None


def _read_json(text: str) -> tuple[Any, bool]:
    """Read JSON: the value, and whether a name stood twice in an object: then a value is lost."""
    doubled = False

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal doubled
        members = dict(pairs)
        doubled = doubled or len(members) < len(pairs)
        return members

    return json.loads(text, object_pairs_hook=made), doubled


def _is_mask(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("[hidden") and value.endswith("]") and len(value) < 60
