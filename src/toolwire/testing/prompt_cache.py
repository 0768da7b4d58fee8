"""The prompt cache of a simulated provider: how many tokens of a request it reads, and how many it writes.

Rules of this file:
- A prompt is a list of parts, in the order in which the vendor reads them: tools, system prompt, messages. A cached
  prefix ends at the end of a part, and matches only the same bytes. The order of the keys counts, cache marks do not.
- A string and a list of one text are the same part, because vendors document them as one spelling of the other.
- Prefixes are cached for an account, a model and a wire. A prefix below the model's minimum is not cached. The minimum
  is the catalogue's, or the one of the vendor's oldest models.
- Anthropic caches up to a mark, and finds prefixes that end at most 20 blocks before a mark. A use renews a prefix.
- OpenAI's models from gpt-5.6 on cache up to the end of the request and up to marks, and report what they write. Where
  OpenAI puts its own mark is not documented: the end of the request is assumed. Earlier models, and Gemini, cache the
  end of each part, and report only what they read.
- A key of the session separates prefixes, because OpenAI sends requests with other keys to other servers.
- A tool that is deferred is not part of the prompt until a `tool_reference` names it, and then follows the reference.

Sources, all of 2026-11-27: https://platform.claude.com/docs/en/build-with-claude/prompt-caching;
https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-search-tool;
https://developers.openai.com/api/docs/guides/prompt-caching, and the types of openai 3.57.0;
https://ai.google.dev/gemini-api/docs/caching.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from toolwire.encoding.families import family_of
from toolwire.providers import catalogue

_BYTES_OF_TOKEN = 4
_MOST_PREFIXES = 20_000
_LOOKBACK = 20
_MOST_MARKS = 4
_MARKS = frozenset({"cache_control", "prompt_cache_breakpoint"})
_CONTENTS = frozenset({"content", "output"})
_UNMARKABLE = frozenset({"thinking", "redacted_thinking"})
_write = msgspec.json.Encoder().encode
_Body = Mapping[str, Any]


class CachedTokens(Struct, frozen=True):
    """The tokens of a prompt: all of them, those that were read from the cache, and those that were written to it.

    `written` is None if the provider does not report it. `written_long` is the part of it with the longer lifetime,
    and None if the provider does not report lifetimes.
    """

    prompt: int = 0
    read: int = 0
    written: int | None = None
    written_long: int | None = None


class _Part(Struct, frozen=True):
    """A part of a prompt: its bytes, its size if that is another one, and the lifetime of its mark if it has one."""

    data: bytes
    size: int
    ttl: str | None = None
    can_be_marked: bool = True


class _Rules(Struct, frozen=True, kw_only=True):
    """How a vendor caches: the parts of its prompts, its usual minimum, and its lifetimes, the shortest first."""

    parts: Callable[[_Body], Iterator[_Part]]
    minimum: int
    seconds: Mapping[str, float]
    needs_marks: bool = False
    reports_lifetimes: bool = False

    @property
    def default(self) -> str:
        return next(iter(self.seconds))


class PromptCache:
    """The prefixes that a provider has cached, and when each of them expires."""

    def __init__(self) -> None:
        self._prefixes: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def use(self, dialect: str, body: _Body, model: str, now: float, account: str = "") -> CachedTokens:
        """Read the longest cached prefix of a request, cache the request, and return the tokens of both.

        `body` is the request as it arrived, at the time `now` in seconds. `account` is its key.
        """
        rules = _RULES.get(dialect)
        if rules is None:  # Ollama has a cache, and neither reports nor bills it
            return CachedTokens()
        parts = list(rules.parts(body))
        ends = _ends(parts, _write([dialect, model, account, body.get("prompt_cache_key")]))
        takes_marks = rules.needs_marks or bool(dialect.startswith("openai") and family_of(model).cache_marks)
        marks = _marks_of(parts, body, rules) if takes_marks else dict.fromkeys(range(len(parts)), rules.default)
        least = _minimum(model, rules)
        marks = {index: ttl for index, ttl in marks.items() if ends[index][1] >= least}
        read = self._find(ends, marks if rules.needs_marks else range(len(parts)), now, rules)
        self._store(ends, marks, now, rules)
        prompt = ends[-1][1] if ends else 0
        if not takes_marks:
            return CachedTokens(prompt, read)
        written = _length(ends, marks, read)
        long = _length(ends, (index for index, ttl in marks.items() if ttl != rules.default), read)
        return CachedTokens(prompt, read, written, long if rules.reports_lifetimes else None)

    def _find(self, ends: list[tuple[bytes, int]], marks: Iterable[int], now: float, rules: _Rules) -> int:
        """Return the tokens of the longest cached prefix, and renew it."""
        lookback = _LOOKBACK if rules.needs_marks else 0
        places = {index for mark in marks for index in range(max(0, mark - lookback), mark + 1)}
        for index in sorted(places, reverse=True):
            digest, tokens = ends[index]
            expires, seconds = self._prefixes.get(digest, (0.0, 0.0))
            if expires > now:
                self._prefixes[digest] = (now + seconds, seconds)
                return tokens
        return 0

    def _store(self, ends: list[tuple[bytes, int]], marks: Mapping[int, str], now: float, rules: _Rules) -> None:
        for index, ttl in marks.items():
            digest, seconds = ends[index][0], rules.seconds[ttl]
            expires, longest = self._prefixes.get(digest, (0.0, 0.0))
            seconds = max(seconds, longest) if expires > now else seconds
            self._prefixes[digest] = (now + seconds, seconds)
            self._prefixes.move_to_end(digest)
        while len(self._prefixes) > _MOST_PREFIXES:
            self._prefixes.popitem(last=False)


def _minimum(model: str, rules: _Rules) -> int:
    """Return the number of tokens from which on a prompt of a model is cached."""
    known = catalogue.model(model)
    return known.cache_minimum if known is not None and known.cache_minimum else rules.minimum


def _ends(parts: list[_Part], seed: bytes) -> list[tuple[bytes, int]]:
    """Return the digest of each prefix, and the number of its tokens."""
    digest, size, ends = hashlib.sha256(seed), 0, []
    for part in parts:
        digest.update(b"%d:%b" % (len(part.data), part.data))
        size += part.size
        ends.append((digest.copy().digest(), size // _BYTES_OF_TOKEN))
    return ends


def _length(ends: list[tuple[bytes, int]], marks: Iterable[int], read: int) -> int:
    """Return the tokens from the end of the `read` ones up to the last mark."""
    return max(max((ends[mark][1] for mark in marks), default=0) - read, 0)


def _marks_of(parts: list[_Part], body: _Body, rules: _Rules) -> dict[int, str]:
    """Return the lifetime of each mark, by the index of its part. A mark without one has that of the request."""
    request = body.get("cache_control") if rules.needs_marks else body.get("prompt_cache_options")
    request = request if isinstance(request, dict) else None
    is_marked = request is not None if rules.needs_marks else (request or {}).get("mode") != "explicit"
    usual = _lifetime(request or {}, rules.default, rules)
    default = rules.default if rules.needs_marks else usual
    marks = {
        index: _lifetime({"ttl": part.ttl}, default, rules) for index, part in enumerate(parts) if part.ttl is not None
    }
    marks = dict(list(marks.items())[-(_MOST_MARKS - is_marked) :])
    last = next((index for index in reversed(range(len(parts))) if parts[index].can_be_marked), None)
    return {**marks, last: marks.get(last, usual)} if is_marked and last is not None else marks


def _lifetime(mark: Mapping[str, Any], default: str, rules: _Rules) -> str:
    ttl = mark.get("ttl")
    return ttl if isinstance(ttl, str) and ttl in rules.seconds else default


def _part(value: Any, context: Any = None, added: Iterable[Any] = (), *, can_be_marked: bool = True) -> _Part:
    """Return a part of a prompt. `context` is what else distinguishes it, `added` what the server puts in."""
    plain, ttl = _without_marks(value)
    data, more = _write(plain), b"".join(map(_write, added))
    return _Part(_write(context) + data + more, len(data) + len(more), ttl, can_be_marked)


def _without_marks(value: Any) -> tuple[Any, str | None]:
    """Return a value without its marks, and the lifetime of the last one: "" if it has none of its own."""
    if isinstance(value, dict):
        plain, ttl = {}, None
        for key, inner in value.items():
            if key in _MARKS:
                ttl = str(inner.get("ttl") or "") if isinstance(inner, dict) else ttl
            elif key in _CONTENTS:
                plain[key], inner_ttl = _without_marks(inner)
                ttl = inner_ttl if ttl is None else ttl
            else:
                plain[key] = inner
        return plain, ttl
    if isinstance(value, list):
        pairs = [_without_marks(inner) for inner in value]
        return [plain for plain, _ in pairs], next((ttl for _, ttl in reversed(pairs) if ttl is not None), None)
    return value, None


def _content(content: Any, context: Any) -> Iterator[_Part]:
    """Yield the parts of a content. A string is a text."""
    if isinstance(content, str):
        yield _Part(_write(context) + _write(content), len(_write(content)))
        return
    for inner in content if isinstance(content, list) else [] if content is None else [content]:
        is_text = isinstance(inner, dict) and inner.keys() - _MARKS == {"type", "text"}
        if is_text:
            _, ttl = _without_marks(inner)
            data = _write(inner["text"])
            yield _Part(_write(context) + data, len(data), ttl, can_be_marked=bool(inner["text"]))
        else:
            yield _part(inner, context)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_deferred(tool: Any) -> bool:
    return isinstance(tool, dict) and bool(tool.get("defer_loading"))


def _references(value: Any) -> Iterator[str]:
    """Yield the names of the tools that a block refers to."""
    if isinstance(value, list):
        for inner in value:
            yield from _references(inner)
    elif isinstance(value, dict):
        if value.get("type") == "tool_reference":
            yield str(value.get("tool_name"))
        elif value.get("type") == "tool_addition":
            yield from _references([value.get("tool")])
        else:
            yield from _references([value.get("content"), value.get("tool_references")])


def _messages_parts(body: _Body) -> Iterator[_Part]:
    """Yield the parts of a request of Messages."""
    tools = _list(body.get("tools"))
    deferred = {str(tool.get("name")): tool for tool in tools if _is_deferred(tool)}
    yield from (_part(tool, "tool") for tool in tools if not _is_deferred(tool))
    yield from _content(body.get("system"), "system")
    settings = [body.get("tool_choice"), body.get("thinking")]  # a change of them disables the cache of messages
    for message in filter(_is_object, _list(body.get("messages"))):
        context = ["message", message.get("role"), settings]
        content = message.get("content")
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else _list(content):
            names = dict.fromkeys(_references(block))
            added = [deferred.pop(name) for name in names if name in deferred]
            if added or not isinstance(block, dict) or str(block.get("type")) in _UNMARKABLE:
                yield _part(block, context, added, can_be_marked=bool(added))
            else:
                yield from _content([block], context)


def _chat_parts(body: _Body) -> Iterator[_Part]:
    """Yield the parts of a request of Chat Completions."""
    yield from _format_parts(body.get("response_format"))
    yield from (_part(tool, "tool") for tool in _list(body.get("tools")))
    for message in _list(body.get("messages")):
        yield from _message_parts(message)


def _responses_parts(body: _Body) -> Iterator[_Part]:
    """Yield the parts of a request of Responses."""
    text = body.get("text")
    yield from _format_parts(text.get("format") if isinstance(text, dict) else None)
    yield from (_part(tool, "tool") for tool in _list(body.get("tools")) if not _is_deferred(tool))
    yield from _content(body.get("instructions"), "system")
    items = body.get("input")
    for item in [{"role": "user", "content": items}] if isinstance(items, str) else _list(items):
        yield from _message_parts(item)


def _format_parts(output: Any) -> Iterator[_Part]:
    """Yield the schema of the output, which OpenAI puts before the rest of the prompt."""
    if isinstance(output, dict) and output.get("type") not in (None, "text"):
        yield _part(output, "format")


def _message_parts(message: Any) -> Iterator[_Part]:
    """Yield the parts of a message: those of its content, and then its other fields, such as calls.

    The id of an item is not a part of the prompt: Codex 0.171.0 sends it in one turn, and leaves it out in the next.
    """
    if not isinstance(message, dict):
        yield _part(message)
        return
    yield from _content(message.get("content"), message.get("role"))
    left_out = ("role", "content", "status", "id", *(("type",) if message.get("type") == "message" else ()))
    others = {key: value for key, value in message.items() if key not in left_out}
    if others:
        yield _part(others, message.get("role"))


def _gemini_parts(body: _Body) -> Iterator[_Part]:
    """Yield the parts of a request of generateContent."""
    system = body.get("systemInstruction") or body.get("system_instruction")
    yield from _gemini_content(system, "system")
    for tool in filter(_is_object, _list(body.get("tools"))):
        declared = tool.get("functionDeclarations") or tool.get("function_declarations")
        yield from (_part(inner, "tool") for inner in _list(declared) or [tool])
    contents = body.get("contents")
    for content in contents if isinstance(contents, list) else [contents]:
        yield from _gemini_content(content, content.get("role") if isinstance(content, dict) else "user")


def _gemini_content(content: Any, role: Any) -> Iterator[_Part]:
    if isinstance(content, dict):
        parts = content.get("parts")
        yield from (_part(inner, role) for inner in (parts if isinstance(parts, list) else [parts]))
    elif content is not None:
        yield _part({"text": content}, role)


_OPENAI_SECONDS = {"30m": 1800.0, "12h": 43_200.0}
_RULES: dict[str, _Rules] = {
    "anthropic": _Rules(
        parts=_messages_parts,
        minimum=1024,
        seconds={"5m": 300.0, "1h": 3600.0},
        needs_marks=True,
        reports_lifetimes=True,
    ),
    "openai-chat": _Rules(parts=_chat_parts, minimum=1024, seconds=_OPENAI_SECONDS),
    "openai-responses": _Rules(parts=_responses_parts, minimum=1024, seconds=_OPENAI_SECONDS, reports_lifetimes=True),
    "gemini": _Rules(parts=_gemini_parts, minimum=4096, seconds={"": 300.0}),
}
