"""A search of tools by words: BM25 over their names, their descriptions and their parameters.

The formula and its constants are those of Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and
Beyond" (2009).
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from toolwire.types import Tool

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_SATURATION, _LENGTH_WEIGHT = 1.2, 0.75
_NAME_WEIGHT = 3
_DEEPEST = 4
_LEAST_SHARE = 0.3
"""The part of the best score that a tool must reach. Words that most tools have do not reach it."""


def rank_tools(tools: Sequence[Tool], query: str, limit: int) -> list[Tool]:
    """Return at most `limit` tools that have a word of `query`, the best first. A tool with that name is the first."""
    documents = [Counter(_words_of(tool)) for tool in tools]
    lengths = [document.total() for document in documents]
    mean = sum(lengths) / max(len(lengths), 1) or 1.0
    scores = [0.0] * len(tools)
    for word in dict.fromkeys(_words(query)):
        holders = [index for index, document in enumerate(documents) if word in document]
        rarity = math.log(1 + (len(tools) - len(holders) + 0.5) / (len(holders) + 0.5))
        for index in holders:
            count, length = documents[index][word], lengths[index] / mean
            weight = _SATURATION * (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * length)
            scores[index] += rarity * count * (_SATURATION + 1) / (count + weight)
    best = max(scores, default=0.0)
    named = query.strip().casefold()
    scores = [math.inf if tool.name.casefold() == named else score for tool, score in zip(tools, scores, strict=True)]
    order = sorted(range(len(tools)), key=lambda index: -scores[index])
    return [tools[index] for index in order if scores[index] > 0 and scores[index] >= _LEAST_SHARE * best][:limit]


def _words_of(tool: Tool) -> Iterator[str]:
    for _ in range(_NAME_WEIGHT):
        yield from _words(tool.name)
    yield from _words(tool.description or "")
    yield from _schema_words(tool.plain_parameters, _DEEPEST)


def _schema_words(schema: Any, deepest: int) -> Iterator[str]:
    """Yield the words of a schema: the names and the descriptions of its properties."""
    if not isinstance(schema, dict) or not deepest:
        return
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        yield from _words(name)
        if isinstance(inner, dict):
            description = inner.get("description")
            yield from _words(description) if isinstance(description, str) else ()
            yield from _schema_words(inner, deepest - 1)
    yield from _schema_words(schema.get("items"), deepest - 1)


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text or of a name, without a plural's "s"."""
    for match in _WORD.finditer(text):
        word = match.group().casefold()
        yield word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
