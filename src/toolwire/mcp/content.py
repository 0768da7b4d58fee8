"""MCP's tools, content blocks and results, and those of this package, in both directions.

Rules of this file:
- Everything is plain JSON: the official package is not needed to parse or encode it.
- The annotations and the `_meta` of a part are opaque to every other wire. The URI of a resource is a spelling. Both
  are written again when the part is served again.
- An unknown block becomes text, so that the model can read it. No block makes a result unreadable.
- A link becomes text: only the server can resolve it, and a provider must not fetch the address. The exception is a
  link that this package wrote for a part with a URL; it becomes that part again.
- A tool's schema is passed on unchanged. A schema that is not of an object is made one, because MCP accepts no other.
- The other fields of a listing are stored in `metadata` under MCP's own names. How calls are run is the host's
  decision, and is not taken from a server.
- A tool that the server describes wrongly stays a tool, as far as it can be parsed.
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
_DOCUMENT_URI = "toolwire://document/"
_KINDS: dict[str, type[Image | Document | Audio]] = {"image": Image, "audio": Audio, "document": Document}
_EXTRA_FIELDS = {"image": ("detail",), "audio": ("transcript",), "document": ("name",)}
_DEFAULTS = {"image": "image/png", "audio": "audio/wav", "document": "application/octet-stream"}
_TOOL_FIELDS = ("title", "annotations", "outputSchema", "icons", "execution", "_meta")
_SPELLINGS = {"outputSchema": ("outputSchema", "output_schema")}
TEXT = "input"
_TEXT_SCHEMA = {"type": "object", "properties": {TEXT: {"type": "string"}}, "required": [TEXT]}


def decode_result(body: Mapping[Any, Any], call: ToolCall) -> ToolResult:
    """Return the result of `tools/call`. Structured content is used if there is no other content."""
    if body.get("resultType") not in (None, "complete"):
        result_type = body.get("resultType")
        return failure(
            call, f"{FAILED}the server did not finish: it returned {result_type!r}, which this client does not support"
        )
    blocks = body.get("content")
    parts = [decode_part(block) for block in blocks] if isinstance(blocks, list) else []
    structured = body.get("structuredContent")
    if structured is not None and all(type(part) is Text and not part.text.strip() for part in parts):
        parts = [Text(_json(structured))]
    content: str | list[Part] = parts or ""
    if len(parts) == 1 and type(parts[0]) is Text and parts[0].opaque is None:
        content = parts[0].text
    opaque = _opaque_of_result(body, parts, structured)
    return ToolResult(call.id, call.name, content, body.get("isError") is True, opaque=opaque)


def _opaque_of_result(body: Mapping[Any, Any], parts: list[Part], structured: Any) -> Opaque | None:
    """Return what a result has beside its content. Structured content that a text repeats is only its spelling."""
    if structured is None:
        return _mark({}, None, body)
    if _is_repeated([part.text for part in parts if type(part) is Text], structured):
        return _mark({}, McpResultSpelling(structured_content=structured), body)
    return _mark({"structuredContent": structured}, None, body)


def _mark(value: dict[str, Any], spelling: McpPartSpelling | McpResultSpelling | None, body: Any) -> Opaque | None:
    """Return the opaque mark of a value.

    It has the `_meta` of the body, without the keys of the protocol and of this package.
    """
    meta = body.get("_meta")
    meta_fields = meta if isinstance(meta, Mapping) else {}
    meta_fields = {
        key: inner for key, inner in meta_fields.items() if key != MARK and not str(key).startswith(_RESERVED)
    }
    value |= {"_meta": meta_fields} if meta_fields else {}
    return Opaque(WIRE, value, spelling=spelling) if value or spelling is not None else None


def _is_repeated(texts: list[str], structured: Any) -> bool:
    """Return True if the texts contain all of the structured content. Some servers wrap it as `{"result": ...}`."""
    match structured:
        case {"result": list(items), **others} if not others and len(items) == len(texts):
            if all(map(_equals, texts, items)):
                return True
        case {"result": inner, **others} if not others and any(_equals(text, inner) for text in texts):
            return True
    return any(_equals(text, structured) for text in texts)


def _equals(text: str, value: Any) -> bool:
    return bool(text == value or _read_json(text) == value)


def encode_result(result: ToolResult, *, structured: bool = False) -> dict[str, Any]:
    """Return the body of a `tools/call` result.

    With `structured`, JSON in its text is also written as structured content.
    """
    content = [Text(result.content)] if isinstance(result.content, str) else result.content
    body: dict[str, Any] = {
        "content": [encode_part(part) for part in content],
        "isError": result.is_error,
        "resultType": "complete",
    }
    opaque, spelling = _opaque_fields(result.opaque), spelling_of(result.opaque, McpResultSpelling)
    if spelling.structured_content is not UNSET:
        body["structuredContent"] = spelling.structured_content
    elif "structuredContent" in opaque:
        body["structuredContent"] = opaque["structuredContent"]
    elif structured and not result.is_error and len(content) == 1 and type(content[0]) is Text:
        value = _read_json(content[0].text)
        body |= {} if value is None else {"structuredContent": value}
    return body | ({"_meta": opaque["_meta"]} if opaque.get("_meta") else {})


def decode_part(block: Any) -> Part:
    """Return the part of one content block."""
    match block:
        case {"type": "text", "text": str(text), **fields}:
            return Text(replace_surrogates(text), opaque=_opaque_rest(fields))
        case {"type": "image" | "audio" as kind, "data": str(data), **fields} if _is_type(fields.get("mimeType")):
            return _KINDS[kind](
                **_data(data, fields.pop("mimeType", None)), opaque=_opaque_rest(fields), **_fields(kind, fields)
            )
        case {"type": "resource", "resource": {"uri": str(uri), **resource}, **fields}:
            return _decode_resource(uri, resource, fields) or Text(_json(block))
        case {"type": "resource_link", "uri": str(uri), **fields}:
            return _decode_link(uri, fields)
    return Text(_json(block))


def _is_type(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _data(data: str, media_type: Any) -> dict[str, Any]:
    """Return the data with its media type. Some servers write a data URL instead."""
    named, inner = split_data_url(data)
    return {"data": data if inner is None else inner, "media_type": named or media_type}


def _decode_resource(uri: str, resource: Mapping[Any, Any], fields: Mapping[Any, Any]) -> Part | None:
    media_type = resource.get("mimeType")
    media_type = media_type if isinstance(media_type, str) else None
    inner = {key: value for key, value in resource.items() if key not in {"mimeType", "text", "blob"}}
    spelling = None if uri.startswith(_DOCUMENT_URI) else McpPartSpelling(uri=uri)
    opaque = _opaque_rest({**fields, **({"resource": inner} if inner else {})}, spelling)
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
    """Return the name of a document: the one that this package wrote, or the end of its URI."""
    if uri.startswith(_DOCUMENT_URI):
        return replace_surrogates(unquote(uri[len(_DOCUMENT_URI) :])) or None
    return replace_surrogates(unquote(uri.rstrip("/").rpartition("/")[2])) or uri


def _decode_link(uri: str, fields: Mapping[Any, Any]) -> Part:
    match fields:
        case {"_meta": {"toolwire/part": {"kind": ("image" | "audio" | "document") as kind}}}:
            if uri.startswith(("https:", "http:")):
                values = _fields(kind, fields)
                media_type = fields.get("mimeType")
                values |= {"media_type": media_type} if isinstance(media_type, str) else {}
                return _KINDS[kind](url=uri, **values)
    names = [value for key in ("title", "name", "description") if isinstance(value := fields.get(key), str) and value]
    link = f"[resource {uri}]"
    return Text(
        replace_surrogates(" ".join([link, *dict.fromkeys(names)])),
        opaque=Opaque(WIRE, {}, spelling=McpPartSpelling(link={"uri": uri, **fields})),
    )


def _fields(kind: str, block: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the fields that this package wrote beside a medium."""
    match block:
        case {"_meta": {"toolwire/part": dict(marked)}}:
            return {name: marked[name] for name in _EXTRA_FIELDS[kind] if isinstance(marked.get(name), str)}
    return {}


