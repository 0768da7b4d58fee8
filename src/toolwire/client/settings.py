"""The settings of what a model is asked, by name: checkers, editors and the reference read them here.

Rules of this file:
- A setting stands here once, with one sentence. What is None is not said to the provider.
- `RequestSettings` are those of one request, `RunSettings` those of a conversation with tools, `ClientOptions` those
  of a client. The classes at the end only join them: what `output` is says what comes back.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Required, TypedDict

from toolwire.client.clearing import Clearing
from toolwire.client.exchange import Retries
from toolwire.loop import Done, LoopLimits, LoopStep, Outcome
from toolwire.loop.steps import T_co
from toolwire.providers import AnyProvider, Capabilities, ProviderOptions
from toolwire.providers.known import ServerOptions
from toolwire.resolvers import AnyResolver, Approve, RunnableTool
from toolwire.resolvers.execution import Cancel, Limits
from toolwire.types import (
    AnyMessage,
    Context,
    Effort,
    Event,
    Opaque,
    Output,
    Part,
    RefusalDelta,
    ServerTool,
    TextDelta,
    ThinkingDelta,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from toolwire.wire.transport import Bounds, Timeouts, Transport
from toolwire.work.results import Ran

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from toolwire.traces.store import Store
    from toolwire.traces.trace import Scope

Prompt = AnyMessage | Context | Sequence[AnyMessage] | None
"""What a model is asked: a text, a message, several of them, or a whole context."""
AnyTool = Tool | ServerTool | Mapping[str, Any] | RunnableTool | AnyResolver
"""A tool in any of its forms: declared, to be run, or a resolver of several."""
Tools = Iterable[AnyTool] | AnyTool
"""The tools of a conversation: one, or several in any mixture."""
AnyChoice = ToolChoice | str | Mapping[str, Any] | None
"""A tool choice: `auto`, `required`, `none`, the name of a tool, a `ToolChoice`, or OpenAI's map."""
Providers = AnyProvider | Sequence[AnyProvider] | None
"""A provider, or a list of them that are asked in turn where one fails."""
StreamItem = TextDelta | ThinkingDelta | RefusalDelta | ToolCall | ToolResult | Done
"""What a stream yields: words, complete calls, results, and the end."""
RunEvent = LoopStep | Event | Ran | ToolResult | Outcome
"""What `on_event` is told of: steps, events of the wire, what became of calls, and the end."""
OnEvent = Callable[[RunEvent], object]
"""A listener, sync or async; its answer means nothing."""
OnChunk = Callable[[StreamItem], object]
"""What is shown a stream, sync or async; its answer means nothing."""


class RequestSettings(TypedDict, total=False):
    """What one request can be asked with."""

    system: str | list[Part] | None
    """The system prompt; it comes before that of a `Context`."""
    provider_state: dict[str, Any] | None
    """The provider's own state of the conversation: the `provider_state` of an earlier answer."""
    capabilities: Capabilities | Mapping[str, bool] | None
    """Abilities of the server that are other than usual for this request: `{"native_tool_calls": False}`."""
    stream: bool | None
    """Whether the provider sends its answer as a stream."""
    parallel_tool_calls: bool | None
    """Whether the model may ask for several tools in one answer."""
    max_tokens: int | None
    """How many tokens the answer may have."""
    temperature: float | None
    """How much chance there is in the choice of words: 0 is the least."""
    top_p: float | None
    """The share of likely words that are chosen from, from 0 to 1."""
    top_k: float | None
    """How many likely words are chosen from."""
    stop: list[str] | None
    """Texts that end the answer where the model writes them."""
    seed: int | None
    """The seed of chance: the same one gives the same answer, where the provider can do that."""
    n: int | None
    """How many answers to give."""
    frequency_penalty: float | None
    """How much less likely a word becomes each time it was used."""
    presence_penalty: float | None
    """How much less likely a word becomes once it was used."""
    logprobs: bool | None
    """Whether to report how likely each token of the answer was."""
    top_logprobs: int | None
    """How many other tokens to report at each place, with how likely they were."""
    logit_bias: dict[str, Any] | None
    """How much more or less likely each of these tokens is made."""
    thinking: Literal["enabled", "adaptive", "between_tools", "disabled"] | None
    """Whether the model thinks before it answers."""
    thinking_budget: int | None
    """How many tokens the model may think."""
    thinking_display: str | None
    """How thoughts are shown, in the provider's own word."""
    effort: Effort | None
    """How much work the model puts into the answer."""
    verbosity: str | None
    """How long the answer should be: `low`, `medium` or `high`."""
    metadata: dict[str, Any] | None
    """The caller's own notes, which the provider keeps beside the request."""
    user: str | None
    """The caller's name for the user who asks."""
    safety_identifier: str | None
    """The caller's stable name for the user, by which the provider finds abuse."""
    service_tier: str | None
    """How fast and at which price the provider serves the request, in its own word."""
    store: bool | None
    """Whether the provider keeps the answer."""
    cache_key: str | None
    """A key that requests with the same beginning share, so that the provider's prompt cache finds it."""
    opaque: Opaque | None
    """Fields that only one dialect knows; no other dialect sends them."""


