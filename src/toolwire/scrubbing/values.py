"""Values without their sensitive parts: nested values, JSON inside of text, and bytes.

Rules of this file:
- A value is never changed. A value with nothing to hide is returned as the same object.
- The content of a sensitive field is hidden wherever else it occurs in the same value.
- A value that is too deep, too large, circular or unreadable is replaced by a mask. The rest stays.
"""

import contextlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

from toolwire.scrubbing.fields import HEADERS, NO_STATES, Fields, PathStates, declared_fields, sensitive_name
from toolwire.scrubbing.forms import HIDDEN, LONG, SHORTEST, UNREADABLE, Known, forms_of, loose_forms_of, mask
from toolwire.scrubbing.texts import NAME_SIGN, SHORTEST_KEY, find_keys, find_secrets, replace_with_masks

_MAX_DEPTH = 64
_MAX_NODES = 300_000
_MAX_NAMES = 100
_MAX_PLAIN_NAME = 40
_MAX_TEXT = 16 * 1024 * 1024
_CIRCULAR, _TOO_DEEP = mask("circular"), mask("too deep")
_NON_TEXT_TYPES = (int, float, bool, type(None))
_HARMLESS_TYPES = (bool, date, time, timedelta, type(None))
_TEXT_TYPES = (str, bytes, bytearray, memoryview)
_PAIR = 2
# The keys by which a map names its own value: `{"name": "TOKEN", "value": "..."}`.
_NAMES, _VALUES = ("name", "key", "Name", "Key"), ("value", "Value")
_CLOSING_CHARACTERS = {"{": "}", "[": "]", '"': '"'}


def scrub(value: Any, fields: Collection[str] = (), secrets: Collection[str] = ()) -> Any:
    """Return `value` with its sensitive fields, known secrets and key-like texts replaced by masks. Never raises.

    If `secrets` is a `Known`, it learns the secrets that are found in `value`.

    >>> from toolwire.scrubbing import scrub
    >>> scrub({"user": "ann", "card": "4111 1111", "log": "sent 4111 1111"}, ["card"])
    {'user': 'ann', 'card': '[hidden:card]', 'log': 'sent [hidden]'}
    """
    try:
        return _scrub_twice(value, fields, secrets, secrets if isinstance(secrets, Known) else None)
    except Exception:  # noqa: BLE001 - fail closed: show nothing
        return _placeholder(value, secrets)


def scrub_text(text: str, secrets: Collection[str] = (), fields: Collection[str] = ()) -> str:
    """Return `text` with known secrets, values of sensitive names and key-like texts masked. Never raises.

    >>> from toolwire.scrubbing import scrub_text
    >>> scrub_text("password=open-sesame for ann")
    'password=[hidden:password] for ann'
    """
    try:
        return str(_scrub_twice(str(text), fields, secrets))
    except Exception:  # noqa: BLE001 - fail closed: show nothing
        return UNREADABLE


def scrub_texts(texts: Sequence[str], secrets: Collection[str] = ()) -> list[str]:
    """Return `texts`, each scrubbed. What is hidden in one of them is hidden in all. Never raises.

    A text that has nothing to hide is returned as the same object.

    >>> from toolwire.scrubbing import scrub_texts
    >>> scrub_texts(['{"password": "open sesame"}', "I said open sesame."])
    ['{"password": "[hidden:password]"}', 'I said [hidden].']
    """
    fields, learned = declared_fields(), set[str]()
    clean = [_scrub_one(text, fields, secrets, learned) for text in texts]
    long = [secret for secret in learned if len(secret) >= LONG]
    return [_scrub_one(text, fields, long, set()) for text in clean] if long else clean


def _scrub_one(text: str, fields: Fields, secrets: Collection[str], learned: set[str]) -> str:
    """Return a text without its sensitive parts. Add the contents of sensitive fields to `learned`."""
    try:
        walk = _ValueWalk(fields, forms_of(secrets), loose_forms_of(secrets))
        clean = walk.text(text, 0)
    except Exception:  # noqa: BLE001 - fail closed: show nothing
        return UNREADABLE
    learned |= walk.hidden_values
    return clean


