"""The room for the WebSocket messages that a process has received and not passed on, for each owner and for all.

Rules of this file:
- A connection whose large message finds no room is not read until there is some. Its client waits.
- A small message always finds room.
- The connection whose large message began first is always read. So one of them always makes progress.
"""

from collections.abc import Callable

from msgspec import Struct, field

_SMALL = 64 * 1024  # bytes that each connection always has room for


class _Line(Struct):
    """The bytes of one owner's messages, and its connections with large messages in the order in which these began."""

    bytes: int = 0
    connections: "dict[Receiving, None]" = field(default_factory=dict)


class Receiving(Struct, eq=False):
    """The bytes that one connection has received and not passed on. `pause` and `resume` stop and start its reading."""

    room: "Intake"
    pause: Callable[[], None]
    resume: Callable[[], None]
    owner: str = ""
    bytes: int = 0
    waits: bool = False
    was_large: bool = False
    closed: bool = False

    @property
    def is_large(self) -> bool:
        """Return True if the connection has more bytes than it always has room for."""
        return self.bytes > _SMALL

    def add(self, size: int) -> None:
        """Count bytes that were received, or with a negative `size` bytes that were passed on."""
        if not self.closed:
            self.room.count(self, size)

    def set_owner(self, owner: str) -> None:
        """Count this connection for `owner`."""
        size = self.bytes
        self.add(-size)
        self.owner = owner
        self.add(size)

    def close(self) -> None:
        """Subtract the bytes of this connection, which is closed, from those of its owner and of the process."""
        self.add(-self.bytes)
        self.closed = True


class Intake:
    """The room of a process: `size` bytes for all connections, `share` of it for those of one owner."""

    def __init__(self, size: int, share: int | None = None) -> None:
        self._size = size
        self._share = size if share is None else min(share, size)
        self._all = _Line()
        self.trims = False  # True while it is planned to return free memory to the system
        self._owners: dict[str, _Line] = {}

    @property
    def bytes(self) -> int:
        """The bytes that were received and not passed on."""
        return self._all.bytes

    def count(self, receiving: Receiving, size: int) -> None:
        """Count bytes of a connection. Pause it if there is no room, and resume others if there is room now."""
        mine = self._owners.setdefault(receiving.owner, _Line())
        receiving.bytes += size
        receiving.was_large = receiving.was_large or receiving.is_large
        for line in (self._all, mine):
            line.bytes += size
            if receiving.is_large:
                line.connections.setdefault(receiving)
            else:
                line.connections.pop(receiving, None)
        if not mine.bytes:
            del self._owners[receiving.owner]
        if size > 0:
            self._judge(receiving)
        elif self._all.connections or receiving.waits:
            for one in [receiving, *self._all.connections]:
                self._judge(one)

    def _judge(self, receiving: Receiving) -> None:
        """Pause or resume a connection."""
        waits = receiving.is_large and not self._may_read(receiving)
        if waits != receiving.waits:
            receiving.waits = waits
            (receiving.pause if waits else receiving.resume)()

    def _may_read(self, receiving: Receiving) -> bool:
        lines = ((self._all, self._size), (self._owners[receiving.owner], self._share))
        return all(line.bytes <= most or next(iter(line.connections)) is receiving for line, most in lines)
