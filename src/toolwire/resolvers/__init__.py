"""Resolvers list tools and run calls: alone, combined, renamed, filtered or with approval."""

from toolwire.resolvers.composition import Composition
from toolwire.resolvers.handler import AgentResolver, Handler, RunnableTool
from toolwire.resolvers.protocol import (
    AnyResolver,
    Resolver,
    ToolResolver,
    cover_files,
    fields_of,
    offers_tools,
    recipe_of,
    resolver_of,
    resolving,
    tools_of,
)
from toolwire.resolvers.recipes import Plan, Step, StepError, StepResult, dispatching, report
from toolwire.resolvers.secrecy import RunSecrets
from toolwire.resolvers.wrappers import Approve, approved, filtered, prefixed, renamed

__all__ = [
    "AgentResolver",
    "AnyResolver",
    "Approve",
    "Composition",
    "Handler",
    "Plan",
    "Resolver",
    "RunSecrets",
    "RunnableTool",
    "Step",
    "StepError",
    "StepResult",
    "ToolResolver",
    "approved",
    "cover_files",
    "dispatching",
    "fields_of",
    "filtered",
    "offers_tools",
    "prefixed",
    "recipe_of",
    "renamed",
    "report",
    "resolver_of",
    "resolving",
    "tools_of",
]
