"""`toolwire ask`: one question, and its answer alone on standard output.

Rules of this file:
- Standard output receives the answer while it arrives, and nothing else. Everything else goes to standard error.
- With tools, the text before a call is a step, and only the last answer is written. With a schema, the answer is JSON.
- With `-x`, only the answer's first code block is written, or the answer if it has none.
- A question that was answered, at least in part, is saved. `-c` continues it.
"""

import argparse
import contextlib
import re
import sys
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec

from toolwire.cli import conversations
from toolwire.cli.attachments import attachment, check_attachments, message_with
from toolwire.cli.chosen_model import check_key, client_of, explain
from toolwire.cli.conversations import ConversationFile, SavedConversation
from toolwire.cli.display import EventDisplay, show_losses, show_progress
from toolwire.cli.endings import ENDINGS, INTERRUPTED, UNANSWERED
from toolwire.cli.markdown import ProseWriter
from toolwire.cli.own_tools import chosen_tools
from toolwire.cli.prompts import as_utf_8, read_input, read_piped
from toolwire.cli.request_settings import request_settings
from toolwire.cli.schemas import read_schema
from toolwire.cli.screen import Screen
from toolwire.cli.terminal import Interrupts
from toolwire.client.failures import ProviderError
from toolwire.client.one_request import OneRequestTransport
from toolwire.client.sync import Client, Conversation
from toolwire.errors import ToolwireError, UserError
from toolwire.loop import Done
from toolwire.resolvers.execution import Cancel
from toolwire.types import Context, Message, RefusalDelta, TextDelta
from toolwire.waiting.results import safe

_FENCE = re.compile(r"(?P<indent> *)(?P<mark>`{3,}|~{3,})[^`]*$")


def ask(options: argparse.Namespace) -> int:
    """Ask the question of `options` and return the exit code."""
    if options.continue_id and options.task is None and not conversations.is_id(options.continue_id):
        options.task, options.continue_id = options.continue_id, ""
    if options.extract and options.schema is not None:
        raise UserError("-x and --schema exclude each other: the answer is a code block, or JSON", path="ask")
    settings = request_settings(options.option)
    if options.schema is not None:
        settings["output"] = read_schema(options.schema)
    previous, file = _open_conversation(options.continue_id)
    client = _client(options, previous)
    with contextlib.closing(client):
        check_key(client.provider)
        question = _question(options, client)
        tools = chosen_tools(options)
        system = previous.context.system if options.system is None and previous is not None else options.system
        history = previous.context.messages if previous is not None else []
        chat = client.conversation(system=system, messages=list(history))
        with contextlib.ExitStack() as stack:
            for tool in tools:
                if callable(close := getattr(tool, "close", None)):
                    stack.callback(close)
            if tools:
                settings["tools"] = tools
            return _Question(chat, file, previous, extract=options.extract).answer(question, settings)


