"""JSON objects that arrive in pieces: which fields changed, and how the pieces are merged."""

from typing import Any


class _Pieces(list[str]):
    """The pieces of a text. Its own type distinguishes it from a list that arrived as a list."""


def changed_fields(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of `new` whose values differ from those in `old`."""
    return {key: new[key] for key in new if key not in old or old[key] != new[key]}


def merge_fields(merged: dict[str, Any], update: dict[str, Any]) -> None:
    """Merge the fields of `update` into `merged`. Lists and objects grow. Any other value but null replaces."""
    for key, value in update.items():
        old = merged.get(key)
        if type(old) is list and type(value) is list:
            old += value
        elif type(old) is dict and type(value) is dict:
            merge_fields(old, value)
        elif type(value) is list:
            merged[key] = value.copy()
        elif type(value) is dict:
            merged[key] = {}
            merge_fields(merged[key], value)
        elif value is not None or key not in merged:
            merged[key] = value


def collect_texts(merged: dict[str, Any], piece: dict[str, Any], texts: frozenset[str]) -> None:
    """Add the fields of `piece` to `merged`. Of the fields named in `texts`, the pieces are collected in a list."""
    for key, value in piece.items():
        if key in texts and type(value) is str:
            if type(merged.get(key)) is not _Pieces:
                merged[key] = _Pieces()
            merged[key].append(value)
        elif value is not None or key not in merged:
            merged[key] = value


def join_texts(merged: dict[str, Any], texts: frozenset[str]) -> dict[str, Any]:
    """Return `merged` with the collected pieces of the fields named in `texts` joined."""
    joined = {key: "".join(merged[key]) for key in texts if type(merged.get(key)) is _Pieces}
    return {key: joined.get(key, value) for key, value in merged.items()}
