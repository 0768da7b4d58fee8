"""Content blocks and results of MCP, both directions, over whatever there may be."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types.methods import serialize_server_result
from msgspec import UNSET

from toolwire import Audio, Document, Image, Opaque, Refusal, Text, Thinking, ToolCall, ToolResult
from toolwire.encoding.ledger import spelling_of
from toolwire.mcp.content import decode_part, decode_result, decode_tool, encode_part, encode_result, encode_tool
from toolwire.mcp.server import body_of
from toolwire.types.spelling.mcp import McpResultSpelling

CALL = ToolCall("c1", "t")
VERSIONS = ("2025-11-25", "2026-07-28")

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = st.none() | words.filter(bool)
data = st.sampled_from(["", "aW1n"])
urls = st.sampled_from(["https://e.org/a%20b.png", "http://e.org/", "https://e.org/x?y=z#a"])
parts = st.one_of(
    st.builds(Text, words),
    st.builds(Image, data=data, media_type=st.just("image/png"), detail=st.sampled_from([None, "low"])),
    st.builds(Image, url=urls, media_type=st.sampled_from([None, "image/png"])),
    st.builds(Audio, data=data, media_type=st.just("audio/wav"), transcript=st.sampled_from([None, "so"])),
    st.builds(Document, text=words, name=st.none() | words.filter(bool), media_type=st.sampled_from([None, "a/b"])),
    st.builds(Document, data=data, name=st.none() | words.filter(bool), media_type=st.just("application/pdf")),
    st.builds(Document, url=urls, name=st.none() | words.filter(bool)),
)
KEYS = (
    *(
        "content",
        "type",
        "text",
        "image",
        "audio",
        "resource",
        "resource_link",
        "uri",
        "blob",
        "data",
        "mimeType",
    ),
    *("name", "structuredContent", "isError", "_meta", "toolwire/part", "kind", "annotations", "resultType"),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from([*KEYS, "https://e.org", "x:y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)
blocks = st.one_of(
    values,
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "image", "audio", "resource", "resource_link"])},
        optional={key: values for key in KEYS if key != "type"},
    ),
)


def sent(result: ToolResult, version: str = VERSIONS[-1], **said: Any) -> dict[str, Any]:
    """Send a result through the official types of a protocol version."""
    return serialize_server_result("tools/call", version, body_of(result, version, **said))


@given(parts)
def test_parts_come_back_as_they_were(part: Any) -> None:
    for version in VERSIONS:
        [block] = sent(ToolResult("c1", "t", [part]), version)["content"]
        assert decode_part(block) == part


@given(st.lists(blocks, max_size=3), values)
def test_any_content_is_read_and_can_be_said_again(content: list[Any], structured: Any) -> None:
    result = decode_result({"content": content, "structuredContent": structured}, CALL)
    assert len(result.content) >= bool(content)
    assert sent(result)["isError"] is False
    again = decode_result(sent(result), CALL)
    assert str(again.content) == str(decode_result(sent(again), CALL).content)


@given(st.dictionaries(st.sampled_from(KEYS), values))
def test_any_answer_gives_a_result(answer: dict[str, Any]) -> None:
    assert isinstance(decode_result(answer, CALL), ToolResult)


@given(values)
def test_any_tool_of_a_listing_is_read_or_left_out(given_tool: Any) -> None:
    tool = decode_tool(given_tool)
    assert tool is None or encode_tool(tool)["inputSchema"]["type"] == "object"


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (Refusal("no"), {"type": "text", "text": "no"}),
        (Image(file_id="f1"), {"type": "text", "text": "[image f1]"}),
        (Document(file_id="f1"), {"type": "text", "text": "[document f1]"}),
        (Audio(), {"type": "text", "text": "[audio without data]"}),
        (Image(url="data:image/gif;base64,Z2lm"), {"type": "image", "data": "Z2lm", "mimeType": "image/gif"}),
        (Image(data="aW1n"), {"type": "image", "data": "aW1n", "mimeType": "image/png"}),
        (
            Opaque("gemini", {"a": 1}),
            {
                "type": "text",
                "text": '{"type":"opaque","dialect":"gemini","value":{"a":1},"spelling":null}',
            },
        ),
    ],
)
def test_what_has_no_block_is_text(part: Any, block: dict[str, Any]) -> None:
    assert encode_part(part) == block


def test_thinking_stays_at_home_as_text() -> None:
    assert "because" in encode_part(Thinking("because"))["text"]


LINK = {"type": "resource_link", "uri": "https://e.org/x.png", "name": "x", "mimeType": "image/png"}


def test_only_a_link_of_our_own_is_fetched_by_a_provider() -> None:
    """Control: the same link with our mark is an image again."""
    part = decode_part(LINK)
    assert isinstance(part, Text)
    assert encode_part(part) == LINK
    marked = {**LINK, "_meta": {"toolwire/part": {"kind": "image"}}}
    assert decode_part(marked) == Image(url="https://e.org/x.png", media_type="image/png")
    for uri in ("file:///etc/passwd", "x:y", ""):
        assert isinstance(decode_part({**marked, "uri": uri}), Text)


DATA_URL = "data:image/gif;base64,Z2lm"


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "image", "data": "aW1n"}, Image(data="aW1n")),
        ({"type": "audio", "data": "c25k", "mimeType": None}, Audio(data="c25k")),
        ({"type": "image", "data": DATA_URL, "mimeType": "image/png"}, Image(data="Z2lm", media_type="image/gif")),
        ({"type": "image", "data": DATA_URL}, Image(data="Z2lm", media_type="image/gif")),
    ],
)
def test_a_medium_that_is_described_oddly_is_no_text(block: Any, part: Any) -> None:
    """A model would read its Base64, and a data URL within another is no image."""
    assert decode_part(block) == part
    if block["data"] == DATA_URL:
        resource = {"uri": "x:y", "blob": DATA_URL, "mimeType": "application/octet-stream"}
        found = decode_part({"type": "resource", "resource": resource})
        assert (found.data, found.media_type) == (part.data, part.media_type)  # type: ignore[union-attr]
    assert decode_part({**block, "mimeType": 5}) == Text(json.dumps({**block, "mimeType": 5}))


@pytest.mark.parametrize("texts", [[], [""], [" \n", ""]])
def test_structured_content_stands_in_for_empty_texts(texts: list[str]) -> None:
    content = [{"type": "text", "text": text} for text in texts]
    assert decode_result({"content": content, "structuredContent": {"a": 1}}, CALL).content == '{"a": 1}'
    assert decode_result({"content": [*content, {"type": "text", "text": "x"}], "structuredContent": 1}, CALL).content


TEXT = {"type": "text"}


@pytest.mark.parametrize(
    ("body", "value", "structured"),
    [
        ({"content": [{"type": "text", "text": "3"}], "structuredContent": {"result": 3}}, {}, {"result": 3}),
        ({"content": [{"type": "text", "text": '{"a": 1}'}], "structuredContent": {"a": 1}}, {}, {"a": 1}),
        (
            {
                "content": [{"type": "text", "text": one} for one in "ab"],
                "structuredContent": {"result": ["a", "b"]},
            },
            {},
            {"result": ["a", "b"]},
        ),
        ({"content": [{"type": "text", "text": "sum"}], "structuredContent": {"a": 1}}, {"a": 1}, UNSET),
    ],
)
def test_structured_content_is_a_loss_only_if_no_text_says_it(body: Any, value: Any, structured: Any) -> None:
    opaque = decode_result(body, CALL).opaque
    assert opaque is not None
    assert opaque.value.get("structuredContent", {}) == value
    assert spelling_of(opaque, McpResultSpelling).structured_content == structured


@pytest.mark.parametrize(
    ("content", "structured"),
    [('{"a": 1}', {"a": 1}), ("[1]", [1]), ("words", None), ([Text('{"a": 1}')], {"a": 1}), ([], None)],
)
def test_json_in_text_is_structured_content_where_that_is_declared(content: Any, structured: Any) -> None:
    result = ToolResult("c1", "t", content)
    assert encode_result(result, structured=True).get("structuredContent") == structured
    assert "structuredContent" not in encode_result(result)
