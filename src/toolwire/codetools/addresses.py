"""Which network addresses may be fetched: those of a URL, and those that its host name resolves to.

Rules of this file:
- Everything here is a pure function of text. A URL is parsed by the HTTP client's own parser, and by no other.
- An address is refused unless it is known to be public. An address that embeds another is refused with it. Only
  NAT64, which resolvers of IPv6 networks produce, is judged by the embedded address.
- `allow_private` opens loopback and private networks. It never opens cloud metadata services, link-local addresses,
  multicast or reserved addresses.
- Hosts are compared label by label, in the spelling that the client connects to.
"""

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from socket import inet_aton, inet_ntoa
from typing import Any

from httpx2 import URL, InvalidURL
from msgspec import Struct

from toolwire.codetools.spelling import escape_name
from toolwire.errors import InvalidField, ToolError
from toolwire.wire.transport import DEFAULT_PORTS

_MAX_URL = 8000
_MAX_HOST = 253
_PORTS = frozenset({80, 443, 8080, 8443})
_FIRST_PRIVATE_PORT = 1024
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")

_LOOPBACK = "this machine"
PRIVATE = "a private network"
_OPENED_BY_OPTION = frozenset({_LOOPBACK, PRIVATE})
_METADATA = "a cloud's metadata service"
_METADATA_HOSTS = frozenset(
    "metadata metadata.google.internal metadata.goog instance-data instance-data.ec2.internal".split()
)
_METADATA_ADDRESSES = frozenset(
    map(
        ip_address,
        "169.254.169.254 169.254.170.2 169.254.170.23 168.63.129.16 192.0.0.192 100.100.100.200 "
        "fd00:ec2::254 fd00:ec2::23 fd20:ce::254 fd00:42::42".split(),
    )
)
# The special-purpose registries of IANA: www.iana.org/assignments/iana-ipv4-special-registry and
# www.iana.org/assignments/iana-ipv6-special-registry.
_BLOCKS = [
    (ip_network(block), description)
    for description, blocks in {
        _LOOPBACK: "127.0.0.0/8 ::1/128",
        PRIVATE: "10.0.0.0/8 100.64.0.0/10 172.16.0.0/12 192.168.0.0/16 fc00::/7",
        "this very machine": "0.0.0.0/8",
        "no address": "::/128",
        "a link-local address": "169.254.0.0/16 fe80::/10",
        "a site-local address": "fec0::/10",
        "a multicast address": "224.0.0.0/4 ff00::/8",
        "a reserved address": "192.0.0.0/24 240.0.0.0/4",
        "a 6to4 relay": "192.88.99.0/24",
        "an address for benchmarks": "198.18.0.0/15",
        "an address for documentation": "192.0.2.0/24 198.51.100.0/24 203.0.113.0/24 2001:db8::/32 3fff::/20",
    }.items()
    for block in blocks.split()
]
# Forms of IPv6 that embed an IPv4 address: the block, its name, and how many bits from the right it begins.
_EMBEDDING_BLOCKS = [
    (IPv6Network("::ffff:0:0/96"), "IPv4-mapped", 0),
    (IPv6Network("::ffff:0:0:0/96"), "IPv4-translated", 0),
    (IPv6Network("::/96"), "IPv4-compatible", 0),
    (IPv6Network("64:ff9b:1::/48"), "local NAT64", 0),
    (IPv6Network("2002::/16"), "6to4", 80),
    (IPv6Network("2001::/32"), "Teredo", 0),
]
NAT64 = IPv6Network("64:ff9b::/96")
_PROTOCOLS = IPv6Network("2001::/23")
_UNICAST = IPv6Network("2000::/3")
ISATAP = frozenset({0x00005EFE, 0x02005EFE})
_WORD = 0xFFFFFFFF


class AddressRefused(ToolError):
    """A URL that may not be fetched."""


class FetchRules(Struct, frozen=True):
    """The rules for URLs; if `allow_hosts` is not None, only these hosts are fetched: `good.com`, `*.good.com`."""

    allow_private: bool = False
    allow_hosts: tuple[str, ...] | None = None

    @staticmethod
    def of(allow_private: Any = False, allow_hosts: Any = None) -> "FetchRules":
        """Read the options of the tools; raise `InvalidField` for an option that is invalid."""
        if not isinstance(allow_private, bool):
            raise InvalidField("allow_private", "must be True or False", path="CodeTools")
        if allow_hosts is None:
            return FetchRules(allow_private)
        hosts = [allow_hosts] if isinstance(allow_hosts, str) else allow_hosts
        if not isinstance(hosts, Iterable):
            raise InvalidField("allow_hosts", "must be a list of hosts", path="CodeTools")
        return FetchRules(allow_private, tuple(map(_normalize_pattern, hosts)))


def _normalize_pattern(pattern: Any) -> str:
    """Return an allowed host in the spelling that the client connects to."""
    if isinstance(pattern, str):
        star, name = ("*.", pattern[2:]) if pattern.startswith("*.") else ("", pattern)
        try:
            host = URL(scheme="http", host=name.removesuffix(".") or "*").raw_host.decode().removesuffix(".")
        except (InvalidURL, ValueError):
            host = ""
        if _is_name(host) or (not star and _parse_address(host) is not None):
            return star + host
    raise InvalidField(
        "allow_hosts",
        f"has {pattern!r}: it must be a host, such as docs.python.org, or *.python.org for all hosts below it",
        path="CodeTools",
    )


