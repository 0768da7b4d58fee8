"""`toolwire run --durable`: the agent's conversation as a durable run.

Rules of this file:
- An existing ID resumes that run, with its provider, its model and its task. Another task is an error.
- Ctrl-C only detaches from the run.
"""

import contextlib
import uuid
from typing import Any

from toolwire.cli.defaults import GO_ON
from toolwire.cli.screen import Screen
from toolwire.cli.state_paths import default_runs
from toolwire.client.sync import Client
from toolwire.errors import UserError
from toolwire.loop import Done
from toolwire.resolvers.execution import Cancel
from toolwire.types import Context
from toolwire.wire.transport import url_without_secrets


def run_durably(
    client: Client, name: str, context: Context, screen: Screen, *, cancel: Cancel, settings: dict[str, Any]
) -> Done | None:
    """Run the conversation `context` as the durable run `name`, or as a new one, and return its end.

    Return None if `cancel` was called before. The run then continues.
    """
    from toolwire.runs import Runs  # noqa: PLC0415 - an extra

    name, done = name or uuid.uuid4().hex[:12], None
    if url_without_secrets(client.provider.base_url) == client.provider.base_url:
        settings = {**settings, "options": {"base_url": client.provider.base_url}}  # a resumed run uses it too
    with Runs(default_runs()) as runs:
        _check_task(runs, name, context.messages[-1].content)
        screen.line(f"[run {name}: toolwire run --durable {name} resumes it]", "note")
        run = runs.start(context, client.provider, client.model, id=name, **settings)
        while done is None and not cancel.is_set():
            with contextlib.suppress(TimeoutError):
                done = run.result(0.5)
        if done is None:
            screen.line("[detaching when the current step ends; press Ctrl-C again to exit at once]", "note")
    return done


def target_of_run(name: str) -> tuple[str | None, str | None, str | None]:
    """Return the provider, the model and the base URL of the durable run `name`; all None if there is no such run."""
    from toolwire.runs import Runs  # noqa: PLC0415 - an extra

    with Runs(default_runs()) as runs:
        started = runs.core.inputs_of(name)
    if not started:
        return None, None, None
    return started[0].provider, started[0].model, started[0].options.get("base_url")


def _check_task(runs: Any, name: str, task: Any) -> None:
    """Raise UserError if a new run has no task, or if `task` differs from the task of the existing run `name`."""
    started = runs.core.inputs_of(name)
    if started is None and task == GO_ON:
        raise UserError(f"there is no run {name!r}: pass a task to start one", path="--durable")
    if started is not None and task not in (GO_ON, started[1].messages[-1].content):
        raise UserError(f"run {name!r} has another task: pass no task to resume it, or another ID", path="--durable")
