"""The agent of `toolwire demo`: it finds and fixes a bug in a small project.

The model is a server on this machine that speaks the chosen wire. Its answers depend on what the tools returned.
"""

import json
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from toolwire.cli.display import EventDisplay, result_text
from toolwire.cli.endings import INTERRUPTED, UNANSWERED
from toolwire.cli.permissions import Permissions
from toolwire.cli.screen import Screen, shorten
from toolwire.cli.terminal import Approver, Interrupts
from toolwire.client.sync import Client
from toolwire.codetools import CodeTools
from toolwire.loop import Done
from toolwire.resolvers import approved
from toolwire.resolvers.execution import Cancel
from toolwire.testing.server import simulate
from toolwire.types import Request, ToolCall, ToolResult

_PROJECT = Path(__file__).with_name("demo_project.toml")
_TASK = "A test of this project fails. Find out why, and fix it."
_SYSTEM = "You fix the project in the current folder. Look before you change anything, and run its tests."
_TESTS = "python3 -m unittest"
_PATH = "/usr/local/bin:/usr/bin:/bin"
_BROKEN, _FIXED = "total = int(amount) * UNITS[unit]", "total += int(amount) * UNITS[unit]"
_PROVIDERS = {"openai-chat": "openai"}
_SCHEMAS = frozenset({"parameters", "input_schema", "parametersJsonSchema", "parameters_json_schema"})
_LONGEST_TEXT, _LONGEST_LINE = 76, 108