def _opaque_rest(fields: Mapping[Any, Any], spelling: McpPartSpelling | None = None) -> Opaque | None:
    value = {key: inner for key, inner in fields.items() if key != "_meta" and inner is not None}
    return _mark(value, spelling, fields)


def _opaque_fields(opaque: Opaque | None) -> dict[str, Any]:
    """Return the fields that MCP had beside a value."""
    if opaque is None or opaque.dialect != WIRE or not isinstance(opaque.value, Mapping):
        return {}
    return dict(opaque.value)


def encode_part(part: Part) -> dict[str, Any]:
    """Return the content block of one part."""
    opaque = getattr(part, "opaque", None)
    fields, spelling = _opaque_fields(opaque), spelling_of(opaque, McpPartSpelling)
    match part:
        case Text() if spelling.link is not None:
            return {"type": "resource_link", "name": spelling.link["uri"], **spelling.link}
        case Text() | Refusal():
            return _with_opaque(fields, {"type": "text", "text": part.text})
        case Image() | Audio() | Document():
            return _encode_medium(part, fields, spelling.uri)
    return {"type": "text", "text": write_json(msgspec.to_builtins(part))}


def without_opaque(result: ToolResult) -> ToolResult:
    """Return `result` without the opaque marks of MCP on it and on its parts."""
    content = result.content
    if not isinstance(content, str):
        content = [replace(part, opaque=None) if isinstance(part, PARTS) else part for part in content]
    return replace(result, content=content, opaque=None)