class FetchTarget(Struct, frozen=True):
    """A URL that may be fetched, as far as this can be decided before its name is resolved."""

    url: URL
    host: str
    port: int

    @property
    def origin(self) -> tuple[str, str, int]:
        """The scheme, host and port."""
        return self.url.scheme, self.host, self.port


def parse_target(text: str, rules: FetchRules, base: URL | None = None) -> FetchTarget:
    """Parse a URL, relative to `base` if there is one; raise `AddressRefused` if it may not be fetched."""
    if len(text) > _MAX_URL:
        raise AddressRefused(f"the address has {len(text)} characters; the limit is {_MAX_URL}")
    try:
        url = (URL(text) if base is None else base.join(text)).copy_with(fragment=None)
        host = url.raw_host.decode().removesuffix(".")
        if host != url.raw_host.decode():
            url = url.copy_with(host=host)
    except (InvalidURL, ValueError) as problem:
        raise AddressRefused(f"{shorten(text)} is not an address to fetch: {shorten(str(problem))}") from None
    if url.scheme not in DEFAULT_PORTS:
        raise AddressRefused(f"{shorten(text)}: only http:// and https:// addresses are fetched")
    if not host:
        raise AddressRefused(f"{shorten(text)} names no host: give an address such as https://example.com/")
    if url.userinfo:
        raise AddressRefused(
            f"the address of {host} has a user name in it, before the @: leave it out, and use headers"
        )
    _check_host(host, rules)
    port = url.port if url.port is not None else DEFAULT_PORTS[url.scheme]
    if port not in _PORTS and not (rules.allow_private and _FIRST_PRIVATE_PORT <= port <= 0xFFFF):
        allowed = ", ".join(map(str, sorted(_PORTS)))
        raise AddressRefused(f"port {port} of {host} is refused: the ports that may be used are {allowed}")
    return FetchTarget(url, host, port)


def _check_host(host: str, rules: FetchRules) -> None:
    """Raise `AddressRefused` unless the rules allow `host`, and its spelling is the canonical one."""
    number = host if ":" in host else parse_number(host)
    if "%" in host and ":" in host:
        raise AddressRefused(
            f"{escape_name(host)} is an address of one network interface (it has a zone): such addresses are refused"
        )
    if number is None and not _is_name(host):
        raise AddressRefused(f"{shorten(host)} is not the name of a host")
    if number is not None and number != host:
        raise AddressRefused(
            f"{host} is another spelling of {number}" if number else f"{host} is neither a name nor an address"
        )
    if host in _METADATA_HOSTS:
        raise AddressRefused(f"{host} is {_METADATA}: it is never fetched")
    if rules.allow_hosts is not None and not is_allowed(host, rules.allow_hosts):
        allowed_names = ", ".join(rules.allow_hosts) or "none"
        raise AddressRefused(f"{host} is not among the hosts that may be fetched: {allowed_names}")


def _is_name(host: str) -> bool:
    return len(host) <= _MAX_HOST and all(map(_LABEL.fullmatch, host.split("."))) and parse_number(host) is None


def parse_number(host: str) -> str | None:
    """Return the IPv4 address that a number such as 0x7f.1 means.

    Return "" if it means none, and None if the host is a name.
    """
    parts = host.removesuffix(".").split(".")
    if not NUMBER.fullmatch(parts[-1]):
        return None
    if not all(map(NUMBER.fullmatch, parts)):
        return ""
    try:
        return inet_ntoa(inet_aton(".".join("0" if part == "0x" else part for part in parts)))
    except OSError:
        return ""


def is_allowed(host: str, patterns: Iterable[str]) -> bool:
    """Return True if a pattern matches the host; `*.good.com` matches every host below good.com, and not itself."""
    host = host.removesuffix(".")
    for pattern in patterns:
        if pattern.startswith("*."):
            if host.endswith(pattern[1:]):
                return True
        elif host == pattern or _parse_address(host) == _parse_address(pattern) is not None:
            return True
    return False


def refusal_reason(address: str, *, allow_private: bool = False) -> str | None:
    """Describe an address that may not be connected to; return None if it may."""
    parsed = _parse_address(address)
    description = "no public address" if parsed is None or "%" in address else _describe_non_public(parsed)
    return None if allow_private and description in _OPENED_BY_OPTION else description


def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _describe_non_public(address: IPv4Address | IPv6Address) -> str | None:
    """Describe an address that is not public; return None if it is public."""
    if address in _METADATA_ADDRESSES:
        return _METADATA
    description = next((description for block, description in _BLOCKS if address in block), None)
    if description is None and isinstance(address, IPv6Address):
        if address in NAT64:
            return _describe_non_public(IPv4Address(int(address) & _WORD))
        if (inner := embedded_address(address)) is not None:
            return f"an address of the form {inner[0]}, which embeds {inner[1]}"
        if address not in _UNICAST or address in _PROTOCOLS:
            return "no public address"
    return description or (None if address.is_global else "no public address")


def embedded_address(address: IPv6Address) -> tuple[str, IPv4Address] | None:
    """Return the name of the form and the IPv4 address that an IPv6 address embeds."""
    number = int(address)
    for block, name, shift in _EMBEDDING_BLOCKS:
        if address in block:
            inner = number >> shift & _WORD
            return name, IPv4Address(inner ^ _WORD if name == "Teredo" else inner)
    if number >> 32 & _WORD in ISATAP:
        return "ISATAP", IPv4Address(number & _WORD)
    return None


def shorten(text: str) -> str:
    """Return `text` on one line, shortened if it is long."""
    return escape_name(text if len(text) <= 200 else f"{text[:200]}...")