class _Question:
    """One question of a conversation, its output and its file."""

    def __init__(
        self, chat: Conversation, file: ConversationFile, previous: SavedConversation | None, *, extract: bool
    ) -> None:
        self.extract: bool = extract
        self.chat: Conversation = chat
        self.file: ConversationFile = file
        self.conversation: str = (previous and previous.conversation) or file.new_conversation
        self.out: Screen = Screen()
        self.prose: ProseWriter = ProseWriter(self.out)
        self.notes: Screen = Screen(sys.stderr)
        self.waiting: Screen = self.out if self.out.terminal else self.notes

    def answer(self, question: Message, settings: dict[str, Any]) -> int:
        """Ask the question, write the answer, save the conversation, and return the exit code."""
        cancel = Cancel()
        with Interrupts() as interrupts:
            try:
                with interrupts.stopping(cancel):
                    done = self._stream(question, settings, cancel)
            except ProviderError as problem:
                self._note(f"toolwire: {explain(problem, self.chat.client.provider)}", "error")
                return UNANSWERED
            except KeyboardInterrupt:
                self._note("interrupted", "error")
                return INTERRUPTED
            finally:
                self.waiting.wait(None)
                self.prose.close()
            if self.out.problem is not None:
                raise self.out.problem
            self._save(done)
            return self._end(done, settings)

    def _stream(self, question: Message, settings: dict[str, Any], cancel: Cancel) -> Done:
        """Run the question to its end. Without tools and schema, the answer is written while it arrives."""
        is_plain = not (settings.keys() & {"tools", "output"} or self.extract)
        steps = EventDisplay(self.notes, separate_answer=True) if "tools" in settings else None

        def observe(event: Any) -> None:
            if steps is not None:
                steps.show(event)
            else:
                show_progress(self.waiting, event)

        with self.chat.stream([question], on_event=observe, cancel=cancel, **settings) as stream:
            for item in stream:
                if is_plain and isinstance(item, TextDelta | RefusalDelta):
                    self.waiting.wait(None)
                    self.prose.write(item.text)
                if self.out.problem is not None:
                    cancel()
            return stream.collect()

    def _end(self, done: Done, settings: dict[str, Any]) -> int:
        """Write what is left of the answer, and what a person should know about it."""
        code, words = ENDINGS.get(done.ending, (UNANSWERED, done.ending))
        if "output" in settings:
            code, words = self._write_value(done, code, words)
        elif self.extract and not words:
            self.out.line(code_block(done.content or ""))
        elif "tools" in settings and not words:
            self.prose.write(f"{(done.content or '').rstrip()}\n")
            self.prose.close()
        self.out.start_line()
        show_losses(self.notes, done.losses, self.chat.client.provider.name)
        if words:
            self._note(f"{words}{f': {done.reason}' if done.reason and code != INTERRUPTED else ''}", "error")
        elif done.finish_reason == "length":
            self._note("[the answer was cut off at the token limit: raise it with -o max_tokens=N]", "error")
        return code

    def _write_value(self, done: Done, code: int, words: str) -> tuple[int, str]:
        if done.output is None:
            return code or UNANSWERED, words or "the answer does not match the schema"
        self.out.write_raw(msgspec.json.format(msgspec.json.encode(done.output), indent=2).decode() + "\n")
        return 0, ""

    def _note(self, text: str, look: str) -> None:
        self.out.start_line()
        self.notes.line(text, look)

    def _save(self, done: Done) -> None:
        if not done.messages:
            return
        saved = SavedConversation(
            provider=self.chat.client.provider.name,
            model=self.chat.client.model,
            conversation=self.conversation,
            context=Context(self.chat.system, self.chat.history),
            folder=str(Path.cwd()),
            ending=done.ending,
            command="ask",
        )
        try:
            self.file.save(saved)
        except (OSError, RuntimeError, ToolwireError) as problem:
            self._note(f"[the conversation is not saved: {self.file.path}: {safe(str(problem))}]", "error")


def code_block(answer: str) -> str:
    """Return the content of the first fenced code block of `answer`; the answer itself if that is empty."""
    lines = iter(answer.split("\n"))
    fence = next(filter(None, map(_FENCE.match, lines)), None)
    if fence is None:
        return answer.rstrip()
    code = takewhile(lambda line: not _ends_block(line, fence["mark"]), lines)
    return "\n".join(line.removeprefix(fence["indent"]) for line in code) or answer.rstrip()


def _ends_block(line: str, mark: str) -> bool:
    """Return True if `line` is a fence at least as long as the opening `mark`."""
    return line.strip().startswith(mark) and not line.strip().strip(mark[0])


def _open_conversation(part: str | None) -> tuple[SavedConversation | None, ConversationFile]:
    if part is None:
        return None, ConversationFile()
    path = conversations.find(part) if part else conversations.find_asked()
    file = ConversationFile(path)
    file.is_default = True
    return conversations.read(path), file


def _client(options: argparse.Namespace, previous: SavedConversation | None) -> Client:
    provider, model = options.provider, options.model
    if previous is not None and provider is None and model is None:
        provider, model = previous.provider, previous.model
    return client_of(provider, model, options.base_url, None if options.tool or options.mcp else OneRequestTransport())


def _question(options: argparse.Namespace, client: Client) -> Message:
    """Return the question with its attachments. Raise UserError if there is neither."""
    takes_input = "-" in options.attach
    data = read_input() if takes_input else read_piped()
    text = "" if options.task in (None, "-") else as_utf_8(options.task).strip()
    piped = "" if takes_input else data.decode(errors="replace").strip("\n")
    if piped.strip():
        text = f"{text}\n\nStandard input:\n\n{piped}" if text else piped
    attached = [attachment(name, data) for name in options.attach]
    if not text and not attached:
        raise UserError('pass a question, as in toolwire ask "What is a monad?"', path="ask")
    check_attachments(client.provider, client.model, attached, options.attach)
    return message_with(text, attached)
