"""Sessions of a coding agent, as clients of each wire send them: every turn, the whole conversation so far.

Rules of this file:
- A session is written for each wire by hand here, and not by toolwire: so a fault of a translation is not in the native
  session as well.
- A longer conversation begins with the bytes of the shorter one, as the programs do it. Claude Code's billing line and
  its marks change in each turn.
- A recorded request is the first request of a session. Its calls and results are made up: calls of its own tools, and
  results of 300 to 6,000 bytes.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from toolwire.testing.echo import example

ROOT = Path(__file__).resolve().parents[1]
CORPUS = Path(os.environ.get("TOOLWIRE_CORPUS", ROOT / "../shared/corpus"))
RECORDED = Path(os.environ.get("TOOLWIRE_PROGRAMS", ROOT / ".programs")) / "recorded"
_FROM_CORPUS = "anthropic-messages/datadog-dd-trace-js__claude-agent-sdk-*.json"
_BILLING = "x-anthropic-billing-header:"
_SIGNATURE = "CiQB4p" + "Rm9vQmFy" * 8  # as long as Gemini's shortest
_FEW = ("Read", "Bash", "Edit", "Grep", "shell", "exec_command", "apply_patch", "update_plan")
_USUAL = 3
Body = dict[str, Any]


class Tool(NamedTuple):
    """A tool that a session offers."""

    name: str
    description: str
    schema: Mapping[str, Any]


class Step(NamedTuple):
    """One turn: the model's text and calls, their results, and the user's next question if there is one."""

    text: str
    calls: list[tuple[str, str, Body]]
    results: list[str]
    question: str = ""


class Session(NamedTuple):
    """A session. `arrivals` is how many tools are known from a turn on; the others arrive later.

    `own` has the recorded request of the client that speaks the wire `recorded_wire`.
    """

    name: str
    system: tuple[str, ...]
    first: tuple[str, ...]
    tools: tuple[Tool, ...]
    arrivals: Mapping[int, int] = {}
    recorded_wire: str = ""
    own: Mapping[str, Any] = {}
    defers: bool = False

    def known(self, turn: int) -> int:
        """Return the number of tools that are known in a turn."""
        counts = [count for since, count in self.arrivals.items() if since <= turn]
        return max(counts, default=len(self.tools))

    def arriving(self, turn: int) -> tuple[Tool, ...]:
        """Return the tools that are known since the end of a turn."""
        return self.tools[self.known(turn) : self.known(turn + 1)]

    def step(self, turn: int) -> Step:
        """Return what happens in a turn. It is always the same."""
        offered = self.tools[: self.known(turn)]
        usual = [tool for tool in offered if tool.name in _FEW] or list(offered[:_USUAL])
        calls = []
        for index in range(2 if turn % 7 == 3 else 1):
            tool = usual[(turn + index) % len(usual)]
            calls.append((f"{turn:04d}{index}", tool.name, _arguments(tool, turn)))
        results = [_result(turn + index) for index in range(len(calls))]
        if new := self.arriving(turn):
            results[-1] = "Loaded: " + ", ".join(tool.name for tool in new)
        question = f"Now look at module {turn} as well, and tell me what you see." if turn % 15 == 14 else ""
        return Step(f"I look at src/module_{turn}.py.", calls, results, question)


def _arguments(tool: Tool, turn: int) -> Body:
    """Return arguments that fit a tool's schema. The texts among them differ from turn to turn."""
    values = example(dict(tool.schema))
    if not isinstance(values, dict):
        return {}
    return {key: f"src/module_{turn}.py" if isinstance(value, str) else value for key, value in values.items()}


def _result(number: int) -> str:
    lines = 6 + number * 37 % 114
    return "".join(f"{line:4} | value_{number}_{line} = compute(previous, {line})\n" for line in range(lines))


def _made_up(name: str, arrivals: Mapping[int, int], count: int) -> Session:
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The path of a file, below the folder of the project. " * 4},
            "limit": {"type": "integer", "description": "The number of lines. " * 4},
        },
        "required": ["path"],
    }
    tools = [
        Tool(f"tool_{n}", f"Does the work of kind {n}, and returns its lines. " * 16, schema) for n in range(count)
    ]
    return Session(name, ("Work with care. " * 1000,), ("Fix the failing test.",), tuple(tools), arrivals)


