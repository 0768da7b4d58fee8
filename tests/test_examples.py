"""The examples run as they stand."""

import asyncio
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.client.faces import options_at
from toolwire import Context, Error, Message, Request, Text, accumulate, aio, dialect
from toolwire.testing import Fail, simulate

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
WIRE = dialect("anthropic")


def gateway_to(url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    spec = importlib.util.spec_from_file_location("gateway", EXAMPLES / "gateway.py")
    assert spec is not None
    assert spec.loader is not None
    gateway = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gateway)
    gateway.client = aio.Client("openai", "gpt-6-sol", **options_at("openai", url))  # type: ignore[attr-defined]
    return gateway


def posted(gateway: Any, *, stream: bool) -> httpx2.Response:
    body = WIRE.encode_request(
        Request(model="gpt-6-sol", stream=stream, max_tokens=50, context=Context(None, [Message("Hi.")]))
    ).body

    async def main() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(gateway.app), base_url="http://gate") as http:
            response = await http.post("/v1/messages", json=body)
            await gateway.client.close()
            return response

    return asyncio.run(main())


def test_the_gateway_answers_in_its_clients_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = [Fail(Error("rate_limit", "Slow."), retry_after=30)]
    with simulate([["Hello."], [Text("Hel"), Text("lo.")], limit * 3, limit * 3]) as model:
        gateway = gateway_to(model.url, monkeypatch)
        gateway.client.upstream.retries = type(gateway.client.upstream.retries)(attempts=1)
        whole = posted(gateway, stream=False)
        assert (whole.status_code, WIRE.decode_response(whole.json()).content) == (200, "Hello.")
        decoder = WIRE.decode_stream()
        assert accumulate(decoder.feed(posted(gateway, stream=True).content) + decoder.close()).content == "Hello."
        refused = posted(gateway, stream=False)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "30")
        assert refused.json()["error"]["type"] == "rate_limit_error"
        assert posted(gateway, stream=True).status_code == 429


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="it kills its own process as POSIX does it")
def test_a_run_goes_on_where_its_process_was_killed(tmp_path: Path) -> None:
    source = str(EXAMPLES.parent / "src")
    command = [sys.executable, str(EXAMPLES / "durable.py")]
    environ = {**os.environ, "PYTHONPATH": source, "TMPDIR": str(tmp_path)}
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
    first, *rest = said.stdout.splitlines()
    assert first == "paid, and the process ends before anybody knows it"
    assert rest[0] == "order 17 is paid"
    assert "it was run again with the same key" in rest[1]
    assert rest[2:] == ["Order 17 is paid."]
