"""These tests start the code tools a thousand times: their schemas are compiled once for each file."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from toolwire.resolvers import handler
from toolwire.schema.validator import Validator


@pytest.fixture(scope="module", autouse=True)
def compiled_once() -> Iterator[None]:
    """Give one validator for the same schema."""
    compiled: dict[tuple[bytes, str], Validator] = {}

    def validator(schema: Any, *, sensitive: frozenset[str], name: str) -> Validator:
        if sensitive:
            return Validator(schema, sensitive=sensitive, name=name)
        key = msgspec.json.encode(schema), name
        if key not in compiled:
            compiled[key] = Validator(schema, name=name)
        return compiled[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handler, "Validator", validator)
        yield
