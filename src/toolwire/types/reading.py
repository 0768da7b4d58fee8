"""Parts and calls as others spell them: OpenAI's maps, Claude's blocks, and tuples with a tag.

Rules of this file:
- What has no canonical field stays opaque, for the wire whose spelling it is.
- What says that it is a call, a result or a thought, and is none, is refused with its place: an answer to half a
  history would look like one to the whole.
- Anything that is no part, and no spelling of one, is refused where it is given.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from toolwire.errors import InvalidField
from toolwire.types.frozen import FrozenList
from toolwire.types.parts import (
    PARTS,
    Audio,
    Cache,
    Document,
    Image,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from toolwire.types.spelling.openai_chat import ChatMediumSpelling
from toolwire.types.spelling.openai_responses import ResponsesMediumSpelling
from toolwire.wire.arguments import parse_arguments

OPENAI, CLAUDE, RESPONSES = "openai-chat", "anthropic", "openai-responses"
_PART_TYPES = frozenset(PARTS)
_CALL_KEYS = frozenset({"id", "type", "function"})
_FUNCTION_KEYS = frozenset({"name", "arguments"})
_FILE = {"file_data": "data", "file_url": "url", "file_id": "file_id", "filename": "name"}
_MEDIUM_SPELLINGS = {OPENAI: ChatMediumSpelling, RESPONSES: ResponsesMediumSpelling}
_SOUNDS = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_SHAPES = {
    "text": '("text", text)',
    "tool_use": '("tool_use", id, name, arguments)',
    "tool_result": '("tool_result", id, name, result)',
    "thinking": '("thinking", text) or ("thinking", {"text": ..., "signature": ...})',
}


def read_parts(content: Iterable[Any], path: str = "Message") -> list[Part]:
    """Read the parts of a message, in whichever spelling each is."""
    parts: list[Part] = []
    calls = 0
    for place, given in enumerate(content):
        part = given if type(given) in _PART_TYPES else _read(given, place, path)
        if type(part) is ToolResult and type(part.content) is not str:
            part = replace(part, content=_read_content(part.content, f"{path}.content[{place}]"))
        elif type(part) is ToolCall:
            part = part if part is given else replace(part, index=calls)
            calls += 1
        parts.append(part)
    return parts


def frozen_content(content: Any, path: str = "Message") -> Any:
    """Read a content that somebody gave, and keep it from change."""
    if type(content) is FrozenList:
        return content
    read = content if _are_parts(content) else _read_content(content, path)
    return FrozenList(read) if type(read) is list else read


def _are_parts(content: Any) -> bool:
    """Whether a content is a list of parts as they are, of which nothing has to be read."""
    if type(content) is not list:
        return False
    for part in content:
        kind = type(part)
        if kind not in _PART_TYPES or (kind is ToolResult and type(part.content) is not str):
            return False
    return True


def _read_content(content: Any, path: str = "Message") -> str | list[Part]:
    """Read a content: words, or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) or (type(content) is tuple and not (content and isinstance(content[0], str))):
        return read_parts(content, path)
    raise InvalidField("content", f"must be a string or a list of parts, not {_shown(content)}", path=path)


def _read(part: Any, place: int, path: str) -> Part:
    field = f"content[{place}]"
    match part:
        case str():
            return Text(part)
        case Mapping():
            return _read_map(part, field, path)
        case (str(tag), *rest) if type(part) is tuple and tag in _SHAPES:
            made = _read_tagged(tag, rest, path)
            if made is None:
                raise InvalidField(field, f"must be {_SHAPES[tag]}", path=path)
            return made
        case _ if isinstance(part, Part):
            return part
    raise InvalidField(field, f"must be a part, a string or a map, not {_shown(part)}", path=path)


def _read_tagged(tag: str, rest: list[Any], path: str) -> Part | None:
    """Read a tuple with a tag; None where it is not of the shape of its tag."""
    match (tag, *rest):
        case ("text", str(text)):
            return Text(text)
        case ("thinking", str(text)):
            return Thinking(text)
        case ("thinking", {"text": str(text), "signature": str() | None as signature}):
            return Thinking(text, signature)
        case ("thinking", {"text": str(text)}):
            return Thinking(text)
        case ("tool_use", str() | None as call_id, str(name), dict(arguments)):
            return ToolCall(call_id, name, arguments)
        case ("tool_result", str() | None as call_id, str() | None as name, str() | list() as content):
            return ToolResult(call_id, name, _read_content(content, path))
        case ("tool_result", str() | None as call_id, str() | None as name, dict() as value):
            return ToolResult(call_id, name, msgspec.json.encode(value).decode())
    return None


