"""Hundreds of hostile addresses, and a canary on this machine that none of them reaches."""

import ipaddress
import itertools
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import httpx2
import pytest

from tests.codetools.web_lab import OTHER, PUBLIC, Mapped, Server, answer, get, redirect, serving
from toolwire.codetools import fetching
from toolwire.codetools.addresses import FetchRules
from toolwire.errors import ToolError

TARGETS = (
    "127.0.0.1 127.255.255.254 0.0.0.0 10.0.0.1 172.16.0.1 192.168.1.1 100.64.0.1 169.254.169.254 "
    "169.254.170.2 100.100.100.200 168.63.129.16 192.0.0.192 198.18.0.1 224.0.0.1 255.255.255.255"
).split()


def _parts(address: str) -> list[int]:
    return list(ipaddress.IPv4Address(address).packed)


def _six(high: int, address: str, shift: int = 0) -> str:
    return str(ipaddress.IPv6Address(high | int(ipaddress.IPv4Address(address)) << shift))


WORD = 0xFFFFFFFF
SPELLINGS: dict[str, Callable[[str], str]] = {
    "dotted": str,
    "trailing dot": lambda a: f"{a}.",
    "decimal": lambda a: str(int(ipaddress.IPv4Address(a))),
    "hex": lambda a: hex(int(ipaddress.IPv4Address(a))),
    "hex parts": lambda a: ".".join(map(hex, _parts(a))),
    "octal parts": lambda a: ".".join(f"0{part:o}" for part in _parts(a)),
    "two parts": lambda a: f"{_parts(a)[0]}.{int(ipaddress.IPv4Address(a)) & 0xFFFFFF}",
    "mixed": lambda a: f"{_parts(a)[0]:#x}.{int(ipaddress.IPv4Address(a)) & 0xFFFFFF}",
    "ideographic dots": lambda a: a.replace(".", "\u3002"),
    "wide digits": lambda a: "".join(chr(ord(c) + 0xFEE0) if c.isdigit() else c for c in a),
    "percent": lambda a: "".join(f"%{ord(c):02x}" if c.isdigit() else c for c in a),
}
CARRYING: dict[str, Callable[[str], str]] = {
    "mapped": lambda a: _six(0xFFFF << 32, a),
    "mapped, dotted": lambda a: f"::ffff:{a}",
    "translated": lambda a: _six(0xFFFF << 48, a),
    "compatible": lambda a: _six(0, a),
    "NAT64": lambda a: _six(0x64FF9B << 96, a),
    "local NAT64": lambda a: _six(0x64FF9B0001 << 80, a),
    "6to4": lambda a: _six(0x2002 << 112, a, 80),
    "Teredo": lambda a: _six(
        (0x20010000 << 96) | 1 << 64, str(ipaddress.IPv4Address(int(ipaddress.IPv4Address(a)) ^ WORD))
    ),
    "ISATAP": lambda a: _six((0x2607F8B0 << 96) | (0x5EFE << 32), a),
}
ODD = (
    "http://a.example@127.0.0.1/ http://127.0.0.1\\@a.example/ http://a.example\\@127.0.0.1/ "
    "http://localhost/ http://[::1]/ http://[::]/ http://[fe80::1]/ http://[fe80::1%25lo]/ "
    "http://[fec0::1]/ http://[ff02::1]/ http://[fd00:ec2::254]/ http://[fd20:ce::254]/ "
    "http://metadata.google.internal/ http://METADATA/ file:///x ftp://127.0.0.1/ gopher://127.0.0.1/ "
    "//127.0.0.1/ 127.0.0.1 http:127.0.0.1 http:/127.0.0.1/ http:///127.0.0.1/ http://127.0.0.1:22/ "
    "http://127.0.0.1:6379/ http://127.0.0.1:0/ http://127.0.0.1:65536/ unix:/run/x dict://x/"
).split()


def hosts() -> Iterator[str]:
    """Spell every target in every way."""
    for address in TARGETS:
        yield from (spell(address) for spell in SPELLINGS.values())
        yield from (f"[{carry(address)}]" for carry in CARRYING.values())