def fix_bug(screen: Screen, dialect: str, *, show_wire: bool) -> int:
    """Run the agent on the bug, show all of it on `screen`, and return the exit code."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve() / "project"
        _write_project(folder)
        before, began = _tests_pass(folder), time.monotonic()
        screen.line(f"you> {_TASK}", "words")
        screen.line()
        transports: list[_RecordingTransport] = []
        done = _run_agent(screen, folder, dialect, transports)
        seconds = time.monotonic() - began
        if done.ending == "cancelled":
            screen.line("interrupted", "error")
            return INTERRUPTED
        is_fixed = done.ending == "answer" and _tests_pass(folder) and not before
    if show_wire:
        _show_exchanges(screen, dialect, transports[0].exchanges)
    screen.line()
    verdict = "yes" if is_fixed else "NO"
    screen.line(
        f"The tests failed before, and pass now: {verdict} ({done.turns} turns over {dialect}, {seconds:.1f} s).",
        "added" if is_fixed else "error",
    )
    return 0 if is_fixed else UNANSWERED


def _write_project(folder: Path) -> None:
    for file in tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["files"]:
        path = folder / file["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file["text"], encoding="utf-8")


def _tests_pass(folder: Path) -> bool:
    """Run the project's tests without the agent's tools."""
    command = [sys.executable, "-B", "-m", "unittest"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0  # noqa: S603 - our own


def _run_agent(screen: Screen, folder: Path, dialect: str, transports: "list[_RecordingTransport]") -> Done:
    """Run the agent to its end with the renderer of `toolwire run`; its transport is added to `transports`."""
    permissions = Permissions(str(folder), mode="all")
    cancel, approver = Cancel(), Approver(screen, permissions)
    kit = _code_tools(folder, screen, approver)
    tools = approved(kit, approver, only=permissions.tools_to_check(kit.available_tools()))
    display, provider = EventDisplay(screen), _PROVIDERS.get(dialect, dialect)
    with (
        Interrupts() as interrupts,
        interrupts.stopping(cancel),
        simulate(_answer, strict=False) as server,
        Client(provider, "simulated", base_url=server.url, api_key="no-key") as plain,
    ):
        transports.append(_RecordingTransport(plain.transport))
        server_options: dict[str, Any] = {"base_url": server.url, "api_key": "no-key", "transport": transports[0]}
        client = Client(provider, "simulated", **server_options)
        client.upstream.warn_losses = False
        with client.stream(_TASK, system=_SYSTEM, tools=tools, on_event=display.show, cancel=cancel) as stream:
            for _ in stream:
                if screen.problem is not None:
                    cancel()
            return stream.collect()


def _code_tools(folder: Path, screen: Screen, approver: Approver) -> CodeTools:
    """Return the code tools of the project. Without a sandbox, report that on the screen."""
    python = Path(sys.base_prefix)
    readable = [] if python.is_relative_to("/usr") else [str(python)]
    variables = {"PATH": f"{python / 'bin'}:{_PATH}", "PYTHONDONTWRITEBYTECODE": "1"}
    settings: dict[str, Any] = {"environment": variables, "on_output": approver.observe_output}
    sandboxed: dict[str, Any] = {**settings, "readable": readable} if readable else settings
    kit = CodeTools(folder, **sandboxed)
    if kit.sandbox != "refused":
        return kit
    screen.line(
        "[there is no sandbox here, so the demo runs its tests without one; `toolwire doctor` explains]", "note"
    )
    return CodeTools(folder, sandbox="none", **settings)


# The model: each answer depends on the results of the tools.


def _answer(request: Request, turn: Any) -> list[Any]:
    """Return the next answer of the simulated model."""
    results = [
        result_text(part) for message in request.messages for part in message.parts if isinstance(part, ToolResult)
    ]
    answer: Callable[[list[str]], list[Any]] = _STEPS[turn.round]
    return answer(results)


def _look(_results: list[str]) -> list[Any]:
    return [
        "I look at the project, and run its tests.",
        ToolCall(None, "tree", {}),
        ToolCall(None, "bash", {"command": _TESTS}, 1),
    ]


def _search(results: list[str]) -> list[Any]:
    has_failed = "AssertionError: 1800 != 5400" in results[-1]
    text = "1h30m is read as 1800 seconds, the last unit alone." if has_failed else "The tests do not run here."
    return [text, ToolCall(None, "grep", {"pattern": "def seconds_of", "path": "durations"})]


def _read(results: list[str]) -> list[Any]:
    return [ToolCall(None, "read_file", {"path": results[-1].partition(":")[0]})]


def _fix(results: list[str]) -> list[Any]:
    """Change the wrong line, and run the tests again."""
    path = results[-2].partition(":")[0]
    if _BROKEN not in results[-1]:
        return ["I do not find the bug."]
    return [
        "Each unit replaces the sum. It has to be added.",
        ToolCall(None, "edit_file", {"path": path, "oldText": _BROKEN, "newText": _FIXED}),
        ToolCall(None, "bash", {"command": _TESTS}, 1),
    ]


def _report(results: list[str]) -> list[Any]:
    passed = results[-1].rstrip().endswith("OK")
    return [f"`seconds_of` adds up its units now. {'All tests pass.' if passed else 'I could not run the tests.'}"]


_STEPS: tuple[Callable[[list[str]], list[Any]], ...] = (_look, _search, _read, _fix, _report)


# The wire: the exchanges that went over the client's transport.


class _RecordedAnswer:
    """An answer, and the bytes that were read from it."""

    def __init__(self, answer: Any) -> None:
        self.status, self.headers, self.answer, self.data = answer.status, answer.headers, answer, b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.answer, name)

    def read(self) -> bytes:
        """Read the next piece."""
        piece: bytes = self.answer.read()
        self.data += piece
        return piece


class _RecordingTransport:
    """Sends requests through another transport, and keeps them with their answers."""

    def __init__(self, transport: Any) -> None:
        self.transport = transport
        self.exchanges: list[tuple[Any, _RecordedAnswer]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)

    def send(self, request: Any, timeouts: Any, stop: Any = None) -> _RecordedAnswer:
        """Send a request."""
        self.exchanges.append((request, _RecordedAnswer(self.transport.send(request, timeouts, stop))))
        return self.exchanges[-1][1]


def _show_exchanges(screen: Screen, dialect: str, exchanges: list[tuple[Any, _RecordedAnswer]]) -> None:
    for index, (request, answer) in enumerate(exchanges):
        screen.line()
        screen.line(f"On the wire, {dialect}: exchange {index + 1} of {len(exchanges)}", "call")
        for line in _lines_of(request, answer):
            screen.line(shorten(line, _LONGEST_LINE))


def _lines_of(request: Any, answer: _RecordedAnswer) -> Iterator[str]:
    yield f"{request.method} {request.url}"
    yield from json.dumps(_shortened(json.loads(request.body)), indent=2, ensure_ascii=False).splitlines()
    yield f"answered with {answer.status}, {answer.headers.get('content-type', '')}"
    yield from (line for line in answer.data.decode().splitlines() if line)


def _shortened(value: Any) -> Any:
    """Return a JSON value with its long texts and the schemas of its tools cut."""
    match value:
        case str():
            return shorten(value, _LONGEST_TEXT)
        case list():
            return [_shortened(item) for item in value]
        case dict():
            return {name: "..." if name in _SCHEMAS else _shortened(value[name]) for name in value}
    return value