def _read_map(part: Mapping[str, Any], field: str, path: str) -> Part:
    """Read a part of OpenAI's or a block of Claude's; a kind that is not known stays whole."""
    kind = part.get("type")
    if isinstance(kind, str) and kind in _BLOCKS:
        made = _BLOCKS[kind](part, path)
        if made is None:
            raise InvalidField(field, f"is no {kind} block: {_WANTED[kind]}", path=path)
        return made
    match part:
        case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            cache, opaque = _cache_of(part), _left_of(part, {"type", "text"}, _home_of(part))
            # A mark that came with the known spelling goes out with it, and to Claude.
            return Text(text, cache=cache, opaque=opaque or (None if cache is None else Opaque(OPENAI, {})))
        case {"type": "image_url", "image_url": {"url": str(url), **inner}}:
            return _read_image(url, inner, dict(part))
    return _read_openais(part) or Opaque(_home_of(part), part)


def _read_openais(part: Mapping[str, Any]) -> Part | None:
    """Read a picture, sound or a file of OpenAI's, if nothing else is said of it."""
    match dict(part):
        case {"type": "input_image", "image_url": str(url), "detail": str(detail), **left} if not left:
            return Image(**_source_in(url), detail=detail, opaque=Opaque(RESPONSES, {}))
        case {"type": "input_image", "image_url": str(url), **left} if not left:
            return Image(**_source_in(url), opaque=Opaque(RESPONSES, {}))
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(kind), **more}, **left} if (
            kind in _SOUNDS and not more and not left
        ):
            return Audio(data, _SOUNDS[kind], opaque=Opaque(OPENAI, {}))
        case {"type": "file", "file": {**file}, **left} if not left:
            return _read_file(file, OPENAI)
        case {"type": "input_file", **file}:
            return _read_file(file, RESPONSES)
    return None


def _read_file(file: dict[Any, Any], home: str) -> Document | None:
    """Read a file; data that is no data URL, or a URL that stands in its place, goes out as it came."""
    if not file.keys() <= _FILE.keys() or not all(isinstance(value, str) for value in file.values()):
        return None
    spelling, fields = None, {_FILE[key]: value for key, value in file.items()}
    data = fields.pop("data", None)
    source = {} if data is None else _source_in(data)
    if data is not None and "data" not in source:
        medium_spelling = _MEDIUM_SPELLINGS[home]
        if "://" in data:
            spelling = medium_spelling(data=data)
        else:
            source, spelling = {"data": data}, medium_spelling(is_bare=True)
    fields = source | fields
    return None if fields.keys() <= {"name"} else Document(**fields, opaque=Opaque(home, {}, spelling=spelling))


def _source_in(url: str) -> dict[str, Any]:
    """Say where a medium is: in a data URL, or at one."""
    media_type, mark, data = url.partition(";base64,")
    if mark and media_type.startswith("data:") and not {";", ","} & set(media_type):
        return {"data": data, "media_type": media_type[5:]}
    return {"url": url}


def _home_of(part: Mapping[str, Any]) -> str:
    """Say whose spelling a map is."""
    kind = str(part.get("type"))
    if kind.startswith(("input_", "output_")) and kind != "input_audio":
        return RESPONSES
    claudes = kind.endswith(("_tool_use", "_tool_result")) or kind in ("search_result", "container_upload")
    return CLAUDE if claudes or "citations" in part else OPENAI


def take_wire(rest: dict[str, Any]) -> str:
    """Say whose spelling a message is, and take the type out of what is left of it where an item says one."""
    if rest.get("type") != "message":
        return OPENAI
    del rest["type"]
    return RESPONSES


def take_images(rest: dict[str, Any]) -> list[Part]:
    """Take the images that stand beside a content, as Ollama has them, out of what is left of a message."""
    images = rest.get("images")
    if not isinstance(images, list) or not all(isinstance(image, str) for image in images):
        return []
    del rest["images"]
    return [Image(data=image) for image in images]


def _cache_of(part: Mapping[str, Any]) -> Cache | None:
    match part.get("cache_control"):
        case {"type": "ephemeral", "ttl": str(ttl), **more} if not more:
            return Cache(ttl)
        case {"type": "ephemeral", **more} if not more:
            return Cache()
    return None


def _read_image(url: str, inner: dict[Any, Any], part: dict[str, Any]) -> Image:
    detail = inner.pop("detail") if isinstance(inner.get("detail"), str) else None
    opaque = _left_of(part | {"image_url": inner}, {"type"} if inner else {"type", "image_url"})
    return Image(**_source_in(url), detail=detail, opaque=opaque)


def _read_tool_use(block: Mapping[str, Any], _path: str) -> Part | None:
    match block:
        case {"id": str(call_id), "name": str(name), "input": dict(arguments)}:
            return ToolCall(call_id, name, arguments, **_beside(block, "id", "name", "input"))
    return None


