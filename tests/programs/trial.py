"""One client program with one model: it writes a file with its own tool, and reads it twice in parallel.

Where it can, it then uses a tool of an MCP server, and looks at a picture.

usage: trial.py PROGRAM WIRE FOLDER [--faults] [--counts] [--asks MODEL]; it writes what became of it as one line of
JSON. It is run in a network namespace of its own, so that the program reaches nothing but the gateway.
"""

import base64
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from toolwire.testing import Fail, Scenario, simulate
from toolwire.types import Image, Text, Thinking, ToolCall, ToolResult

TASK = "Write the words 'gr\u00fcn \"blue\"' into the file note.txt, read it twice, then say done."
WORDS = 'gr\u00fcn "blue"\n'
MODELS = {
    "openai-chat": "gpt-4.1",
    "openai-responses": "gpt-5",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-pro",
    "ollama": "qwen3",
}
_SHELL = "printf '%s\\n' 'gr\u00fcn \"blue\"' > note.txt"
_PATCH = '*** Begin Patch\n*** Add File: note.txt\n+gr\u00fcn "blue"\n*** End Patch\n'
_FUNCTIONS = """
def put(path: str, content: str) -> str:
    open(path, "w").write(content)
    return "written"
def get(path: str) -> str:
    return open(path).read()
"""
WORDS_OF: dict[str, list[str]] = {
    "claude": ["-p", TASK, "--dangerously-skip-permissions"],
    "codex": ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", TASK],
    "codex-http": [
        "-c",
        "model_providers.toolwire.supports_websockets=false",
        "exec",
        "--skip-git-repo-check",
        "--dangerously-bypass-approvals-and-sandbox",
        TASK,
    ],
    "gemini": ["-y", "-p", TASK],
    "opencode": ["run", TASK],
    "copilot": ["-p", TASK, "--allow-all-tools", "--allow-all-paths"],
    "pi": ["-p", TASK],
    "qwen": ["-y", "-p", TASK],
    "aider": [
        "--message",
        TASK,
        "--no-git",
        "--yes-always",
        "--no-check-update",
        "--analytics-disable",
        "--edit-format",
        "whole",
    ],
    "llm": ["--functions", _FUNCTIONS, "--no-log", TASK],
}
# How a program writes the tokens that it was told, and the count of those that were read from a cache.
COUNTING = {
    "claude": (["--output-format", "json"], r'"cache_read_input_tokens":(\d+)'),
    "codex": (["--json"], r'"cached_input_tokens":(\d+)'),
}
QUIET = {"CI": "1", "NO_COLOR": "1", "IS_SANDBOX": "1", "LANG": "C.UTF-8", "DISABLE_TELEMETRY": "1"}
QUIET |= {
    "PI_OFFLINE": "1",
    "COPILOT_OFFLINE": "true",
    "GEMINI_CLI_TRUST_WORKSPACE": "true",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "LLM_LOAD_PLUGINS": "",
}


def _patched(offered: set[str]) -> str:
    """Name the field of a patch: Codex takes free text, opencode an object."""
    return "input" if "exec_command" in offered else "patchText"


def _file(offered: set[str]) -> str:
    """Name the field of a file: opencode's and pi's tools are called alike."""
    return "filePath" if "glob" in offered else "path"


def writing(folder: str, offered: set[str]) -> ToolCall | None:
    """Call what a program offers to write a file with."""
    file = f"{folder}/note.txt"
    known: dict[str, dict[str, Any]] = {
        "apply_patch": {_patched(offered): _PATCH},
        "exec_command": {"cmd": _SHELL},
        "shell_command": {"command": _SHELL},
        "Write": {"file_path": file, "content": WORDS},
        "write_file": {"file_path": file, "content": WORDS},
        "write": {_file(offered): file, "content": WORDS},
        "create": {"path": file, "file_text": WORDS},
        "put": {"path": file, "content": WORDS},
    }
    return next((ToolCall(None, name, said) for name, said in known.items() if name in offered), None)


def reading(folder: str, offered: set[str]) -> ToolCall | None:
    """Call what a program offers to read a file with."""
    file = f"{folder}/note.txt"
    known: dict[str, dict[str, Any]] = {
        "exec_command": {"cmd": "cat note.txt"},
        "shell_command": {"command": "cat note.txt"},
        "Read": {"file_path": file},
        "read_file": {"file_path": file},
        "read": {_file(offered): file},
        "view": {"path": file},
        "get": {"path": file},
    }
    return next((ToolCall(None, name, said) for name, said in known.items() if name in offered), None)