def find_spans(text: str, secrets: Collection[str] = ()) -> list[tuple[int, int, str]]:
    """Return the sensitive parts of a text that is no JSON: their starts, ends and labels, in order. Never raises.

    >>> from toolwire.scrubbing import find_spans
    >>> find_spans("password=open-sesame for ann")
    [(9, 20, 'password')]
    """
    try:
        return find_secrets(text, declared_fields(), forms_of(secrets), loose_forms_of(secrets))
    except Exception:  # noqa: BLE001 - fail closed: show nothing
        return [(0, len(text), "unreadable")]


def _scrub_twice(value: Any, fields: Collection[str], secrets: Collection[str], learning: Known | None = None) -> Any:
    """Hide the sensitive parts, then the content of sensitive fields wherever else it occurs."""
    walk = _ValueWalk(declared_fields(*fields), forms_of(secrets), loose_forms_of(secrets))
    clean = walk.value(value)
    learned = [secret for secret in walk.hidden_values if len(secret) >= LONG]
    if learned and learning is not None:
        learning.learn(learned)
    return _ValueWalk(walk.fields, forms_of(learned), loose_forms_of(learned)).value(clean) if learned else clean


def _placeholder(value: Any, secrets: Collection[str]) -> Any:
    """Return the replacement for a value that cannot be scrubbed. A map keeps the names that are plain words."""
    if type(value) is not dict or len(value) > _MAX_NAMES:
        return UNREADABLE
    names = [name for name in value if type(name) is str and name.isidentifier() and len(name) < _MAX_PLAIN_NAME]
    safe_names = [name for name in names if not any(secret in name for secret in secrets if secret)]
    return {name: UNREADABLE for name in safe_names if not any(find_keys(name))}


def secrets_of(value: Any, fields: Collection[str]) -> list[str]:
    """Return the texts and numbers in sensitive fields of `value`, the longest first. Never raises.

    >>> from toolwire.scrubbing import secrets_of
    >>> secrets_of({"user": "ann", "pin": "4711 0815"}, ["pin"])
    ['4711 0815']
    """
    walk = _ValueWalk(declared_fields(*fields))
    with contextlib.suppress(Exception):  # the secrets found so far still count
        walk.value(value)
    return sorted((text for text in walk.hidden_values if len(text) >= SHORTEST), key=lambda text: (-len(text), text))


