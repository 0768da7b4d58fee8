"""The commands of `toolwire`: their groups, their modules, and the sentence that `--help` shows for each.

Rule: `toolwire --help` reads this table alone. A command imports its own module and no other.
"""

from typing import NamedTuple


class Command(NamedTuple):
    """A command: the module in `toolwire.cli` that adds it, and its sentence in `--help`."""

    module: str
    summary: str


GROUPS: dict[str, dict[str, Command]] = {
    "ask and work": {
        "ask": Command("ask_options", "ask a model one question; no tools, and only the answer on standard output"),
        "run": Command("agent_options", "let a model do a task in a project folder, with the code tools"),
        "chat": Command("agent_options", "talk with a model that has the code tools"),
        "conversations": Command("conversations", "list and search everything that was asked or run, newest first"),
    },
    "set up": {
        "demo": Command("demo", "show an agent that fixes a bug, and one request in five wires, offline"),
        "auth": Command("auth", "store, list and remove the keys of providers"),
        "completion": Command("completion", "print a script that completes the words of toolwire in a shell"),
        "doctor": Command("tools", "test the guarantees of the code tools on this machine"),
    },
    "serve": {
        "serve": Command("serve", "serve any client of the five wires with any model, until Ctrl-C"),
        "launch": Command("launch", "start a coding agent or another client program with any model"),
        "simulate": Command("simulate", "serve a simulated model that speaks all dialects, until Ctrl-C"),
        "keys": Command("keys", "create, list, show, change and revoke the keys of a gateway"),
        "usage": Command("usage", "show who asked a gateway for what, and what it cost"),
        "config": Command("config", "show or check a gateway's settings, or import LiteLLM's"),
        "worker": Command("runs", "execute the durable runs of a queue, until a signal"),
    },
    "look": {
        "models": Command("translation", "list the models of the catalogue with prices, or those of a live server"),
        "traces": Command("traces", "read and verify the record of tool calls"),
        "view": Command("view", "show records, traces, runs, a body or a stream in a browser"),
        "export": Command("view", "write one recorded exchange as a file that a browser opens offline"),
        "record": Command("records", "read and export the records of exchanges"),
        "replay": Command("records", "send a recorded request to another model, and compare the answers"),
        "runs": Command("runs", "list, show, cancel, answer, resume, limit and prune durable runs"),
    },
    "wires and tools": {
        "translate": Command("translation", "translate a body from one dialect to another"),
        "dialects": Command("translation", "list the dialects"),
        "text": Command("text", "formats of calls in a model's own text"),
        "tools": Command("tools", "list the code tools, or declare them for a dialect"),
        "call": Command("tools", 'run one code tool: toolwire call read_file \'{"path": "README.md"}\''),
    },
}
COMMANDS: dict[str, Command] = {name: command for group in GROUPS.values() for name, command in group.items()}
SUMMARIES: dict[str, str] = {name: command.summary for name, command in COMMANDS.items()}
