"""The vendors' own clients as talkers: each asks, hears what a user of that SDK sees, and gives results of tools.

Rules of this file:
- One text for both faces: a sync client's values are taken as they are, an async client's are awaited.
- What is compared stands in `Heard`; everything else is the SDK's own.
"""

import asyncio
import base64
import contextlib
import inspect
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, ClassVar, Literal

import anthropic
import httpx2
import ollama
import openai
from google import genai
from msgspec import Struct

from tests.testing.sdks import TLS

Face = Literal["sync", "async"]
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="
)
# Bytes whose base64 has both characters in which its two alphabets differ.
IMAGE = PIXEL + b"\xfb\xff\xbf\xfe\xff"
PATH = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
TOOLS = (("read_file", "Read a file.", PATH), ("now", "Say the time.", NOTHING))
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
SYSTEM = "Be brief."


class Wish(Struct, frozen=True):
    """What a client asks for, beside an answer."""

    tools: bool = False
    thinks: bool = False
    schema: bool = False
    image: bool = False
    most: int | None = None


class Heard(Struct):
    """What a client was told; `ending` is stop, tool_calls or length."""

    text: str = ""
    thoughts: str = ""
    calls: list[tuple[str, Any]] = []
    usage: tuple[int, int] = (0, 0)
    ending: str = ""


class Told(Exception):
    """An error that an SDK gives as an event, and does not raise."""


async def got(value: Any) -> Any:
    """Give a value, or what it becomes."""
    return await value if inspect.isawaitable(value) else value


async def each(values: Any) -> AsyncIterator[Any]:
    """Give values of either face one by one."""
    if hasattr(values, "__aiter__"):
        async for value in values:
            yield value
    else:
        for value in values:
            yield value


@contextlib.asynccontextmanager
async def inside(manager: Any) -> AsyncIterator[Any]:
    """Enter what either face has to enter."""
    if hasattr(manager, "__aenter__"):
        async with manager as entered:
            yield entered
    else:
        with manager as entered:
            yield entered


def finish(coroutine: Any) -> Any:
    """Run a coroutine that never waits: that of a sync client."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("a sync client waited")


class Talker:
    """A conversation through one SDK."""

    def __init__(self, client: Any, model: str, wish: Wish, *, stream: bool) -> None:
        self.client, self.model, self.wish, self.stream = client, model, wish, stream
        self.history: list[Any] = []

    def says(self, text: str) -> None:
        """Add what the user says."""
        raise NotImplementedError

    async def ask(self) -> Heard:
        """Ask for the next turn, and add it to the history."""
        raise NotImplementedError

    def gives(self, results: list[str]) -> None:
        """Add the results of the last turn's calls."""
        raise NotImplementedError


class _Chat(Talker):
    """OpenAI's SDK, Chat Completions."""

    def says(self, text: str) -> None:
        if not self.history:
            self.history.append({"role": "system", "content": SYSTEM})
        url = f"data:image/png;base64,{base64.b64encode(IMAGE).decode()}"
        image = [{"type": "image_url", "image_url": {"url": url}}] if self.wish.image else []
        self.history.append({"role": "user", "content": [{"type": "text", "text": text}, *image]})

    def _asked(self) -> dict[str, Any]:
        wish = self.wish
        asked: dict[str, Any] = {"model": self.model, "messages": self.history}
        if wish.tools:
            asked["tools"] = [
                {"type": "function", "function": {"name": name, "description": text, "parameters": schema}}
                for name, text, schema in TOOLS
            ]
        if wish.schema:
            form = {"name": "city", "schema": CITY, "strict": True}
            asked["response_format"] = {"type": "json_schema", "json_schema": form}
        if wish.thinks:
            asked["reasoning_effort"] = "high"
        if wish.most is not None:
            asked["max_completion_tokens"] = wish.most
        return asked

    async def ask(self) -> Heard:
        chat, asked = self.client.chat.completions, self._asked()
        if self.stream:
            async with inside(chat.stream(**asked, stream_options={"include_usage": True})) as events:
                async for _ in each(events):
                    continue
                whole = await _whole(events)
        else:
            whole = await got(chat.create(**asked))
        [choice] = whole.choices
        message = choice.message
        self._calls = list(message.tool_calls or ())
        kept = message.model_dump(exclude_none=True, exclude={"parsed"})
        for call in kept.get("tool_calls") or ():
            call["function"].pop("parsed_arguments", None)
            call.pop("index", None)
        self.history.append(kept)
        return Heard(
            message.content or "",
            (message.model_extra or {}).get("reasoning_content") or "",
            [(call.function.name, json.loads(call.function.arguments)) for call in self._calls],
            (whole.usage.prompt_tokens, whole.usage.completion_tokens),
            choice.finish_reason,
        )

    def gives(self, results: list[str]) -> None:
        self.history += [
            {"role": "tool", "tool_call_id": call.id, "content": result}
            for call, result in zip(self._calls, results, strict=True)
        ]


