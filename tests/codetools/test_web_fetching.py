"""Looking up, connecting and following: only what was checked is connected to."""

import asyncio
import socket
import threading
import time
from pathlib import Path

import httpx2
import pytest
from httpcore2 import AnyIOBackend, ConnectError

from tests.codetools.web_lab import OTHER, PUBLIC, PUBLIC_6, Mapped, answer, get, redirect, serving
from toolwire.codetools import fetching
from toolwire.codetools.addresses import FetchRules
from toolwire.codetools.fetching import Network, build_headers
from toolwire.errors import ToolError


def refused(url: str, network: Network | None, *words: str, **more: object) -> str:
    with pytest.raises(ToolError) as caught:
        get(url, network, **more)  # type: ignore[arg-type]
    told = str(caught.value)
    assert all(word in told for word in words), told
    return told


def test_a_page_is_fetched_by_the_address_that_was_checked() -> None:
    with serving(answer(b"hello")) as server:
        network = Mapped({PUBLIC: server}, {"good.example": [PUBLIC]})
        found = get("http://good.example:8080/a%20b?c=d#e", network)
    assert (found.status, found.body, found.cut) == (200, b"hello", False)
    assert network.dialled == [(PUBLIC, 8080)]
    head = server.requests[0].decode().lower().split("\r\n")
    assert head[0] == "get /a%20b?c=d http/1.1"
    assert "host: good.example:8080" in head, "the port belongs to the host"
    assert "accept-encoding: gzip, identity" in head


ANSWERS: dict[str, list[str]] = {
    "public and private": [PUBLIC, "10.0.0.1"],
    "private and public": ["127.0.0.1", PUBLIC],
    "private IPv6": [PUBLIC, "::1"],
    "unspecified": ["0.0.0.0"],  # noqa: S104 - it is refused
    "mapped": ["::ffff:127.0.0.1"],
    "one card": ["fe80::1%eth0"],
    "metadata": ["169.254.169.254"],
    "5000 of which the last is private": [PUBLIC] * 4999 + ["192.168.0.1"],
    "no address": ["localhost"],
    "nothing": [],
}


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.row("E6")
def test_one_address_that_is_not_public_refuses_the_name(name: str) -> None:
    with serving(answer(b"x")) as server, serving() as canary:
        network = Mapped({PUBLIC: server}, {"bad.example": ANSWERS[name]}, canary)
        refused("http://bad.example/", network, "bad.example")
    assert network.dialled == []


@pytest.mark.row("E6")
def test_an_answer_that_changes_is_not_asked_for_twice() -> None:
    answers = iter([[PUBLIC], ["127.0.0.1"], ["127.0.0.1"]])
    with serving(answer(b"x")) as server, serving() as canary:
        network = Mapped({PUBLIC: server}, {"rebinding.example": lambda: next(answers)}, canary)
        assert get("http://rebinding.example/", network).body == b"x"
        assert network.looked_up == ["rebinding.example"]
        refused("http://rebinding.example/", network, "this machine")
    assert network.dialled == [(PUBLIC, 80)]
    assert canary.connections == 0


@pytest.mark.row("E6")
def test_a_redirect_to_the_same_name_is_looked_up_and_checked_again() -> None:
    answers = iter([[PUBLIC], ["127.0.0.1"]])
    with serving(redirect("/next")) as server, serving() as canary:
        network = Mapped({PUBLIC: server}, {"rebinding.example": lambda: next(answers)}, canary)
        refused("http://rebinding.example/", network, "this machine")
    assert network.dialled == [(PUBLIC, 80)]
    assert canary.connections == 0


