"""An agent finds and fixes a bug, without a key and without a network.

The model is simulated: a server on this machine that speaks the wire of your choice and looks at what the
tools really gave. All else is real: the agent, its tools, the sandbox, the tests, the fix.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from toolwire import Client, CodeTools, Request, TextDelta, ToolCall, ToolResult, approved
from toolwire.loop import Done
from toolwire.testing import simulate

PROJECT = Path(__file__).parent / "project"
TASK = "A test of this project fails. Find out why, and fix it."
TESTS = "python3 -m unittest"
SYSTEM = "You mend the project in the current folder. Look before you change anything, and run its tests."
PATH = "/usr/local/bin:/usr/bin:/bin"
REAL = {
    "openai-chat": ("openai", "gpt-4o", "OPENAI_API_KEY"),
    "openai-responses": ("openai-responses", "gpt-4o", "OPENAI_API_KEY"),
    "anthropic": ("anthropic", "claude-sonnet-5-5", "ANTHROPIC_API_KEY"),
    "gemini": ("gemini", "gemini-3.8-flash", "GEMINI_API_KEY"),
    "ollama": ("ollama", "qwen3", ""),
}
BROKEN, MENDED = "total = int(amount) * UNITS[unit]", "total += int(amount) * UNITS[unit]"
SCHEMAS = frozenset({"parameters", "input_schema", "parametersJsonSchema", "parameters_json_schema"})
WIDTH, STRING, FIRST, LAST, LINES = 108, 76, 4, 2, 12


# The model: what it says next depends on what the tools gave.


def model(request: Request, turn: Any) -> list[Any]:
    """Say what comes next."""
    given = [words_of(part) for message in request.messages for part in message.parts if type(part) is ToolResult]
    return STEPS[turn.round](given)


def look(_given: list[str]) -> list[Any]:
    """Look around, with two calls at once."""
    return [
        "I look at the project, and run its tests.",
        ToolCall(None, "tree", {}),
        ToolCall(None, "bash", {"command": TESTS}, 1),
    ]


def search(given: list[str]) -> list[Any]:
    """Look for the function whose test fails."""
    failed = "AssertionError: 1800 != 5400" in given[-1]
    said = "1h30m is read as 1800 seconds, the last unit alone." if failed else "The tests do not run here."
    return [said, ToolCall(None, "grep", {"pattern": "def seconds_of", "path": "durations"})]


def read(given: list[str]) -> list[Any]:
    """Read the file that has it."""
    return [ToolCall(None, "read_file", {"path": given[-1].partition(":")[0]})]


def mend(given: list[str]) -> list[Any]:
    """Change the line that is wrong, and run the tests again."""
    [path] = {line.partition(":")[0] for line in given[-2].splitlines()}
    if BROKEN not in given[-1]:
        return ["I do not find what is wrong."]
    edit = {"path": path, "oldText": BROKEN, "newText": MENDED}
    return [
        "Each unit takes the place of the sum. It has to be added.",
        ToolCall(None, "edit_file", edit),
        ToolCall(None, "bash", {"command": TESTS}, 1),
    ]


def answer(given: list[str]) -> list[Any]:
    """Say how it went, by what the tests said."""
    passed = given[-1].rstrip().endswith("OK")
    return [f"`seconds_of` adds up its units now. {'All tests pass.' if passed else 'I could not run tests.'}"]


STEPS: list[Callable[[list[str]], list[Any]]] = [look, search, read, mend, answer]


# The wire: what goes over the client's transport is kept.


class RecordedAnswer:
    """An answer, and what was read of it."""

    def __init__(self, answer: Any) -> None:
        self.status, self.headers, self.answer, self.data = answer.status, answer.headers, answer, b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.answer, name)

    def read(self) -> bytes:
        """Give the next piece."""
        piece: bytes = self.answer.read()
        self.data += piece
        return piece


class RecordingTransport:
    """Sends requests through another transport, and keeps them with their answers."""

    def __init__(self, transport: Any) -> None:
        self.transport = transport
        self.exchanges: list[tuple[Any, RecordedAnswer]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)

    def send(self, request: Any, timeouts: Any, stop: Any = None) -> RecordedAnswer:
        """Send a request."""
        self.exchanges.append((request, RecordedAnswer(self.transport.send(request, timeouts, stop))))
        return self.exchanges[-1][1]


def shortened(value: Any) -> Any:
    """Give a JSON value with its long texts, its lists and the schemas of its tools cut."""
    match value:
        case str() if len(value) > STRING:
            return f"{value[: STRING - 3]}..."
        case list() if len(value) > 4:
            return [shortened(value[0]), f"... {len(value) - 3} more ...", *map(shortened, value[-2:])]
        case list():
            return [shortened(one) for one in value]
        case dict():
            return {name: "..." if name in SCHEMAS else shortened(value[name]) for name in value}
    return value


def wire(exchange: tuple[Any, RecordedAnswer], *, whole: bool) -> Iterator[str]:
    """Write an exchange as it went over the wire."""
    request, answer = exchange
    body = json.loads(request.body)
    yield f"{request.method} {request.url}"
    yield json.dumps(body if whole else shortened(body), indent=2, ensure_ascii=False)
    yield f"answered with {answer.status}, {answer.headers.get('content-type', '')}"
    lines = [line for line in answer.data.decode().splitlines() if line]
    if whole:
        yield from lines
        return
    over = len(lines) - FIRST - LAST
    shown = lines if over <= 0 else [*lines[:FIRST], f"... {over} more lines ...", *lines[-LAST:]]
    yield from (line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..." for line in shown)


# The demonstration.


def words_of(result: ToolResult) -> str:
    """Give a result as text."""
    if isinstance(result.content, str):
        return result.content
    return "".join(getattr(part, "text", "") for part in result.content)


def show(text: str) -> None:
    """Show the first and the last lines of a text, set in."""
    lines = text.rstrip("\n").split("\n")
    over = len(lines) - LINES
    if over > 0:
        lines = [*lines[: LINES - 4], f"[{over} more lines are not shown]", *lines[-4:]]
    print("\n".join(f"  {line}" for line in lines))


def approve(_call: ToolCall, preview: str) -> bool:
    """Show what a call would do, and let it run."""
    show(preview)
    return True


def code_tools(folder: Path) -> CodeTools:
    """Give the tools of the copy; a Python that is not the system's is lent to its commands."""
    python = Path(sys.base_prefix)
    lent = {} if python.is_relative_to("/usr") else {"readable": [str(python)]}
    variables = {"PATH": f"{python / 'bin'}:{PATH}", "PYTHONDONTWRITEBYTECODE": "1"}
    kit = CodeTools(folder, environment=variables, **lent)
    if kit.sandbox == "refused":
        print("[no sandbox here (`toolwire doctor` says why): the commands of the demo run without]")
        kit = CodeTools(folder, sandbox="none", environment=variables)
    return kit