async def _whole(events: Any) -> Any:
    """Give a whole completion; the SDK raises one that was cut, where it might have been parsed."""
    try:
        return await got(events.get_final_completion())
    except openai.LengthFinishReasonError as cut:
        return cut.completion


class _Responses(Talker):
    """OpenAI's SDK, Responses."""

    def says(self, text: str) -> None:
        url = f"data:image/png;base64,{base64.b64encode(IMAGE).decode()}"
        image = [{"type": "input_image", "image_url": url, "detail": "auto"}] if self.wish.image else []
        self.history.append({"role": "user", "content": [{"type": "input_text", "text": text}, *image]})

    def _asked(self) -> dict[str, Any]:
        wish = self.wish
        asked: dict[str, Any] = {"model": self.model, "input": self.history, "instructions": SYSTEM, "store": False}
        if wish.tools:
            asked["tools"] = [
                {"type": "function", "name": name, "description": text, "parameters": schema, "strict": True}
                for name, text, schema in TOOLS
            ]
        if wish.schema:
            asked["text"] = {"format": {"type": "json_schema", "name": "city", "schema": CITY, "strict": True}}
        if wish.thinks:
            asked |= {
                "reasoning": {"effort": "high", "summary": "auto"},
                "include": ["reasoning.encrypted_content"],
            }
        if wish.most is not None:
            asked["max_output_tokens"] = wish.most
        return asked

    async def ask(self) -> Heard:
        asked = self._asked()
        if self.stream:
            whole: Any = None
            async with inside(self.client.responses.stream(**asked)) as events:
                async for event in each(events):
                    if event.type in ("response.failed", "error"):
                        raise Told(event.response.error.message if event.type != "error" else event.message)
                    if event.type in ("response.completed", "response.incomplete"):
                        whole = event.response
            assert whole is not None, "the stream ended without its end"
        else:
            whole = await got(self.client.responses.create(**asked))
        self._calls = [item for item in whole.output if item.type == "function_call"]
        kept = [item.model_dump(exclude_none=True) for item in whole.output]
        for item in kept:
            item.pop("parsed_arguments", None)
            for part in item.get("content", ()):
                part.pop("parsed", None)
        self.history += kept
        thoughts = [text.text for item in whole.output if item.type == "reasoning" for text in item.summary]
        usual = "tool_calls" if self._calls else "stop"
        cut = whole.status == "incomplete" and whole.incomplete_details.reason == "max_output_tokens"
        return Heard(
            whole.output_text,
            "".join(thoughts),
            [(call.name, json.loads(call.arguments)) for call in self._calls],
            (whole.usage.input_tokens, whole.usage.output_tokens),
            "length" if cut else usual,
        )

    def gives(self, results: list[str]) -> None:
        self.history += [
            {"type": "function_call_output", "call_id": call.call_id, "output": result}
            for call, result in zip(self._calls, results, strict=True)
        ]


