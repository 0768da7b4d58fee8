"""The view Runs: durable runs, their turns, and the calls that wait for a person's approval."""

from typing import Any
from urllib.parse import quote, unquote

import msgspec

from toolwire.errors import InvalidField, ToolwireError
from toolwire.page.json_view import show_json
from toolwire.page.shown import Missing, PageRequest, Redirect, Shown
from toolwire.page.sources import Sources
from toolwire.page.turns import turns_of
from toolwire.types import Message, Response, ToolResult

_LIMIT = 200
_STATES = ("queued", "running", "waiting", "parked", "done", "failed", "cancelled")
_ENDS = frozenset({"done", "failed", "cancelled"})


def show_runs(sources: Sources, request: PageRequest) -> Shown:
    """Return the runs, the newest first."""
    state = request.query.get("state", "")
    state = state if state in _STATES else ""
    rows = []
    if sources.runs is not None:
        listed = sources.runs.list("ended" if state in _ENDS else state or None, _LIMIT)
        rows = [row for row in listed if not state or row.state == state]
    extra = {"store": sources.runs, "state": state, "states": _STATES, "urls": {row.id: _url(row.id) for row in rows}}
    return Shown("runs.html", "Runs", {"runs": rows}, extra)


def _url(run: str) -> str:
    return f"/page/runs/{quote(run, safe='')}"


def show_run(sources: Sources, request: PageRequest) -> Shown:
    """Return one run: its turns, and what it waits for."""
    run = _run_of(sources, request.args[0])
    events, is_over = run.happened(0)
    waiting = [] if is_over else run.waiting
    turns, reason = turns_of(_messages_of(sources, run, events)), run.reason
    data = {
        "id": run.id,
        "state": run.state,
        "reason": reason,
        "waiting": waiting,
        "turns": [turn.plain() for turn in turns],
    }
    questions = [(question, _arguments(question.arguments)) for question in waiting]
    extra: dict[str, Any] = {"turns": turns, "url": _url(run.id), "questions": questions}
    return Shown("run.html", run.id, data, extra)


def _run_of(sources: Sources, name: str) -> Any:
    if sources.runs is None:
        raise Missing("there is no database of runs here")
    try:
        return sources.runs.run(unquote(name))
    except InvalidField as problem:
        raise Missing(str(problem)) from None


def _messages_of(sources: Sources, run: Any, events: list[Any]) -> list[Message]:
    """Return the messages with which a run began, and those that it added."""
    try:
        inputs = sources.runs.core.inputs_of(run.id)
    except ToolwireError:  # a run that an older release stored
        inputs = None
    messages = [] if inputs is None else list(inputs[1].messages)
    for _, event in events:
        if isinstance(event, Response):
            messages.append(event.message)
        elif isinstance(event, ToolResult):
            messages.append(Message("tool", [event]))
    return messages


def _arguments(text: str) -> Any:
    try:
        return show_json(msgspec.json.decode(text))
    except msgspec.DecodeError:
        return text


def answer_call(sources: Sources, request: PageRequest) -> Redirect:
    """Approve or reject a call, and return to the run."""
    run = _run_of(sources, request.args[0])
    verdict, reason = request.form.get("verdict", ""), request.form.get("reason", "").strip()
    if verdict not in ("approve", "reject"):
        raise InvalidField("verdict", f"must be approve or reject, not {verdict!r}", path=run.id)
    run.answer(request.form.get("call", ""), True if verdict == "approve" else reason or False)
    return Redirect(_url(run.id))
