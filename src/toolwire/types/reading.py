"""Parse parts and calls in the spellings that applications use: OpenAI's maps, Claude's blocks, and tagged tuples.

Rules of this file:
- A key without a canonical field becomes opaque data of the wire that has this spelling.
- A map that has the type of a call, a result or thinking, but lacks its fields, is rejected with its path. Without the
  part, the model would answer half a history, and nobody would notice.
- A value that is neither a part nor a spelling of one is rejected when the message is made.
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
_SOUND_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg"}
_SHAPES = {
    "text": '("text", text)',
    "tool_use": '("tool_use", id, name, arguments)',
    "tool_result": '("tool_result", id, name, result)',
    "thinking": '("thinking", text) or ("thinking", {"text": ..., "signature": ...})',
}


def read_parts(content: Iterable[Any], path: str = "Message") -> list[Part]:
    """Parse the parts of a message. Each may be a part, a string, a map or a tagged tuple."""
    parts: list[Part] = []
    calls = 0
    for index, item in enumerate(content):
        part = item if type(item) in _PART_TYPES else _read(item, index, path)
        if type(part) is ToolResult and type(part.content) is not str:
            part = replace(part, content=_read_content(part.content, f"{path}.content[{index}]"))
        elif type(part) is ToolCall:
            part = part if part is item else replace(part, index=calls)
            calls += 1
        parts.append(part)
    return parts


def frozen_content(content: Any, path: str = "Message") -> Any:
    """Parse the content that an application gave a message. A list of parts is returned as a `FrozenList`."""
    if type(content) is FrozenList:
        return content
    parsed = content if _are_parts(content) else _read_content(content, path)
    return FrozenList(parsed) if type(parsed) is list else parsed


def _are_parts(content: Any) -> bool:
    """Return True if `content` is a list of canonical parts, so that nothing has to be parsed."""
    if type(content) is not list:
        return False
    for part in content:
        part_type = type(part)
        if part_type not in _PART_TYPES or (part_type is ToolResult and type(part.content) is not str):
            return False
    return True


def _read_content(content: Any, path: str = "Message") -> str | list[Part]:
    """Parse a content: a string, or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) or (type(content) is tuple and not (content and isinstance(content[0], str))):
        return read_parts(content, path)
    raise InvalidField("content", f"must be a string or a list of parts, not {_excerpt(content)}", path=path)


def _read(part: Any, index: int, path: str) -> Part:
    field = f"content[{index}]"
    match part:
        case str():
            return Text(part)
        case Mapping():
            return _read_map(part, field, path)
        case (str(tag), *values) if type(part) is tuple and tag in _SHAPES:
            parsed = _read_tagged(tag, values, path)
            if parsed is None:
                raise InvalidField(field, f"must be {_SHAPES[tag]}", path=path)
            return parsed
        case _ if isinstance(part, Part):
            return part
    raise InvalidField(field, f"must be a part, a string or a map, not {_excerpt(part)}", path=path)


def _read_tagged(tag: str, values: list[Any], path: str) -> Part | None:
    """Parse a tuple of a tag and `values`. Return None if it does not have the shape of its tag."""
    match (tag, *values):
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
    """Parse a part of OpenAI or a block of Claude. A map of an unknown type becomes opaque."""
    block_type = part.get("type")
    if isinstance(block_type, str) and block_type in _BLOCKS:
        parsed = _BLOCKS[block_type](part, path)
        if parsed is None:
            raise InvalidField(field, f"is no {block_type} block: {_REQUIREMENTS[block_type]}", path=path)
        return parsed
    match part:
        case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            cache, opaque = _cache_of(part), _opaque_of(part, {"type", "text"}, _wire_of(part))
            # The mark `cache_control` is written for OpenAI's wire and for Claude's.
            return Text(text, cache=cache, opaque=opaque or (None if cache is None else Opaque(OPENAI, {})))
        case {"type": "image_url", "image_url": {"url": str(url), **inner}}:
            return _read_image(url, inner, dict(part))
    return _read_openai_medium(part) or Opaque(_wire_of(part), part)


def _read_openai_medium(part: Mapping[str, Any]) -> Part | None:
    """Parse an image, a sound or a file in OpenAI's spelling. Return None if the map has any other key."""
    match dict(part):
        case {"type": "input_image", "image_url": str(url), "detail": str(detail), **unparsed} if not unparsed:
            return Image(**_source_in(url), detail=detail, opaque=Opaque(RESPONSES, {}))
        case {"type": "input_image", "image_url": str(url), **unparsed} if not unparsed:
            return Image(**_source_in(url), opaque=Opaque(RESPONSES, {}))
        case {
            "type": "input_audio",
            "input_audio": {"data": str(data), "format": str(kind), **more},
            **unparsed,
        } if kind in _SOUND_TYPES and not more and not unparsed:
            return Audio(data, _SOUND_TYPES[kind], opaque=Opaque(OPENAI, {}))
        case {"type": "file", "file": {**file}, **unparsed} if not unparsed:
            return _read_file(file, OPENAI)
        case {"type": "input_file", **file}:
            return _read_file(file, RESPONSES)
    return None


def _read_file(file: dict[Any, Any], wire: str) -> Document | None:
    """Parse a file in the spelling of `wire`. If its data is not a data URL, the wire gets the data as it was given."""
    if not file.keys() <= _FILE.keys() or not all(isinstance(value, str) for value in file.values()):
        return None
    spelling, fields = None, {_FILE[key]: value for key, value in file.items()}
    data = fields.pop("data", None)
    source = {} if data is None else _source_in(data)
    if data is not None and "data" not in source:
        medium_spelling = _MEDIUM_SPELLINGS[wire]
        if "://" in data:
            spelling = medium_spelling(data=data)
        else:
            source, spelling = {"data": data}, medium_spelling(is_bare=True)
    fields = source | fields
    return None if fields.keys() <= {"name"} else Document(**fields, opaque=Opaque(wire, {}, spelling=spelling))