class _ValueWalk:
    """One walk through a value. `hidden_values` collects the content of the sensitive fields."""

    def __init__(self, fields: Fields, forms: Sequence[str] = (), loose: Sequence[str] = ()) -> None:
        self.fields = fields
        self.forms = forms
        self.loose = loose
        self.hidden_values: set[str] = set()
        self._nodes = 0
        self._text = 0
        self._ancestors: set[int] = set()
        self._keys: dict[str, tuple[str, str | None]] = {}

    def value(self, value: Any, depth: int = 0, states: PathStates = NO_STATES) -> Any:
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise OverflowError("too many values")
        value_type = type(value)
        if value_type is str:
            return self.text(value, depth)
        if value_type is dict or value_type is list:
            return self._container(value, depth, states)
        if not self.forms and value_type in _NON_TEXT_TYPES:
            return value
        match value:
            case str():
                return self.text(value, depth)
            case int() | float() | Decimal() if not isinstance(value, bool):
                return HIDDEN if self.forms and str(value) in self.forms else value
            case _ if isinstance(value, _HARMLESS_TYPES):
                return value
            case bytes() | bytearray() | memoryview():
                return self._scrub_bytes(value)
        return self._container(value, depth, states)

    def _container(self, value: Any, depth: int, states: PathStates) -> Any:
        if depth > _MAX_DEPTH:
            return _TOO_DEEP
        if id(value) in self._ancestors:
            return _CIRCULAR
        self._ancestors.add(id(value))
        try:
            match value:
                case dict() | Mapping():
                    return self._scrub_mapping(value, depth + 1, states)
                case list() | tuple():
                    return self._scrub_items(value, depth + 1, states)
                case set() | frozenset():
                    items = list(value)
                    clean = self._scrub_items(items, depth + 1, states)
                    return value if clean is items else clean
            return self._scrub_object(value, depth + 1, states)
        finally:
            self._ancestors.discard(id(value))

    def _scrub_mapping(self, value: Mapping[Any, Any], depth: int, states: PathStates) -> Any:
        clean: dict[Any, Any] = {}
        changed = False
        for key, member in value.items():
            spelling = key.decode(errors="replace") if isinstance(key, bytes) else str(key)
            clean_key, name = self._scrub_key(spelling)
            label, states_below = self.fields.below(states, spelling)
            if spelling in _VALUES and (given_name := _name_in_map(value)) is not None:
                label, name = label or self.fields.below(states, given_name)[0], sensitive_name(given_name)
            clean_member = self._scrub_member(member, depth, label, states_below, name)
            changed = changed or clean_member is not member or clean_key is not spelling
            if clean_key is not spelling:  # two masked names may be equal
                key = clean_key if clean_key not in clean else f"{clean_key} {len(clean)}"  # noqa: PLW2901
            clean[key] = clean_member
        return clean if changed else value

    def _scrub_key(self, spelling: str) -> tuple[str, str | None]:
        """Return the key as it may be shown, and its built-in sensitive name, if any."""
        cached = self._keys.get(spelling)
        if cached is None:
            cached = self._keys[spelling] = (self.text(spelling, _MAX_DEPTH), sensitive_name(spelling))
        return spelling if cached[0] == spelling else cached[0], cached[1]

    def _scrub_items(self, value: Iterable[Any], depth: int, states: PathStates) -> Any:
        clean, changed = [], False
        header = _header_of_pair(value)
        for index, item in enumerate(value):
            label, states_below = self.fields.inside(states, index)
            clean_item = self._scrub_member(item, depth, label, states_below, header if index else None)
            changed = changed or clean_item is not item
            clean.append(clean_item)
        return (tuple(clean) if isinstance(value, tuple) else clean) if changed else value

    def _scrub_member(self, member: Any, depth: int, label: str | None, states: PathStates, name: str | None) -> Any:
        """Return the scrubbed member of a map or a list.

        At the top level, a member that cannot be read is replaced alone, so that the others can still be shown.
        """
        if (
            label is None
            and name is not None
            and (_is_text_or_number(member) or (name in HEADERS and _are_texts(member)))
        ):
            label = name
        if label is not None:
            self._record_hidden(member)
            return member if _is_mask(member) else mask(label)
        if depth > 1:
            return self.value(member, depth, states)
        try:
            return self.value(member, depth, states)
        except Exception:  # noqa: BLE001 - the other values can still be shown
            return UNREADABLE

    def _record_hidden(self, value: Any) -> None:
        """Record a hidden value, so that it is found elsewhere."""
        pending, count = [(value, 0)], 0
        while pending and count < _MAX_NODES:
            item, depth = pending.pop()
            count += 1
            match item:
                case str() if not _is_mask(item):
                    self.hidden_values.add(item)
                case bytes() | bytearray() | memoryview():
                    self.hidden_values.add(bytes(item).decode(errors="replace"))
                case str() | bool() | None:
                    pass
                case Mapping() if depth < _MAX_DEPTH:
                    pending += [(child, depth + 1) for child in item.values()]
                case list() | tuple() | set() | frozenset() if depth < _MAX_DEPTH:
                    pending += [(child, depth + 1) for child in item]
                case _:
                    with contextlib.suppress(Exception):  # it is hidden in any case
                        child = _fields_of(item)
                        pending += [(child, depth + 1)] if child else []
                        self.hidden_values |= set() if child else {str(item)}

    def _scrub_object(self, value: Any, depth: int, states: PathStates) -> Any:
        """Return an object unchanged if none of its fields or texts is sensitive, else its scrubbed fields or text."""
        fields = _fields_of(value)
        clean = self._scrub_mapping(fields, depth, states) if fields else fields
        if clean is not fields:
            return clean
        text = str(value)
        clean_text = self.text(text, depth)
        unchanged = clean_text is text and self.text(repr(value), depth) == repr(value)
        return value if unchanged else clean_text

    def _scrub_bytes(self, value: Any) -> Any:
        text = bytes(value).decode(errors="surrogateescape")
        clean = self.text(text, _MAX_DEPTH)
        return value if clean is text else clean.encode(errors="surrogateescape")

    def text(self, text: str, depth: int) -> str:
        """Return the scrubbed text. JSON is parsed, and rewritten if something is hidden or a name occurs twice."""
        self._text += len(text)
        if self._text > _MAX_TEXT:
            raise OverflowError("too much text")
        if len(text) < SHORTEST or (len(text) < SHORTEST_KEY and not (self.forms or NAME_SIGN.search(text))):
            return text
        if depth < _MAX_DEPTH and self._is_json(text):
            try:
                parsed, has_duplicates = _read_json(text)
            except ValueError:
                pass
            except RecursionError:
                return _TOO_DEEP
            else:
                clean = self.value(parsed, depth + 1)
                if clean is not parsed or has_duplicates:
                    return json.dumps(clean, ensure_ascii=False)
        hidden = find_secrets(text, self.fields, self.forms, self.loose)
        for start, end, name in hidden:
            if name in self.fields.labels:
                self._record_hidden(text[start:end])
        return replace_with_masks(text, hidden) if hidden else text

    def _is_json(self, text: str) -> bool:
        stripped = text.strip()
        if not stripped or _CLOSING_CHARACTERS.get(stripped[0]) != stripped[-1] or len(stripped) < SHORTEST:
            return False
        return (
            "\\u" in text or "\\/" in text or '"value"' in text or '"Value"' in text or self.fields.may_occur_in(text)
        )


