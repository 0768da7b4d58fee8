"""Draw the pictures of the README and of `docs/understand` as SVG. `make docs` runs this.

The colours follow the reader's system, light or dark, from one set of variables. The picture of a translation is
computed: both bodies, the losses and their places come from the library.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Any

from scripts.rooms import rows_of
from toolwire import translate
from toolwire.page.json_view import Mark
from toolwire.page.json_view import Path as JsonPath
from toolwire.page.marks import place_losses, side_of

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "understand"
# What each room is, in lines that fit into its box. The layers themselves come from the table of import-linter.
ROOMS = {
    "cli": "the command line",
    "page": "traffic, records, runs and traces in a browser",
    "gateway": "any client to any model",
    "runs": "durable runs",
    "client": "ask a model, run a conversation",
    "testing": "the simulated model",
    "text": "calls in a\nmodel's text",
    "translation": "one dialect\nas another",
    "codetools": "twelve tools\nfor a folder",
    "declarations": "tools in YAML\nand JSON",
    "mcp": "MCP,\nboth ways",
    "config": "the file of settings",
    "providers": "servers and models, as data",
    "dialects": "the five wires",
    "resolvers": "tools, and what runs them",
    "streams": "what streams share",
    "loop": "the tool loop, without I/O",
    "encoding": "losses, settings, marks",
    "traces": "the audit of calls",
    "records": "both sides of exchanges",
    "waiting": "steps, threads, results",
    "types": "the canonical model",
    "wire": "bytes, frames, HTTP",
    "schema": "JSON Schema, validation",
    "databases": "SQLite, PostgreSQL",
    "errors": "every exception",
    "scrubbing": "what is kept secret",
}
STYLE = """
svg { --paper: #fcfcfa; --ink: #1b1b18; --soft: #6a6962; --line: #cfcec7; --box: #f5f4f0; --accent: #1f4fb8;
  --lost: #b3261e; --lost-box: #f3dfdc; --good: #256b45; --good-box: #dcebe1; --warm: #8a5a00; --warm-box: #f5e8cf; }
@media (prefers-color-scheme: dark) {
  svg { --paper: #171715; --ink: #e8e7e1; --soft: #a3a29a; --line: #45443f; --box: #20201d; --accent: #8fb0ff;
    --lost: #ff9d94; --lost-box: #3d2321; --good: #8fd0aa; --good-box: #1d3527; --warm: #e3b968; --warm-box: #382d18; }
}
.paper { fill: var(--paper); }
text { fill: var(--ink); font: 13px ui-sans-serif, system-ui, "Segoe UI", Roboto, Arial, sans-serif; }
.soft { fill: var(--soft); }
.bold { font-weight: 600; }
.mono { font: 12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
.accent { fill: var(--accent); }
.lost { fill: var(--lost); } .good { fill: var(--good); } .warm { fill: var(--warm); }
.box { fill: var(--box); stroke: var(--line); }
.box.lost { fill: var(--lost-box); stroke: var(--lost); }
.box.good { fill: var(--good-box); stroke: var(--good); }
.box.warm { fill: var(--warm-box); stroke: var(--warm); }
.box.accent { fill: var(--box); stroke: var(--accent); }
.arrow { fill: none; stroke: var(--soft); stroke-width: 1.3; }
.head { fill: var(--soft); }
.lane { stroke: var(--line); }
.code { white-space: pre; font-size: 11px; }
.struck { text-decoration: line-through; }
.mark { stroke-width: 0; } .mark.semantic { fill: var(--lost-box); } .mark.formal { fill: var(--line); opacity: 0.45; }
.mark.minor { fill: var(--warm-box); }
.edge.semantic { fill: var(--lost); } .edge.formal { fill: var(--soft); } .edge.minor { fill: var(--warm); }
.semantic-text, .minor-text, .formal-text { font-size: 12px; }
.semantic-text { fill: var(--lost); } .formal-text { fill: var(--soft); } .minor-text { fill: var(--warm); }
""".strip()


class Picture:
    """A picture that is drawn element by element."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.elements: list[str] = []

    def text(self, x: float, y: float, text: str, style: str = "", anchor: str = "start") -> None:
        """Write one line of text, with its baseline at `y`."""
        self.elements.append(f'<text x="{x}" y="{y}" class="{style}" text-anchor="{anchor}">{escape(text)}</text>')

    def box(self, x: float, y: float, width: float, height: float, lines: str, style: str = "") -> None:
        """Draw a box, with its lines centred in it; the first one is bold, and a line that begins with ` is code."""
        self.elements.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7" class="box {style}"/>')
        rows = lines.split("\n")
        top = y + height / 2 - 17 * (len(rows) - 1) / 2 + 4.5
        for number, row in enumerate(rows):
            looks = "mono" if row.startswith("`") else "bold" if number == 0 else "soft"
            self.text(x + width / 2, top + 17 * number, row.strip("`"), looks, "middle")

    def arrow(self, *points: tuple[float, float], label: str = "", style: str = "soft") -> None:
        """Draw an arrow over `points`, with a label above the middle of its first part."""
        path = " ".join(f"{'ML'[number > 0]}{x} {y}" for number, (x, y) in enumerate(points))
        self.elements.append(f'<path d="{path}" class="arrow" marker-end="url(#head)"/>')
        if label:
            (x1, y1), (x2, y2) = points[0], points[1]
            self.text((x1 + x2) / 2, (y1 + y2) / 2 - 7, label, style, "middle")

    def line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        """Draw a hairline."""
        self.elements.append(f'<path d="M{x1} {y1} L{x2} {y2}" class="lane"/>')

    def svg(self) -> str:
        """Return the picture as a file."""
        head = (
            '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            '<path d="M0 0.5 L7.5 4 L0 7.5 z" class="head"/></marker>'
        )
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        body = "\n".join(self.elements)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(self.title)}">\n'
            f"<title>{escape(self.title)}</title>\n<style>\n{STYLE}\n</style>\n<defs>{head}</defs>\n"
            f'<rect class="paper" width="{self.width}" height="{self.height}" rx="8"/>\n{body}\n</svg>\n'
        )


def wires() -> Picture:
    """Draw the canonical model between the five wires."""
    picture = Picture(860, 340, "Five wires, and one canonical model between them")
    names = ("Chat Completions", "Responses", "Messages", "generateContent", "Ollama's chat")
    for number, name in enumerate(names):
        y = 24 + number * 50
        picture.box(24, y, 170, 36, name)
        picture.box(666, y, 170, 36, name)
        picture.arrow((194, y + 18), (330, 124 + (number - 2) * 16))
        picture.arrow((530, 124 + (number - 2) * 16), (666, y + 18))
    picture.box(330, 74, 200, 136, "canonical model\nrequest\nresponse\nevents of a stream\nerror", "accent")
    picture.text(262, 26, "decode", "bold", "middle")
    picture.text(598, 26, "encode", "bold", "middle")
    picture.arrow((390, 246), (390, 212))
    picture.box(
        240, 246, 300, 64, "opaque\nread, not understood, kept beside the value\nwritten again by its own wire alone"
    )
    picture.arrow((530, 196), (560, 196), (560, 292), (590, 292))
    picture.box(590, 266, 246, 52, "a Loss for each value left over\n`messages[2].content[0].signature`", "lost")
    return picture


def stream() -> Picture:
    """Draw what of a stream is passed on at once, and what is held back."""
    picture = Picture(860, 330, "A stream: text passes at once, a call when it is complete")
    for y, first, second in (
        (24, "bytes", "of the provider"),
        (116, "events", ""),
        (208, "your program", "or the client"),
    ):
        picture.text(24, y + (22 if not second else 14), first, "bold")
        picture.text(24, y + 32, second, "soft")
    for y in (88, 180):
        picture.line(24, y, 836, y)
    steps = (
        (150, "`…I`", "`TextDelta`", "I", ""),
        (270, "`look.…`", "`TextDelta`", "look.", ""),
        (390, '`{"city":`', "`CallDelta`", "", ""),
        (540, '`"Oslo"}`', "`CallDelta`", "", ""),
        (690, "`stop`", "`CallEnd`", 'get_weather\n`{"city": "Oslo"}`', "good"),
    )
    for x, sent, event, shown, style in steps:
        width = 106 if x < 390 else 146 if style else 136
        picture.box(x, 28, width, 36, sent)
        picture.arrow((x + width / 2, 64), (x + width / 2, 120))
        picture.box(x, 120, width, 36, event, style)
        if shown:
            picture.arrow((x + width / 2, 156), (x + width / 2, 208))
            picture.box(x, 208, width, 50, shown, style)
    picture.box(390, 208, 286, 50, "held back\npart of a call is never passed on as a call", "warm")
    picture.text(
        24,
        292,
        "If the stream breaks off before the wire has closed the call, the call does not run: it is in broken_calls,",
        "soft",
    )
    picture.text(24, 310, "with the text that arrived, and the response is marked as incomplete.", "soft")
    return picture


def turn() -> Picture:
    """Draw one turn of a conversation."""
    picture = Picture(860, 420, "A turn: request, answer, calls, results")
    row = (
        (24, "history\nwhole, never changed"),
        (238, "what is sent\ncleared, adapted\nmarked for caches"),
        (452, "provider\nover its wire"),
    )
    for x, lines in row:
        picture.box(x, 40, 170, 76, lines)
    picture.arrow((194, 78), (238, 78))
    picture.arrow((408, 78), (452, 78))
    picture.arrow((622, 78), (666, 78))
    picture.box(666, 40, 170, 76, "answer\ntext, thinking\ncomplete calls")
    picture.arrow((751, 116), (751, 176), label="")
    picture.text(761, 150, "calls", "soft")
    row = (
        (666, "validate\nthe arguments\nagainst the schema"),
        (452, "approve\n`approve=`\nbefore each call"),
        (238, "run\nlimits of time, size\nand of calls at once"),
    )
    for x, lines in row:
        picture.box(x, 176, 170, 76, lines)
    picture.arrow((666, 214), (622, 214))
    picture.arrow((452, 214), (408, 214))
    picture.arrow((238, 214), (109, 214), (109, 116))
    picture.text(119, 162, "one result", "soft")
    picture.text(119, 179, "for each call", "soft")
    picture.arrow((822, 116), (846, 116), (846, 330), (622, 330))
    picture.text(730, 322, "no calls", "soft", "middle")
    picture.box(238, 300, 384, 60, "Done\nanswer · limit · budget · no progress\nrefused · cancelled · error", "good")
    picture.arrow((323, 252), (323, 300))
    picture.text(333, 282, "a limit is reached", "soft")
    picture.text(24, 396, "on_event receives each step before it is executed, and traces= records each call.", "soft")
    return picture


SENT = {
    "model": "gpt-4o",
    "max_tokens": 1024,
    "top_k": 40,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": "How warm is it in Tokyo?"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "I ask the tool.", "signature": "EqQBCgIYAhIM"},
                {"type": "tool_use", "id": "c1", "name": "weather", "input": {}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "25"}]},
    ],
}
SIDE, GAP, ROW, INDENT = 486, 18, 17, 11  # the width of a side, the gap, the height of a line, a step to the right
CODE, SENTENCE = 76, 74  # characters on a line
Line = tuple[int, str, str, Mark | None]  # the depth, the text, its style, and the loss that it is about