def tell(item: Any) -> None:
    """Show what happens: words as they come, calls, and what the tools gave."""
    match item:
        case TextDelta():
            print(item.text, end="", flush=True)
        case ToolCall():
            arguments = ", ".join(f"{name}={json.dumps(value)}" for name, value in item.arguments.items())
            print(f"\n> {item.name}({arguments})", flush=True)
        case ToolResult():
            show(words_of(item))
            print()
        case Done():
            print()


def lead(folder: Path, provider: str) -> tuple[Done, RecordingTransport]:
    """Let the agent do the task, and show what it says and does; give its end, and what went over the wire."""
    kit = code_tools(folder)
    tools = approved(kit, approve, only=[tool.name for tool in kit.available_tools() if tool.metadata.get("writes")])
    with simulate(model) as server, Client(provider, "simulated", base_url=server.url, api_key="no-key") as plain:
        transport = RecordingTransport(plain.transport)
        client = Client(provider, "simulated", base_url=server.url, api_key="no-key", transport=transport)
        with client.stream(TASK, system=SYSTEM, tools=tools) as stream:
            for item in stream:
                tell(item)
            return stream.collect(), transport


def passes(folder: Path) -> bool:
    """Run the tests of the project, without any tool."""
    command = [sys.executable, "-B", "-m", "unittest"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0  # noqa: S603 - our own


def main() -> int:
    """Show it; 0 if the bug is fixed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dialect", choices=list(REAL), default="openai-chat", help="the wire to speak")
    parser.add_argument("--wire", action="store_true", help="show all that goes over the wire")
    options = parser.parse_args()
    provider, _, _ = REAL[options.dialect]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve() / "project"
        shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns("__pycache__"))
        before = passes(folder)
        print(f"you: {TASK}\n")
        done, transport = lead(folder, provider)
        fixed = done.ending == "answer" and passes(folder) and not before
    exchanges = transport.exchanges if options.wire else [transport.exchanges[0], transport.exchanges[-1]]
    for place, exchange in enumerate(exchanges):
        which = f"{place + 1} of {len(exchanges)}" if options.wire else ("the first", "the last")[place]
        print(f"\nOn the wire, {options.dialect}: {which} exchange")
        print("\n".join(wire(exchange, whole=options.wire)))
    print(f"\nThe tests failed before, and pass now: {'yes' if fixed else 'NO'}.")
    show_the_way(options.dialect)
    return 0 if fixed else 1


def show_the_way(dialect: str) -> None:
    """Name the lines that point it at a real model."""
    provider, name, key = REAL[dialect]
    needed = f" ({key} holds its key)" if key else " (it runs on this machine: `ollama serve`)"
    print(f"With a real model{needed}, in your own project, that is `toolwire run`, or three lines:\n")
    print("    from toolwire import CodeTools, generate")
    print(f'    done = generate("{TASK}", "{provider}", "{name}", tools=CodeTools("."))')
    print("    print(done.content)")


if __name__ == "__main__":
    sys.exit(main())