@pytest.mark.row("E6")
def test_the_other_end_has_to_be_the_one_that_was_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    right = AnyIOBackend.connect_tcp
    with serving(answer(b"x")) as server:
        port = server.port

        async def misled(self: AnyIOBackend, _host: str, _port: int, **more: object) -> object:
            return await right(self, "127.0.0.1", port, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(AnyIOBackend, "connect_tcp", misled)
        with pytest.raises(ConnectError, match="another peer"):
            asyncio.run(Network().connect(PUBLIC, 80))
        refused(f"http://{PUBLIC}/", None, "cannot connect", "another peer")
    assert server.requests == []


def test_an_address_may_be_spelled_at_length(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream:
        def get_extra_info(self, _name: str) -> tuple[str, int]:
            return "2606:4700::1111", 80

    async def connected(*_: object, **__: object) -> Stream:
        return Stream()

    monkeypatch.setattr(AnyIOBackend, "connect_tcp", connected)
    stream: object = asyncio.run(Network().connect("2606:4700:0:0:0:0:0:1111", 80))
    assert isinstance(stream, Stream)


@pytest.mark.row("R002-13", "E6")
def test_a_name_that_does_not_exist_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> object:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    refused("http://nowhere.example/", None, "nowhere.example is not found")


@pytest.mark.row("E6")
def test_the_system_is_asked_for_names_and_its_answers_are_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def local(host: str, *_: object, **__: object) -> object:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))] * 5000

    monkeypatch.setattr(socket, "getaddrinfo", local)
    refused("http://xn--bcher-kva.example/", None, "it leads to this machine")
    assert asked == ["xn--bcher-kva.example"]


@pytest.mark.row("E6")
def test_a_look_up_that_never_ends_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def slow(*_: object, **__: object) -> object:
        go_on.wait(30)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        get("http://slow.example/", None, seconds=0.2)
    assert time.monotonic() - begun < 15
    go_on.set()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.row("E7")
def test_a_redirect_is_followed(status: int) -> None:
    with serving(redirect("http://b.example/x", status)) as first, serving(answer(b"there")) as second:
        network = Mapped({PUBLIC: first, OTHER: second}, {"a.example": [PUBLIC], "b.example": [OTHER]})
        found = get("http://a.example/", network)
    assert found.body == b"there"
    assert str(found.target.url) == "http://b.example/x"


LOCATIONS = {
    "private": ("http://10.0.0.1/", "a private network"),
    "this machine": ("//127.0.0.1/", "this machine"),
    "metadata": ("http://169.254.169.254/latest/meta-data/", "metadata"),
    "by name": ("http://inside.example/", "a private network"),
    "scheme": ("file:///etc/passwd", "only http"),
    "script": ("javascript:alert(1)", "only http"),
    "user": ("http://user:pass@a.example/", "user name"),
    "port": ("http://a.example:22/", "port 22"),
    "circle": ("http://a.example/", "form a loop"),
    "nothing": ("", "no location"),
    "invalid": ("http://[::1", "not an address"),
    "bytes": ("http://\xff\xfe/", "not an address"),
    "long": ("http://a.example/" + "x" * 9000, "characters"),
}


@pytest.mark.parametrize("name", LOCATIONS)
@pytest.mark.row("E7")
def test_a_redirect_leads_only_to_what_may_be_fetched(name: str) -> None:
    location, reason = LOCATIONS[name]
    with serving(redirect(location)) as server, serving() as canary:
        network = Mapped({PUBLIC: server}, {"a.example": [PUBLIC], "inside.example": ["10.0.0.1"]}, canary)
        refused("http://a.example/", network, reason)
    assert network.dialled == [(PUBLIC, 80)]


@pytest.mark.row("E7")
def test_a_redirect_without_a_place_is_an_error() -> None:
    with serving(answer(b"", 302, None)) as server:
        refused("http://a.example/", Mapped({PUBLIC: server}, {"a.example": [PUBLIC]}), "no location")


@pytest.mark.row("E7")
def test_two_places_are_none() -> None:
    both = answer(b"", 302, None, ("Location", "http://a.example/1"), ("Location", "http://127.0.0.1/"))
    with serving(both) as server:
        refused("http://a.example/", Mapped({PUBLIC: server}, {"a.example": [PUBLIC]}), "a.example")


