"""One turn through the gateway: what came in, what serves it, and what became of it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct, field

from toolwire.config import TranslationCacheSettings
from toolwire.gateway.accounts import Accounts
from toolwire.gateway.auditing import Audit
from toolwire.gateway.choosing import Choosing
from toolwire.gateway.intake import Intake
from toolwire.gateway.keys import Key
from toolwire.gateway.masking import ProviderSecrets, secrets_of
from toolwire.gateway.memory import Memory, MemoryPart, ProcessMemory
from toolwire.gateway.offloading import Offloader
from toolwire.gateway.prefix_cache import PrefixCache
from toolwire.gateway.prices import Prices, Tokens
from toolwire.gateway.reports import Reports
from toolwire.gateway.routes import Goal, Routes
from toolwire.gateway.stored_turns import StoredItem, StoredTurn
from toolwire.providers import Provider
from toolwire.providers.addressing import key_of
from toolwire.translation.paths import Asked
from toolwire.types import Loss, Part, Usage
from toolwire.wire.transport import AwaitedTransport, Bounds, Timeouts

JSON = "application/json"
_CONNECTED = 64 * 1024 * 1024
CONNECTED_SECONDS = 3600.0
"""How long the turn of a WebSocket connection is kept after its last use."""
INTAKE = 64 * 1024 * 1024
"""How many bytes of WebSocket messages a process receives before it passes them on."""
LEFT = "toolwire.left"
"""Where a request's scope has what its connection calls when the client leaves; None once it has left."""
RECEIVING = "toolwire.receiving"
"""Where the scope of a WebSocket has what counts the bytes that it received."""
PASS_ON = "toolwire.pass_on"  # noqa: S105 - the name of a member
"""Where a message of a WebSocket has what is called when the message is held no longer."""
PREWARMS = "toolwire.prewarms"
"""Whether a request of a WebSocket stores its input for later, and wants no answer."""


def leave(scope: dict[str, Any]) -> None:
    """Tell a request that its client has left."""
    told, scope[LEFT] = scope.get(LEFT), None
    if told is not None:
        told()


class Tools(Struct):
    """What the way of every request needs."""

    routes: Routes
    transport: AwaitedTransport
    memory: Memory
    reports: Reports
    prices: Prices = Prices({})
    choosing: Choosing = field(default_factory=Choosing)
    translations: PrefixCache = field(default_factory=lambda: PrefixCache(TranslationCacheSettings().bytes))
    offloader: Offloader = field(default_factory=Offloader)
    accounts: Accounts | None = None
    audit: Audit | None = None
    timeouts: Timeouts = Timeouts()
    bounds: Bounds = Bounds()
    connected: ProcessMemory = field(default_factory=lambda: ProcessMemory(_CONNECTED, CONNECTED_SECONDS))
    intake: Intake = field(default_factory=lambda: Intake(INTAKE))
    keep_alive: float = 15.0
    stall: float = 60.0
    proxy: str = ""  # the address of the proxy to providers; it may hold a password

    def secrets_of(self, provider: Provider) -> ProviderSecrets:
        """Return what a provider's answers must not repeat."""
        return secrets_of(provider, self.proxy)

    def all_secrets(self) -> ProviderSecrets:
        """Return what no provider's answer must repeat."""
        return ProviderSecrets(text for one in self.routes.providers.values() for text in self.secrets_of(one).texts)

    def recorded_secrets(self) -> list[str]:
        """List what is kept out of records: the secrets of all providers, and their keys however short."""
        providers = self.routes.providers.values()
        return [text for one in providers for text in (key_of(one), *self.secrets_of(one).texts) if text]


class Incoming(Struct):
    """A request as it came in, and who made it."""

    identity: str
    asked: Asked
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    key: Key | None = None
    held: MemoryPart | None = None  # the turns of its WebSocket connection
    turns: list[StoredTurn] = []  # what it goes on from, the last one first
    items: dict[str, StoredItem] = {}  # what it refers to

    @property
    def owner(self) -> str:
        """Whose memory and reports are used: those of a key, or of nobody."""
        return "" if self.key is None else self.key.id

    @property
    def full_path(self) -> str:
        """The path with its query."""
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def size(self) -> int:
        """How many bytes a provider reads for it."""
        referred = sum(len(bytes(kept.item)) for kept in self.items.values())
        return len(self.body) + sum(kept.size for kept in self.turns) + referred


class Served(Struct):
    """What became of a request: for the log, the figures and the bill."""

    model: str = ""
    goal: str = ""
    status: int = 0
    usage: Usage | None = None
    ending: str = ""
    losses: tuple[Loss, ...] = ()
    asked: bool = False  # a provider was sent something
    answered: Goal | None = None  # it began to answer well
    heard: int = 0  # characters of an answer whose tokens nobody has counted
    tokens: Tokens | None = None
    cost: int = 0
    before: tuple[tuple[Tokens, int], ...] = ()  # tokens and cost of attempts that failed and may be billed
    said: bytes | list[Part] = b""  # the answer as it was told, where its calls are recorded
    legs: tuple["Served", ...] = ()  # what others took who went on with the answer


async def _nothing() -> None:
    """Do nothing before the end of an answer."""


class Answering(Struct):
    """How the client is answered: a head once, then pieces, then an end.

    `end` does what is to be done before the client has the end of an answer; it raises `Refused` where the answer must
    not end well.
    """

    begin: Callable[[int, dict[str, str]], Awaitable[None]]
    send: Callable[[bytes, bool], Awaitable[None]]
    end: Callable[[], Awaitable[None]] = _nothing