def _fields_of(value: Any) -> dict[str, Any]:
    names = getattr(type(value), "__struct_fields__", None) or getattr(value, "__dict__", None) or ()
    return {name: getattr(value, name) for name in names}


def _is_text_or_number(value: Any) -> bool:
    """Return True if `value` is a non-empty text, or a number."""
    if isinstance(value, _TEXT_TYPES):
        return len(value) > 0
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(one, _TEXT_TYPES) for one in value)


def _name_in_map(value: Mapping[Any, Any]) -> str | None:
    """Return the name that a map has for its own value: `{"name": "DB_PASSWORD", "value": "..."}`."""
    return next((name for key in _NAMES if isinstance(name := value.get(key), str)), None)


def _header_of_pair(value: Any) -> str | None:
    """Return the sensitive name of a pair that is a header: `("authorization", "...")`."""
    if len(value) != _PAIR or not isinstance(value, list | tuple) or not _are_texts(value):
        return None
    name = value[0] if isinstance(value[0], str) else bytes(value[0]).decode(errors="replace")
    sensitive = sensitive_name(name)
    return sensitive if sensitive in HEADERS or "-" in name else None


def _read_json(text: str) -> tuple[Any, bool]:
    """Parse JSON. Return the value, and whether an object had a duplicate name, by which a value was lost."""
    has_duplicates = False

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal has_duplicates
        members = dict(pairs)
        has_duplicates = has_duplicates or len(members) < len(pairs)
        return members

    return json.loads(text, object_pairs_hook=build), has_duplicates


def _is_mask(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("[hidden") and value.endswith("]") and len(value) < 60
