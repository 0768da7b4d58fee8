"""The vendors' own clients, each having the same conversation with whatever is at an address.

Rule: a talker asks, runs the tools that the model calls, sends the results, and goes on until there is an
answer. What it gives is what a user of that SDK sees.
"""

import contextlib
import json
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx2
import ollama
import openai
from google import genai
from msgspec import Struct

QUESTION = "How is the weather in Tokyo and Osaka?"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
MODELS = {
    "openai-chat": "gpt-4.1",
    "openai-responses": "gpt-6-sol",
    "anthropic": "claude-opus-5-5",
    "gemini": "gemini-3-pro",
    "ollama": "qwen3",
}
MOST_ROUNDS = 5


class Said(Struct):
    """What was said in a conversation: the calls of each round, the thoughts, and the answer."""

    rounds: list[list[tuple[str, Any]]]
    thoughts: str
    text: str


def run(name: str, arguments: Any) -> str:
    """Run a tool: there is one kind."""
    return f"{name} of {arguments['city']}: sunny"


# One for all clients: reading the certificates of the machine is most of what a client costs.
TLS = ssl.create_default_context()


@contextlib.contextmanager
def openai_at(url: str, key: str = "k", **options: Any) -> Iterator[openai.OpenAI]:
    """Give OpenAI's client."""
    with httpx2.Client(verify=TLS) as http:
        yield openai.OpenAI(api_key=key, base_url=f"{url}/v1", http_client=http, **({"max_retries": 0} | options))


@contextlib.contextmanager
def anthropic_at(url: str, key: str = "k", **options: Any) -> Iterator[anthropic.Anthropic]:
    """Give Anthropic's client."""
    with httpx2.Client(verify=TLS) as http:
        yield anthropic.Anthropic(api_key=key, base_url=url, http_client=http, **({"max_retries": 0} | options))


@contextlib.contextmanager
def google_at(url: str, key: str = "k", **options: Any) -> Iterator[genai.Client]:
    """Give Google's client."""
    with httpx2.Client(verify=TLS) as http:
        held = genai.types.HttpOptions(base_url=url, httpx_client=http, **options)
        yield genai.Client(api_key=key, http_options=held)


@contextlib.contextmanager
def ollama_at(url: str, **options: Any) -> Iterator[ollama.Client]:
    """Give Ollama's client."""
    client = ollama.Client(url, verify=TLS, **options)
    try:
        yield client
    finally:
        client._client.close()


