# Made by `make docs` from the table of public names in __init__.py.

from toolwire import (
    aio as aio, catalogue as catalogue, codec as codec, declarations as declarations, errors as errors,
    loop as loop, mcp as mcp, providers as providers, repair as repair, resolvers as resolvers,
    schema as schema, session_tools as session_tools, testing as testing, text as text,
    text_tagged as text_tagged, tool_calls as tool_calls, traces as traces, translate as translate,
)
from toolwire.client.clearing import (
    Clearing as Clearing,
)
from toolwire.client.factory import (
    LLMFactory as LLMFactory, LLMResponse as LLMResponse,
)
from toolwire.client.failures import (
    ProviderError as ProviderError,
)
from toolwire.client.sync import (
    Client as Client, generate as generate, stream as stream,
)
from toolwire.codetools import (
    CodeTools as CodeTools,
)
from toolwire.dialects import (
    dialect as dialect,
)
from toolwire.encoding.ledger import (
    Quirks as Quirks,
)
from toolwire.errors import (
    LossyTranslation as LossyTranslation, NoStructuredOutput as NoStructuredOutput,
    ToolError as ToolError, ToolwireError as ToolwireError, UnknownDialect as UnknownDialect,
    UnknownTool as UnknownTool,
)
from toolwire.loop import (
    LoopLimits as LoopLimits, tool_loop as tool_loop,
)
from toolwire.providers import (
    Provider as Provider,
)
from toolwire.providers.catalogue import (
    cost as cost,
)
from toolwire.resolvers import (
    AgentResolver as AgentResolver, Composition as Composition, Plan as Plan, Step as Step,
    ToolResolver as ToolResolver, approved as approved, filtered as filtered, prefixed as prefixed,
    renamed as renamed,
)
from toolwire.resolvers.execution import (
    Cancel as Cancel, Limits as Limits, execute as execute,
)
from toolwire.resolvers.functions import (
    tool as tool,
)
from toolwire.streams.accumulation import (
    Accumulator as Accumulator, accumulate as accumulate, events_of as events_of,
)
from toolwire.traces import (
    Trace as Trace,
)
from toolwire.types import (
    Audio as Audio, Cache as Cache, CallDelta as CallDelta, CallEnd as CallEnd, CallStart as CallStart,
    Choice as Choice, ChoiceEnd as ChoiceEnd, Citation as Citation, CitationDelta as CitationDelta,
    Context as Context, Document as Document, Encoded as Encoded, Error as Error, ErrorEnd as ErrorEnd,
    ErrorReply as ErrorReply, Event as Event, Image as Image, Loss as Loss, Message as Message,
    MessageDelta as MessageDelta, MessageEnd as MessageEnd, MessageStart as MessageStart,
    Opaque as Opaque, OpaqueDelta as OpaqueDelta, Output as Output, PartEnd as PartEnd,
    PartStart as PartStart, Refusal as Refusal, RefusalDelta as RefusalDelta, Request as Request,
    Response as Response, ServerTool as ServerTool, ServerToolCall as ServerToolCall,
    ServerToolResult as ServerToolResult, SignatureDelta as SignatureDelta, Text as Text,
    TextDelta as TextDelta, Thinking as Thinking, ThinkingDelta as ThinkingDelta, Tool as Tool,
    ToolCall as ToolCall, ToolChoice as ToolChoice, ToolResult as ToolResult, Usage as Usage,
    UsageDelta as UsageDelta,
)
from toolwire.wire.partial_json import (
    Preview as Preview, partial_json as partial_json,
)

__all__ = [
    "Accumulator", "AgentResolver", "Audio", "Cache", "CallDelta", "CallEnd", "CallStart", "Cancel",
    "Choice", "ChoiceEnd", "Citation", "CitationDelta", "Clearing", "Client", "CodeTools",
    "Composition", "Context", "Document", "Encoded", "Error", "ErrorEnd", "ErrorReply", "Event",
    "Image", "LLMFactory", "LLMResponse", "Limits", "LoopLimits", "Loss", "LossyTranslation", "Message",
    "MessageDelta", "MessageEnd", "MessageStart", "NoStructuredOutput", "Opaque", "OpaqueDelta",
    "Output", "PartEnd", "PartStart", "Plan", "Preview", "Provider", "ProviderError", "Quirks",
    "Refusal", "RefusalDelta", "Request", "Response", "ServerTool", "ServerToolCall",
    "ServerToolResult", "SignatureDelta", "Step", "Text", "TextDelta", "Thinking", "ThinkingDelta",
    "Tool", "ToolCall", "ToolChoice", "ToolError", "ToolResolver", "ToolResult", "ToolwireError",
    "Trace", "UnknownDialect", "UnknownTool", "Usage", "UsageDelta", "accumulate", "aio", "approved",
    "catalogue", "codec", "cost", "declarations", "dialect", "errors", "events_of", "execute",
    "filtered", "generate", "loop", "mcp", "partial_json", "prefixed", "providers", "renamed", "repair",
    "resolvers", "schema", "session_tools", "stream", "testing", "text", "text_tagged", "tool",
    "tool_calls", "tool_loop", "traces", "translate",
]
