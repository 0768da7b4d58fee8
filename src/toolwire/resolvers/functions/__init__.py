"""Tools from Python functions: annotations and docstring become the declaration of a tool."""

from toolwire.resolvers.functions.declare import FunctionTool, ToolOptions, tool
from toolwire.resolvers.functions.signature import Signature, read_signature

__all__ = ["FunctionTool", "Signature", "ToolOptions", "read_signature", "tool"]
