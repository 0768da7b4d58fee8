"""The settings of requests, runs and clients, by name, for type checkers, editors and the reference.

Rules of this file:
- Each setting is defined once, with one sentence. A setting that is None is not sent to the provider.
- `RequestSettings` are those of one request, `RunSettings` those of a conversation with tools, `ClientOptions` those of
  a client. The classes at the end only combine them: the type of `output` decides the type of the result.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Required, TypedDict

from toolwire.client.clearing import Clearing
from toolwire.client.exchange import Retries
from toolwire.loop import Done, LoopLimits, LoopStep, Outcome
from toolwire.loop.steps import T_co
from toolwire.providers import AnyProvider, Capabilities, ProviderOptions
from toolwire.providers.known import ServerOptions
from toolwire.resolvers import AnyResolver, Approve
from toolwire.resolvers.execution import Cancel, Limits
from toolwire.resolvers.reading import Tools
from toolwire.types import (
    AnyMessage,
    Context,
    Effort,
    Event,
    Output,
    Part,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from toolwire.waiting.results import Ran
from toolwire.wire.transport import Bounds, Timeouts, Transport

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from toolwire.records.store import RecordStore
    from toolwire.traces.store import Store
    from toolwire.traces.trace import Scope

Prompt = AnyMessage | Context | Sequence[AnyMessage] | None
"""A prompt: a text, a message, several of them, or a whole context."""
AnyChoice = ToolChoice | str | Mapping[str, Any] | None
"""A tool choice: `auto`, `required`, `none`, the name of a tool, a `ToolChoice`, or OpenAI's map."""
Providers = AnyProvider | Sequence[AnyProvider] | None
"""A provider, or a list of providers. If one fails, the client asks the next one."""
StreamItem = TextDelta | ThinkingDelta | RefusalDelta | ToolCall | ToolResult | Done
"""An item of a stream: text, complete calls, results, and the end."""
RunEvent = LoopStep | Event | Ran | ToolResult | Outcome
"""An event that `on_event` receives: steps, events of the wire, records of calls, and the end."""
OnEvent = Callable[[RunEvent], object]
"""A listener, sync or async; its result is ignored."""
OnChunk = Callable[[StreamItem], object]
"""A sync or async function that receives the items of a stream; its result is ignored."""


class RequestSettings(TypedDict, total=False):
    """The settings of one request.

    >>> from toolwire import Client, RequestSettings
    >>> from toolwire.testing import simulate
    >>> settings: RequestSettings = {"temperature": 0, "max_tokens": 100}
    >>> with simulate(["Hello."]) as model, Client("ollama", "m", base_url=model.url) as client:
    ...     client.run("Hi.", **settings).content
    'Hello.'
    """

    system: str | list[Part] | None
    """The system prompt, instead of the one of a `Context`."""
    provider_state: dict[str, Any] | None
    """The provider's own state of the conversation: the `provider_state` of an earlier answer."""
    capabilities: Capabilities | Mapping[str, bool] | None
    """Abilities of the server that differ for this request: `{"native_tool_calls": False}`."""
    stream: bool | None
    """Whether the provider sends its answer as a stream."""
    parallel_tool_calls: bool | None
    """Whether the model may ask for several tools in one answer."""
    max_tokens: int | None
    """How many tokens the answer may have."""
    temperature: float | None
    """How random the answer is: 0 is the least random."""
    top_p: float | None
    """The model chooses among the likeliest tokens that together have this probability, from 0 to 1."""
    top_k: float | None
    """The model chooses among this many of the likeliest tokens."""
    stop: list[str] | None
    """The answer ends when the model writes one of these texts."""
    seed: int | None
    """The random seed: the same seed gives the same answer, if the provider can do that."""
    n: int | None
    """How many answers to give."""
    frequency_penalty: float | None
    """How much less likely a token becomes each time it is used."""
    presence_penalty: float | None
    """How much less likely a token becomes once it is used."""
    logprobs: bool | None
    """Whether to report the probability of each token of the answer."""
    top_logprobs: int | None
    """How many alternatives to report for each token, with their probabilities."""
    logit_bias: dict[str, Any] | None
    """How much more or less likely each of these tokens becomes."""
    thinking: Literal["enabled", "adaptive", "between_tools", "disabled"] | None
    """Whether the model thinks before it answers."""
    thinking_budget: int | None
    """How many tokens the model may think."""
    thinking_display: str | None
    """How the answer shows thoughts, in the provider's own word."""
    effort: Effort | None
    """How much work the model puts into the answer."""
    verbosity: str | None
    """How long the answer should be: `low`, `medium` or `high`."""
    metadata: dict[str, Any] | None
    """The caller's own notes, which the provider stores with the request."""
    user: str | None
    """The caller's name for the user who asks."""
    safety_identifier: str | None
    """A stable name for the user, by which the provider finds abuse."""
    service_tier: str | None
    """The speed and the price of the request, in the provider's own word."""
    store: bool | None
    """Whether the provider stores the answer."""
    cache_key: str | None
    """A key that requests with the same beginning share, for the provider's prompt cache."""
    cache_mode: str | None
    """Whether the provider chooses what it caches (`implicit`), or caches only up to marks (`explicit`)."""
    cache_ttl: str | None
    """How long the provider's prompt cache lasts, such as `1h` (Messages) or `12h` (OpenAI)."""


