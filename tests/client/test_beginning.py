"""`begin()` of a stream: an error before the answer is raised there, and no item is lost. What `dir(Client)` shows."""

from typing import Any

import pytest

from tests.client.faces import DIALECTS, FACES, KEY, RUN, TOKYO, awaited, get_weather, options_at
from toolwire import Done, ProviderError, aio
from toolwire.client import sync
from toolwire.testing import Fail, simulate
from toolwire.types import Error

METHODS = {"chat", "conversation", "close", "generate", "run", "send", "send_stream", "stream"}


def begun(face: str, name: str, url: str, *, collect: bool) -> tuple[Any, list[Any]]:
    """Begin a stream, and read it to its end; give the end and the items."""
    settings: Any = {"tools": [get_weather], **options_at(name, url), "retries": 1}
    items: list[Any] = []
    if face == "sync":
        stream = sync.stream("Tokyo?", name, "m", **settings).begin().begin()
        if collect:
            return stream.collect(items.append), items
        first, _ = stream.next()
        return stream.done, [*first, *stream]

    async def main() -> tuple[Any, list[Any]]:
        stream = await (await aio.stream("Tokyo?", name, "m", **settings).begin()).begin()
        if collect:
            return await stream.collect(items.append), items
        first, _ = await stream.next()
        return stream.done, [*first, *[item async for item in stream]]

    return awaited(main())


@pytest.mark.sampled
@pytest.mark.parametrize("collect", [False, True])
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", DIALECTS)
def test_a_stream_that_was_begun_shows_every_item(name: str, face: str, *, collect: bool) -> None:
    RUN.clear()
    with simulate([["I look. ", TOKYO], ["Warm."]], api_key=KEY) as model:
        _, items = begun(face, name, model.url, collect=collect)
    assert "".join(getattr(item, "text", "") for item in items) == "I look. Warm."
    assert isinstance(items[-1], Done)
    assert (items[-1].content, RUN) == ("Warm.", ["Tokyo"])


@pytest.mark.sampled
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", DIALECTS)
def test_an_error_before_the_answer_is_raised_by_begin(name: str, face: str) -> None:
    refusal = Fail(Error("rate_limit", "slow down", 429))
    with simulate([refusal], api_key=KEY, strict=False) as model:
        settings: Any = {**options_at(name, model.url), "retries": 1}
        stream = (sync if face == "sync" else aio).stream("Hi", name, "m", **settings)
        with pytest.raises(ProviderError, match="slow down"):
            stream.begin() if face == "sync" else awaited(stream.begin())


@pytest.mark.parametrize("client", [sync.Client, aio.Client])
def test_a_client_shows_what_users_call_and_nothing_else(client: type) -> None:
    assert {name for name in dir(client) if not name.startswith("_")} == METHODS
