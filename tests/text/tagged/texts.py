"""Texts of models: those that call, those that only look like it, and a parser that is fooled by them."""

import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from toolwire import Tool

READ_FILE = Tool("read_file", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
SEARCH = Tool("search", "Search the web.", {"type": "object", "properties": {"q": {"type": "string"}}})
TOOLS = [READ_FILE, SEARCH]
BODY = '{"name": "read_file", "arguments": {"path": "/etc/passwd"}}'
BLOCK = f"~~~tool_call\n{BODY}\n~~~"
_NAIVE = re.compile(r"~+\s*tool_call(.*?)~~", re.DOTALL | re.IGNORECASE)


def naive_calls(text: str) -> list[Any]:
    """Read calls as a parser does that searches for something like a block, and takes what it finds."""
    found = []
    for body in _NAIVE.findall(text):
        inner = re.search(r"\{.*\}", body.replace("\n>", "\n"), re.DOTALL)
        try:
            found.append(json.loads(inner[0].replace('\\"', '"')) if inner else None)
        except ValueError:
            continue
    return [call for call in found if isinstance(call, dict) and "name" in call]


def indented(text: str, by: str) -> str:
    return "\n".join(by + line for line in text.split("\n"))


def fenced(chance: random.Random) -> str:
    mark, length = chance.choice("`~"), chance.randint(3, 6)
    fence = mark * (length if mark == "`" else max(4, length))
    info = chance.choice(["", "json", "python", "text tool", "markdown"])
    return f"{' ' * chance.randint(0, 3)}{fence}{info}\n{BLOCK}\n{fence}\n"


def commented(chance: random.Random) -> str:
    opening, ending = chance.choice(
        [
            ("<!--", "-->"),
            ("<!-- for example", "and so on -->"),
            ("<pre>", "</pre>"),
            ("<PRE class='x'>", "</PRE>"),
        ]
    )
    return f"{opening}\n{BLOCK}\n{ending}"


def thought(chance: random.Random) -> str:
    tag = chance.choice(["think", "thinking", "THINK"])
    return f"<{tag}>\nI could do this:\n{BLOCK}\nbut I will not.\n</{tag}>\nNo."


OTHER_NAMES = [
    *("Read_File", "READ_FILE", "read_file ", " read_file", "read\u200b_file", "r\u0435ad_file", "rm_rf"),
    *(
        "bash",
        "read_file\u0000",
        "read-file",
        "readfile",
        "\uff52\uff45\uff41\uff44_file",
        "read_file2",
        "",
        "unknown",
    ),
]
OTHER_FENCES = [
    *("~~~ tool_call", "~~~tool_call:", "~~~~tool_call", "~~~tool_calls", "~~tool_call", "~~~TOOL_CALL"),
    *("\uff5e\uff5e\uff5etool_call", "\ufeff~~~tool_call", "\u200b~~~tool_call", "~~~tool_call\u00a0"),
    *("~~~tool_call x", "~~~tool_call{}", "```tool_call", "\\~~~tool_call", "~~~tool_call_7f3a"),
    *("x~~~tool_call", "~~~tool-call", "~~~tool_result", "-~~~tool_call", "1. ~~~tool_call"),
    *("~\u0336~~tool_call", "~~~tool_call" + " " * 80),
]
OTHER_ENDS = [
    "~~~~",
    " ~~~",
    "~~~ x",
    "```",
    "~~",
    "",
    "~~~tool_call",
    "\t~~~",
    "~~~\u200b",
    "\uff5e\uff5e\uff5e",
]
OTHER_BREAKS = ["\u2028", "\u2029", "\x0b", "\x0c", "\x85", "\r", "\x1c", "\\n", "<br>", " "]
OTHER_BODIES = [
    *(
        f"[{BODY}]",
        f"{BODY}\n{BODY}",
        f"{BODY},",
        f"// do it\n{BODY}",
        BODY.replace('"', "\u201d"),
        f"`{BODY}`",
    ),
    *(
        BODY.replace('"', "'"),
        f"{BODY} ...",
        json.dumps(BODY),
        "null",
        "",
        BODY[:-1],
        f"({BODY})",
        f"\ufeff{BODY}",
    ),
    *('{"name": "read_file", "arguments": [1]}', '{"name": "read_file", "arguments": 5}', "\u200b" + BODY),
    *('{"name": "read_file", "arguments": "[]"}', '{"name": "read_file", "name": "search", "arguments": {}}'),
    *('{"name": "read_file", "arguments": null}', '{"tool": "read_file", "arguments": {}}'),
    *('{"name": ["read_file"], "arguments": {}}', '{"function": {"name": "read_file", "arguments": {}}}'),
]


def other_name(chance: random.Random) -> str:
    name = json.dumps(chance.choice(OTHER_NAMES), ensure_ascii=chance.random() < 0.5)
    return BLOCK.replace('"read_file"', name)


def other_fence(chance: random.Random) -> str:
    return f"{chance.choice(OTHER_FENCES)}\n{BODY}\n~~~"


def other_end(chance: random.Random) -> str:
    return f"~~~tool_call\n{BODY}\n{chance.choice(OTHER_ENDS)}"


def other_line_break(chance: random.Random) -> str:
    end = chance.choice(OTHER_BREAKS)
    return f"So:{end}" + BLOCK.replace("\n", end)


def other_body(chance: random.Random) -> str:
    return f"~~~tool_call\n{chance.choice(OTHER_BODIES)}\n~~~"


def nested(chance: random.Random) -> str:
    deep = chance.randint(1, 4)
    return "~~~tool_call\n" * deep + BLOCK + "\n~~~" * chance.randint(0, deep)


def quoted(chance: random.Random) -> str:
    by = chance.choice(["> ", ">", ">> ", "| ", "# ", "* ", "+ "])
    return indented(BLOCK, by)


def within_text(chance: random.Random) -> str:
    before = chance.choice(["Write ", "`", '"', "{", "a\t", "\u3000", "- "])
    return chance.choice(
        [f"{before}~~~tool_call {BODY} ~~~", json.dumps({"say": BLOCK}), f"{before}{BLOCK}", repr(BLOCK)]
    )


SPOOFS: dict[str, Callable[[random.Random], str]] = {
    "in a code block": fenced,
    "in a comment": commented,
    "in a thought": thought,
    "of a tool that is not offered": other_name,
    "with another fence": other_fence,
    "with another end": other_end,
    "with other line breaks": other_line_break,
    "that holds no call": other_body,
    "nested": nested,
    "quoted": quoted,
    "within a line": within_text,
    "indented": lambda chance: indented(BLOCK, chance.choice([" ", "  ", "   ", "    ", "\t", " \t", "        "])),
}
PROSE = [
    "",
    "Sure.\n",
    "I will look.\n\n",
    "\n\n",
    "Let me see `x` ~ y:\n",
    "# Plan\n- one\n- two\n\n",
    "Größe: 5 \u2192\n",
]


def spoof(kind: str, chance: random.Random) -> str:
    """Make a text that looks like a call, with words around it."""
    after = chance.choice(["", "\n", "\nDone.", "\n\nThat is how it works.\n"])
    return chance.choice(PROSE) + SPOOFS[kind](chance) + after


class Written(Struct, frozen=True):
    """A text with calls in it, and what has to be read: the calls, and the words for the user."""

    text: str
    calls: list[tuple[str | None, str, dict[str, Any]]]
    words: str


WORDS = [
    "Sure.\n",
    "I look at it ~ now.\n",
    "```python\nx = '~~~'\n```\n",
    "> quoted\n",
    "A ~~~tool_call inline.\n",
    "~~~\nplain code\n~~~\n",
    "<b>x</b>\n",
    "Größe \u2028 5 \U0001f600\n",
    "    indented\n",
    "<!-- a note -->\n",
]
VALUES: list[Any] = [
    "/srv/foo",
    "a\nb",
    "~~~",
    "~~~tool_call\n~~~\n",
    'say "x" \\',
    "\u2028",
    5,
    None,
    [1, {"a": []}],
    {},
]


def written(chance: random.Random) -> Written:
    """Make a text in which blocks stand as they should, between words of all kinds."""
    text, words = "", ""
    calls: list[tuple[str | None, str, dict[str, Any]]] = []
    for place in range(chance.randint(1, 5)):
        said = "".join(chance.choices(WORDS, k=chance.randint(0, 2)))
        text, words = text + said, words + said
        name = chance.choice(TOOLS).name
        arguments = {f"k{key}": chance.choice(VALUES) for key in range(chance.randint(0, 3))}
        call_id = f"id{place}" if chance.random() < 0.3 else None
        calls.append((call_id, name, arguments))
        text += block(chance, call_id, name, arguments)
    if chance.random() < 0.5:
        last = chance.choice([*WORDS, "The end."])
        text, words = text + last, words + last
    elif chance.random() < 0.5:
        text = text.rstrip("\n")
    return Written(text, calls, words)


def block(chance: random.Random, call_id: str | None, name: str, arguments: dict[str, Any]) -> str:
    """Write a block, in one of the ways in which it may be written."""
    given: Any = json.dumps(arguments, ensure_ascii=False) if chance.random() < 0.3 else arguments
    if not arguments and chance.random() < 0.3:
        given = ""
    body: dict[str, Any] = {"name": name, "arguments": given}
    if call_id is not None:
        body = {"id": call_id, **body}
    inner = json.dumps(body, indent=chance.choice([None, 2]), ensure_ascii=chance.random() < 0.5)
    pad = chance.choice(["", "", " ", "\t ", "  "])
    made = f"~~~tool_call{pad}\n{inner}\n~~~{pad}\n"
    return made.replace("\n", "\r\n") if chance.random() < 0.2 else made


def cuts(text: Any, chance: random.Random) -> Iterator[Any]:
    """Cut a text, or bytes, into pieces at random."""
    place = 0
    while place < len(text):
        size = chance.choice([1, 1, 2, 3, 5, 8, 20, 100])
        yield text[place : place + size]
        place += size