class RunSettings(RequestSettings, total=False):
    """The settings of a conversation with tools.

    >>> from toolwire import Client, RunSettings
    >>> from toolwire.testing import simulate
    >>> settings: RunSettings = {"limits": {"turns": 3}, "temperature": 0}
    >>> with simulate(["Hello."]) as model, Client("ollama", "m", base_url=model.url) as client:
    ...     client.run("Hi.", **settings).turns
    1
    """

    messages: Sequence[AnyMessage]
    """The messages that come before the prompt."""
    tools: Tools
    """The tools: functions, `@tool`s, classes, resolvers, `Tool`s and OpenAI's maps, one or several in any mixture."""
    tool_choice: AnyChoice
    """Whether the model may, must or must not call: `auto`, `required`, `none`, or the name of a tool."""
    context: object
    """The context that is passed to the tools; it is not sent to the model."""
    resolver: AnyResolver | Callable[[ToolCall], object] | None
    """Runs the calls, instead of the tools themselves; without other tools, it declares those that it lists."""
    approve: Approve | bool | Collection[str] | None
    """A function that approves each call with True or rejects it with a text, or the names of the calls to approve."""
    auto_tools: bool
    """Whether calls run (`True`, the default), or the run ends with them."""
    limits: LoopLimits | Mapping[str, Any] | None
    """When a run without an answer ends: turns, tokens, cost, seconds."""
    max_iterations: int | None
    """How many turns a run may have, without `limits`: the same as `limits=LoopLimits(turns=...)`."""
    running: Limits | Mapping[str, Any] | None
    """How calls run: their seconds, the length of their results, how many at the same time."""
    terminal_tool: str | None
    """The tool whose call ends the run."""
    cancel: Cancel | None
    """Stops the run, from any thread."""
    traces: "Store | Scope | None"
    """The store that records each call: the result of `traces.open`, or of its `of(...)`."""
    clearing: Clearing | Literal[True] | None
    """When old tool results are left out of requests; `True` is the default policy."""
    on_event: OnEvent | None
    """Receives each step, each event of the wire, the record of each call, and the end."""
    on_chunk: OnChunk | None
    """Receives the items of a stream as they arrive: text, complete calls, results, and the end."""