class RunSettings(RequestSettings, total=False):
    """What a conversation with tools can be asked with."""

    messages: Sequence[AnyMessage]
    """The messages that come before the prompt."""
    tools: Tools
    """The tools: functions, `@tool`s, classes, resolvers, `Tool`s and OpenAI's maps, in any mixture."""
    tool_choice: AnyChoice
    """Whether the model may, must or must not call: `auto`, `required`, `none`, or the name of a tool."""
    context: object
    """The context that the tools get; no model sees it."""
    resolver: AnyResolver | Callable[[ToolCall], object] | None
    """Runs the calls, instead of the tools themselves; it declares the tools that it lists, where no others are."""
    approve: Approve | None
    """Asked before each call, with the call and its preview: True lets it run, a text is the reason why not."""
    auto_tools: bool
    """Whether the calls are run (`True`), or the run ends with them."""
    limits: LoopLimits | Mapping[str, Any] | None
    """When a run without an answer ends: turns, tokens, cost, seconds."""
    max_iterations: int | None
    """How many turns a run may have: `limits=LoopLimits(turns=...)`, where no `limits` are said."""
    running: Limits | Mapping[str, Any] | None
    """How calls are run: their seconds, the length of their results, how many at the same time."""
    terminal_tool: str | None
    """The tool whose call ends the run."""
    cancel: Cancel | None
    """Stops the run, from any thread."""
    traces: "Store | Scope | None"
    """Where each call is recorded: what `traces.open` gave, or its `of(...)`."""
    clearing: Clearing | Literal[True] | None
    """When old tool results are left out of what is sent; `True` is the usual way."""
    on_event: OnEvent | None
    """Told of each step, each event of the wire, what became of each call, and the end."""
    on_chunk: OnChunk | None
    """Shown what a stream yields, while it comes: words, complete calls, results, and the end."""


class LineOptions(TypedDict, total=False):
    """How a provider is reached, and how its answers are read."""

    transport: Transport | None
    """Sends the HTTP requests; without one, httpx2 does."""
    timeouts: Timeouts | Mapping[str, Any] | float | None
    """The seconds that an exchange may take; a number is all of it."""
    retries: Retries | Mapping[str, Any] | int | None
    """How often a request is tried, and how long the pauses are; a number is how often."""
    bounds: Bounds | Mapping[str, Any] | None
    """How long one answer may be."""
    fallback: bool
    """Whether calls are read that a model writes into its text although it need not (`True`)."""
    readers: Iterable[str]
    """The forms of calls in text that are read besides the protocol: names of `text_tagged.READERS`."""


class ClientOptions(ProviderOptions, LineOptions, total=False):
    """How a client reaches its provider, and how it reads the answers."""


class _Model(TypedDict, total=False):
    model: str | None
    """The model that is asked, instead of the client's own."""


class _Options(ServerOptions, LineOptions, total=False):
    options: ClientOptions | Mapping[str, object] | None
    """How the provider is reached: what `Client` takes beside the provider and the model."""


class _Plain(TypedDict, total=False):
    output: Output | None
    """The form of the answer, as the wire has it; the answer stays text."""


class _Typed(TypedDict, Generic[T_co], total=False):
    output: Required["TypeForm[T_co]"]
    """The type of the value that the answer is read to: asked for natively, by a tool or in words, and mended."""


class _Schema(TypedDict, total=False):
    output: Required[Mapping[str, Any]]
    """The JSON Schema of the value that the answer is read to."""


class ChatSettings(RequestSettings, _Model, _Plain, total=False):
    """The settings of `Client.chat`."""


class ClientSettings(RunSettings, _Model, _Plain, total=False):
    """The settings of a client's conversation."""


class ClientTyped(RunSettings, _Model, _Typed[T_co], Generic[T_co], total=False):
    """The settings of a client's conversation that ends in a value of a type."""


class ClientSchema(RunSettings, _Model, _Schema, total=False):
    """The settings of a client's conversation that ends in a value of a JSON Schema."""


class OnceSettings(RunSettings, _Options, _Plain, total=False):
    """The settings of `generate` and `stream`."""


class OnceTyped(RunSettings, _Options, _Typed[T_co], Generic[T_co], total=False):
    """The settings of `generate` and `stream` with a value of a type."""


class OnceSchema(RunSettings, _Options, _Schema, total=False):
    """The settings of `generate` and `stream` with a value of a JSON Schema."""
