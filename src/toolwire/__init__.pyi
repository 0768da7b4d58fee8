# Made by `make docs` from the table of public names in __init__.py.

from toolwire.client.clearing import (
    Clearing as Clearing,
)
from toolwire.client.exchange import (
    Retries as Retries,
)
from toolwire.client.factory import (
    LLMFactory as LLMFactory, LLMProvider as LLMProvider, LLMResponse as LLMResponse,
)
from toolwire.client.failures import (
    ProviderError as ProviderError,
)
from toolwire.client.settings import (
    AnyChoice as AnyChoice, ChatSettings as ChatSettings, ClientOptions as ClientOptions,
    ClientSettings as ClientSettings, OnChunk as OnChunk, OnEvent as OnEvent,
    OnceSettings as OnceSettings, Prompt as Prompt, Providers as Providers,
    RequestSettings as RequestSettings, RunEvent as RunEvent, RunSettings as RunSettings,
    StreamItem as StreamItem,
)
from toolwire.client.sync import (
    Client as Client, Conversation as Conversation, Stream as Stream, conversation as conversation,
    generate as generate, stream as stream,
)
from toolwire.codetools import (
    CodeTools as CodeTools, resolver as resolver, resolver_fn as resolver_fn,
)
from toolwire.dialects import (
    Dialect as Dialect, dialect as dialect,
)
from toolwire.encoding.quirk_options import (
    QuirkOptions as QuirkOptions,
)
from toolwire.encoding.quirks import (
    Quirks as Quirks,
)
from toolwire.errors import (
    LossyTranslation as LossyTranslation, NoStructuredOutput as NoStructuredOutput,
    ToolError as ToolError, ToolwireError as ToolwireError, UnknownDialect as UnknownDialect,
    UnknownTool as UnknownTool,
)
from toolwire.loop import (
    Done as Done, LoopLimits as LoopLimits, tool_loop as tool_loop,
)
from toolwire.providers import (
    AnyProvider as AnyProvider, Capabilities as Capabilities, Provider as Provider,
    ProviderOptions as ProviderOptions,
)
from toolwire.providers.catalogue import (
    cost as cost,
)
from toolwire.resolvers import (
    AgentResolver as AgentResolver, AnyResolver as AnyResolver, Approve as Approve,
    Composition as Composition, Plan as Plan, Resolver as Resolver, Step as Step,
    ToolResolver as ToolResolver, approved as approved, filtered as filtered, prefixed as prefixed,
    renamed as renamed,
)
from toolwire.resolvers.effects import (
    Checkable as Checkable, Effects as Effects, Happened as Happened, NotYet as NotYet,
    Unknown as Unknown, checkable as checkable,
)
from toolwire.resolvers.execution import (
    Cancel as Cancel, LimitOptions as LimitOptions, Limits as Limits, execute as execute,
)
from toolwire.resolvers.functions import (
    FunctionTool as FunctionTool, ToolOptions as ToolOptions, tool as tool,
)
from toolwire.resolvers.reading import (
    AnyTool as AnyTool, Tools as Tools,
)
from toolwire.runs import (
    Run as Run, Runs as Runs,
)
from toolwire.streams.accumulation import (
    Accumulator as Accumulator, accumulate as accumulate, events_of as events_of,
)
from toolwire.traces import (
    Scope as Scope, Store as Store, Trace as Trace,
)
from toolwire.types import (
    AnyMessage as AnyMessage, Audio as Audio, Cache as Cache, CallDelta as CallDelta,
    CallEnd as CallEnd, CallStart as CallStart, Choice as Choice, ChoiceEnd as ChoiceEnd,
    Citation as Citation, CitationDelta as CitationDelta, Context as Context, Document as Document,
    Encoded as Encoded, Error as Error, ErrorEnd as ErrorEnd, ErrorReply as ErrorReply, Event as Event,
    Image as Image, Loss as Loss, Message as Message, MessageDelta as MessageDelta,
    MessageEnd as MessageEnd, MessageStart as MessageStart, Opaque as Opaque,
    OpaqueDelta as OpaqueDelta, Output as Output, Part as Part, PartEnd as PartEnd,
    PartStart as PartStart, Refusal as Refusal, RefusalDelta as RefusalDelta, Request as Request,
    Response as Response, ServerTool as ServerTool, ServerToolCall as ServerToolCall,
    ServerToolResult as ServerToolResult, SignatureDelta as SignatureDelta, Text as Text,
    TextDelta as TextDelta, Thinking as Thinking, ThinkingDelta as ThinkingDelta, Tool as Tool,
    ToolCall as ToolCall, ToolChoice as ToolChoice, ToolResult as ToolResult, Usage as Usage,
    UsageDelta as UsageDelta,
)
from toolwire.waiting.call_keys import (
    CallKey as CallKey,
)
from toolwire.waiting.results import (
    Ran as Ran,
)
from toolwire.wire.partial_json import (
    Preview as Preview, partial_json as partial_json,
)
from toolwire.wire.transport import (
    Bounds as Bounds, Timeouts as Timeouts, Transport as Transport,
)
from toolwire import aio as aio
from toolwire import catalogue as catalogue
from toolwire.translation import codec as codec
from toolwire import declarations as declarations
from toolwire import errors as errors
from toolwire import loop as loop
from toolwire import mcp as mcp
from toolwire import providers as providers
from toolwire import records as records
from toolwire.encoding import repair as repair
from toolwire import resolvers as resolvers
from toolwire import schema as schema
from toolwire.resolvers import session as session_tools
from toolwire import testing as testing
from toolwire import text as text
from toolwire import text_tagged as text_tagged
from toolwire import tool_calls as tool_calls
from toolwire import traces as traces
from toolwire import translate as translate

