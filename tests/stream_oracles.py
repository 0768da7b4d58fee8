"""The vendors' own clients as judges of streams: what the SDK that a user has makes of the bytes.

Rules of this file:
- The bytes go through the real client, over a transport that gives them in several pieces.
- A judge never raises: what its SDK raises is in `Told.error`, beside what it had told until then.
- The words of an end are the wire's; `arguments` are an object where they are one, else the text.
"""

import json
import re
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import anthropic
import httpx
import httpx2
import ollama
import openai
from google import genai
from msgspec import Struct
from msgspec.structs import replace
from openai.lib.streaming.chat import ChatCompletionStreamState

PIECES = 7
MODEL = "m"
ASKED: Any = [{"role": "user", "content": "?"}]
Call = tuple[str | None, str, Any]


class Told(Struct, frozen=True):
    """What a stream says to one who uses the SDK; `others` are its other choices, `body` the final value."""

    text: str = ""
    refusal: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    finish: str | None = None
    usage: tuple[int, int] = (0, 0)
    error: str | None = None
    others: tuple["Told", ...] = ()
    body: Any = None

    def without(self, *fields: str) -> "Told":
        """The same without what is not to be compared."""
        return replace(self, **{field: getattr(NOTHING, field) for field in fields})


NOTHING = Told()


class Server:
    """Answers every request with the same bytes, in pieces."""

    def __init__(self) -> None:
        self.data = b""

    def pieces(self) -> Iterator[bytes]:
        """Give the bytes, cut where nobody would cut them."""
        step = len(self.data) // PIECES + 1
        for place in range(0, len(self.data), step):
            yield self.data[place : place + step]

    def answer(self, request: Any) -> httpx2.Response:
        """Answer the clients of the newer httpx."""
        del request
        return httpx2.Response(200, headers=HEADERS, content=self.pieces())

    def answer_older(self, request: Any) -> httpx.Response:
        """Answer the clients of the older httpx."""
        del request
        return httpx.Response(200, headers=HEADERS, content=self.pieces())


HEADERS = {"content-type": "text/event-stream"}
SERVER = Server()


@cache
def _http() -> httpx2.Client:
    return httpx2.Client(transport=httpx2.MockTransport(SERVER.answer))


@cache
def _openai() -> openai.OpenAI:
    return openai.OpenAI(api_key="k", base_url="http://localhost/v1", http_client=_http(), max_retries=0)


@cache
def _anthropic() -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key="k", base_url="http://localhost", http_client=_http(), max_retries=0)


@cache
def _google() -> genai.Client:
    options = genai.types.HttpOptions(base_url="http://localhost", httpx_client=_http())
    return genai.Client(api_key="k", http_options=options)


@cache
def _ollama() -> ollama.Client:
    return ollama.Client("http://localhost", transport=httpx.MockTransport(SERVER.answer_older))


def _consume(stream: Any) -> str | None:
    """Read to the end; give what the SDK raised on the way."""
    try:
        with warnings.catch_warnings(action="ignore"):
            for _ in stream:
                pass
    except Exception as raised:  # noqa: BLE001 - whatever it is, it is the SDK's verdict
        return f"{type(raised).__name__}: {_message(raised)[:120]}"
    return None


def _collect(stream: Any) -> tuple[list[Any], str | None]:
    """Read to the end; give all that came, and what the SDK raised on the way."""
    chunks: list[Any] = []

    def each() -> Iterator[None]:
        for chunk in stream:
            chunks.append(chunk)
            yield

    return chunks, _consume(each())


