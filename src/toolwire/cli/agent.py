"""A coding agent on the command line: the agent behind `toolwire run` and `toolwire chat`.

Rules of this file:
- The conversation is saved after every turn and when the run ends, whatever ends it.
- A request that failed before the model answered is not part of the conversation. If the conversation cannot be saved,
  the agent prints a warning and continues.
- If standard output is not a terminal, it receives only the answer. Everything else goes to standard error.
- An error message names the remedy: the known providers, the variable of a key, the command that starts a server, or
  the command that continues.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from toolwire import traces
from toolwire.cli import conversations
from toolwire.cli.attachments import attachment, check_attachments, message_with
from toolwire.cli.chosen_model import advice, check_key, client_of, explain
from toolwire.cli.compaction import can_compact, is_full, may_compact_again, summarize
from toolwire.cli.conversations import SavedConversation
from toolwire.cli.costs import Costs
from toolwire.cli.defaults import GO_ON, MAX_STEPS
from toolwire.cli.display import EventDisplay, EventOutput, JsonEventWriter, show_losses, usage_summary
from toolwire.cli.durable import run_durably, target_of_run
from toolwire.cli.endings import ENDINGS, INTERRUPTED, UNANSWERED
from toolwire.cli.instructions import Instructions, read_instructions, system_prompt
from toolwire.cli.prompts import as_utf_8
from toolwire.cli.request_settings import request_settings
from toolwire.cli.screen import Screen, shorten
from toolwire.cli.settings_file import apply_settings
from toolwire.cli.state_paths import default_store, state_folder
from toolwire.cli.terminal import Approver, Interrupts
from toolwire.cli.toolbox import Toolbox
from toolwire.client.failures import ContextTooLong, ProviderError, exception_of
from toolwire.client.saving import Saved
from toolwire.client.sync import Client
from toolwire.config.command_line import Mode
from toolwire.errors import ToolwireError, UserError
from toolwire.loop import AskModel, Done, LoopLimits, add_usage
from toolwire.resolvers import Resolver
from toolwire.resolvers.execution import Cancel
from toolwire.types import Context, Error, Message, Part, Request, Usage, UsageDelta
from toolwire.waiting.results import safe

_WORDS = 70


def screens_of(options: argparse.Namespace) -> tuple[Screen, Screen]:
    """Return the screen for the steps and the screen for the answer. On a terminal, both are standard output."""
    out = Screen()
    silent = options.quiet or options.json
    return (out if out.terminal and not silent else Screen(sys.stderr, quiet=silent)), out


class Agent:
    """A conversation with a model that can use the code tools."""

    def __init__(
        self,
        options: argparse.Namespace,
        screen: Screen,
        interrupts: Interrupts,
        *,
        out: Screen | None = None,
        client: Client | None = None,
    ) -> None:
        self.options: argparse.Namespace = options
        self.screen: Screen = screen
        self.out: Screen = out or screen
        self.interrupts: Interrupts = interrupts
        self.json: JsonEventWriter | None = JsonEventWriter(self.out) if options.json else None
        self.previous: SavedConversation | None
        self.file: conversations.ConversationFile
        self.previous, self.file = _open_conversation(options)
        options.cwd = _project_folder(options, self.previous)
        servers = apply_settings(options, Screen(sys.stderr) if options.json else screen)
        _set_defaults(options)
        self.request_settings: dict[str, Any] = request_settings(options.option)
        if options.max_tokens is not None:
            self.request_settings["max_tokens"] = options.max_tokens
        self.instructions: Instructions = read_instructions(options.cwd) if options.instructions else Instructions()
        self.client: Client = client or self._client()
        self.toolbox: Toolbox = Toolbox(options, screen, servers)
        self.approver: Approver = self.toolbox.approver
        self.resolver: Resolver = self.toolbox.resolver
        self.context: Context = Context(self.system)
        self.attached: list[Part] = []  # with the next prompt
        self.costs: Costs = Costs()
        self._last_usage: Usage | None = None
        self._is_compacting = False
        self.store: traces.Store | None = (
            None if options.traces is None else traces.open(options.traces or default_store(make=True))
        )
        self.conversation: str = (self.previous and self.previous.conversation) or self.file.new_conversation
        self.is_saved: bool = self.previous is not None
        self._save_problem = ""
        self._open_edits()
        self._losses: set[Any] = set()
        if self.previous is not None:
            self._use_history(self.previous)

    def _client(self) -> Client:
        provider, model = self.options.provider, self.options.model
        base_url = self.options.base_url
        if self.previous is not None and provider is None and model is None:
            provider, model = self.previous.provider, self.previous.model
        if getattr(self.options, "durable", None) and provider is None and model is None:
            provider, model, run_base_url = target_of_run(self.options.durable)
            base_url = base_url or run_base_url
        return client_of(provider, model, base_url)

    @property
    def system(self) -> str:
        """The system prompt, with the project's instructions and the note of plan mode."""
        is_plan = self.toolbox.permissions.mode == "plan"
        own = None if self.options.system is None else as_utf_8(self.options.system)
        return system_prompt(own, self.instructions, plan=is_plan)

    def set_mode(self, mode: Mode) -> None:
        """Change what may happen without a question."""
        self.toolbox.permissions.mode = mode
        self.context = replace(self.context, system=self.system)

    def _open_edits(self) -> None:
        """Keep the edits beside the conversation, under its id in the user's state folder."""
        with contextlib.suppress(UserError):
            self.toolbox.edits.open(state_folder("XDG_STATE_HOME") / "edits" / f"{self.conversation}.json")

    def _use_history(self, saved: Saved) -> None:
        """Replace the context by that of `saved`, converted for the current provider, and report the losses."""
        context, losses = saved.at(self.client.provider, self.client.model)
        self.context = Context(self.system, context.messages)
        self._last_usage = None
        show_losses(self.screen, losses, self.name)

    def switch_model(self, client: Client) -> None:
        """Continue the conversation with the provider and model of `client`."""
        saved = Saved(provider=self.name, model=self.client.model, context=self.context)
        self.client.close()
        self.client = client
        self._use_history(saved)

    def introduce(self) -> None:
        """Print which instructions are used, and which conversation is continued, if any."""
        if self.json is not None:
            who = {"provider": self.name, "model": self.client.model, "continued": self.previous is not None}
            self.json.put("start", conversation=self.file.path.stem, **who)
        if self.instructions.summary:
            self.screen.line(f"[{self.instructions.summary}]", "note")
        if self.previous is None:
            return
        first, *rest = [shorten(" ".join(words.split()), _WORDS) for words in self.previous.prompts] or [""]
        turns = f"{self.previous.turns} turn{'s' if self.previous.turns != 1 else ''}"
        self.screen.line(f'[continuing {self.file.path.stem} in {self.options.cwd}, {turns}: "{first}"]', "note")
        if rest:
            self.screen.line(f'[the last prompt was: "{rest[-1]}"]', "note")

    def attach(self, names: Sequence[str], standard_input: bytes = b"") -> None:
        """Attach files to the next prompt. Raise UserError if one cannot be read, or cannot be sent to the provider."""
        parts = [attachment(name, standard_input) for name in names]
        check_attachments(self.client.provider, self.client.model, parts, names)
        self.attached += parts

    def answer(self, prompt: str | None) -> Done:
        """Run the conversation with the new `prompt` until it ends, and return its `Done`.

        Without a prompt, an unanswered conversation is continued as it is.
        """
        check_key(self.client.provider)
        if prompt is None and (not self.context.messages or self.context.messages[-1].role == "assistant"):
            prompt = GO_ON
        self.toolbox.edits.begin_prompt()
        display: EventOutput = self.json or EventDisplay(self.screen, separate_answer=self.out is not self.screen)
        done = self._run_with_room(self._as_messages(prompt), display)
        if prompt is not None and done.messages:
            self.attached = []
            self._forget_notes()
        self._write_answer(done, display)
        if (problem := self.output_error) is not None:
            raise problem
        show_losses(self.screen, [loss for loss in done.losses if loss not in self._losses], self.name)
        self._losses.update(done.losses)
        return done

    def _as_messages(self, prompt: str | None) -> list[Message]:
        """Return the new messages of a turn: the prompt with the notes for the model."""
        if prompt is None:
            return []
        notes = [f"[{note}]" for note in self.toolbox.edits.notes]
        return [message_with("\n\n".join([*notes, as_utf_8(prompt)]), self.attached)]

    def _forget_notes(self) -> None:
        """Drop the notes that the model has received."""
        if self.toolbox.edits.notes:
            self.toolbox.edits.notes.clear()
            with contextlib.suppress(OSError):  # the next save reports it
                self.toolbox.edits.save()

    def _run_with_room(self, new: list[Message], display: EventOutput) -> Done:
        """Run the conversation with the `new` messages until it ends. A full context is replaced by a summary.

        After "too long" there is one try. The steps, the usage and the cost of all parts are those of the end.
        """
        earlier: Done | None = None
        may_retry, steps = True, self.options.max_steps
        if self._is_full(new):
            self._try_compact()
        while True:
            context = replace(self.context, messages=[*self.context.messages, *new])
            try:
                done = self._run_part(context, steps, display)
            except ContextTooLong:
                if not may_retry or not can_compact(self.context.messages):
                    raise
                may_retry = False
                self.compact()
                continue
            earlier = done = done if earlier is None else _join(earlier, done)
            is_too_long = done.error is not None and done.error.kind == "context_length" and may_retry
            steps = self.options.max_steps - done.turns
            if not (self._is_compacting or is_too_long) or steps < 1 or not can_compact(self.context.messages):
                return done
            may_retry = may_retry and not is_too_long
            self.compact()
            new = [Message("user", GO_ON)] if done.messages else new

    def _run_part(self, context: Context, steps: int, display: EventOutput) -> Done:
        self._is_compacting = False
        cancel = self.approver.cancel = Cancel()
        try:
            with self.interrupts.stopping(cancel):
                done = self._run_turn(context, cancel, display, steps)
        finally:
            self.screen.wait(None)
        self.costs.add(self.name, self.client.model, done)
        return done

    def _is_full(self, new: list[Message]) -> bool:
        messages = [*self.context.messages, *new]
        request = Request(model=self.client.model or "", context=replace(self.context, messages=messages))
        return may_compact_again(self.context.messages) and is_full(request, self._last_usage, self.options.window)

    def _try_compact(self) -> None:
        try:
            self.compact()
        except (ProviderError, UserError) as problem:
            self.screen.line(f"[the context is nearly full, and there is no summary: {problem}]", "error")

    def compact(self, focus: str = "") -> None:
        """Replace the conversation by a summary. The whole conversation is saved under another id."""
        if not can_compact(self.context.messages):
            raise UserError("there is nothing to summarize yet")
        count = len(self.context.messages)
        self.screen.start_line()
        self.screen.wait(lambda seconds: f"summarizing the conversation, {seconds:.0f} s")
        cancel = Cancel()
        try:
            with self.interrupts.stopping(cancel):
                summary = summarize(self.client, self.context.messages, cancel, focus=focus, window=self.options.window)
        except KeyboardInterrupt:
            self.screen.line("[the summary was stopped; the conversation is as it was]", "note")
            raise
        finally:
            self.screen.wait(None)
        self.costs.add(self.name, self.client.model, summary.done)
        saved_id = self._save_copy()
        self.context = replace(self.context, messages=summary.messages, provider_state=None)
        self._last_usage = None
        self._save(self.context)
        kept = f"; all of them are saved as {saved_id}" if saved_id else ""
        self.screen.line(f"[{count} messages were replaced by a summary{kept}]", "note")
        if self.json is not None:
            self.json.put("compacted", messages=count, conversation=saved_id)

    def _save_copy(self) -> str:
        """Save the whole conversation under a new id, and return the id; an empty string if that fails."""
        file = conversations.ConversationFile()
        try:
            file.save(self.to_saved(self.context, "answer"))
        except (OSError, RuntimeError, ToolwireError) as problem:
            self.screen.line(f"[the whole conversation is not saved: {problem}]", "error")
            return ""
        return file.path.stem

    def clear(self) -> None:
        """Begin a new conversation with the same settings. The present one stays saved."""
        self.previous, self.file = None, conversations.ConversationFile()
        self.conversation, self.is_saved = self.file.new_conversation, False
        self.context, self._last_usage, self.attached = Context(self.system), None, []
        self.toolbox.edits.clear()
        self._open_edits()

    @property
    def output_error(self) -> OSError | None:
        """The error of writing to an output that was closed, or None."""
        return self.screen.problem or self.out.problem

    def _write_answer(self, done: Done, display: EventOutput) -> None:
        if done.ending != "answer":
            display.release_text()
        elif self.json is None and self.out is not self.screen:
            self.out.write_raw(safe(f"{(done.content or '').rstrip()}\n"))

    def _run_turn(self, context: Context, cancel: Cancel, display: EventOutput, steps: int) -> Done:
        settings = {**self.request_settings, "limits": LoopLimits(turns=steps)}
        if self.store is not None:
            settings["traces"] = self.store.of(conversation_id=self.conversation)

        def observe(event: Any) -> None:
            self._observe(event, cancel)
            display.show(event)

        durable = getattr(self.options, "durable", None)
        settings |= {"tools": self.resolver, "on_event": observe}
        if durable is not None:
            return self._run_durably(durable, context, cancel, settings)
        with self.client.stream(context, cancel=cancel, **settings) as stream:
            try:
                for _ in stream:
                    if self.output_error is not None:
                        cancel()
                return stream.collect()
            finally:
                done = stream.done
                if done is not None and done.response is not None:
                    self._last_usage = done.response.usage
                if done is not None and (done.messages or done.ending == "cancelled"):
                    self.context = replace(context, messages=[*context.messages, *done.messages])
                    self._save(self.context, done.ending)

    def _run_durably(self, name: str, context: Context, cancel: Cancel, settings: dict[str, Any]) -> Done:
        """Run the conversation as the durable run `name`, or as a new one if the name is empty."""
        done = run_durably(self.client, name, context, self.screen, cancel=cancel, settings=settings)
        if done is None:
            self.is_saved = False  # it continues as a durable run, and not as a conversation
            raise KeyboardInterrupt
        self.context = replace(context, messages=[*context.messages, *done.messages])
        self._save(self.context, done.ending)
        return done

    def _observe(self, event: Any, cancel: Cancel) -> None:
        """Save the conversation before each further request, and stop the run if that request fills the context."""
        if isinstance(event, UsageDelta):
            self._last_usage = event.usage
        if isinstance(event, AskModel) and event.turn:
            self._save(event.request.context)
            if self._must_compact(event.request):
                self._is_compacting = True
                cancel()

    def _must_compact(self, request: Request) -> bool:
        """Return True if the next request of a running conversation fills the context. Durable runs are not stopped."""
        is_durable = getattr(self.options, "durable", None) is not None
        may_compact = not is_durable and may_compact_again(request.messages)
        return may_compact and is_full(request, self._last_usage, self.options.window)

    @property
    def name(self) -> str:
        """The name of the provider."""
        return self.client.provider.name

    def to_saved(self, context: Context, ending: str = "") -> SavedConversation:
        """Return the conversation in the form in which it is written to its file."""
        return SavedConversation(
            provider=self.name,
            model=self.client.model,
            conversation=self.conversation,
            context=replace(context, tools=[]),
            folder=os.path.realpath(self.options.cwd),
            ending=ending,
        )

    def _save(self, context: Context, ending: str = "") -> None:
        """Save the conversation. The same problem is reported once."""
        try:
            if not self.file.save(self.to_saved(context, ending)):
                self.screen.line(f"[it was continued elsewhere: this one is saved as {self.file.path.stem}]", "note")
            self.is_saved = True
            self.toolbox.edits.save()
        except (OSError, RuntimeError, ToolwireError) as problem:
            why = f"{self.file.path}: {getattr(problem, 'strerror', None) or problem}"
            if why != self._save_problem:
                self.screen.line(f"[the conversation is not saved: {why}]", "error")
            self._save_problem = why

    def report_end(self, done: Done, *, again: str = "") -> int:
        """Print how the conversation ended and return the exit code; `again` is the command that can continue it."""
        code, words = ENDINGS.get(done.ending, (UNANSWERED, done.ending))
        if words:
            reason = f": {done.reason}" if done.reason and code != INTERRUPTED else ""
            self.screen.line(f"{words}{reason}", "error")
            if done.error is not None and (advised := self._advice(done.error)):
                self.screen.line(advised, "error")
            self.suggest_continue(again, " --max-steps N" if done.ending == "limit" else "")
        elif done.finish_reason == "length":
            self.screen.line("[the answer was cut off at the token limit: raise --max-tokens]", "error")
        if done.turns > 1 and (counts := usage_summary(done.usage, done.cost)):
            self.screen.line(f"[in all: {done.turns} turns, {counts}]", "note")
        self.write_end(done, code)
        return code

    def suggest_continue(self, command: str, more: str = "", look: str = "error") -> None:
        """Print the `command` that continues the saved conversation, with the options `more`."""
        if command and self.is_saved:
            which = self.file.path.stem if self.file.is_default else f"--session {self.file.path}"
            self.screen.line(f"[to continue: {command} --continue {which}{more}]", look)

    def write_end(self, done: Done, code: int) -> None:
        """With `--json`, write the final object."""
        if self.json is None:
            return
        usage = done.usage and {"input_tokens": done.usage.input_tokens, "output_tokens": done.usage.output_tokens}
        answer = {"ending": done.ending, "answer": done.content, "reason": done.reason}
        counts = {"turns": done.turns, "usage": usage, "cost": done.cost}
        self.json.put("end", **answer, **counts, conversation=self.file.path.stem, exit=code)

    def _advice(self, error: Error) -> str:
        return advice(exception_of(error, self.name), self.client.provider)

    def explain(self, problem: ProviderError) -> str:
        """Return the message of `problem` and its remedy."""
        return explain(problem, self.client.provider)

    def close(self) -> None:
        """Close the connections, end the MCP servers, and commit the recorded traces."""
        self.client.close()
        self.toolbox.close()
        if self.store is not None:
            self.store.close()