def _source_in(url: str) -> dict[str, Any]:
    """Return the fields for the source of a medium: the data of a data URL, or any other URL."""
    media_type, separator, data = url.partition(";base64,")
    if separator and media_type.startswith("data:") and not {";", ","} & set(media_type):
        return {"data": data, "media_type": media_type[5:]}
    return {"url": url}


def _wire_of(part: Mapping[str, Any]) -> str:
    """Return the dialect of the wire that has this spelling."""
    part_type = str(part.get("type"))
    if part_type.startswith(("input_", "output_")) and part_type != "input_audio":
        return RESPONSES
    is_claude = part_type.endswith(("_tool_use", "_tool_result")) or part_type in ("search_result", "container_upload")
    return CLAUDE if is_claude or "citations" in part else OPENAI


def take_wire(unparsed: dict[str, Any]) -> str:
    """Return the dialect of the wire that spells a message so. Remove the `type` that an item of Responses has."""
    if unparsed.get("type") != "message":
        return OPENAI
    del unparsed["type"]
    return RESPONSES


def take_images(unparsed: dict[str, Any]) -> list[Part]:
    """Remove the `images` that a message of Ollama has beside its content, and return them."""
    images = unparsed.get("images")
    if not isinstance(images, list) or not all(isinstance(image, str) for image in images):
        return []
    del unparsed["images"]
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
    opaque = _opaque_of(part | {"image_url": inner}, {"type"} if inner else {"type", "image_url"})
    return Image(**_source_in(url), detail=detail, opaque=opaque)


def _read_tool_use(block: Mapping[str, Any], _path: str) -> Part | None:
    match block:
        case {"id": str(call_id), "name": str(name), "input": dict(arguments)}:
            return ToolCall(call_id, name, arguments, **_cache_and_opaque(block, "id", "name", "input"))
    return None


def _read_tool_result(block: Mapping[str, Any], path: str) -> Part | None:
    content, is_error = block.get("content"), block.get("is_error") or False
    if not isinstance(block.get("tool_use_id"), str) or not isinstance(is_error, bool):
        return None
    parsed = "" if content is None else _read_content(content, path)
    others = _cache_and_opaque(block, "tool_use_id", "content", "is_error")
    return ToolResult(block["tool_use_id"], None, parsed, is_error=is_error, **others)


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
        return None if fields is None or "text" in fields else Image(**fields, **_cache_and_opaque(block, "source"))
    title = block.get("title")
    return None if fields is None else Document(**fields, name=title, **_cache_and_opaque(block, "source", "title"))


def _source_of(source: Any) -> dict[str, Any] | None:
    match source:
        case {"type": "base64", "media_type": str(media_type), "data": str(data)}:
            return {"media_type": media_type, "data": data}
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
_REQUIREMENTS = {
    "tool_use": "it needs an id, a name and an input that is a map",
    "tool_result": "it needs a tool_use_id, and a content that is a string or a list of blocks",
    "thinking": "it needs its text under `thinking`",
    "redacted_thinking": "it needs its `data`",
    "image": "its source is base64, url or file",
    "document": "its source is base64, text, url or file",
}


def _cache_and_opaque(block: Mapping[str, Any], *parsed: str) -> dict[str, Any]:
    """Return the cache mark of a block of Claude, and its keys that are not in `parsed` as opaque data."""
    return {"cache": _cache_of(block), "opaque": _opaque_of(block, {"type", *parsed}, CLAUDE)}


def read_unparsed_of_tool(attrs: Mapping[str, Any], parsed: set[str]) -> tuple[Opaque | None, Cache | None]:
    """Return the keys of a tool of Claude that are not in `parsed` as opaque data, and its cache mark."""
    return _opaque_of(attrs, parsed, CLAUDE), _cache_of(attrs)


def read_call(call: Any, index: int) -> ToolCall:
    """Parse an entry of `tool_calls` in OpenAI's spelling. Raise `InvalidField` if it is not one."""
    match call:
        case {"function": {"name": str(name), "arguments": str(raw)}}:
            arguments, error = parse_arguments(raw)
            call_id, opaque = _id_of(call, index), _opaque_of_call(call)
            return ToolCall(call_id, name, arguments, index, raw=raw, error=error, opaque=opaque)
        case {"function": {"name": str(name), "arguments": dict(arguments)}}:
            return ToolCall(_id_of(call, index), name, arguments, index, opaque=_opaque_of_call(call))
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


def _opaque_of_call(call: dict[str, Any]) -> Opaque | None:
    inner = call["function"]
    if len(inner) == 2 and call.keys() <= _CALL_KEYS:
        return None
    inner = {key: value for key, value in inner.items() if key not in _FUNCTION_KEYS}
    return _opaque_of({**call, "function": inner}, _CALL_KEYS - {"function"} if inner else _CALL_KEYS)


def _opaque_of(value: Mapping[str, Any], parsed: set[str] | frozenset[str], dialect: str = OPENAI) -> Opaque | None:
    """Return the keys of `value` that have no canonical field as opaque data of the wire that has this spelling."""
    if "cache_control" in value and _cache_of(value) is not None:
        parsed = {*parsed, "cache_control"}
    unparsed = {key: inner for key, inner in value.items() if key not in parsed}
    return Opaque(dialect, unparsed) if unparsed else None


def _excerpt(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