def _message(raised: Exception) -> str:
    """Give the provider's words; the order of keys of its body is none of them."""
    body = getattr(raised, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else None
    return str(inner["message"] if isinstance(inner, dict) and "message" in inner else raised)


def read_value(text: str) -> Any:
    """Give arguments as a value where their text is an object, else the text."""
    try:
        value = json.loads(text) if text.strip() else {}
    except ValueError:
        return text
    return value if isinstance(value, dict) else text


def _sum(*counts: int | None) -> int:
    return sum(count or 0 for count in counts)


def read_chat(data: bytes) -> Told:
    """Read chunks with the accumulator of the OpenAI SDK.

    `.stream()` has the same one, and leaves out every chunk of a server that does not say its `object`.
    """
    SERVER.data = data
    state = ChatCompletionStreamState()
    with _openai().chat.completions.create(model=MODEL, messages=ASKED, stream=True) as chunks:
        error = _consume(state.handle_chunk(chunk) for chunk in chunks)
    try:
        completion = state.current_completion_snapshot
    except AssertionError:
        return Told(error=error)
    told = [_chat_choice(choice) for choice in completion.choices]
    first, others = (told[0], tuple(told[1:])) if told else (NOTHING, ())
    counts = completion.usage
    usage = (0, 0) if counts is None else (_sum(counts.prompt_tokens), _made(counts))
    return replace(first, usage=usage, error=error, others=others, body=completion)


def _made(counts: Any) -> int:
    """Count what was made: xAI, DeepInfra and Gemini's OpenAI endpoint say hidden thoughts in the total alone."""
    return max(_sum(counts.completion_tokens), _sum(counts.total_tokens) - _sum(counts.prompt_tokens))


def _chat_choice(choice: Any) -> Told:
    message = choice.message
    extra = message.model_extra or {}
    details = [entry.get("text") or "" for entry in extra.get("reasoning_details") or ()]
    thinking = extra.get("reasoning_content") or extra.get("reasoning") or "".join(details)
    calls = []
    for call in message.tool_calls or ():
        if call.type == "custom":
            custom = call.model_extra["custom"]
            calls.append((call.id, custom["name"], custom["input"]))
        else:
            calls.append((call.id, call.function.name, read_value(call.function.arguments or "")))
    if (legacy := message.function_call) is not None:
        calls.append((None, legacy.name, read_value(legacy.arguments or "")))
    content = message.content if isinstance(message.content, str) else ""
    return Told(content, message.refusal or "", thinking, tuple(calls), choice.finish_reason)


def read_messages(data: bytes) -> Told:
    """Read the events of the Messages API with the Anthropic SDK."""
    SERVER.data = data
    asked: Any = {"model": MODEL, "max_tokens": 1, "messages": ASKED}
    with _anthropic().beta.messages.stream(**asked) as stream:
        error = _consume(stream)
        try:
            message: Any = stream.current_message_snapshot
        except AssertionError:
            return Told(error=error)
    blocks = message.content
    counts = message.usage
    usage = 0, 0
    if counts is not None:
        # What was asked of a model beside the answer is in no sum of this client's.
        beside = [one for one in counts.iterations or () if one.type in ("compaction", "advisor_message")]
        said = [counts, *beside]
        given = [(one.input_tokens, one.cache_creation_input_tokens, one.cache_read_input_tokens) for one in said]
        usage = _sum(*(count for one in given for count in one)), _sum(*(one.output_tokens for one in said))
    return Told(
        text="".join(block.text for block in blocks if block.type == "text"),
        thinking="".join(block.thinking for block in blocks if block.type == "thinking"),
        calls=tuple((block.id, block.name, block.input) for block in blocks if block.type == "tool_use"),
        finish=message.stop_reason,
        usage=usage,
        error=error,
        body=message,
    )


def read_responses(data: bytes) -> Told:
    """Read the events of Responses with the OpenAI SDK; the final response is the last that it gave."""
    SERVER.data = data
    final: list[Any] = []
    said: list[str] = []

    def seen(stream: Any) -> Iterator[Any]:
        for event in stream:
            if event.type in FINAL:
                final.append(event.response)
            elif event.type == "error":
                said.append(f"error: {event.message}")
            yield event

    with _openai().responses.stream(model=MODEL, input="?") as stream:
        error = _consume(seen(stream))
        response = final[-1] if final else None
        if response is None:
            return replace(_so_far(stream), error=error or (said[0] if said else None))
    told = _told_items(response.output or ())
    if (failed := response.error) is not None:
        error = error or f"failed: {failed.message}"
    reason = response.incomplete_details.reason if response.incomplete_details is not None else None
    counts = response.usage
    usage = (0, 0) if counts is None else (_sum(counts.input_tokens), _sum(counts.output_tokens))
    finish = f"{response.status}: {reason}" if reason else response.status
    return replace(told, finish=finish, usage=usage, error=error, body=response)


FINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})


def _so_far(stream: Any) -> Told:
    """Give what the SDK has put together of an answer that did not end."""
    snapshot = getattr(stream._state, "_ResponseStreamState__current_snapshot", None)
    return NOTHING if snapshot is None else _told_items(snapshot.output or ())