# An MCP server with one tool; it is there at once, for programs ask before a slow one has begun.
_SERVER = """
import json, sys
schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
tool = {"name": "echo", "description": "Say it again.", "inputSchema": schema, "annotations": {"readOnlyHint": True}}
for line in sys.stdin:
    asked = json.loads(line)
    said, method = asked.get("params") or {}, asked["method"]
    told = {}
    if method == "initialize":
        told = {"protocolVersion": said["protocolVersion"], "capabilities": {"tools": {}}}
        told["serverInfo"] = {"name": "tiny", "version": "1"}
    elif method == "tools/list":
        told = {"tools": [tool]}
    elif method == "tools/call":
        told = {"content": [{"type": "text", "text": said["arguments"]["text"] + "!"}]}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": told}), flush=True)
"""
_PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEXHbQSACj/P8Fu7N9hAAAAAElFTkSuQmCC"


def connect(program: str, home: Path) -> list[str]:
    """Tell a program of the MCP server: in its own file of settings, or by what is given back."""
    server = {"command": sys.executable, "args": ["-SE", str(home / "server.py")]}
    (home / "server.py").write_text(_SERVER, encoding="utf-8")
    whole = {"tiny": {"type": "local", "command": [server["command"], *server["args"]], "enabled": True}}
    files: dict[str, tuple[str, Any]] = {
        "claude": ("mcp.json", {"mcpServers": {"tiny": server}}),
        "gemini": (".gemini/settings.json", {"mcpServers": {"tiny": server}}),
        "qwen": (".qwen/settings.json", {"mcpServers": {"tiny": server}}),
        "opencode": (".config/opencode/opencode.json", {"mcp": whole, "permission": "allow"}),
    }
    if program in files:
        name, settings = files[program]
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(json.dumps(settings), encoding="utf-8")
    if program == "claude":
        return ["--mcp-config", str(home / "mcp.json")]
    if program.startswith("codex"):
        told = {"command": server["command"], "args": server["args"]}
        return [word for name in told for word in ("-c", f"mcp_servers.tiny.{name}={json.dumps(told[name])}")]
    return []


def looking(folder: str, offered: set[str]) -> list[ToolCall]:
    """Call the tool of the server, and what shows a picture."""
    file = f"{folder}/dot.png"
    echo = next((name for name in sorted(offered) if "tiny" in name and "echo" in name), None)
    known = {"view_image": {"path": file}, "Read": {"file_path": file}, "read_file": {"file_path": file}}
    known |= {"read": {_file(offered): file}, "view": {"path": file}}
    show = next((ToolCall(None, name, said) for name, said in known.items() if name in offered), None)
    called = ToolCall(None, echo, {"text": "gr\u00fcn"}) if echo else None
    return [call for call in (called, show) if call is not None]


def pictures(request: Any) -> int:
    """Count the pictures that a model was shown."""
    parts = [part for message in request.messages for part in message.parts]
    shown = [part.content for part in parts if isinstance(part, ToolResult) and not isinstance(part.content, str)]
    return sum(isinstance(part, Image) for part in [*parts, *(one for content in shown for one in content)])


# Codex and Claude Code keep the tools of servers behind a search.
SEARCHES = (
    ToolCall(None, "tool_search", {"query": "echo", "limit": 5}),
    ToolCall(None, "ToolSearch", {"query": "echo", "max_results": 5}),
)