def sessions(turns: int) -> Iterator[Session | str]:
    """Yield each session of so many turns, or the reason why one is left out."""
    late = {0: 20, turns // 5: 25, 2 * turns // 5: 30, 3 * turns // 5: 35}
    yield _made_up("made up", {}, 20)
    for name, find in (("Claude Code", _claude_code), ("Codex", _codex)):
        recorded = find()
        yield recorded or f"{name}: no recorded request; `make programs` records one"
    yield _made_up("tools arrive late", late, 35)
    yield _made_up("tools are deferred", late, 120)._replace(defers=True)


def _claude_code() -> Session | None:
    """Return the session of Claude Code's longest recorded request: of this machine, or of the corpus."""
    bodies = [json.loads(path.read_bytes()) for path in RECORDED.glob("claude.json")]
    bodies = bodies or [json.loads(path.read_bytes())["request"] for path in CORPUS.glob(_FROM_CORPUS)]
    bodies = [body for body in bodies if body and body.get("tools") and len(body["messages"]) == 1]
    if not bodies:
        return None
    body = max(bodies, key=lambda body: len(json.dumps(body)))
    system = tuple(block["text"] for block in body["system"] if not block["text"].startswith(_BILLING))
    content = body["messages"][0]["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    first = tuple(block["text"] for block in blocks if block["type"] == "text")
    offered = [tool for tool in body["tools"] if not tool.get("defer_loading")]
    tools = [Tool(tool["name"], tool.get("description", ""), tool["input_schema"]) for tool in offered]
    return Session("Claude Code", system, first, tuple(tools), {}, "anthropic", body)


def _codex() -> Session | None:
    """Return the session of Codex' recorded request.

    On other wires its namespaces are written out, and a tool for free text has a field `input`.
    """
    bodies = [json.loads(path.read_bytes()) for path in RECORDED.glob("codex.json")]
    if not bodies:
        return None
    [body] = bodies
    free = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    offered = [inner for tool in body["tools"] for inner in tool.get("tools") or [tool]]
    tools = [
        Tool(tool["name"], tool.get("description", ""), tool.get("parameters") or free)
        for tool in offered
        if tool["type"] in ("function", "custom")
    ]
    texts = [(item["role"], part["text"]) for item in body["input"] for part in item["content"] if "text" in part]
    instructions = [body["instructions"]] if body.get("instructions") else []
    system = (*instructions, *(text for role, text in texts if role != "user"))
    first = tuple(text for role, text in texts if role == "user")
    return Session("Codex", system, first, tuple(tools), {}, "openai-responses", body)


def chat(session: Session, turn: int) -> Body:
    """Return the body of a turn in Chat Completions."""
    messages: list[Body] = [{"role": "system", "content": "\n\n".join(session.system)}]
    messages.append({"role": "user", "content": "\n\n".join(session.first)})
    for before in range(turn):
        step = session.step(before)
        calls = [
            {"id": f"call_{one}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for one, name, arguments in step.calls
        ]
        messages.append({"role": "assistant", "content": step.text, "tool_calls": calls})
        for call, result in zip(calls, step.results, strict=True):
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        if step.question:
            messages.append({"role": "user", "content": step.question})
    tools = [{"type": "function", "function": _function(tool)} for tool in session.tools[: session.known(turn)]]
    return {"model": "m", "messages": messages, "tools": tools, "max_completion_tokens": 4096}


def _function(tool: Tool) -> Body:
    return {"name": tool.name, "description": tool.description, "parameters": tool.schema}


def responses(session: Session, turn: int, *, adds: bool = False) -> Body:
    """Return the body of a turn in Responses. With `adds`, tools arrive in items after the first of the prompt."""
    own = session.own if session.recorded_wire == "openai-responses" else {}
    items: list[Body] = list(own.get("input") or [{"role": "user", "content": "\n\n".join(session.first)}])
    for before in range(turn):
        step = session.step(before)
        items.append({"role": "assistant", "content": step.text})
        for one, name, arguments in step.calls:
            items.append(_responses_call(own, one, name, arguments))
        for (one, _, _), result, call in zip(step.calls, step.results, items[-len(step.calls) :], strict=True):
            kind = "custom_tool_call_output" if "input" in call else "function_call_output"
            items.append({"type": kind, "call_id": f"call_{one}", "output": result})
        if step.question:
            items.append({"role": "user", "content": step.question})
        if adds and (new := session.arriving(before)):
            tools = [{"type": "function", **_function(tool)} for tool in new]
            items.append({"type": "additional_tools", "role": "developer", "tools": tools})
    if own:
        return {**own, "input": items}
    known = session.tools[: session.known(0 if adds else turn)]
    tools = [{"type": "function", **_function(tool), "strict": False} for tool in known]
    return {"model": "m", "instructions": "\n\n".join(session.system), "input": items, "tools": tools, "store": False}


def _responses_call(own: Mapping[str, Any], one: str, name: str, arguments: Body) -> Body:
    is_custom = any(tool.get("name") == name and tool["type"] == "custom" for tool in own.get("tools", ()))
    call: Body = {"type": "custom_tool_call" if is_custom else "function_call", "call_id": f"call_{one}", "name": name}
    return {**call, **({"input": arguments["input"]} if is_custom else {"arguments": json.dumps(arguments)})}


def messages(session: Session, turn: int, *, defers: bool = False) -> Body:
    """Return the body of a turn in Messages, without marks.

    With `defers`, a tool arrives by a reference in a result, and its definition is not at the front of the prompt.
    """
    own = session.own if session.recorded_wire == "anthropic" else {}
    first = own["messages"][0]["content"] if own else [{"type": "text", "text": text} for text in session.first]
    history: list[Body] = [{"role": "user", "content": _unmarked(first)}]
    for before in range(turn):
        step = session.step(before)
        calls = [
            {"type": "tool_use", "id": f"toolu_{one}", "name": name, "input": arguments}
            for one, name, arguments in step.calls
        ]
        history.append({"role": "assistant", "content": [{"type": "text", "text": step.text}, *calls]})
        results: list[Body] = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": result}
            for call, result in zip(calls, step.results, strict=True)
        ]
        if defers and (new := session.arriving(before)):
            results[-1]["content"] = [{"type": "tool_reference", "tool_name": tool.name} for tool in new]
        results += [{"type": "text", "text": step.question}] if step.question else []
        history.append({"role": "user", "content": results})
    if own:
        return {**own, "system": _system_of(own, turn), "messages": history}
    tools: list[Body] = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.schema} for tool in session.tools
    ]
    for index, tool in enumerate(tools):
        if defers and index >= session.known(0):
            tool["defer_loading"] = True
    system = [{"type": "text", "text": text} for text in session.system]
    offered = tools if session.defers else tools[: session.known(turn)]
    return {"model": "m", "max_tokens": 4096, "system": system, "messages": history, "tools": offered}


