"""Which addresses are refused: of what a URL names, before anything is looked up."""

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.codetools.addresses import (
    NAT64,
    AddressRefused,
    FetchRules,
    embedded_address,
    is_allowed,
    parse_number,
    parse_target,
    refusal_reason,
)
from toolwire.errors import InvalidField

PLAIN, OPEN = FetchRules(), FetchRules(allow_private=True)


@pytest.mark.parametrize(
    "url",
    "file:///etc/passwd ftp://a.com/ gopher://a.com/ data:text/plain,x dict://a.com/ ldap://a.com/ "
    "jar:http://a.com!/ HTTP: a.com //a.com javascript:1 http: https:/// ws://a.com httpx://a.com "
    "http+unix://a /etc/passwd".split(),
)
@pytest.mark.row("E1")
def test_only_http_and_https_are_fetched(url: str) -> None:
    with pytest.raises(AddressRefused):
        parse_target(url, OPEN)


@pytest.mark.parametrize("url", ["http://a.com", "HTTPS://A.COM/", "http://a.com:443/x?y#z"])
@pytest.mark.row("E1")
def test_control_http_and_https_are(url: str) -> None:
    assert parse_target(url, PLAIN).host == "a.com"


@pytest.mark.parametrize(
    ("host", "meant"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("127.0.1", "127.0.0.1"),
        ("0", "0.0.0.0"),  # noqa: S104 - it is refused
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("0x", "0.0.0.0"),  # noqa: S104 - it is refused
        ("127.0.0.1.", "127.0.0.1"),
        ("1.2.3.4.5", ""),
        ("256.1.1.1", ""),
        ("08", ""),
        ("4294967296", ""),
        ("a.1", ""),
        ("1" * 5000, ""),
        ("a.com", None),
        ("1.com", None),
        ("0x7g", None),
    ],
)
@pytest.mark.row("E2")
def test_numbers_are_read_as_what_they_stand_for(host: str, meant: str | None) -> None:
    assert parse_number(host) == meant


@pytest.mark.parametrize(
    "host",
    "127.1 0 2130706433 0x7f000001 0177.0.0.1 0x7f.1 127.0.0.1. ①②⑦.0.0.1 0x5db8d822 %31.0.0.1 1.2.3".split(),
)
@pytest.mark.row("E2")
def test_an_odd_spelling_is_refused_whatever_it_stands_for(host: str) -> None:
    with pytest.raises(AddressRefused):
        parse_target(f"http://{host}/", OPEN) if host != "127.0.0.1." else _refused_by_address(host)


def _refused_by_address(host: str) -> None:
    kind = refusal_reason(parse_target(f"http://{host}/", PLAIN).host)
    raise AddressRefused(kind or "") if kind else AssertionError(host)


@pytest.mark.row("E2")
def test_letters_that_look_like_a_dot_are_dots() -> None:
    assert parse_target("http://127\u30020\uff0e0\uff611/", PLAIN).host == "127.0.0.1"
    assert refusal_reason("127.0.0.1") == "this machine"


EMBEDDED = (
    "::1 :: ::ffff:127.0.0.1 ::ffff:7f00:1 ::127.0.0.1 ::ffff:0:127.0.0.1 64:ff9b::7f00:1 64:ff9b:1::7f00:1 "
    "64:ff9b:1:7f00:0:100:: 2002:7f00:1:: 2001:0:4136:e378:8000:63bf:80ff:fffe 2607:f8b0::5efe:7f00:1 "
    "2607:f8b0::200:5efe:127.0.0.1 fe80::1 fe80::1%eth0 fec0::1 ff02::1 ff0e::1 fc00::1 fd12::1 100::1 "
    "2001:db8::1 3fff::1 5f00::1 2001:2::1 2001:10::1 2001:20::1 4000::1 ::2 64:ff9b::a9fe:a9fe "
    "2002:a9fe:a9fe::"
).split()


@pytest.mark.parametrize("address", EMBEDDED)
@pytest.mark.row("E3")
def test_what_carries_another_address_or_is_not_public_is_refused(address: str) -> None:
    assert refusal_reason(address)


@pytest.mark.row("E3")
def test_control_the_check_of_the_standard_library_alone_passes_some() -> None:
    passed = [one for one in EMBEDDED if "%" not in one and ipaddress.ip_address(one).is_global]
    assert {"64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe"} <= set(passed)


