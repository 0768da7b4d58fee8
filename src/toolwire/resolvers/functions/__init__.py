"""Tools from Python: what a function's annotations and docstring say, as a declared tool."""

from toolwire.resolvers.functions.declare import FunctionTool, ToolOptions, tool
from toolwire.resolvers.functions.signature import Signature, read_signature

__all__ = ["FunctionTool", "Signature", "ToolOptions", "read_signature", "tool"]
