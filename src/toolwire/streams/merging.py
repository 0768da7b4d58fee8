"""Objects that arrive in pieces, and are joined once."""

from typing import Any


class _Pieces(list[str]):
    """The pieces of a text, which are no list that came as one."""


def news_of(before: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """Give what is said otherwise than before."""
    return {key: body[key] for key in body if key not in before or before[key] != body[key]}


def join_pieces(whole: dict[str, Any], news: dict[str, Any]) -> None:
    """Add the pieces of a step to their whole: lists and objects grow, else the latest counts."""
    for key, value in news.items():
        before = whole.get(key)
        if type(before) is list and type(value) is list:
            before += value
        elif type(before) is dict and type(value) is dict:
            join_pieces(before, value)
        elif type(value) is list:
            whole[key] = value.copy()
        elif type(value) is dict:
            whole[key] = {}
            join_pieces(whole[key], value)
        elif value is not None or key not in whole:
            whole[key] = value


def add_texts(whole: dict[str, Any], piece: dict[str, Any], texts: frozenset[str]) -> None:
    """Add a piece to its whole; the pieces of these texts are put in a list, to be joined once."""
    for key, value in piece.items():
        if key in texts and type(value) is str:
            if type(whole.get(key)) is not _Pieces:
                whole[key] = _Pieces()
            whole[key].append(value)
        elif value is not None or key not in whole:
            whole[key] = value


def join_texts(whole: dict[str, Any], texts: frozenset[str]) -> dict[str, Any]:
    """Join the pieces of these texts."""
    joined = {key: "".join(whole[key]) for key in texts if type(whole.get(key)) is _Pieces}
    return {key: joined.get(key, value) for key, value in whole.items()}