def attempts() -> Iterator[tuple[str, dict[str, list[str]], str | None]]:
    """Give each address to fetch, with what names lead to, and where the public server sends it on."""
    for number, host in enumerate(hosts()):
        yield f"http{'s' * (number % 2)}://{host}/", {}, None
        yield "http://public.example/", {"public.example": [PUBLIC]}, f"//{host}/"
    for url in ODD:
        yield url, {"localhost": ["127.0.0.1", "::1"]}, None
        yield "http://public.example/", {"public.example": [PUBLIC], "localhost": ["::1"]}, _leading(url)
    for address in TARGETS:
        for answers in ([address], *([carry(address)] for carry in CARRYING.values())):
            yield "http://inside.example/", {"inside.example": answers}, None
            yield "http://mixed.example:8080/", {"mixed.example": [*answers, PUBLIC]}, None
        names = {"public.example": [PUBLIC], "inside.example": [OTHER, address]}
        yield "http://public.example/", names, "https://inside.example/"


def _leading(url: str) -> str:
    """Make a redirect of what would only lead to another place of the same server."""
    return url if "://" in url or url.startswith("//") else f"//{url.rpartition(':')[2].strip('/')}/"


@contextmanager
def canary() -> Iterator[Server]:
    # It says that it closes, so that no client takes the connection of one request for the next.
    with serving(answer(b"sung", 200, "text/plain", ("Connection", "close"))) as server:
        yield server


@pytest.mark.parametrize("step", [pytest.param(7, id="some"), pytest.param(1, id="all", marks=pytest.mark.slow)])
@pytest.mark.row("E2", "E3", "E4", "E5", "E6", "E7")
def test_no_hostile_address_reaches_the_canary(tally: Counter[str], step: int) -> None:
    tried = 0
    with serving() as public, canary() as bird:
        for url, names, location in itertools.islice(attempts(), 0, None, step):
            public.say = redirect(location) if location else answer(b"public")
            network = Mapped({PUBLIC: public, OTHER: public}, names, bird)
            with pytest.raises(ToolError):
                get(url, network)
            assert {address for address, _ in network.dialled} <= {PUBLIC}, (url, names, location)
            assert location is not None or not network.dialled
            tried += 1
        assert bird.connections == 0
    assert tried > 300 / step
    tally["hostile addresses of which none led to a connection"] += tried


@pytest.mark.parametrize(
    ("url", "names", "location"),
    [
        ("http://127.0.0.1/", {}, None),
        ("http://inside.example/", {"inside.example": ["127.0.0.1"]}, None),
        ("http://inside.example/", {"inside.example": ["::ffff:127.0.0.1"]}, None),
        ("http://mixed.example/", {"mixed.example": ["127.0.0.1", PUBLIC]}, None),
        ("http://public.example/", {"public.example": [PUBLIC]}, "//127.0.0.1/"),
    ],
)
def test_control_without_the_check_of_addresses_the_canary_is_reached(
    monkeypatch: pytest.MonkeyPatch, url: str, names: dict[str, list[str]], location: str | None
) -> None:
    monkeypatch.setattr(fetching, "refusal_reason", lambda *_, **__: None)
    with serving(redirect(location or "/")) as public, canary() as bird:
        with suppress(ToolError):
            get(url, Mapped({PUBLIC: public}, names, bird))
        assert bird.connections == 1


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0", "localhost", "[::ffff:127.0.0.1]"]
)
def test_control_naive_clients_reach_the_canary(host: str) -> None:
    with canary() as bird:
        with urllib.request.urlopen(f"http://{host}:{bird.port}/", timeout=5) as response:
            assert response.read() == b"sung"
        plain = httpx2.Client(trust_env=False, verify=False, follow_redirects=True)
        with plain, serving(redirect(f"http://{host}:{bird.port}/")) as public:
            assert plain.get(f"http://{host}:{bird.port}/").content == b"sung"
            assert plain.get(f"http://127.0.0.1:{public.port}/").content == b"sung"
        assert bird.connections == 3


def test_private_networks_are_reached_where_they_are_allowed() -> None:
    with canary() as bird:
        found = get(f"http://127.0.0.1:{bird.port}/", rules=FetchRules(allow_private=True))
        assert found.body == b"sung"
        for url in (f"http://0.0.0.0:{bird.port}/", f"http://[::ffff:127.0.0.1]:{bird.port}/"):
            with pytest.raises(ToolError):
                get(url, rules=FetchRules(allow_private=True))
    assert bird.connections == 1