@pytest.mark.parametrize("address", ["2606:4700::1111", "2a00:1450:4001::200e", "64:ff9b::808:808", "8.8.8.8"])
@pytest.mark.row("E3")
def test_control_public_addresses_are_not_refused(address: str) -> None:
    assert refusal_reason(address) is None


@pytest.mark.parametrize("url", ["http://[fe80::1%25eth0]/", "http://[::1%1]/", "http://[fe80::1%eth0]/"])
@pytest.mark.row("E3")
def test_an_address_of_one_card_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused, match="network interface"):
        parse_target(url, OPEN)


METADATA = (
    "169.254.169.254 169.254.170.2 168.63.129.16 192.0.0.192 100.100.100.200 fd00:ec2::254 fd20:ce::254 "
    "::ffff:169.254.169.254 ::169.254.169.254 64:ff9b::a9fe:a9fe 64:ff9b::6464:64c8 64:ff9b:1::a9fe:a9fe "
    "2002:a9fe:a9fe:: 2607:f8b0::5efe:a9fe:a9fe"
).split()


@pytest.mark.parametrize("address", METADATA)
@pytest.mark.parametrize("private", [False, True])
@pytest.mark.row("E4")
def test_metadata_services_are_refused_whatever_is_allowed(address: str, private: bool) -> None:
    assert refusal_reason(address, allow_private=private)


@pytest.mark.parametrize("host", ["metadata.google.internal", "METADATA.google.internal.", "metadata"])
@pytest.mark.row("E4")
def test_metadata_services_are_refused_by_name(host: str) -> None:
    with pytest.raises(AddressRefused, match="metadata service"):
        parse_target(f"http://{host}/", OPEN)


@pytest.mark.parametrize(
    ("address", "opened"),
    [
        ("10.1.2.3", True),
        ("172.16.0.1", True),
        ("172.31.255.255", True),
        ("192.168.0.1", True),
        ("100.64.0.1", True),
        ("127.0.0.1", True),
        ("fd12:3456::1", True),
        ("::1", True),
        ("198.18.0.1", False),
        ("192.0.2.1", False),
        ("198.51.100.1", False),
        ("203.0.113.1", False),
        ("224.0.0.1", False),
        ("240.0.0.1", False),
        ("255.255.255.255", False),
        ("0.0.0.0", False),  # noqa: S104 - it is refused
        ("0.1.2.3", False),
        ("169.254.1.1", False),
        ("192.88.99.1", False),
        ("no address", False),
        ("", False),
    ],
)
@pytest.mark.row("E5")
def test_ranges_that_are_not_public_are_refused_and_private_ones_can_be_allowed(address: str, opened: bool) -> None:
    assert refusal_reason(address)
    assert (refusal_reason(address, allow_private=True) is None) is opened


@given(st.ip_addresses())
def test_no_address_passes_that_the_standard_library_calls_private(address: Any) -> None:
    if refusal_reason(str(address)) is None:
        assert address.is_global
        assert not address.is_multicast
        assert not address.is_reserved or address in NAT64, "which is as good as what it carries"


@given(st.ip_addresses(v=4))
def test_an_address_inside_another_is_refused_if_it_is_refused_itself(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    nat64 = str(ipaddress.IPv6Address((0x64FF9B << 96) | number))
    assert refusal_reason(nat64) == refusal_reason(str(address))
    for block, shift in (
        (0xFFFF << 32, 0),
        (0, 0),
        (0x2002 << 112, 80),
        ((0x2607F8B0 << 96) | (0x5EFE << 32), 0),
    ):
        carrier = ipaddress.IPv6Address(block | number << shift)
        assert refusal_reason(str(carrier))
        assert number < 2 or embedded_address(carrier)[1] == address  # type: ignore[index]


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://a.com@127.0.0.1/", None),
        ("http://a.com\\@127.0.0.1/", None),
        ("http://user:pass@a.com/", None),
        ("http://127.0.0.1#@a.com", "127.0.0.1"),
        ("http://127.0.0.1?@a.com", "127.0.0.1"),
        ("http://a\tb.com/", None),
        ("http://a\nb.com/", None),
        ("http://a.com\0/", None),
        ("http://a.com%00.b.com/", None),
        ("http://a.com%2f@b/", None),
        ("http://a.com/\r\nHost: b", None),
        ("http://a..com/", None),
        ("http://-a.com/", None),
        ("http://" + "a" * 64 + ".com/", None),
        ("http://" + "a." * 200 + "com/", None),
        ("http://a.com" + "/" * 9000, None),
        ("http://\u0430pple.com/", "xn--pple-43d.com"),
        ("http://a.com./", "a.com"),
        ("http://A.COM/", "a.com"),
        ("http://[::1", None),
        ("http://a b.com/", None),
        ("http://\ud800.com/", None),
        ("http://a.com/\ud800", None),
    ],
)
@pytest.mark.row("E9")
def test_checker_and_connector_read_the_same_host(url: str, host: str | None) -> None:
    if host is None:
        with pytest.raises(AddressRefused):
            parse_target(url, PLAIN)
    else:
        target = parse_target(url, PLAIN)
        assert target.host == host
        assert target.url.raw_host.decode() == host, "it is this that is connected to"