def _told_items(items: Any) -> Told:
    contents = [block for item in items if item.type == "message" for block in item.content]
    thoughts = [item for item in items if item.type == "reasoning"]
    calls: list[Call] = [
        (item.call_id, _name_of(item), read_value(item.arguments) if item.type == "function_call" else item.input)
        for item in items
        if item.type in {"function_call", "custom_tool_call"}
    ]
    summaries = ["\n\n".join(text.text for text in (*(item.summary or ()), *(item.content or ()))) for item in thoughts]
    return Told(
        text="".join(block.text for block in contents if block.type == "output_text"),
        refusal="".join(block.refusal for block in contents if block.type == "refusal"),
        thinking="".join(summaries),
        calls=tuple(calls),
    )


def _name_of(call: Any) -> str:
    """Give the one name of a tool; a deferred function is called in a namespace of its own name."""
    space = call.namespace
    return call.name if space in (None, call.name) else f"{space}__{call.name}"


def read_gemini(data: bytes) -> Told:
    """Read chunks with google-genai, and join what it gives."""
    SERVER.data = data
    stream = _google().models.generate_content_stream(model=MODEL, contents="?")
    chunks, error = _collect(stream)
    parts: dict[int, list[Any]] = {}
    finish: dict[int, str] = {}
    usage = (0, 0)
    for chunk in chunks:
        for candidate in chunk.candidates or ():
            place = candidate.index or 0
            content = candidate.content
            parts.setdefault(place, []).extend((content.parts or ()) if content is not None else ())
            if candidate.finish_reason is not None:
                finish[place] = candidate.finish_reason.value
        if (feedback := chunk.prompt_feedback) is not None and feedback.block_reason is not None:
            finish.setdefault(0, f"blocked: {feedback.block_reason.value}")
        if (counts := chunk.usage_metadata) is not None:
            given = _sum(counts.prompt_token_count, counts.tool_use_prompt_token_count)
            usage = given, _sum(counts.candidates_token_count, counts.thoughts_token_count)
    told = [_told_parts(parts[place], finish.get(place)) for place in sorted(parts)]
    first, *others = told or [Told(finish=finish.get(0))]
    return replace(first, usage=usage, error=error, others=tuple(others))


def _told_parts(parts: list[Any], finish: str | None) -> Told:
    words = [part for part in parts if part.text]
    return Told(
        text="".join(part.text for part in words if not part.thought),
        thinking="".join(part.text for part in words if part.thought),
        calls=_join_calls(part.function_call for part in parts if part.function_call is not None),
        finish=finish,
    )


def _join_calls(pieces: Iterator[Any]) -> tuple[Call, ...]:
    """Join calls that come in pieces, which this SDK leaves to its user: values at paths, texts that grow."""
    calls: list[Call] = []
    open_call = False
    open_path = None
    for piece in pieces:
        if not open_call or piece.name:
            calls.append((piece.id, piece.name, dict(piece.args or {})))
            open_path = None
        for value in piece.partial_args or ():
            given = value.string_value if value.string_value is not None else value.number_value
            given = given if given is not None else value.bool_value
            _put(calls[-1][2], value.json_path, given, grows=value.json_path == open_path)
            open_path = value.json_path if value.will_continue else None
        open_call = bool(piece.will_continue)
    return tuple(calls)


_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


def _put(place: Any, path: str, value: Any, *, grows: bool) -> None:
    steps: list[Any] = [name or int(number) for name, number in _STEP.findall(path)]
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if isinstance(step, int):
            place.extend([None] * (step + 1 - len(place)))
        before = place[step] if isinstance(step, int) else place.get(step)
        if following is None:
            place[step] = before + value if grows else value
        elif before is None:
            place[step] = [] if isinstance(following, int) else {}
        place = place[step]


def read_ollama(data: bytes) -> Told:
    """Read lines with the Ollama client, and join what it gives; it knows no ids."""
    SERVER.data = data
    chunks, error = _collect(_ollama().chat(model=MODEL, messages=ASKED, stream=True))
    messages = [chunk.message for chunk in chunks]
    calls = [call.function for message in messages for call in message.tool_calls or ()]
    last = chunks[-1] if chunks else None
    return Told(
        text="".join(message.content or "" for message in messages),
        thinking="".join(message.thinking or "" for message in messages),
        calls=tuple((None, call.name, dict(call.arguments)) for call in calls),
        finish=last.done_reason if last is not None and last.done else None,
        usage=(0, 0) if last is None else (_sum(last.prompt_eval_count), _sum(last.eval_count)),
        error=error,
    )


READERS: dict[str, Callable[[bytes], Told]] = {
    "openai-chat": read_chat,
    "openai-responses": read_responses,
    "anthropic": read_messages,
    "gemini": read_gemini,
    "ollama": read_ollama,
}
