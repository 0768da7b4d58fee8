"""How Ollama spells tools."""

from toolwire.types.spelling.base import ToolSpelling


class OllamaToolSpelling(ToolSpelling, frozen=True, tag="ollama.tool", gc=False):
    """How a tool was declared.

    - `has_no_type`: it had no `type`. `Tool.type` is optional in the Python client of Ollama.
      https://github.com/ollama/ollama-python/blob/main/ollama/_types.py
    """

    has_no_type: bool = False
