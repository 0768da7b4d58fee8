"""A chat that shows words, thoughts, calls and results as they come."""

from toolwire import Client, Done, Message, TextDelta, ThinkingDelta, ToolCall, ToolResult


def get_weather(city: str) -> str:
    """Say the weather."""
    return f"25 degrees in {city}"


def chat(client: Client, prompts: list[str]) -> list[Message]:
    messages: list[Message] = []
    for prompt in prompts:
        with client.stream(prompt, messages=messages, tools=[get_weather]) as stream:
            for item in stream:
                match item:
                    case TextDelta(text=text) | ThinkingDelta(text=text):
                        print(text, end="", flush=True)
                    case ToolCall(name=name, arguments=arguments):
                        print(name, arguments)
                    case ToolResult(content=content, is_error=failed):
                        print("failed:" if failed else "gave:", content)
                    case Done(ending=ending):
                        print(ending)
                    case _:
                        pass
        if stream.done is not None:
            messages += [Message(prompt), *stream.done.messages]
    return messages