def _encode_medium(part: Image | Audio | Document, fields: dict[str, Any], uri: str | None) -> dict[str, Any]:
    kind = type(part).__name__.lower()
    if part.url is not None:
        media_type, data = split_data_url(part.url)
        if data is None:
            return _encode_link(part, kind, part.url)
        part = replace(part, url=None, data=data, media_type=media_type)
    marked = {name: value for name in _EXTRA_FIELDS[kind] if kind != "document" and (value := getattr(part, name))}
    fields = {**fields, "_meta": {**fields.get("_meta", {}), MARK: {"kind": kind, **marked}}} if marked else fields
    media_type = part.media_type or _DEFAULTS[kind]
    if isinstance(part, Document) or uri is not None:
        return _encode_resource(part, media_type, fields, uri)
    if part.data is None:
        return {"type": "text", "text": f"[{kind} {part.file_id or 'without data'}]"}
    return _with_opaque(fields, {"type": kind, "data": part.data, "mimeType": media_type})


def _encode_resource(
    part: Image | Audio | Document, media_type: str, fields: dict[str, Any], uri: str | None
) -> dict[str, Any]:
    text = part.text if isinstance(part, Document) else None
    if text is None and part.data is None:
        return {"type": "text", "text": f"[document {part.file_id or 'without data'}]"}
    name = part.name if isinstance(part, Document) else None
    uri = uri or _DOCUMENT_URI + quote(name or "", safe="")
    body = {"text": text} if text is not None else {"blob": part.data}
    typed = {} if part.media_type is None and text is not None else {"mimeType": media_type}
    resource = {"uri": uri, **typed, **body, **fields.get("resource", {})}
    return _with_opaque({**fields, "resource": None}, {"type": "resource", "resource": resource})


def _encode_link(part: Image | Audio | Document, kind: str, url: str) -> dict[str, Any]:
    marked = {name: value for name in _EXTRA_FIELDS[kind] if (value := getattr(part, name))}
    name = marked.get("name") or url.rstrip("/").rpartition("/")[2] or url
    block = {"type": "resource_link", "uri": url, "name": name, "_meta": {MARK: {"kind": kind, **marked}}}
    return block | ({"mimeType": part.media_type} if part.media_type is not None else {})


def _with_opaque(fields: dict[str, Any], block: dict[str, Any]) -> dict[str, Any]:
    return {**{key: fields[key] for key in ("annotations", "_meta") if fields.get(key)}, **block}


def _json(value: Any) -> str:
    return replace_surrogates(json.dumps(value, ensure_ascii=False))


def _read_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def decode_tool(listed: Any) -> Tool | None:
    """Return one tool of a listing; None if it has no name."""
    if not isinstance(listed, Mapping) or not isinstance(listed.get("name"), str):
        return None
    description, schema = listed.get("description"), listed.get("inputSchema")
    return Tool(
        listed["name"],
        description if isinstance(description, str) else None,
        schema if isinstance(schema, dict) else None,
        {key: listed[key] for key in _TOOL_FIELDS if listed.get(key) is not None},
    )


def encode_tool(tool: Tool) -> dict[str, Any]:
    """Return one tool as an entry of a listing."""
    listed: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        listed["description"] = tool.description
    listed["inputSchema"] = _schema_of(tool)
    return listed | {key: value for key in _TOOL_FIELDS if (value := metadata_value(tool, key)) is not None}


def metadata_value(tool: Tool, key: str) -> Any:
    """Return the value in a tool's metadata under one of MCP's names."""
    values = (tool.metadata.get(spelling) for spelling in _SPELLINGS.get(key, (key,)))
    return next((value for value in values if value is not None), None)


def _schema_of(tool: Tool) -> dict[str, Any]:
    """Return the schema of a tool's arguments. For a custom tool, its text is an argument."""
    if tool.custom:
        return _TEXT_SCHEMA
    schema = tool.plain_parameters or {}
    return schema if schema.get("type") == "object" else {**schema, "type": "object"}


def minimal_tool(listed: dict[str, Any]) -> dict[str, Any]:
    """Return a listing entry with only the fields that MCP accepts of any tool."""
    return {key: listed[key] for key in ("name", "description") if key in listed} | {"inputSchema": {"type": "object"}}