@pytest.mark.parametrize("port", ["0", "1", "22", "25", "6379", "65536", "-1", "99999999999", "x", "9" * 5000])
@pytest.mark.row("E9")
def test_ports_that_are_not_of_the_web_are_refused(port: str) -> None:
    with pytest.raises(AddressRefused):
        parse_target(f"http://a.com:{port}/", PLAIN)


@pytest.mark.parametrize(("port", "opened"), [(80, True), (443, True), (8080, True), (8443, True), (3000, False)])
@pytest.mark.row("E9")
def test_ports_of_the_web_may_be_used_and_high_ones_where_private_is_allowed(port: int, opened: bool) -> None:
    assert parse_target(f"http://a.com:{port}/", OPEN).port == port
    if opened:
        assert parse_target(f"http://a.com:{port}/", PLAIN).port == port
    with pytest.raises(AddressRefused):
        parse_target("http://a.com:1023/", OPEN)


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("x.good.com", True),
        ("x.y.good.com", True),
        ("X.GOOD.com.", True),
        ("good.com", False),
        ("evilgood.com", False),
        ("good.com.evil", False),
        ("x.good.com.evil.org", False),
        ("exact.org", True),
        ("x.exact.org", False),
        ("b\u00fccher.example", True),
        ("8.8.8.8", True),
        ("8.8.4.4", False),
    ],
)
@pytest.mark.row("E10")
def test_hosts_are_compared_by_whole_labels(host: str, allowed: bool) -> None:
    rules = FetchRules.of(allow_hosts=["*.good.com", "exact.org", "B\u00dcCHER.example", "8.8.8.8"])
    if allowed:
        assert parse_target(f"http://{host}/", rules).host
    else:
        with pytest.raises(AddressRefused, match="not among the hosts"):
            parse_target(f"http://{host}/", rules)


@pytest.mark.row("E10")
def test_a_nul_does_not_end_a_host() -> None:
    with pytest.raises(AddressRefused):
        parse_target("http://good.com\0.evil/", FetchRules.of(allow_hosts=["good.com", "*.evil"]))


@pytest.mark.row("E10")
def test_no_hosts_are_none_and_not_all() -> None:
    with pytest.raises(AddressRefused):
        parse_target("http://a.com/", FetchRules.of(allow_hosts=[]))
    assert parse_target("http://a.com/", FetchRules.of(allow_hosts=None)).host == "a.com"
    assert parse_target("http://a.com/", FetchRules.of(allow_hosts="a.com")).host == "a.com"
    assert not is_allowed("com", ["*.com"])


@pytest.mark.parametrize("given", [["*"], ["*.*.com"], ["a*.com"], ["http://a.com"], [""], ["*."], [3], 3, ["1.2"]])
@pytest.mark.row("E10")
def test_what_is_no_host_is_refused_and_allows_nothing(given: Any) -> None:
    with pytest.raises(InvalidField, match="allow_hosts"):
        FetchRules.of(allow_hosts=given)
    with pytest.raises(InvalidField, match="allow_private"):
        FetchRules.of(allow_private=given)


@given(st.text() | st.text("htp:/@#?%\\.[]0123456789abcx\u3002", max_size=30).map(lambda text: f"http://{text}"))
def test_any_text_is_a_target_or_is_refused(text: str) -> None:
    told: list[str] = []
    for base in (None, parse_target("http://a.com/b?c", PLAIN).url):
        try:
            target = parse_target(text, PLAIN, base)
        except AddressRefused as problem:
            told.append(str(problem))
        else:
            assert target.url.raw_host.decode() == target.host
            assert target.url.scheme in ("http", "https")
            assert not target.url.userinfo
    assert all(text.encode() and "\n" not in text for text in told)
