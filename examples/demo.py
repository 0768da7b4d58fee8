"""An agent finds and fixes a bug, without a key and without a network.

The model is simulated: a server on this machine that speaks the wire of your choice and looks at what the
tools really gave. All else is real: the agent of `toolwire run`, its tools, the sandbox, the tests, the fix.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from toolwire import CodeTools
from toolwire.cli.agent import Agent
from toolwire.cli.agents import parsed
from toolwire.cli.interrupts import Interrupts
from toolwire.cli.screen import Screen
from toolwire.client.httpx import HttpxTransport
from toolwire.client.sync import Client
from toolwire.codetools.environment import PATH
from toolwire.dialects import ALIASES, NAMES
from toolwire.testing import simulate
from toolwire.testing.steps import words_of
from toolwire.types import Request, ToolCall, ToolResult
from toolwire.wire.transport import HttpRequest, HttpResponse, Stop, Timeouts

PROJECT = Path(__file__).parent / "project"
TASK = "A test of this project fails. Find out why, and fix it."
TESTS = "python3 -m unittest"
PROVIDERS = {"openai-chat": "openai"}
REAL = {
    "openai-chat": ("openai", "gpt-4o", "OPENAI_API_KEY"),
    "openai-responses": ("openai-responses", "gpt-4o", "OPENAI_API_KEY"),
    "anthropic": ("anthropic", "claude-sonnet-5-5", "ANTHROPIC_API_KEY"),
    "gemini": ("gemini", "gemini-3.8-flash", "GEMINI_API_KEY"),
    "ollama": ("ollama", "qwen3", ""),
}
BROKEN, MENDED = "total = int(amount) * UNITS[unit]", "total += int(amount) * UNITS[unit]"
SCHEMAS = frozenset({"parameters", "input_schema", "parametersJsonSchema", "parameters_json_schema"})
WIDTH, STRING, FIRST, LAST = 108, 76, 4, 2


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


# The wire: a transport that keeps what goes over it.


class Recorded:
    """An answer, and what was read of it."""

    def __init__(self, answer: HttpResponse) -> None:
        self.status, self.headers, self.answer, self.data = answer.status, answer.headers, answer, b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.answer, name)

    def read(self) -> bytes:
        """Give the next piece."""
        piece = self.answer.read()
        self.data += piece
        return piece


class Recording(HttpxTransport):
    """Sends requests, and keeps them with their answers."""

    def __init__(self) -> None:
        super().__init__()
        self.exchanges: list[tuple[HttpRequest, Recorded]] = []

    def send(self, request: HttpRequest, timeouts: Timeouts, stop: Stop | None = None) -> Any:
        """Send a request."""
        self.exchanges.append((request, Recorded(super().send(request, timeouts, stop))))
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


def wire(exchange: tuple[HttpRequest, Recorded], *, whole: bool) -> Iterator[str]:
    """Write an exchange as it went over the wire."""
    request, answer = exchange
    body = msgspec.json.decode(request.body)
    written = msgspec.json.encode(body if whole else shortened(body))
    yield f"{request.method} {request.url}"
    yield msgspec.json.format(written).decode()
    yield f"answered with {answer.status}, {answer.headers.get('content-type', '')}"
    lines = [line for line in answer.data.decode().splitlines() if line]
    if whole:
        yield from lines
        return
    over = len(lines) - FIRST - LAST
    shown = lines if over <= 0 else [*lines[:FIRST], f"... {over} more lines ...", *lines[-LAST:]]
    yield from (line if len(line) <= WIDTH else f"{line[: WIDTH - 3]}..." for line in shown)


# The demonstration.


def code_tools(folder: Path, screen: Screen) -> CodeTools:
    """Give the tools of the copy; a Python that is not the system's is lent to its commands."""
    python = Path(sys.base_prefix)
    lent = {} if python.is_relative_to("/usr") else {"readable": [str(python)]}
    variables = {"PATH": f"{python / 'bin'}:{PATH}", "PYTHONDONTWRITEBYTECODE": "1"}
    kit = CodeTools(folder, environment=variables, **lent)
    if kit.sandbox == "refused":
        screen.line("[no sandbox here (`toolwire doctor` says why): the commands of the demo run without]", "note")
        kit = CodeTools(folder, sandbox="none", environment=variables)
    return kit


def lead(folder: Path, dialect: str, screen: Screen) -> tuple[int, Recording]:
    """Let the agent do the task; give its exit code, and what went over the wire."""
    provider, transport = PROVIDERS.get(dialect, dialect), Recording()
    session = folder.with_name("conversation.json")
    options = parsed("run", TASK, "--cwd", str(folder), "--yes", "--session", str(session))
    with simulate(model) as server, Interrupts() as interrupts:
        client = Client(provider, "simulated", base_url=server.url, api_key="no-key", transport=transport)
        agent = Agent(options, screen, interrupts, client=client, kit=code_tools(folder, screen))
        try:
            return agent.tell_end(agent.answer(TASK)), transport
        finally:
            agent.close()


def passes(folder: Path) -> bool:
    """Run the tests of the project, without any tool."""
    command = [sys.executable, "-B", "-m", "unittest"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0  # noqa: S603 - our own


def main() -> int:
    """Show it; 0 if the bug is fixed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--dialect", choices=[*NAMES, *ALIASES], default=NAMES[0], help="the wire to speak")
    parser.add_argument("--wire", action="store_true", help="show all that goes over the wire")
    options = parser.parse_args()
    dialect, screen = ALIASES.get(options.dialect, options.dialect), Screen()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made).resolve() / "project"
        shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns("__pycache__"))
        before = passes(folder)
        screen.line(f"you: {TASK}\n", "question")
        code, transport = lead(folder, dialect, screen)
        fixed = passes(folder) and not before
    exchanges = transport.exchanges if options.wire else [transport.exchanges[0], transport.exchanges[-1]]
    for place, exchange in enumerate(exchanges):
        which = f"{place + 1} of {len(exchanges)}" if options.wire else ("the first", "the last")[place]
        screen.line(f"\nOn the wire, {dialect}: {which} exchange", "question")
        screen.line("\n".join(wire(exchange, whole=options.wire)))
    screen.line(f"\nThe tests failed before, and pass now: {'yes' if fixed else 'NO'}.", "question")
    show_the_way(dialect, screen)
    return code if fixed else 1


def show_the_way(dialect: str, screen: Screen) -> None:
    """Name the lines that point it at a real model."""
    provider, name, key = REAL[dialect]
    needed = f" ({key} holds its key)" if key else " (it runs on this machine: `ollama serve`)"
    screen.line(f"With a real model{needed}, in your own project, that is `toolwire run`, or three lines:\n")
    screen.line("    from toolwire import CodeTools, generate")
    screen.line(f'    done = generate("{TASK}", "{provider}", "{name}", tools=CodeTools("."))')
    screen.line("    print(done.content)")


if __name__ == "__main__":
    sys.exit(main())