@pytest.mark.parametrize(("hops", "good"), [(5, True), (6, False), (11, False)])
@pytest.mark.row("E7")
def test_five_redirects_are_the_most(hops: int, good: bool) -> None:
    def say(request: bytes) -> bytes:
        number = int(request.split()[1].strip(b"/"))
        return redirect(f"/{number + 1}") if number < hops else answer(b"end")

    with serving(say) as server:
        network = Mapped({PUBLIC: server}, {"a.example": [PUBLIC]})
        if good:
            assert get("http://a.example/0", network).body == b"end"
        else:
            refused("http://a.example/0", network, "more than 5 times")
    assert server.connections == min(hops, 5) + 1


@pytest.mark.parametrize("status", [200, 300, 304])
@pytest.mark.row("E7")
def test_refresh_and_other_statuses_lead_nowhere(status: int) -> None:
    page = b'<meta http-equiv="refresh" content="0; url=http://127.0.0.1/">'
    body = b"" if status == 304 else page
    more = (("Refresh", "0; url=http://127.0.0.1/"), ("Location", "http://127.0.0.1/"))
    with serving(answer(body, status, "text/html", *more)) as server, serving() as canary:
        network = Mapped({PUBLIC: server}, {"a.example": [PUBLIC]}, canary)
        assert get("http://a.example/", network).status == status
    assert canary.connections == 0


SECRETS = {
    "Authorization": "Bearer s3cret",
    "Cookie": "id=s3cret",
    "X-Api-Key": "s3cret",
    "X-Goog-Api-Key": "s3cret",
    "X-Anything": "s3cret",
}
ELSEWHERE = {
    "host": ("http://a.example/", "http://b.example/", False),
    "subdomain": ("http://a.example/", "http://sub.a.example/", False),
    "port": ("http://a.example/", "http://a.example:8080/", False),
    "same": ("http://a.example/", "http://a.example:80/other", True),
    "same, in capitals": ("http://a.example/", "http://A.EXAMPLE./other", True),
    "back again": ("http://a.example/", "http://b.example/back", False),
}


@pytest.mark.parametrize("name", ELSEWHERE)
@pytest.mark.row("E8")
def test_headers_with_secrets_do_not_go_elsewhere(name: str) -> None:
    begin, end, kept = ELSEWHERE[name]

    def say(request: bytes) -> bytes:
        path = request.split()[1]
        return redirect({b"/": end, b"/back": "http://a.example/other"}[path]) if first(path) else answer(b"x")

    def first(path: bytes) -> bool:
        return path == b"/back" or (path == b"/" and len(server.requests) == 1)

    with serving(say) as server:
        names = {name: [PUBLIC] for name in ("a.example", "b.example", "sub.a.example")}
        found = get(begin, Mapped({PUBLIC: server}, names), headers={**SECRETS, "Accept-Language": "de"})
    last = server.requests[-1].decode().lower()
    assert server.requests[0].lower().count(b"s3cret") == len(SECRETS)
    assert last.count("s3cret") == (len(SECRETS) if kept else 0)
    assert "accept-language: de" in last
    assert sorted(found.dropped) == ([] if kept else sorted(name.lower() for name in SECRETS))


@pytest.mark.row("E8")
def test_control_the_client_by_itself_keeps_an_api_key() -> None:
    with serving(answer(b"x")) as second, serving(redirect(f"http://localhost:{second.port}/")) as first:
        httpx2.get(f"http://127.0.0.1:{first.port}/", headers=SECRETS, follow_redirects=True, trust_env=False)
    assert b"s3cret" in second.requests[0]