class Playing:
    """A model that does the task by what a program offers; its first words are errors, where that is wanted."""

    def __init__(self, folder: str, faults: int) -> None:
        self.folder, self.faults = folder, faults
        self.read: list[str] = []
        self.echoed = ""
        self.pictures = 0
        self.waited = self.searched = self.looked = False

    def __call__(self, request: Any, _turn: int) -> Any:
        """Answer one request."""
        offered = {tool.name for tool in request.tools if getattr(tool, "name", None)}
        results = [part for message in request.messages for part in message.parts if isinstance(part, ToolResult)]
        write, read = writing(self.folder, offered), reading(self.folder, offered)
        main = bool(offered) or "SEARCH/REPLACE" in str(request.system) or "listing" in str(request.messages)
        if self.faults and main:
            self.faults -= 1
            return [Fail(429 if self.faults else 503, retry_after=0.1)]
        if not offered:
            return [Text(f"note.txt\n```\n{WORDS}```\n")] if main else [Text("note")]
        if write is None or read is None:
            return [Text("done")]
        if not results:
            return [Thinking("I write it first."), Text("I write the file."), write]
        if len(results) == 1:
            return [Thinking("I read it twice."), read, read]
        self.read = [str(result.content) for result in results[1:3]]
        if "WaitForMcpServers" in offered and not self.waited:  # Claude Code's, for as long as a server begins
            self.waited = True
            return [Thinking("I wait."), ToolCall(None, "WaitForMcpServers", {})]
        if not self.searched and (search := next((one for one in SEARCHES if one.name in offered), None)):
            self.searched = True
            return [Thinking("I look for it."), search]
        if not self.looked and (calls := looking(self.folder, offered)):
            self.looked = True
            return [Thinking("I look at it."), *calls]
        self.echoed = next((str(result.content) for result in results[3:] if "!" in str(result.content)), "")
        self.pictures = pictures(request)
        return [Text("done")]


def counted(program: str, output: bytes) -> int:
    """Return how many cached tokens a program was told of, by its own output."""
    _, pattern = COUNTING[program.partition("-")[0]]
    return max((int(count) for count in re.findall(pattern, output.decode(errors="replace"))), default=0)


def run(program: str, wire: str, folder: Path, faults: int) -> dict[str, Any]:
    """Run a program, and say what became of it."""
    home, work = folder / "home", folder / "work"
    for place in (home, work):
        place.mkdir(parents=True, exist_ok=True)
    (work / "dot.png").write_bytes(base64.b64decode(_PICTURE))
    playing = Playing(str(work), faults)
    with simulate(Scenario(playing, complete=False), strict=True) as model:
        settings = folder / "toolwire.toml"
        base = f'dialect = "{wire}"\nbase_url = "{model.url}"\nkey = "$THERE_KEY"\n'
        settings.write_text(f"[providers.there]\n{base}", encoding="utf-8")
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        command = [sys.executable, "-m", "toolwire", "launch", "--config", str(settings)]
        command += ["--model", f"there/{MODELS[wire]}", program.partition("-")[0], "--"]
        command += [*connect(program, home), *WORDS_OF[program]]
        start = time.monotonic()
        try:
            done = subprocess.run(
                command,
                cwd=work,
                env={**kept, **QUIET, "HOME": str(home), "THERE_KEY": "key"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=120,
                check=False,
            )
            code, output = done.returncode, done.stdout
        except subprocess.TimeoutExpired as late:
            code, output = -1, late.stdout or b""
        refused = [
            one.refused.message for one in model.requests if one.refused is not None and one.status not in (429, 503)
        ]
        answered = [one.status for one in model.requests]
        main = [one for one in model.requests if one.request is not None and one.request.tools]
        usages = [one.usage for one in main if one.usage is not None]
    note = work / "note.txt"
    if main:
        (folder / "first.json").write_bytes(main[0].raw)
    return {
        "exit": code,
        "file": note.read_bytes().decode() if note.exists() else None,
        "read": playing.read,
        "echoed": playing.echoed,
        "pictures": playing.pictures,
        "statuses": answered,
        "refused": refused,
        "prompts": [usage.input_tokens for usage in usages],
        "cached": [usage.cache_read_tokens or 0 for usage in usages],
        "counted": counted(program, output) if program.partition("-")[0] in COUNTING else None,
        "seconds": round(time.monotonic() - start, 1),
        "output": output.decode(errors="replace")[-1500:],
    }


if __name__ == "__main__":
    if "--asks" in sys.argv:
        WORDS_OF[sys.argv[1]][:0] = ["-m", sys.argv[sys.argv.index("--asks") + 1]]
    if "--counts" in sys.argv:
        words = WORDS_OF[sys.argv[1]]
        words[-1:] = [*COUNTING[sys.argv[1].partition("-")[0]][0], words[-1]]
    told = run(sys.argv[1], sys.argv[2], Path(sys.argv[3]), 2 if "--faults" in sys.argv else 0)
    sys.stdout.write(json.dumps(told) + "\n")