__version__: str
__all__ = [
    "Accumulator", "AgentResolver", "AnyChoice", "AnyMessage", "AnyProvider", "AnyResolver", "AnyTool",
    "Approve", "Audio", "Bounds", "Cache", "CallDelta", "CallEnd", "CallKey", "CallStart", "Cancel",
    "Capabilities", "ChatSettings", "Checkable", "Choice", "ChoiceEnd", "Citation", "CitationDelta",
    "Clearing", "Client", "ClientOptions", "ClientSettings", "CodeTools", "Composition", "Context",
    "Conversation", "Dialect", "Document", "Done", "Effects", "Encoded", "Error", "ErrorEnd",
    "ErrorReply", "Event", "FunctionTool", "Happened", "Image", "LLMFactory", "LLMProvider",
    "LLMResponse", "LimitOptions", "Limits", "LoopLimits", "Loss", "LossyTranslation", "Message",
    "MessageDelta", "MessageEnd", "MessageStart", "NoStructuredOutput", "NotYet", "OnChunk", "OnEvent",
    "OnceSettings", "Opaque", "OpaqueDelta", "Output", "Part", "PartEnd", "PartStart", "Plan",
    "Preview", "Prompt", "Provider", "ProviderError", "ProviderOptions", "Providers", "QuirkOptions",
    "Quirks", "Ran", "Refusal", "RefusalDelta", "Request", "RequestSettings", "Resolver", "Response",
    "Retries", "Run", "RunEvent", "RunSettings", "Runs", "Scope", "ServerTool", "ServerToolCall",
    "ServerToolResult", "SignatureDelta", "Step", "Stream", "StreamItem", "Text", "TextDelta",
    "Thinking", "ThinkingDelta", "Timeouts", "Tool", "ToolCall", "ToolChoice", "ToolError",
    "ToolOptions", "ToolResolver", "ToolResult", "Tools", "ToolwireError", "Trace", "Transport",
    "Unknown", "UnknownDialect", "UnknownTool", "Usage", "UsageDelta", "accumulate", "aio", "approved",
    "catalogue", "checkable", "codec", "conversation", "cost", "declarations", "dialect", "errors",
    "events_of", "execute", "filtered", "generate", "loop", "mcp", "partial_json", "prefixed",
    "providers", "records", "renamed", "repair", "resolver", "resolver_fn", "resolvers", "schema",
    "session_tools", "stream", "testing", "text", "text_tagged", "tool", "tool_calls", "tool_loop",
    "traces", "translate",
]