BAD_HEADERS: list[dict[str, str]] = [
    {"Host": "b.example"},
    {"content-length": "5"},
    {"Transfer-Encoding": "chunked"},
    {"Accept-Encoding": "br"},
    {"Connection": "keep-alive"},
    {"Proxy-Authorization": "x"},
    {"Upgrade": "h2c"},
    {"A": "x\r\nHost: b"},
    {"A": "x\ny"},
    {"A\r\nB": "x"},
    {"A:": "x"},
    {"": "x"},
    {"A": "\0"},
    {"A": "\u00e9"},
    {"A": "x" * 20_000},
    {"A": "1", "a": "2"},
    {f"A{n}": "" for n in range(60)},
]


@pytest.mark.parametrize("headers", BAD_HEADERS)
def test_headers_that_frame_the_request_or_break_a_line_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(ToolError, match="headers"):
        build_headers(headers)


def test_headers_of_the_model_are_sent() -> None:
    assert build_headers({"User-Agent": "me", "X-Y": "a b", "Empty": ""}).items() >= {
        ("user-agent", "me"),
        ("x-y", "a b"),
        ("empty", ""),
    }


@pytest.mark.row("E11")
def test_the_environment_says_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text("machine a.example login me password s3cret\ndefault login x password s3cret")
    (tmp_path / ".netrc").chmod(0o600)
    with serving(answer(b"x")) as server, serving(answer(b"proxy")) as canary:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{canary.port}")
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
        network = Mapped({PUBLIC: server}, {"a.example": [PUBLIC]}, canary)
        assert get("http://a.example/", network).body == b"x"
        assert canary.connections == 0
        assert b"uthorization" not in server.requests[0]
        # Control: the client by itself goes where the environment says.
        assert httpx2.get("http://a.example/").text == "proxy"


@pytest.mark.row("E17")
def test_no_connection_serves_two_requests() -> None:
    def say(request: bytes, connection: socket.socket) -> None:
        body = answer(b"x") if b"/2" in request else redirect("/2")
        connection.sendall(body)  # it stays open
        connection.settimeout(5)
        connection.recv(1)

    with serving(say) as server:
        network = Mapped({PUBLIC: server}, {"a.example": [PUBLIC]})
        assert get("http://a.example/1", network).body == b"x"
        assert get("http://a.example/2", network).body == b"x"
    assert server.connections == 3
    assert network.looked_up == ["a.example"] * 3


@pytest.mark.parametrize("addresses", [[PUBLIC_6, PUBLIC], [PUBLIC, PUBLIC_6], [PUBLIC_6]])
@pytest.mark.row("E19")
def test_the_next_address_is_tried_and_was_checked_too(addresses: list[str]) -> None:
    class Broken(Mapped):
        async def connect(self, address: str, port: int) -> object:  # type: ignore[override]
            if address != addresses[-1]:
                self.dialled.append((address, port))
                raise ConnectError("unreachable")
            return await super().connect(address, port)

    with serving(answer(b"x")) as server, serving() as canary:
        network = Broken({addresses[-1]: server}, {"a.example": addresses}, canary)
        assert get("http://a.example/", network).body == b"x"
        assert network.dialled == [(address, 80) for address in addresses]
        refused("http://b.example/", Broken({}, {"b.example": [*addresses, "::1"]}, canary), "this machine")
    assert canary.connections == 0


@pytest.mark.row("E19")
def test_addresses_that_do_not_answer_are_tried_four_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Mapped):
        async def connect(self, address: str, port: int) -> object:  # type: ignore[override]
            self.dialled.append((address, port))
            raise ConnectError("unreachable")

    network = Broken({}, {"a.example": [f"8.8.8.{n}" for n in range(100)]})
    refused("http://a.example/", network, "cannot connect to a.example", "unreachable")
    assert len(network.dialled) == 4
    with serving() as server:
        free = server.port
    monkeypatch.setattr(fetching, "CONNECT_SECONDS", 1)
    told = refused(f"http://127.0.0.1:{free}/", None, "cannot connect", rules=FetchRules(allow_private=True))
    assert "refused" in told