class _Messages(Talker):
    """Anthropic's SDK."""

    _ENDINGS: ClassVar = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"}

    def says(self, text: str) -> None:
        data = base64.b64encode(IMAGE).decode()
        source = {"type": "base64", "media_type": "image/png", "data": data}
        image = [{"type": "image", "source": source}] if self.wish.image else []
        self.history.append({"role": "user", "content": [{"type": "text", "text": text}, *image]})

    def _asked(self) -> dict[str, Any]:
        wish = self.wish
        asked: dict[str, Any] = {"model": self.model, "messages": self.history, "system": SYSTEM}
        asked["max_tokens"] = wish.most or 4096
        if wish.tools:
            asked["tools"] = [
                {"name": name, "description": text, "input_schema": schema} for name, text, schema in TOOLS
            ]
        if wish.schema:
            asked["output_config"] = {"format": {"type": "json_schema", "schema": CITY}}
        if wish.thinks:
            asked["thinking"] = {"type": "adaptive", "display": "summarized"}
            asked["output_config"] = {"effort": "high"}
        return asked

    async def ask(self) -> Heard:
        asked = self._asked()
        if self.stream:
            async with inside(self.client.messages.stream(**asked)) as events:
                async for _ in each(events):
                    continue
                whole = await got(events.get_final_message())
        else:
            whole = await got(self.client.messages.create(**asked))
        self._calls = [block for block in whole.content if block.type == "tool_use"]
        self.history.append({"role": "assistant", "content": whole.content})
        usage = whole.usage
        read = usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
        return Heard(
            "".join(block.text for block in whole.content if block.type == "text"),
            "".join(block.thinking for block in whole.content if block.type == "thinking"),
            [(call.name, call.input) for call in self._calls],
            (read, usage.output_tokens),
            self._ENDINGS.get(whole.stop_reason, whole.stop_reason),
        )

    def gives(self, results: list[str]) -> None:
        blocks = [
            {"type": "tool_result", "tool_use_id": call.id, "content": result}
            for call, result in zip(self._calls, results, strict=True)
        ]
        self.history.append({"role": "user", "content": blocks})


class _Gemini(Talker):
    """Google's SDK."""

    _ENDINGS: ClassVar = {"STOP": "stop", "MAX_TOKENS": "length"}

    def says(self, text: str) -> None:
        types = genai.types
        image = [types.Part.from_bytes(data=IMAGE, mime_type="image/png")] if self.wish.image else []
        self.history.append(types.Content(role="user", parts=[types.Part(text=text), *image]))

    def _config(self) -> Any:
        types, wish = genai.types, self.wish
        off = types.AutomaticFunctionCallingConfig(disable=True)
        config = types.GenerateContentConfig(system_instruction=SYSTEM, automatic_function_calling=off)
        if wish.tools:
            declared = [
                types.FunctionDeclaration(name=name, description=text, parameters_json_schema=schema)
                for name, text, schema in TOOLS
            ]
            config.tools = [types.Tool(function_declarations=declared)]
        if wish.schema:
            config.response_mime_type, config.response_json_schema = "application/json", CITY
        if wish.thinks:
            level = types.ThinkingLevel.HIGH
            config.thinking_config = types.ThinkingConfig(include_thoughts=True, thinking_level=level)
        config.max_output_tokens = wish.most
        return config

    async def ask(self) -> Heard:
        asked = {"model": self.model, "contents": self.history, "config": self._config()}
        models = self.client.models
        if self.stream:
            chunks = [chunk async for chunk in each(await got(models.generate_content_stream(**asked)))]
        else:
            chunks = [await got(models.generate_content(**asked))]
        contents = [candidate.content for chunk in chunks for candidate in chunk.candidates or ()]
        parts = [part for content in contents if content is not None for part in content.parts or ()]
        self._calls = [part.function_call for part in parts if part.function_call]
        self.history.append(genai.types.Content(role="model", parts=parts))
        usage = next(chunk.usage_metadata for chunk in reversed(chunks) if chunk.usage_metadata)
        reason = next(
            (candidate.finish_reason for chunk in reversed(chunks) for candidate in chunk.candidates or ()), None
        )
        assert reason is not None, "the stream ended without its end"
        ending = self._ENDINGS.get(reason.name, reason.name)
        return Heard(
            "".join(part.text or "" for part in parts if not part.thought),
            "".join(part.text or "" for part in parts if part.thought),
            [(call.name, call.args or {}) for call in self._calls],
            (usage.prompt_token_count, (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)),
            "tool_calls" if self._calls and ending == "stop" else ending,
        )

    def gives(self, results: list[str]) -> None:
        parts = [
            genai.types.Part(
                function_response=genai.types.FunctionResponse(id=call.id, name=call.name, response={"output": result})
            )
            for call, result in zip(self._calls, results, strict=True)
        ]
        self.history.append(genai.types.Content(role="user", parts=parts))


