"""Which addresses of the network may be fetched: of what a URL names, and of what its name leads to.

Rules of this file:
- Everything here is a pure function of text; a URL is read by the parser of the HTTP client, and by no other.
- An address is public by all that is known of it, or it is refused. What carries another address inside is
  refused with it; only NAT64, which resolvers of IPv6 networks make, is as good as what it carries.
- `allow_private` opens loopback and the networks of a house. It never opens metadata services of clouds,
  link-local addresses, multicast, or what is reserved.
- Hosts are compared label by label, in the spelling that is connected to.
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

_MAX_URL = 8000
_MAX_HOST = 253
_DEFAULT_PORTS = {"http": 80, "https": 443}
_PORTS = frozenset({80, 443, 8080, 8443})
_FIRST_PRIVATE_PORT = 1024
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")

_LOOPBACK = "this machine"
PRIVATE = "a private network"
_OPENED = frozenset({_LOOPBACK, PRIVATE})
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
    (ip_network(block), kind)
    for kind, blocks in {
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
# Forms of IPv6 that carry an IPv4 address: the block, its name, and how far from the right the latter stands.
_CARRIERS = [
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
    """A URL that is not fetched."""


class FetchRules(Struct, frozen=True):
    """What may be fetched; `allow_hosts` names the only hosts, if it is given: `good.com`, `*.good.com`."""

    allow_private: bool = False
    allow_hosts: tuple[str, ...] | None = None

    @staticmethod
    def of(allow_private: Any = False, allow_hosts: Any = None) -> "FetchRules":
        """Read the options of the tools; what cannot be understood allows nothing."""
        if not isinstance(allow_private, bool):
            raise InvalidField("allow_private", "must be True or False", path="CodeTools")
        if allow_hosts is None:
            return FetchRules(allow_private)
        hosts = [allow_hosts] if isinstance(allow_hosts, str) else allow_hosts
        if not isinstance(hosts, Iterable):
            raise InvalidField("allow_hosts", "must be a list of hosts", path="CodeTools")
        return FetchRules(allow_private, tuple(map(_pattern, hosts)))


def _pattern(wanted: Any) -> str:
    """Spell an allowed host as the client connects to it."""
    if isinstance(wanted, str):
        star, name = ("*.", wanted[2:]) if wanted.startswith("*.") else ("", wanted)
        try:
            host = URL(scheme="http", host=name.removesuffix(".") or "*").raw_host.decode().removesuffix(".")
        except (InvalidURL, ValueError):
            host = ""
        if _is_name(host) or (not star and _address(host) is not None):
            return star + host
    raise InvalidField(
        "allow_hosts",
        f"has {wanted!r}: a host is wanted, such as docs.python.org, or *.python.org for all below it",
        path="CodeTools",
    )


class FetchTarget(Struct, frozen=True):
    """A URL that may be fetched, as far as it can be seen before its name is looked up."""

    url: URL
    host: str
    port: int

    @property
    def origin(self) -> tuple[str, str, int]:
        """Where it is: scheme, host and port."""
        return self.url.scheme, self.host, self.port


def target_of(text: str, rules: FetchRules, base: URL | None = None) -> FetchTarget:
    """Read a URL, relative to `base` if that is given, and refuse what is never fetched."""
    if len(text) > _MAX_URL:
        raise AddressRefused(f"the address has {len(text)} characters; {_MAX_URL} are the most")
    try:
        url = (URL(text) if base is None else base.join(text)).copy_with(fragment=None)
        host = url.raw_host.decode().removesuffix(".")
        if host != url.raw_host.decode():
            url = url.copy_with(host=host)
    except (InvalidURL, ValueError) as problem:
        raise AddressRefused(f"{brief(text)} is not an address to fetch: {brief(str(problem))}") from None
    if url.scheme not in _DEFAULT_PORTS:
        raise AddressRefused(f"{brief(text)}: only http:// and https:// addresses are fetched")
    if not host:
        raise AddressRefused(f"{brief(text)} names no host: give an address such as https://example.com/")
    if url.userinfo:
        raise AddressRefused(
            f"the address of {host} has a user name in it, before the @: leave it out, and use headers"
        )
    _check_host(host, rules)
    port = url.port if url.port is not None else _DEFAULT_PORTS[url.scheme]
    if port not in _PORTS and not (rules.allow_private and _FIRST_PRIVATE_PORT <= port <= 0xFFFF):
        allowed = ", ".join(map(str, sorted(_PORTS)))
        raise AddressRefused(f"port {port} of {host} is refused: the ports that may be used are {allowed}")
    return FetchTarget(url, host, port)


def _check_host(host: str, rules: FetchRules) -> None:
    """Refuse what is neither a name nor an address in its one spelling, and what the rules do not allow."""
    meant = host if ":" in host else number_of(host)
    if "%" in host and ":" in host:
        raise AddressRefused(f"{escape_name(host)} is an address of one network card: those are refused")
    if meant is None and not _is_name(host):
        raise AddressRefused(f"{brief(host)} is not the name of a host")
    if meant is not None and meant != host:
        raise AddressRefused(
            f"{host} is another spelling of {meant}" if meant else f"{host} is neither a name nor an address"
        )
    if host in _METADATA_HOSTS:
        raise AddressRefused(f"{host} is {_METADATA}: it is never fetched")
    if rules.allow_hosts is not None and not is_allowed(host, rules.allow_hosts):
        named = ", ".join(rules.allow_hosts) or "none"
        raise AddressRefused(f"{host} is not among the hosts that may be fetched: {named}")


def _is_name(host: str) -> bool:
    return len(host) <= _MAX_HOST and all(map(_LABEL.fullmatch, host.split("."))) and number_of(host) is None


def number_of(host: str) -> str | None:
    """Give the IPv4 address that numbers such as 0x7f.1 mean; "" if none; None if the host is a name."""
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
    """Whether a host is among those that are named; `*.good.com` names all below good.com, not itself."""
    host = host.removesuffix(".")
    for pattern in patterns:
        if pattern.startswith("*."):
            if host.endswith(pattern[1:]):
                return True
        elif host == pattern or _address(host) == _address(pattern) is not None:
            return True
    return False


def why_refused(address: str, *, allow_private: bool = False) -> str | None:
    """Say what an address is that may not be connected to; None if it may."""
    parsed = _address(address)
    kind = "no public address" if parsed is None or "%" in address else _kind(parsed)
    return None if allow_private and kind in _OPENED else kind


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _kind(address: IPv4Address | IPv6Address) -> str | None:
    """Say what an address is that is not public; None if it is public."""
    if address in _METADATA_ADDRESSES:
        return _METADATA
    kind = next((kind for block, kind in _BLOCKS if address in block), None)
    if kind is None and isinstance(address, IPv6Address):
        if address in NAT64:
            return _kind(IPv4Address(int(address) & _WORD))
        if (carried := carried_by(address)) is not None:
            return f"an address of the form {carried[0]}, which carries {carried[1]}"
        if address not in _UNICAST or address in _PROTOCOLS:
            return "no public address"
    return kind or (None if address.is_global else "no public address")


def carried_by(address: IPv6Address) -> tuple[str, IPv4Address] | None:
    """Name the form and the IPv4 address that an IPv6 address carries inside."""
    number = int(address)
    for block, name, shift in _CARRIERS:
        if address in block:
            inner = number >> shift & _WORD
            return name, IPv4Address(inner ^ _WORD if name == "Teredo" else inner)
    if number >> 32 & _WORD in ISATAP:
        return "ISATAP", IPv4Address(number & _WORD)
    return None


def brief(text: str) -> str:
    """Write what was given on one line, its beginning if it is long."""
    return escape_name(text if len(text) <= 200 else f"{text[:200]}...")