def _read_tool_result(block: Mapping[str, Any], path: str) -> Part | None:
    content, failed = block.get("content"), block.get("is_error") or False
    if not isinstance(block.get("tool_use_id"), str) or not isinstance(failed, bool):
        return None
    read = "" if content is None else _read_content(content, path)
    beside = _beside(block, "tool_use_id", "content", "is_error")
    return ToolResult(block["tool_use_id"], None, read, is_error=failed, **beside)


def _read_thinking(block: Mapping[str, Any], _path: str) -> Part | None:
    match block:
        case {"type": "thinking", "thinking": str(text), "signature": str(signature)} if signature:
            return Thinking(text, signature, opaque=Opaque(CLAUDE, {}))
        case {"type": "thinking", "thinking": str(text)}:
            return Thinking(text, opaque=Opaque(CLAUDE, {}))
        case {"type": "redacted_thinking", "data": str(data)}:
            return Thinking("", data, redacted=True, opaque=Opaque(CLAUDE, {}))
    return None


def _read_medium(block: Mapping[str, Any], _path: str) -> Part | None:
    fields = _source_of(block.get("source"))
    if block["type"] == "image":
        return None if fields is None or "text" in fields else Image(**fields, **_beside(block, "source"))
    title = block.get("title")
    return None if fields is None else Document(**fields, name=title, **_beside(block, "source", "title"))


def _source_of(source: Any) -> dict[str, Any] | None:
    match source:
        case {"type": "base64", "media_type": str(kind), "data": str(data)}:
            return {"media_type": kind, "data": data}
        case {"type": "text", "data": str(text)}:
            return {"media_type": source.get("media_type"), "text": text}
        case {"type": "url", "url": str(url)}:
            return {"url": url}
        case {"type": "file", "file_id": str(file_id)}:
            return {"file_id": file_id}
    return None


_BLOCKS: dict[str, Callable[[Mapping[str, Any], str], Part | None]] = {
    "tool_use": _read_tool_use,
    "tool_result": _read_tool_result,
    "thinking": _read_thinking,
    "redacted_thinking": _read_thinking,
    "image": _read_medium,
    "document": _read_medium,
}
_WANTED = {
    "tool_use": "it needs an id, a name and an input that is a map",
    "tool_result": "it needs a tool_use_id, and a content that is a string or a list of blocks",
    "thinking": "it needs its text under `thinking`",
    "redacted_thinking": "it needs its `data`",
    "image": "its source is base64, url or file",
    "document": "its source is base64, text, url or file",
}


def _beside(block: Mapping[str, Any], *taken: str) -> dict[str, Any]:
    """Give a block's cache mark, and what else Claude's wire says of it."""
    return {"cache": _cache_of(block), "opaque": _left_of(block, {"type", *taken}, CLAUDE)}


def read_unparsed_of_tool(attrs: Mapping[str, Any], taken: set[str]) -> tuple[Opaque | None, Cache | None]:
    """Give what else Claude's wire says of a tool, and its cache mark."""
    return _left_of(attrs, taken, CLAUDE), _cache_of(attrs)


def read_call(call: Any, index: int) -> ToolCall:
    """Read a call of OpenAI's."""
    match call:
        case {"function": {"name": str(name), "arguments": str(raw)}}:
            arguments, error = parse_arguments(raw)
            call_id, opaque = _id_of(call, index), _left_in(call)
            return ToolCall(call_id, name, arguments, index, raw=raw, error=error, opaque=opaque)
        case {"function": {"name": str(name), "arguments": dict(arguments)}}:
            return ToolCall(_id_of(call, index), name, arguments, index, opaque=_left_in(call))
        case {"type": "custom", "custom": {"name": str(name), "input": str(text)}}:
            return ToolCall(_id_of(call, index), name, index=index, raw=text, custom=True)
        case ToolCall():
            return call
    raise InvalidField(f"tool_calls[{index}]", "must have a function with a name and arguments", path="Message")


def _id_of(call: Any, index: int) -> str | None:
    call_id = call.get("id")
    if call_id is not None and not isinstance(call_id, str):
        raise InvalidField(f"tool_calls[{index}].id", "must be a string or null", path="Message")
    return call_id


def _left_in(call: dict[str, Any]) -> Opaque | None:
    inner = call["function"]
    if len(inner) == 2 and call.keys() <= _CALL_KEYS:
        return None
    inner = {key: value for key, value in inner.items() if key not in _FUNCTION_KEYS}
    return _left_of({**call, "function": inner}, _CALL_KEYS - {"function"} if inner else _CALL_KEYS)


def _left_of(value: Mapping[str, Any], taken: set[str] | frozenset[str], dialect: str = OPENAI) -> Opaque | None:
    """Keep what has no canonical field for the wire whose spelling this is."""
    marked = "cache_control" in value and _cache_of(value) is not None
    rest = {key: inner for key, inner in value.items() if key not in taken and not (marked and key == "cache_control")}
    return Opaque(dialect, rest) if rest else None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