def translation() -> Picture:
    """Draw one request on both sides of a translation, with its losses at their places."""
    encoded = translate.request(SENT, source="anthropic", target="openai-chat")
    marked = place_losses(encoded.losses, side_of(SENT, "anthropic"), side_of(encoded.body, "openai-chat"))
    if marked.elsewhere:
        raise ValueError(f"losses without a place: {marked.elsewhere}")
    sides = (
        ("The client sends", "Anthropic Messages", list(lines_of(SENT, marked.source))),
        ("The provider receives", "OpenAI Chat Completions", list(lines_of(encoded.body, marked.target))),
    )
    height = 56 + ROW * max(len(lines) for _, _, lines in sides)
    picture = Picture(2 * SIDE + 3 * GAP, height + 2 * GAP + 36, "A request on both sides of a translation")
    for number, (title, wire, lines) in enumerate(sides):
        left = GAP + number * (SIDE + GAP)
        picture.box(left, GAP, SIDE, height, "")
        picture.text(left + 14, GAP + 24, title, "bold")
        picture.text(left + SIDE - 14, GAP + 24, wire, "soft", "end")
        picture.line(left, GAP + 36, left + SIDE, GAP + 36)
        _draw_lines(picture, left, GAP + 56, lines)
    found = Counter(loss.severity for loss in encoded.losses)
    words = ", ".join(f"{count} {severity}" for severity, count in sorted(found.items(), reverse=True))
    below = picture.height - GAP
    picture.text(GAP, below, f"{len(encoded.losses)} losses: {words}", "bold")
    picture.text(picture.width - GAP, below, "strict=True rejects the translation instead", "soft", "end")
    return picture


