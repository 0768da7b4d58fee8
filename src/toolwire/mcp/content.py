"""MCP's tools, content blocks and results, and those of this package: both directions side by side.

Rules of this file:
- Everything is plain JSON: nothing of the official package is needed to read or to write it.
- The annotations and the `_meta` of a part are opaque to every other wire. The URI of a resource is only its
  spelling. Both are written again when the part is served again.
- A block that nobody knows becomes text, so that the model reads it; nothing makes a result unreadable.
- A link is text: what it points to is for the server to read, and no address for a provider to fetch. Only a
  link that this package wrote for a part with a URL is such a part again.
- The schema of a tool is passed on as it is; one that is not of an object is made one, since MCP takes no other.
- What a listing says beside name, description and schema is kept in `metadata` under MCP's own names. Nothing
  else is taken from there: how calls are run is for the one who runs them to say.
- A tool that the server describes wrongly stays a tool, as far as it can be read.
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from toolwire.encoding.ledger import spelling_of
from toolwire.encoding.parts import split_data_url
from toolwire.types import Audio, Document, Image, Opaque, Part, Refusal, Text, Tool, ToolCall, ToolResult
from toolwire.types.spelling.mcp import McpPartSpelling, McpResultSpelling
from toolwire.waiting.results import FAILED, PARTS, failure, replace_surrogates, write_json

WIRE = "mcp"
_RESERVED = "io.modelcontextprotocol/"
MARK = "toolwire/part"
_NAMED = "toolwire://document/"
_KINDS: dict[str, type[Image | Document | Audio]] = {"image": Image, "audio": Audio, "document": Document}
_BESIDE = {"image": ("detail",), "audio": ("transcript",), "document": ("name",)}
_DEFAULTS = {"image": "image/png", "audio": "audio/wav", "document": "application/octet-stream"}
_BESIDE_TOOL = ("title", "annotations", "outputSchema", "icons", "execution", "_meta")
_SPELLINGS = {"outputSchema": ("outputSchema", "output_schema")}
TEXT = "input"
_TAKES_TEXT = {"type": "object", "properties": {TEXT: {"type": "string"}}, "required": [TEXT]}


def decode_result(body: Mapping[Any, Any], call: ToolCall) -> ToolResult:
    """Read the result of `tools/call`; structured content stands in where there is no other."""
    if body.get("resultType") not in (None, "complete"):
        wanted = body.get("resultType")
        return failure(call, f"{FAILED}the server did not finish: it gave {wanted!r}, which nobody here takes up")
    blocks = body.get("content")
    parts = [decode_part(block) for block in blocks] if isinstance(blocks, list) else []
    structured = body.get("structuredContent")
    if structured is not None and all(type(part) is Text and not part.text.strip() for part in parts):
        parts = [Text(_json(structured))]
    content: str | list[Part] = parts or ""
    if len(parts) == 1 and type(parts[0]) is Text and parts[0].opaque is None:
        content = parts[0].text
    opaque = _beside_result(body, parts, structured)
    return ToolResult(call.id, call.name, content, body.get("isError") is True, opaque=opaque)


def _beside_result(body: Mapping[Any, Any], parts: list[Part], structured: Any) -> Opaque | None:
    """Return what a result has beside its content. Structured content that a text repeats is only its spelling."""
    if structured is None:
        return _mark({}, None, body)
    if _repeats([part.text for part in parts if type(part) is Text], structured):
        return _mark({}, McpResultSpelling(structured_content=structured), body)
    return _mark({"structuredContent": structured}, None, body)


def _mark(value: dict[str, Any], spelling: McpPartSpelling | McpResultSpelling | None, body: Any) -> Opaque | None:
    """Return the mark of a value, with the `_meta` of its body without the keys of the protocol and of this package."""
    meta = body.get("_meta")
    kept = meta if isinstance(meta, Mapping) else {}
    kept = {key: inner for key, inner in kept.items() if key != MARK and not str(key).startswith(_RESERVED)}
    value |= {"_meta": kept} if kept else {}
    return Opaque(WIRE, value, spelling=spelling) if value or spelling is not None else None


def _repeats(texts: list[str], structured: Any) -> bool:
    """Whether texts say all of the structured content; some servers wrap it as `{"result": ...}`."""
    match structured:
        case {"result": list(items), **rest} if not rest and len(items) == len(texts):
            if all(map(_says, texts, items)):
                return True
        case {"result": inner, **rest} if not rest and any(_says(text, inner) for text in texts):
            return True
    return any(_says(text, structured) for text in texts)


def _says(text: str, value: Any) -> bool:
    return bool(text == value or _read_json(text) == value)


def encode_result(result: ToolResult, *, structured: bool = False) -> dict[str, Any]:
    """Write the result of `tools/call`; where `structured`, JSON in its text is said twice."""
    content = [Text(result.content)] if isinstance(result.content, str) else result.content
    body: dict[str, Any] = {
        "content": [encode_part(part) for part in content],
        "isError": result.is_error,
        "resultType": "complete",
    }
    kept, spelling = _kept(result.opaque), spelling_of(result.opaque, McpResultSpelling)
    if spelling.structured_content is not UNSET:
        body["structuredContent"] = spelling.structured_content
    elif "structuredContent" in kept:
        body["structuredContent"] = kept["structuredContent"]
    elif structured and not result.is_error and len(content) == 1 and type(content[0]) is Text:
        read = _read_json(content[0].text)
        body |= {} if read is None else {"structuredContent": read}
    return body | ({"_meta": kept["_meta"]} if kept.get("_meta") else {})


def decode_part(block: Any) -> Part:
    """Read one content block."""
    match block:
        case {"type": "text", "text": str(text), **rest}:
            return Text(replace_surrogates(text), opaque=_beside(rest))
        case {"type": "image" | "audio" as kind, "data": str(data), **rest} if _is_type(rest.get("mimeType")):
            return _KINDS[kind](**_data(data, rest.pop("mimeType", None)), opaque=_beside(rest), **_fields(kind, rest))
        case {"type": "resource", "resource": {"uri": str(uri), **resource}, **rest}:
            return _decode_resource(uri, resource, rest) or Text(_json(block))
        case {"type": "resource_link", "uri": str(uri), **rest}:
            return _decode_link(uri, rest)
    return Text(_json(block))


def _is_type(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _data(data: str, media_type: Any) -> dict[str, Any]:
    """Give data with its media type; some servers write a data URL in its place."""
    named, inner = split_data_url(data)
    return {"data": data if inner is None else inner, "media_type": named or media_type}


def _decode_resource(uri: str, resource: Mapping[Any, Any], rest: Mapping[Any, Any]) -> Part | None:
    media_type = resource.get("mimeType")
    media_type = media_type if isinstance(media_type, str) else None
    inner = {key: value for key, value in resource.items() if key not in {"mimeType", "text", "blob"}}
    spelling = None if uri.startswith(_NAMED) else McpPartSpelling(uri=uri)
    opaque = _beside({**rest, **({"resource": inner} if inner else {})}, spelling)
    match resource:
        case {"text": str(text)}:
            return Document(text=replace_surrogates(text), media_type=media_type, name=_name_of(uri), opaque=opaque)
        case {"blob": str(blob)}:
            data = _data(blob, media_type)
            kind = (data["media_type"] or "").partition("/")[0].lower()
            if kind in {"image", "audio"}:
                return _KINDS[kind](**data, opaque=opaque)
            return Document(**data, name=_name_of(uri), opaque=opaque)
    return None


def _name_of(uri: str) -> str | None:
    """Give the name of a document: the one that it was written with, or the end of its URI."""
    if uri.startswith(_NAMED):
        return replace_surrogates(unquote(uri[len(_NAMED) :])) or None
    return replace_surrogates(unquote(uri.rstrip("/").rpartition("/")[2])) or uri


def _decode_link(uri: str, rest: Mapping[Any, Any]) -> Part:
    match rest:
        case {"_meta": {"toolwire/part": {"kind": ("image" | "audio" | "document") as kind}}}:
            if uri.startswith(("https:", "http:")):
                fields = _fields(kind, rest)
                media_type = rest.get("mimeType")
                fields |= {"media_type": media_type} if isinstance(media_type, str) else {}
                return _KINDS[kind](url=uri, **fields)
    names = [value for key in ("title", "name", "description") if isinstance(value := rest.get(key), str) and value]
    link = f"[resource {uri}]"
    return Text(
        replace_surrogates(" ".join([link, *dict.fromkeys(names)])),
        opaque=Opaque(WIRE, {}, spelling=McpPartSpelling(link={"uri": uri, **rest})),
    )


def _fields(kind: str, rest: Mapping[Any, Any]) -> dict[str, Any]:
    """Read what this package wrote beside a medium."""
    match rest:
        case {"_meta": {"toolwire/part": dict(marked)}}:
            return {name: marked[name] for name in _BESIDE[kind] if isinstance(marked.get(name), str)}
    return {}


def _beside(rest: Mapping[Any, Any], spelling: McpPartSpelling | None = None) -> Opaque | None:
    value = {key: inner for key, inner in rest.items() if key != "_meta" and inner is not None}
    return _mark(value, spelling, rest)


def _kept(opaque: Opaque | None) -> dict[str, Any]:
    """Return all that MCP said beside a value."""
    if opaque is None or opaque.dialect != WIRE or not isinstance(opaque.value, Mapping):
        return {}
    return dict(opaque.value)


def encode_part(part: Part) -> dict[str, Any]:
    """Write one part as a content block."""
    opaque = getattr(part, "opaque", None)
    kept, spelling = _kept(opaque), spelling_of(opaque, McpPartSpelling)
    match part:
        case Text() if spelling.link is not None:
            return {"type": "resource_link", "name": spelling.link["uri"], **spelling.link}
        case Text() | Refusal():
            return _with(kept, {"type": "text", "text": part.text})
        case Image() | Audio() | Document():
            return _encode_medium(part, kept, spelling.uri)
    return {"type": "text", "text": write_json(msgspec.to_builtins(part))}


def without_opaque(result: ToolResult) -> ToolResult:
    """Give a result without what MCP had said beside it and its parts."""
    content = result.content
    if not isinstance(content, str):
        content = [replace(part, opaque=None) if isinstance(part, PARTS) else part for part in content]
    return replace(result, content=content, opaque=None)


def _encode_medium(part: Image | Audio | Document, kept: dict[str, Any], uri: str | None) -> dict[str, Any]:
    kind = type(part).__name__.lower()
    if part.url is not None:
        media_type, data = split_data_url(part.url)
        if data is None:
            return _encode_link(part, kind, part.url)
        part = replace(part, url=None, data=data, media_type=media_type)
    marked = {name: value for name in _BESIDE[kind] if kind != "document" and (value := getattr(part, name))}
    kept = {**kept, "_meta": {**kept.get("_meta", {}), MARK: {"kind": kind, **marked}}} if marked else kept
    media_type = part.media_type or _DEFAULTS[kind]
    if isinstance(part, Document) or uri is not None:
        return _encode_resource(part, media_type, kept, uri)
    if part.data is None:
        return {"type": "text", "text": f"[{kind} {part.file_id or 'without data'}]"}
    return _with(kept, {"type": kind, "data": part.data, "mimeType": media_type})


def _encode_resource(
    part: Image | Audio | Document, media_type: str, kept: dict[str, Any], uri: str | None
) -> dict[str, Any]:
    text = part.text if isinstance(part, Document) else None
    if text is None and part.data is None:
        return {"type": "text", "text": f"[document {part.file_id or 'without data'}]"}
    name = part.name if isinstance(part, Document) else None
    uri = uri or _NAMED + quote(name or "", safe="")
    body = {"text": text} if text is not None else {"blob": part.data}
    typed = {} if part.media_type is None and text is not None else {"mimeType": media_type}
    resource = {"uri": uri, **typed, **body, **kept.get("resource", {})}
    return _with({**kept, "resource": None}, {"type": "resource", "resource": resource})


def _encode_link(part: Image | Audio | Document, kind: str, url: str) -> dict[str, Any]:
    marked = {name: value for name in _BESIDE[kind] if (value := getattr(part, name))}
    name = marked.get("name") or url.rstrip("/").rpartition("/")[2] or url
    block = {"type": "resource_link", "uri": url, "name": name, "_meta": {MARK: {"kind": kind, **marked}}}
    return block | ({"mimeType": part.media_type} if part.media_type is not None else {})


def _with(kept: dict[str, Any], block: dict[str, Any]) -> dict[str, Any]:
    return {**{key: kept[key] for key in ("annotations", "_meta") if kept.get(key)}, **block}


def _json(value: Any) -> str:
    return replace_surrogates(json.dumps(value, ensure_ascii=False))


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def decode_tool(listed: Any) -> Tool | None:
    """Read one tool of a listing; None if it has no name."""
    if not isinstance(listed, Mapping) or not isinstance(listed.get("name"), str):
        return None
    description, schema = listed.get("description"), listed.get("inputSchema")
    return Tool(
        listed["name"],
        description if isinstance(description, str) else None,
        schema if isinstance(schema, dict) else None,
        {key: listed[key] for key in _BESIDE_TOOL if listed.get(key) is not None},
    )


def encode_tool(tool: Tool) -> dict[str, Any]:
    """Write one tool of a listing."""
    listed: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        listed["description"] = tool.description
    listed["inputSchema"] = _schema_of(tool)
    return listed | {key: value for key in _BESIDE_TOOL if (value := beside(tool, key)) is not None}


def beside(tool: Tool, key: str) -> Any:
    """Give what the metadata of a tool says under one of MCP's names."""
    values = (tool.metadata.get(spelling) for spelling in _SPELLINGS.get(key, (key,)))
    return next((value for value in values if value is not None), None)


def _schema_of(tool: Tool) -> dict[str, Any]:
    """Give the schema of a tool's arguments; the text of a custom tool is an argument here."""
    if tool.custom:
        return _TAKES_TEXT
    schema = tool.plain_parameters or {}
    return schema if schema.get("type") == "object" else {**schema, "type": "object"}


def bare(listed: dict[str, Any]) -> dict[str, Any]:
    """Say only what cannot be wrong of a tool that MCP would not take as it is."""
    return {key: listed[key] for key in ("name", "description") if key in listed} | {"inputSchema": {"type": "object"}}
