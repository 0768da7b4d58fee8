"""One round, in which nothing is run: calls and results by hand."""

from toolwire import Client, Message, Output, Response, Text, Tool, ToolCall, ToolChoice, ToolResult

look = Tool("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})


def answer(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, call.name, f"nothing at {call.arguments['at']}")


def ask(client: Client) -> Response:
    first = client.chat(["Look at me."], [look], "required", temperature=0, max_tokens=100)
    results = [Message("tool", [answer(call)]) for call in first.tool_calls]
    return client.chat(["Look at me.", first.message, *results], tools=[look], tool_choice=ToolChoice("none"))


def json(client: Client) -> str:
    response = client.chat([Message("user", [Text("JSON, please.")])], output=Output("json"), model="gpt-6-sol")
    return response.content or str(response.raw_finish_reason)