class LineOptions(TypedDict, total=False):
    """The options of reaching a provider and parsing its answers."""

    transport: Transport | None
    """Sends the HTTP requests; without one, httpx2 does."""
    timeouts: Timeouts | Mapping[str, Any] | float | None
    """The seconds that an exchange may take; a number is the total."""
    retries: Retries | Mapping[str, Any] | int | None
    """How often a request is attempted, and how long the pauses are; a number is the attempts."""
    bounds: Bounds | Mapping[str, Any] | None
    """How large one answer may be."""
    fallback: bool
    """Whether to parse calls in the text of a model that has native calls (`True`, the default)."""
    cache: bool
    """Whether requests get what the provider's prompt cache needs: a cache mark, or a key (`True`, the default)."""
    readers: Iterable[str]
    """The forms of calls in text that are parsed besides the protocol: names of `text_tagged.READERS`."""
    record: "RecordStore | str | None"
    """The store that records both sides of each exchange: the result of `records.open`, or the URL of a database."""


class ClientOptions(ProviderOptions, LineOptions, total=False):
    """The options of a client: how to reach its provider, and how to parse the answers.

    >>> from toolwire import Client, ClientOptions
    >>> options: ClientOptions = {"api_key": "sk-test", "timeouts": 30, "retries": 2}
    >>> Client("openai", "gpt-6-sol", **options).provider.name
    'openai'
    """


class _Model(TypedDict, total=False):
    model: str | None
    """The model to use instead of the client's own."""


class _Options(ServerOptions, LineOptions, total=False):
    options: ClientOptions | Mapping[str, object] | None
    """How to reach the provider: the options of `Client` beside the provider and the model."""


class _Plain(TypedDict, total=False):
    output: Output | None
    """The form of the answer, as the wire expresses it; the answer stays text."""


class _Typed(TypedDict, Generic[T_co], total=False):
    """The settings whose `output` is a type."""

    output: Required["TypeForm[T_co]"]
    """The type of the answer's value, requested natively, by a tool or by instruction, and corrected if necessary."""


class _Schema(TypedDict, total=False):
    output: Required[Mapping[str, Any]]
    """The JSON Schema of the answer's value."""


class ChatSettings(RequestSettings, _Model, _Plain, total=False):
    """The settings of `Client.chat`.

    >>> from toolwire import ChatSettings, Client
    >>> from toolwire.testing import simulate
    >>> settings: ChatSettings = {"model": "other", "max_tokens": 100}
    >>> with simulate(["Hello."]) as model, Client("ollama", "m", base_url=model.url) as client:
    ...     client.chat("Hi.", **settings).content
    'Hello.'
    """


class ClientSettings(RunSettings, _Model, _Plain, total=False):
    """The settings of a client's conversation.

    >>> from toolwire import Client, ClientSettings
    >>> from toolwire.testing import simulate
    >>> settings: ClientSettings = {"model": "other", "max_iterations": 3}
    >>> with simulate(["Hello."]) as model, Client("ollama", "m", base_url=model.url) as client:
    ...     client.run("Hi.", **settings).content
    'Hello.'
    """


class ClientTyped(RunSettings, _Model, _Typed[T_co], Generic[T_co], total=False):
    """The settings of a client's conversation that ends in a value of a type."""


class ClientSchema(RunSettings, _Model, _Schema, total=False):
    """The settings of a client's conversation that ends in a value of a JSON Schema."""


class OnceSettings(RunSettings, _Options, _Plain, total=False):
    """The settings of `generate` and `stream`.

    >>> from toolwire import OnceSettings, generate
    >>> from toolwire.testing import simulate
    >>> with simulate(["Hello."]) as model:
    ...     settings: OnceSettings = {"base_url": model.url, "temperature": 0}
    ...     generate("Hi.", "ollama", "m", **settings).content
    'Hello.'
    """


class OnceTyped(RunSettings, _Options, _Typed[T_co], Generic[T_co], total=False):
    """The settings of `generate` and `stream` with a value of a type."""


class OnceSchema(RunSettings, _Options, _Schema, total=False):
    """The settings of `generate` and `stream` with a value of a JSON Schema."""
