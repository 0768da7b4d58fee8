from toolwire import ToolCall, generate


def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


def ask(call: ToolCall, _preview: str) -> bool | str:
    return input(f"{call.name} {call.arguments}? ") == "y" or "the user said no"


print(generate("Delete a.txt and b.txt.", model="openai/gpt-6-sol", tools=delete, approve=ask).content)
