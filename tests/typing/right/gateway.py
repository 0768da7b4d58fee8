"""A small gateway: a Messages client on a Chat Completions server."""

from collections.abc import Iterator
from typing import Any

import httpx2

from toolwire import translate

SOURCE, TARGET = "anthropic", "openai-chat"


def answer(client: httpx2.Client, url: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    encoded = translate.request(body, source=SOURCE, target=TARGET)
    reply = client.post(url + encoded.path, content=encoded.json)
    if reply.status_code != 200:
        error = translate.error(reply.status_code, reply.json(), source=TARGET, target=SOURCE)
        return error.status, error.body
    return 200, translate.response(reply.json(), source=TARGET, target=SOURCE).body


def stream(client: httpx2.Client, url: str, body: dict[str, Any]) -> Iterator[bytes]:
    encoded = translate.request(body, source=SOURCE, target=TARGET)
    back = translate.stream(source=TARGET, target=SOURCE)
    with client.stream("POST", url + encoded.path, content=encoded.json) as reply:
        for data in reply.iter_bytes():
            yield back.feed(data)
    yield back.close()
