"""One conversation with tools, said in five wire formats: what arrives, and what each of them cannot say."""

from typing import Any

import msgspec

import toolwire
from toolwire import Context, Document, Image, Message, Request, Text, Thinking, Tool, ToolCall, ToolResult
from toolwire.dialects import NAMES

WEATHER = Tool.new(
    name="get_weather",
    description="Tell the weather of a city.",
    parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)


def conversation() -> Request:
    """Make a history with a picture, signed thinking, two parallel calls, an error and a setting or two."""
    calls = [
        ToolCall("call_1", "get_weather", {"city": "Tokyo"}),
        ToolCall("call_2", "get_weather", {"city": "Oz"}, 1),
    ]
    messages = [
        Message(
            "user",
            [Text("Which of these is warmer today?"), Image(data="iVBORw0KGgo=", media_type="image/png")],
        ),
        Message("assistant", [Thinking("Two cities.", "c2lnbmF0dXJl"), Text("Let me look."), *calls]),
        Message("tool", [ToolResult("call_1", "get_weather", "25 degrees, sunny")]),
        Message("tool", [ToolResult("call_2", "get_weather", "no such city", is_error=True)]),
        Message(
            "user",
            [
                Text("And by this list?"),
                Document(data="aGVsbG8=", media_type="application/pdf", name="list.pdf"),
            ],
        ),
    ]
    return Request(model="some-model", max_tokens=500, seed=7, context=Context("Be brief.", messages, [WEATHER]))


def show(title: str, value: Any) -> None:
    """Print a value as indented JSON."""
    print(f"\n{title}\n{msgspec.json.format(msgspec.json.encode(value)).decode()}")


def main() -> None:
    """Say the conversation in every dialect, and translate one body from each to each."""
    request = conversation()
    for name in NAMES:
        encoded = toolwire.dialect(name).encode_request(request)
        show(f"=== {name}: POST {encoded.path}", encoded.body)
        print("\n".join(f"  cannot be said: {loss}" for loss in encoded.losses) or "  everything was said")
    print("\nThe same body from each dialect to each: losses of meaning (a dot is none)")
    print(" " * 18 + "".join(f"{name:>18}" for name in NAMES))
    for source in NAMES:
        body = toolwire.dialect(source).encode_request(request)
        row = [
            sum(
                loss.severity == "semantic"
                for loss in toolwire.translate.request(body.body, source, name, body.path).losses
            )
            for name in NAMES
        ]
        print(f"{source:>18}" + "".join(f"{count or '.':>18}" for count in row))


if __name__ == "__main__":
    main()