class _Ollama(Talker):
    """Ollama's SDK."""

    def says(self, text: str) -> None:
        if not self.history:
            self.history.append({"role": "system", "content": SYSTEM})
        image = {"images": [IMAGE]} if self.wish.image else {}
        self.history.append({"role": "user", "content": text, **image})

    async def ask(self) -> Heard:
        wish = self.wish
        asked: dict[str, Any] = {"model": self.model, "messages": self.history, "stream": self.stream}
        if wish.tools:
            asked["tools"] = [
                {"type": "function", "function": {"name": name, "description": text, "parameters": schema}}
                for name, text, schema in TOOLS
            ]
        if wish.schema:
            asked["format"] = CITY
        if wish.thinks:
            asked["think"] = True
        if wish.most is not None:
            asked["options"] = {"num_predict": wish.most}
        given = await got(self.client.chat(**asked))
        chunks = [chunk async for chunk in each(given)] if self.stream else [given]
        last = chunks[-1]
        assert last.done, "the stream ended without its end"
        text = "".join(chunk.message.content or "" for chunk in chunks)
        thoughts = "".join(chunk.message.thinking or "" for chunk in chunks)
        self._calls = [call for chunk in chunks for call in chunk.message.tool_calls or ()]
        self.history.append(
            ollama.Message(role="assistant", content=text, thinking=thoughts or None, tool_calls=self._calls or None)
        )
        return Heard(
            text,
            thoughts,
            [(call.function.name, dict(call.function.arguments)) for call in self._calls],
            (last.prompt_eval_count, last.eval_count),
            "tool_calls" if self._calls and last.done_reason == "stop" else last.done_reason,
        )

    def gives(self, results: list[str]) -> None:
        self.history += [
            {"role": "tool", "tool_name": call.function.name, "content": result}
            for call, result in zip(self._calls, results, strict=True)
        ]


TALKERS: dict[str, type[Talker]] = {
    "openai-chat": _Chat,
    "openai-responses": _Responses,
    "anthropic": _Messages,
    "gemini": _Gemini,
    "ollama": _Ollama,
}


def _openai(url: str, face: Face) -> tuple[Any, Any]:
    http = _http(face)
    kind = openai.AsyncOpenAI if face == "async" else openai.OpenAI
    return kind(api_key="k", base_url=f"{url}/v1", max_retries=0, http_client=http), http


def _anthropic(url: str, face: Face) -> tuple[Any, Any]:
    http = _http(face)
    kind = anthropic.AsyncAnthropic if face == "async" else anthropic.Anthropic
    return kind(api_key="k", base_url=url, max_retries=0, http_client=http), http


def _google(url: str, face: Face) -> tuple[Any, Any]:
    http = _http(face)
    held: Any = {"httpx_async_client" if face == "async" else "httpx_client": http}
    client = genai.Client(api_key="k", http_options=genai.types.HttpOptions(base_url=url, **held))
    return (client.aio if face == "async" else client), http


def _ollama(url: str, face: Face) -> tuple[Any, Any]:
    client: Any = (ollama.AsyncClient if face == "async" else ollama.Client)(url, verify=TLS)
    return client, client._client


def _http(face: Face) -> Any:
    return (httpx2.AsyncClient if face == "async" else httpx2.Client)(verify=TLS)


_MADE: dict[str, Callable[[str, Face], tuple[Any, Any]]] = {
    "openai-chat": _openai,
    "openai-responses": _openai,
    "anthropic": _anthropic,
    "gemini": _google,
    "ollama": _ollama,
}


class Clients:
    """The SDKs' clients, each made once; what async ones wait for is waited for in one loop."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._made: dict[tuple[str, Face, str], tuple[Any, Any]] = {}

    def at(self, url: str, sdk: str, face: Face) -> Any:
        """Give a client of what is at an address."""
        key = sdk, face, url
        if key not in self._made:
            self._made[key] = _MADE[sdk](url, face)
        return self._made[key][0]

    def run(self, face: Face, coroutine: Any) -> Any:
        """Run what was written for both faces."""
        return self._runner.run(coroutine) if face == "async" else finish(coroutine)

    def close(self) -> None:
        """Close the connections of all."""
        for _, http in self._made.values():
            self._runner.run(_closed(http))
        self._runner.close()


async def _closed(http: Any) -> None:
    await got((http.aclose if hasattr(http, "aclose") else http.close)())
