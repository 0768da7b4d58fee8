"""Requests of a coding agent, and wrk, which sends them: the same body again, or a body that is new each time.

In a new body the words of every message differ from those of all earlier requests: system prompt, questions, answers,
arguments and results of calls. Only the tools and the picture are the same, as they are in an agent's sessions.
"""

import base64
import itertools
import json
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from processes import OTHERS, Program, pinned

MARK = "@number-013@"  # stands in a body where a new request has its number, in as many characters
_FEW = 50
_RUNS = itertools.count(1)
_SAME = """
wrk.method = "POST"
wrk.headers["content-type"] = "application/json"
wrk.body = [==[$BODY]==]
"""
_NEW = """
local run, count, pieces = "", 0, {}
function init(arguments)
  run = arguments[1]
  local body, from = wrk.body, 1
  while true do
    local first, last = body:find("$MARK", from, true)
    pieces[#pieces + 1] = body:sub(from, (first or 0) - 1)
    if not first then break end
    from = last + 1
  end
end
function request()
  count = count + 1
  return wrk.format(nil, nil, nil, table.concat(pieces, string.format("%s%08d", run, count)))
end
"""


class Measured(NamedTuple):
    """One run of wrk. What it is without answers is not a number."""

    answers: int
    cpu: float  # microseconds a request
    rate: float  # requests a second
    p50: float  # milliseconds
    p99: float
    errors: int

    @property
    def doubts(self) -> str:
        """Return what a reader has to know of the figures; an empty text if there is nothing."""
        few = f", ONLY {self.answers} ANSWERS" if self.answers < _FEW else ""
        return few + (f", {self.errors} FAILED" if self.errors else "")


def agent_request(model: str, rounds: int) -> str:
    """Return the body of a coding agent's request: a picture, two strict tools, and `rounds` rounds of calls."""
    picture = "data:image/png;base64," + base64.b64encode(b"\x89PNG" + bytes(60)).decode()
    question = [
        {"type": "text", "text": f"What is {MARK}?"},
        {"type": "image_url", "image_url": {"url": picture}},
    ]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": f"{MARK}: You are a coding agent."},
        {"role": "user", "content": question},
    ]
    for index in range(max(1, rounds)):
        messages += _round(f"call_{index:012}", f"src/file{index}.py", "a line of code\n" * (80 if rounds else 1))
    messages += [
        {"role": "assistant", "content": f"It is code {MARK}."},
        {"role": "user", "content": f"And the other, {MARK}?"},
    ]
    tools = [_tool(name) for name in ("read_file", "list_files")]
    return json.dumps({"model": model, "messages": messages, "tools": tools}, separators=(",", ":"))


def _round(call_id: str, path: str, text: str) -> list[dict[str, Any]]:
    function = {"name": "read_file", "arguments": json.dumps({"path": f"{MARK}/{path}", "limit": None})}
    call = {"id": call_id, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": f"{MARK} {text}"},
    ]


def _tool(name: str) -> dict[str, Any]:
    properties = {"path": {"type": "string", "description": "Where."}, "limit": {"type": ["integer", "null"]}}
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    function = {"name": name, "description": f"{name} of it", "strict": True, "parameters": parameters}
    return {"type": "function", "function": function}


class Wrk:
    """wrk as the clients of one gateway, on the clients' processor."""

    def __init__(self, port: int, program: Program, folder: Path, key: str = "") -> None:
        """Set the port that wrk asks, and the program whose CPU time counts."""
        self._url = f"http://127.0.0.1:{port}/v1/chat/completions"
        self._program, self._folder, self._key = program, folder, key

    def measure(self, body: str, seconds: int, clients: int, *, new: bool) -> Measured:
        """Send requests for `seconds`, after one second of warming up."""
        script = self._folder / "wrk.lua"
        shown = f'wrk.headers["x-api-key"] = "{self._key}"\n' if self._key else ""
        settings = _SAME.replace("$BODY", body) + shown
        script.write_text(settings + _NEW.replace("$MARK", MARK) if new else settings)
        self._ask(script, 1, clients)
        before = self._program.cpu_seconds()
        printed = self._ask(script, seconds, clients)
        used = self._program.cpu_seconds() - before
        answers = int(_number(r"(\d+) requests in", printed))
        return Measured(
            answers=answers,
            cpu=1e6 * used / answers if answers else float("nan"),
            rate=answers / seconds,
            p50=_latency(50, printed),
            p99=_latency(99, printed),
            errors=int(_number(r"Non-2xx or 3xx responses: (\d+)", printed)) + _socket_errors(printed),
        )

    def _ask(self, script: Path, seconds: int, clients: int) -> str:
        options = ["-t1", f"-c{clients}", f"-d{seconds}s", "--timeout", "30s", "--latency", "-s", str(script)]
        command = [*pinned(OTHERS), "wrk", *options, self._url, "--", f"{next(_RUNS):04}"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _number(pattern: str, printed: str) -> float:
    found = re.search(pattern, printed)
    return float(found[1]) if found else 0.0


def _socket_errors(printed: str) -> int:
    found = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", printed)
    return sum(map(int, found.groups())) if found else 0


def _latency(percentile: int, printed: str) -> float:
    """Return a percentile of the latencies in milliseconds."""
    found = re.search(rf"{percentile}%\s+([\d.]+)(us|ms|s|m)\b", printed)
    value = float(found[1]) * {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}[found[2]] if found else 0.0
    return value or float("nan")
