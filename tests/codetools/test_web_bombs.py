"""How much memory a fetch takes, whatever is sent: the limit and 8 MiB."""

import gzip
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.amounts import FULL
from tests.codetools.web_lab import Answer, answer, serving

ROOT = Path(__file__).resolve().parents[2]
MIB = 1024 * 1024
ALLOWED = 8 * MIB
STATUS = Path("/proc/self/status")

# Fetches once to load what is needed, then forgets the peak of its memory, and fetches what is measured.
FETCH = """
import json, re, sys
from tests.codetools.web_lab import Mapped, PUBLIC
from toolwire.codetools import CodeTools, web
from toolwire.types import ToolCall

class Port:
    def __init__(self, port):
        self.port = port

def memory(name):
    return int(re.search(rf"{name}:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024

warm, port, limit = map(int, sys.argv[1:])
server = Port(warm)
web.network = lambda: Mapped({PUBLIC: server}, {"a.example": [PUBLIC]})
call = ToolCall("1", "http_get", {"url": "http://a.example/", "max_bytes": limit})
tools = CodeTools(".")
tools.resolve(call)
server.port = port
open("/proc/self/clear_refs", "w").write("5")
before = memory("VmRSS")
result = tools.resolve(call)
print(json.dumps([memory("VmHWM") - before, result.is_error, str(result.content)[:200]]))
"""
NAIVE = FETCH.replace("tools.resolve(call)", "naive()").replace(
    "tools = CodeTools(",
    """
import httpx2
def naive():
    result = ToolCall("1", "x", {})
    httpx2.get(f"http://127.0.0.1:{server.port}/", trust_env=False).text[:1024]
    return __import__("types").SimpleNamespace(is_error=False, content="")
tools = CodeTools(""",
)


def pack(body: bytes, kind: str = "text/html", coding: str = "gzip") -> bytes:
    return answer(gzip.compress(body, 6), 200, kind, ("Content-Encoding", coding))


SIZE = (200 if FULL else 20) * MIB


def full_of(part: bytes) -> bytes:
    return part * (SIZE // len(part))


def bombs() -> dict[str, bytes]:
    spaces = gzip.compress(full_of(b" "), 9)
    return {
        "zeros": pack(full_of(b"\0"), "text/plain"),
        "letters": pack(full_of(b"x"), "text/plain"),
        "spaces in a page": answer(spaces, 200, "text/html", ("Content-Encoding", "gzip")),
        "packed twice": answer(gzip.compress(spaces, 9), 200, "text/html", ("Content-Encoding", "gzip, gzip")),
        "packed twice, said once": pack(spaces, "text/plain"),
        "parts": answer(gzip.compress(b"x" * MIB) * (SIZE // MIB), 200, "text/plain", ("Content-Encoding", "gzip")),
        "tags": pack(full_of(b"<div>")),
        "cells": pack(b"<table><tr>" + full_of(b"<td>x")),
        "links": pack(full_of(b"<a href=x>")),
        "attributes": pack(b"<a " + full_of(b"b=1 ")),
        "quotes": pack(full_of(b"<a b='")),
        "comments": pack(full_of(b"<!--")),
        "not packed": answer(b"<p>x" * (2 * MIB), 200, "text/html"),
        "one line of JSON": pack(full_of(b"["), "application/json"),
        "deflate": answer(spaces, 200, "text/html", ("Content-Encoding", "deflate")),
    }


def peak(program: str, say: Answer, limit: int) -> tuple[int, str]:
    with serving(answer(b"<p>" + b"x" * 1000, 200, "text/html")) as warm, serving(say) as server:
        command = [sys.executable, "-c", program, str(warm.port), str(server.port), str(limit)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    most, _, told = json.loads(done.stdout)
    return most, told


@pytest.mark.slow
@pytest.mark.skipif(not STATUS.is_file(), reason="the peak of memory is read from /proc, which is not there")
@pytest.mark.row("E12")
def test_no_bomb_takes_more_than_the_limit_and_eight_mebibytes(tally: Counter[str]) -> None:
    most = {name: peak(FETCH, bomb, MIB)[0] for name, bomb in bombs().items()}
    assert {name: size for name, size in most.items() if size > MIB + ALLOWED} == {}
    tally[f"bombs of {SIZE // MIB} MiB, each read with the limit of 1 MiB and at most 8 MiB more"] += len(most)
    tally["KiB of memory that the worst bomb took, with a limit of 1 MiB"] = max(most.values()) // 1024


@pytest.mark.slow
@pytest.mark.skipif(not STATUS.is_file(), reason="the peak of memory is read from /proc, which is not there")
@pytest.mark.parametrize("name", ["letters", "cells"])
@pytest.mark.row("E12")
def test_a_larger_limit_takes_only_that_much_more(name: str) -> None:
    limit = (10 if FULL else 3) * MIB
    size, told = peak(FETCH, bombs()[name], limit)
    assert size < limit + ALLOWED, told


@pytest.mark.slow
@pytest.mark.skipif(not STATUS.is_file(), reason="the peak of memory is read from /proc, which is not there")
@pytest.mark.row("E12")
def test_control_the_client_by_itself_unpacks_all_of_a_bomb() -> None:
    assert peak(NAIVE, bombs()["letters"], MIB)[0] > 2 * ALLOWED