def talk_chat(url: str, stream: bool) -> Said:
    """Talk with Chat Completions."""
    tool: Any = {"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    said = Said([], "", "")
    asked: Any = {"model": MODELS["openai-chat"], "messages": messages, "tools": [tool]}
    with openai_at(url) as client:
        for _ in range(MOST_ROUNDS):
            if stream:
                options: Any = {"include_usage": True}
                with client.chat.completions.stream(**asked, stream_options=options) as events:
                    whole: Any = events.get_final_completion()
            else:
                whole = client.chat.completions.create(**asked)
            assert whole.usage.total_tokens > 0
            message = whole.choices[0].message
            said.thoughts += (message.model_extra or {}).get("reasoning_content") or ""
            messages.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
            for call in messages[-1].get("tool_calls") or ():
                call["function"].pop("parsed_arguments", None)
                call.pop("index", None)
            calls = [(call.function.name, _read(call.function.arguments)) for call in message.tool_calls or ()]
            if not calls:
                assert whole.choices[0].finish_reason == "stop"
                said.text = message.content
                return said
            assert whole.choices[0].finish_reason == "tool_calls"
            said.rounds.append(calls)
            for call in message.tool_calls:
                result = run(call.function.name, _read(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    raise AssertionError


def talk_responses(url: str, stream: bool, *, stateful: bool = False, **settings: Any) -> Said:
    """Talk with Responses: the whole history each time, or what is new since the last answer."""
    tool: Any = {"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": True}
    given: list[Any] = [{"role": "user", "content": QUESTION}]
    said = Said([], "", "")
    asked: Any = {"model": MODELS["openai-responses"], "input": given, "tools": [tool], **settings}
    with openai_at(url) as client:
        for _ in range(MOST_ROUNDS):
            if stream:
                with client.responses.stream(**asked) as events:
                    whole: Any = events.get_final_response()
            else:
                whole = client.responses.create(**asked)
            assert whole.status == "completed"
            calls = [item for item in whole.output if item.type == "function_call"]
            thoughts = [item for item in whole.output if item.type == "reasoning"]
            said.thoughts += "".join(text.text for item in thoughts for text in item.summary)
            results: list[Any] = [
                {
                    "type": "function_call_output",
                    "call_id": call.call_id,
                    "output": run(call.name, _read(call.arguments)),
                }
                for call in calls
            ]
            if not calls:
                said.text = whole.output_text
                return said
            said.rounds.append([(call.name, _read(call.arguments)) for call in calls])
            if stateful:
                asked |= {"previous_response_id": whole.id, "input": results}
            else:
                kept = [item.model_dump(exclude_none=True) for item in whole.output]
                for item in kept:
                    item.pop("parsed_arguments", None)
                    for part in item.get("content", ()):
                        part.pop("parsed", None)
                given += [*kept, *results]
    raise AssertionError


def talk_messages(url: str, stream: bool) -> Said:
    """Talk with the Messages API."""
    tool: Any = {"name": "get_weather", "input_schema": SCHEMA}
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    said = Said([], "", "")
    asked: Any = {"model": MODELS["anthropic"], "max_tokens": 4096, "messages": messages, "tools": [tool]}
    with anthropic_at(url) as client:
        for _ in range(MOST_ROUNDS):
            if stream:
                with client.messages.stream(**asked) as events:
                    whole: Any = events.get_final_message()
            else:
                whole = client.messages.create(**asked)
            assert whole.usage.input_tokens > 0
            said.thoughts += "".join(block.thinking for block in whole.content if block.type == "thinking")
            messages.append({"role": "assistant", "content": whole.content})
            calls = [block for block in whole.content if block.type == "tool_use"]
            if not calls:
                assert whole.stop_reason == "end_turn"
                said.text = "".join(block.text for block in whole.content if block.type == "text")
                return said
            assert whole.stop_reason == "tool_use"
            said.rounds.append([(block.name, block.input) for block in calls])
            results = [
                {"type": "tool_result", "tool_use_id": block.id, "content": run(block.name, block.input)}
                for block in calls
            ]
            messages.append({"role": "user", "content": results})
    raise AssertionError


def talk_gemini(url: str, stream: bool) -> Said:
    """Talk with generateContent."""
    types = genai.types
    tool = types.Tool(
        function_declarations=[types.FunctionDeclaration(name="get_weather", parameters_json_schema=SCHEMA)]
    )
    off = types.AutomaticFunctionCallingConfig(disable=True)
    config = types.GenerateContentConfig(tools=[tool], automatic_function_calling=off)
    contents: list[Any] = [types.Content(role="user", parts=[types.Part(text=QUESTION)])]
    said = Said([], "", "")
    with google_at(url) as client:
        for _ in range(MOST_ROUNDS):
            asked: Any = {"model": MODELS["gemini"], "contents": contents, "config": config}
            if stream:
                chunks = list(client.models.generate_content_stream(**asked))
            else:
                chunks = [client.models.generate_content(**asked)]
            parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]  # type: ignore[index,union-attr]
            assert chunks[-1].usage_metadata.total_token_count > 0  # type: ignore[union-attr,operator]
            contents.append(types.Content(role="model", parts=parts))
            said.thoughts += "".join(part.text or "" for part in parts if part.thought)
            calls: list[Any] = [part.function_call for part in parts if part.function_call]
            if not calls:
                said.text = "".join(part.text or "" for part in parts if not part.thought)
                return said
            said.rounds.append([(call.name or "", call.args) for call in calls])
            results = [
                types.Part.from_function_response(name=call.name, response={"output": run(call.name, call.args)})
                for call in calls
            ]
            contents.append(types.Content(role="user", parts=results))
    raise AssertionError


def talk_ollama(url: str, stream: bool) -> Said:
    """Talk with Ollama's own chat."""
    tool: Any = {
        "type": "function",
        "function": {"name": "get_weather", "description": "", "parameters": SCHEMA},
    }
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    said = Said([], "", "")
    with ollama_at(url) as held:
        client: Any = held
        for _ in range(MOST_ROUNDS):
            asked: Any = {"model": MODELS["ollama"], "messages": messages, "tools": [tool]}
            given = client.chat(**asked, stream=stream)
            chunks: list[Any] = list(given) if stream else [given]
            calls = [call for chunk in chunks for call in chunk.message.tool_calls or ()]
            text = "".join(chunk.message.content or "" for chunk in chunks)
            assert chunks[-1].done
            assert chunks[-1].eval_count > 0
            said.thoughts += "".join(chunk.message.thinking or "" for chunk in chunks)
            messages.append(ollama.Message(role="assistant", content=text, tool_calls=calls or None))
            if not calls:
                said.text = text
                return said
            said.rounds.append([(call.function.name, dict(call.function.arguments)) for call in calls])
            messages += [
                {
                    "role": "tool",
                    "tool_name": call.function.name,
                    "content": run(call.function.name, call.function.arguments),
                }
                for call in calls
            ]
    raise AssertionError


def _read(text: str) -> Any:
    return json.loads(text)


TALKERS: dict[str, Callable[[str, bool], Said]] = {
    "openai-chat": talk_chat,
    "openai-responses": talk_responses,
    "anthropic": talk_messages,
    "gemini": talk_gemini,
    "ollama": talk_ollama,
}
