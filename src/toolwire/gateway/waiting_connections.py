"""How many client connections may wait: their request is not complete, or they are idle between two requests.

Rules of this file:
- Waiting connections are limited for each client network, and in total. A connection with a running request does not
  count.
- Above a limit the oldest waiting connection is closed, not the new one. A client that sends its request at once is
  therefore answered, whatever others of its network do. Behind a reverse proxy all clients are one network.
"""

import socket
from collections import OrderedDict
from typing import Generic, TypeVar

_Connection = TypeVar("_Connection")
_MAPPED = bytes(10) + b"\xff\xff"  # IPv4 addresses as IPv6 sockets report them (RFC 4291, 2.5.5.2)


def network_of(host: str) -> str | bytes:
    """Return the network by which a client is counted: an IPv4 address, or the /64 of an IPv6 address."""
    if ":" not in host:
        return host
    packed = socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    return socket.inet_ntoa(packed[12:]) if packed.startswith(_MAPPED) else packed[:8]


class WaitingConnections(Generic[_Connection]):
    """The waiting connections, the oldest first: at most `total`, and half as many for one network."""

    def __init__(self, total: int) -> None:
        self._total, self._each = max(1, total), max(1, total // 2)
        self._all: OrderedDict[_Connection, str | bytes] = OrderedDict()
        self._networks: dict[str | bytes, OrderedDict[_Connection, None]] = {}

    def add(self, connection: _Connection, network: str | bytes) -> _Connection | None:
        """Add `connection` as the newest. Return the connection to close, if there are too many now."""
        self.discard(connection)
        self._all[connection] = network
        same = self._networks.setdefault(network, OrderedDict())
        same[connection] = None
        if len(same) <= self._each and len(self._all) <= self._total:
            return None
        oldest = next(iter(same if len(same) > self._each else self._all))
        self.discard(oldest)
        return oldest

    def discard(self, connection: _Connection) -> None:
        """Remove `connection`, if it waits."""
        network = self._all.pop(connection, None)
        if network is None:
            return
        same = self._networks[network]
        del same[connection]
        if not same:
            del self._networks[network]

    def __len__(self) -> int:
        """Return how many connections wait."""
        return len(self._all)
