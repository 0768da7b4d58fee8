"""The services that all requests of a gateway share, and one request with its writer and its outcome."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct, field

from toolwire.config import TranslationCacheSettings
from toolwire.gateway.accounts import Accounts
from toolwire.gateway.auditing import Audit
from toolwire.gateway.choosing import ProviderChooser
from toolwire.gateway.intake import Intake
from toolwire.gateway.keys import Key
from toolwire.gateway.masking import ProviderSecrets, secrets_of
from toolwire.gateway.memory import Memory, MemoryPart, ProcessMemory
from toolwire.gateway.offloading import Offloader
from toolwire.gateway.prefix_cache import PrefixCache
from toolwire.gateway.prices import Prices, Tokens
from toolwire.gateway.recording import Recorder, RequestRecording
from toolwire.gateway.reports import Reports
from toolwire.gateway.routes import Candidate, Routes
from toolwire.gateway.stored_turns import StoredItem, StoredTurn
from toolwire.gateway.usage_ledger import UsageLedger
from toolwire.providers import Provider
from toolwire.providers.addressing import key_of
from toolwire.translation.paths import RouteMatch
from toolwire.types import Loss, Part, Usage
from toolwire.wire.transport import AwaitedTransport, Bounds, Timeouts

JSON = "application/json"
_CONNECTED = 64 * 1024 * 1024
CONNECTED_SECONDS = 3600.0
"""Seconds for which the turn of a WebSocket connection is stored after its last use."""
INTAKE = 64 * 1024 * 1024
"""How many bytes of WebSocket messages a process receives before it passes them on."""
LEFT = "toolwire.left"
"""The scope member with the function that the connection calls when the client leaves. None once it has left."""
RECEIVING = "toolwire.receiving"
"""The scope member of a WebSocket with the object that counts the received bytes."""
PASS_ON = "toolwire.pass_on"  # noqa: S105 - the name of a member
"""The member of a WebSocket message with the function to call when the message is no longer held."""
PREWARMS = "toolwire.prewarms"
"""The scope member that marks a WebSocket request which stores its input and wants no answer."""


def leave(scope: dict[str, Any]) -> None:
    """Notify the request of `scope` that its client has left."""
    callback, scope[LEFT] = scope.get(LEFT), None
    if callback is not None:
        callback()


class GatewayContext(Struct):
    """The services and settings that every request of a gateway uses."""

    routes: Routes
    transport: AwaitedTransport
    memory: Memory
    reports: Reports
    prices: Prices = Prices({})
    chooser: ProviderChooser = field(default_factory=ProviderChooser)
    translations: PrefixCache = field(default_factory=lambda: PrefixCache(TranslationCacheSettings().bytes))
    offloader: Offloader = field(default_factory=Offloader)
    accounts: Accounts | None = None
    audit: Audit | None = None
    usage: UsageLedger | None = None
    recorder: Recorder | None = None
    timeouts: Timeouts = Timeouts()
    bounds: Bounds = Bounds()
    connected: ProcessMemory = field(default_factory=lambda: ProcessMemory(_CONNECTED, CONNECTED_SECONDS))
    intake: Intake = field(default_factory=lambda: Intake(INTAKE))
    keep_alive: float = 15.0
    stall: float = 60.0
    proxy: str = ""  # the address of the proxy to providers; it may hold a password

    def secrets_of(self, provider: Provider) -> ProviderSecrets:
        """Return the secrets that an answer of `provider` must not repeat."""
        return secrets_of(provider, self.proxy)

    def all_secrets(self) -> ProviderSecrets:
        """Return the secrets of all providers."""
        return ProviderSecrets(text for one in self.routes.providers.values() for text in self.secrets_of(one).texts)

    def recorded_secrets(self) -> list[str]:
        """Return the secrets to hide in records: the secrets of all providers, and their keys of any length."""
        providers = self.routes.providers.values()
        return [text for one in providers for text in (key_of(one), *self.secrets_of(one).texts) if text]


class ClientRequest(Struct):
    """A request as the client sent it, and its key."""

    identity: str
    endpoint: RouteMatch
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    key: Key | None = None
    connection_memory: MemoryPart | None = None  # the turns of the WebSocket connection that sent it
    turns: list[StoredTurn] = []  # the turns that it continues, the latest first
    items: dict[str, StoredItem] = {}  # the stored items that it refers to, by id
    recording: RequestRecording | None = None

    @property
    def owner(self) -> str:
        """The id of the key, whose memory and reports the request uses. Empty without keys."""
        return "" if self.key is None else self.key.id

    @property
    def full_path(self) -> str:
        """The path with its query."""
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def size(self) -> int:
        """The number of bytes that a provider reads for it, with the turns and items that it refers to."""
        referred = sum(len(bytes(kept.item)) for kept in self.items.values())
        return len(self.body) + sum(kept.size for kept in self.turns) + referred


class RequestOutcome(Struct):
    """The outcome of a request, for the log, the metrics and the limits of the key."""

    model: str = ""
    model_is_known: bool = False  # a route or a provider has the model
    session: str = ""  # the name of the client's session
    provider: str = ""
    status: int = 0
    usage: Usage | None = None
    ending: str = ""
    losses: tuple[Loss, ...] = ()
    was_sent: bool = False  # a provider was sent the request
    answered_by: Candidate | None = None  # the provider that began to answer without an error
    characters: int = 0  # characters of an answer for which the provider has reported no tokens
    tokens: Tokens | None = None
    cost: int = 0
    failed_attempts: tuple[tuple[Tokens, int], ...] = ()  # tokens and cost of failed attempts that may be billed
    recorded_answer: bytes | list[Part] = b""  # the answer as the client received it, if its calls are recorded
    continuations: tuple["RequestOutcome", ...] = ()  # the outcomes of the providers that continued the answer
    follow_ups: tuple["RequestOutcome", ...] = ()  # the outcomes of the requests after searches of deferred tools


async def _nothing() -> None:
    """Do nothing before the end of an answer."""


class ResponseWriter(Struct):
    """Sends a response: `begin` sends the status and the headers, then `send` each piece.

    The gateway calls `end` before it sends the end of an answer. `end` raises `GatewayError` if the answer must not end
    successfully.
    """

    begin: Callable[[int, dict[str, str]], Awaitable[None]]
    send: Callable[[bytes, bool], Awaitable[None]]
    end: Callable[[], Awaitable[None]] = _nothing