def _draw_lines(picture: Picture, left: int, top: int, lines: Sequence[Line]) -> None:
    for number, (depth, text, style, mark) in enumerate(lines):
        y = top + number * ROW
        if mark:
            place = f'x="{left}" y="{y - 13}" height="{ROW}"'
            picture.elements.append(f'<rect {place} width="{SIDE}" class="mark {mark.severity}"/>')
            picture.elements.append(f'<rect {place} width="3" class="edge {mark.severity}"/>')
        picture.text(left + 14 + INDENT * depth, y, text, style)


def lines_of(body: Any, marks: Mapping[JsonPath, Sequence[Mark]]) -> Iterator[Line]:
    """Yield the lines of a body, and below a value its losses. A value without a loss inside is one line if it fits."""
    above = {path[:length] for path in marks for length in range(len(path))}

    def fits(depth: int, begin: str, value: Any, path: JsonPath) -> bool:
        return path not in above and 2 * depth + len(begin + json.dumps(value, ensure_ascii=False)) < CODE

    def write(depth: int, begin: str, value: Any, path: JsonPath, end: str) -> Iterator[Line]:
        if type(value) is list and len(value) == 1 and not fits(depth, begin, value, path):
            yield from write(depth, begin + "[", value[0], (*path, 0), "]" + end)
            return
        here = marks.get(path, ())
        style = "mono code struck" if any(mark.struck for mark in here) else "mono code"
        if type(value) not in (dict, list) or fits(depth, begin, value, path):
            yield depth, begin + json.dumps(value, ensure_ascii=False) + end, style, here[0] if here else None
        else:
            first, last = "{}" if type(value) is dict else "[]"
            yield depth, begin + first, style, here[0] if here else None
            members = value.items() if type(value) is dict else enumerate(value)
            for number, (name, one) in enumerate(members, 1):
                key = f'"{name}": ' if type(value) is dict else ""
                yield from write(depth + 1, key, one, (*path, name), "," if number < len(value) else "")
            yield depth, last + end, style, None
        for mark in here:
            for line in wrap(f"{mark.action}: {mark.detail}", SENTENCE - 2 * depth):
                yield depth, line, f"{mark.severity}-text", mark

    return write(0, "", body, (), "")