def _unmarked(content: Any) -> list[Body]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [{key: value for key, value in block.items() if key != "cache_control"} for block in blocks]


def _system_of(own: Mapping[str, Any], turn: int) -> list[Body]:
    """Return the system prompt of Claude Code, whose billing line differs in each turn."""
    return [
        {**block, "text": f"{block['text']} cch={turn:05x};"} if block["text"].startswith(_BILLING) else block
        for block in own["system"]
    ]


def claude_code(session: Session, turn: int) -> Body:
    """Return the body of a turn as Claude Code 2.1.332 sends it: with its marks, and its tools in the order of names.

    A tool that its search has found is deferred, and arrives by a reference.
    """
    body = messages(session, turn, defers=True)
    body["tools"] = sorted(body["tools"], key=lambda tool: tool["name"])
    mark = {"cache_control": {"type": "ephemeral"}}
    if not session.own:
        body["system"] = [*body["system"][:-1], {**body["system"][-1], **mark}]
    last = body["messages"][-1]
    last["content"] = [*last["content"][:-1], {**last["content"][-1], **mark}]
    return body


def gemini(session: Session, turn: int) -> Body:
    """Return the body of a turn in generateContent."""
    contents: list[Body] = [{"role": "user", "parts": [{"text": text} for text in session.first]}]
    for before in range(turn):
        step = session.step(before)
        calls: list[Body] = [{"functionCall": {"name": name, "args": arguments}} for _, name, arguments in step.calls]
        calls[0]["thoughtSignature"] = _SIGNATURE
        contents.append({"role": "model", "parts": [{"text": step.text}, *calls]})
        results: list[Body] = [
            {"functionResponse": {"name": name, "response": {"output": result}}}
            for (_, name, _), result in zip(step.calls, step.results, strict=True)
        ]
        contents.append({"role": "user", "parts": results})
        if step.question:
            contents.append({"role": "user", "parts": [{"text": step.question}]})
    declared = [
        {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.schema}
        for tool in session.tools[: session.known(turn)]
    ]
    system = {"parts": [{"text": text} for text in session.system]}
    tools = [{"functionDeclarations": declared}]
    return {
        "systemInstruction": system,
        "contents": contents,
        "tools": tools,
        "generationConfig": {"maxOutputTokens": 4096},
    }


def ollama(session: Session, turn: int) -> Body:
    """Return the body of a turn in Ollama's chat."""
    body = chat(session, turn)
    for message in body["messages"]:
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        if message["role"] == "tool":
            del message["tool_call_id"]
    return {"model": "m", "messages": body["messages"], "tools": body["tools"], "stream": False}


CLIENTS: dict[str, Callable[[Session, int], Body]] = {
    "openai-chat": chat,
    "openai-responses": responses,
    "anthropic": claude_code,
    "gemini": gemini,
    "ollama": ollama,
}
PATHS = {"gemini": "/v1beta/models/m:generateContent"}
"""The paths of requests whose path has a meaning."""


def _marked(session: Session, turn: int) -> Body:
    return {**messages(session, turn), "cache_control": {"type": "ephemeral"}}


def _marked_and_deferred(session: Session, turn: int) -> Body:
    return {**messages(session, turn, defers=True), "cache_control": {"type": "ephemeral"}}


NATIVE: dict[str, tuple[Callable[[Session, int], Body], ...]] = {
    "openai-chat": (chat,),
    "openai-responses": (responses, lambda session, turn: responses(session, turn, adds=True)),
    "anthropic": (messages, _marked, _marked_and_deferred),
    "gemini": (gemini,),
}
"""The ways in which a client of a wire can send a session. The cheapest of them is the native one."""
