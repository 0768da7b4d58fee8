"""A log of requests of one wire, translated to another, with what was lost."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from toolwire import Loss, LossyTranslation, translate


def bodies(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def losses(path: Path) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for body in bodies(path):
        encoded = translate.request(body, source="openai-chat", target="anthropic")
        found.update((loss.concept, loss.action) for loss in encoded.losses)
    return found


def refused(path: Path) -> list[str]:
    reasons: list[str] = []
    for body in bodies(path):
        try:
            translate.request(body, source="openai-chat", target="anthropic", strict=True)
        except LossyTranslation as problem:
            reasons.append(str(problem))
    return reasons


def serious(found: Iterable[Loss]) -> list[str]:
    return [f"{loss.path}: {loss.detail}" for loss in found if loss.severity == "semantic"]