def layers() -> Picture:
    """Draw the rooms of the package in the layers of import-linter; imports point down."""
    rows = [[room for room in row if room in ROOMS] for row in layered_rooms()]
    rows = [row for row in rows if row]
    heights = [62 if any("\n" in ROOMS[room] for room in row) else 46 for row in rows]
    picture = Picture(860, 48 + sum(heights) + 8 * len(rows), "The rooms of the package: imports point down")
    y, gap = 20.0, 8.0
    for row, height in zip(rows, heights, strict=True):
        width = round((776 - gap * (len(row) - 1)) / len(row), 1)
        for number, room in enumerate(row):
            style = {"dialects": "accent", "types": "good"}.get(room, "")
            picture.box(60 + number * (width + gap), y, width, height, f"{room}\n{ROOMS[room]}", style)
        y += height + gap
    picture.arrow((34, 24), (34, y - 12))
    picture.text(60, y + 14, "Imports point down. Rooms of one layer do not import each other.", "soft")
    return picture


def layered_rooms() -> list[list[str]]:
    """Return the rooms of each layer, from top to bottom, as import-linter checks them."""
    return rows_of((ROOT / "pyproject.toml").read_text("utf-8"))


PICTURES: dict[str, Callable[[], Picture]] = {
    "wires": wires,
    "stream": stream,
    "turn": turn,
    "translation": translation,
    "layers": layers,
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw().svg(), "utf-8")
        print(f"wrote {name}.svg")