def _join(earlier: Done, later: Done) -> Done:
    """Return the end of a run that was summarized in its middle, with the counts of both parts."""
    costs = (earlier.cost, later.cost)
    cost = None if None in costs else sum(filter(None, costs))
    usage = add_usage(earlier.usage, later.usage)
    losses = tuple(dict.fromkeys((*earlier.losses, *later.losses)))
    return replace(later, turns=earlier.turns + later.turns, usage=usage, cost=cost, losses=losses)


def _set_defaults(options: argparse.Namespace) -> None:
    """Set the options that neither the command nor a settings file has set."""
    options.max_steps = options.max_steps or MAX_STEPS
    options.instructions = options.instructions is not False


def _open_conversation(options: argparse.Namespace) -> tuple[SavedConversation | None, conversations.ConversationFile]:
    """Return the conversation to continue, if any, and the file that the conversation is saved in."""
    part, file = options.continue_id, Path(options.session) if options.session else None
    if part is None:
        if file is not None and file.exists() and (file.is_dir() or file.stat().st_size):
            raise UserError(f"{file} already exists: pass --continue to continue it, or another FILE")
        return None, conversations.ConversationFile(file)
    path = file if file is not None else conversations.find(part, options.cwd or ".")
    conversation_file = conversations.ConversationFile(path)
    conversation_file.is_default = file is None
    return conversations.read(path), conversation_file


def _project_folder(options: argparse.Namespace, previous: SavedConversation | None) -> str:
    """Return the project folder: `--cwd`, else the folder of the continued conversation, else the current one."""
    folder: str = options.cwd or "."
    if options.cwd is None and previous is not None and Path(previous.folder).is_dir():
        folder = previous.folder or "."
    if not Path(folder).is_dir():
        raise UserError(f"{folder} is not a folder", path="--cwd")
    return folder
