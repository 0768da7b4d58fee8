"""The result of a call from the value that its tool returned, and the outcome of each call of a turn.

Rules of this file:
- A string stays a string. A part, or a list of parts, stays as it is. Any other value becomes its JSON.
- A value without JSON (a generator, a cycle, a number that is not finite) becomes an error result that says why.
- The result carries its call's id, whatever the tool set.
- An exception becomes an error result and a log entry. Both are scrubbed of the values in the call's sensitive fields
  and of the run's secrets. The run is asked for its secrets only when a call fails.
- Each call is reported exactly once, when it has ended, to whoever records calls (traces, telemetry).
- The reason for the ending is what was noted while the call ran (`CallNote`), else what its result shows.
- Durations come from the monotonic clock.
"""

import json
import logging
import math
import re
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from toolwire.scrubbing import scrub, scrub_text, secrets_of
from toolwire.types import Audio, Document, Image, Part, Text, ToolCall, ToolResult
from toolwire.waiting.steps import Emit, Work, handle_emits
from toolwire.wire.arguments import input_of

PARTS = (Text, Image, Document, Audio)
FAILED = "Tool execution failed: "
_LONGEST_ERROR = 4000
# The model reads what tools raise. It is logged as well, but printed only if the program configures logging.
logger: logging.Logger = logging.getLogger("toolwire.tools")
logger.addHandler(logging.NullHandler())
# Control characters, lone surrogates, and the invisible format characters (Cf). The joiners U+200C and U+200D stay,
# because emoji and several scripts need them. Format characters that are drawn, such as U+0600, stay too.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)
CallEnding = Literal["ok", "error", "denied", "cancelled", "timed_out", "unknown_tool", "invalid", "interrupted"]


class CallNote(Struct, frozen=True):
    """A note about a call, emitted while it runs, for whoever records calls. None means "nothing noted".

    `approval` is `asked` while a person is asked, then `granted` or `denied`. It is `unanswered` if nobody answered.
    """

    ending: CallEnding | None = None
    approval: str | None = None
    sandbox: str | None = None


class _SecretsRequest(Struct, frozen=True):
    """Emitted when a call fails. The driver of the run answers with the run's secrets, or with None."""


class Ran(Struct, frozen=True):
    """The outcome of a call: its result, how it ended, when it started (Unix time), how long it took.

    `waited` is the number of seconds until a person approved the call. `seconds` is the tool's own time.

    >>> from toolwire import Client, Ran, ToolCall
    >>> from toolwire.testing import simulate
    >>> def ping() -> str:
    ...     return "pong"
    >>> records = []
    >>> with simulate([ToolCall(None, "ping", {}), "Done."]) as model:
    ...     with Client("ollama", "m", base_url=model.url) as client:
    ...         done = client.run("Ping.", tools=[ping], on_event=records.append)
    >>> [(record.ending, record.result.content) for record in records if isinstance(record, Ran)]
    [('ok', 'pong')]
    """

    call: ToolCall
    result: ToolResult
    ending: CallEnding
    started: float | None
    seconds: float
    approval: str | None = None
    sandbox: str | None = None
    waited: float = 0.0


class _OngoingCall:
    """A call that is running: its start time, its notes, and how long it has waited for approval."""

    def __init__(self) -> None:
        self.started, self.clock = time.time(), time.monotonic()
        self.notes: dict[str, Any] = {}
        self.waited = 0.0
        self.is_reported = False
        self._asked: float | None = None

    def note(self, note: CallNote) -> None:
        if note.approval is not None:
            self.add_waited()
            self._asked = time.monotonic() if note.approval == "asked" else None
        self.notes.update({name: value for name, value in asdict(note).items() if value is not None})

    def add_waited(self, *, still_asking: bool = False) -> None:
        """Add the time since a person was asked, if one was. With `still_asking`, the waiting continues."""
        if self._asked is not None:
            now = time.monotonic()
            self.waited += now - self._asked
            self._asked = now if still_asking else None


class CallRecord:
    """Records the outcome of each call, and passes it to `report`. `secrets` returns the run's secrets."""

    def __init__(self, report: Callable[[Ran], None], secrets: Callable[[], Collection[str]] = tuple) -> None:
        self._report = report
        self._secrets = secrets
        self._ongoing: dict[int, _OngoingCall] = {}

    def record_steps(self, call: ToolCall, steps: Work[ToolResult]) -> Work[ToolResult]:
        """Run the steps of `call`, collect its notes, and report its outcome."""
        ongoing = self._ongoing[id(call)] = _OngoingCall()

        def handle(event: Any) -> Work[Collection[str] | None]:
            if type(event) is CallNote:
                ongoing.note(event)
            yield from ()
            return self._secrets() if type(event) is _SecretsRequest else None

        result = yield from handle_emits(steps, handle)
        if not ongoing.is_reported:
            self.end(call, result)
        return result

    def stop(self, call: ToolCall) -> None:
        """Leave the report of `call` to the caller, who stops it. The outcome of its own steps is not reported."""
        if (ongoing := self._ongoing.get(id(call))) is not None:
            ongoing.is_reported = True

    def waited(self, call: ToolCall) -> float:
        """Return the seconds that `call` has waited so far for approval."""
        ongoing = self._ongoing.get(id(call))
        if ongoing is None:
            return 0.0
        ongoing.add_waited(still_asking=ongoing.notes.get("approval") == "asked")
        return ongoing.waited

    def is_unapproved(self, call: ToolCall) -> bool:
        """Return True if `call` is waiting for approval."""
        ongoing = self._ongoing.get(id(call))
        return ongoing is not None and ongoing.notes.get("approval") == "asked"

    def end(self, call: ToolCall, result: ToolResult, ending: CallEnding | None = None) -> None:
        """Report the outcome of `call`. Without `ending`, the ending is the noted one, or follows from `result`."""
        ongoing = self._ongoing.pop(id(call), None) or _OngoingCall()
        ongoing.is_reported = True
        notes, default = ongoing.notes, "error" if result.is_error else "ok"
        ongoing.add_waited()
        if notes.get("approval") == "asked":
            notes["approval"] = "unanswered"
        noted_ending = notes.pop("ending", default)
        seconds = max(0.0, time.monotonic() - ongoing.clock - ongoing.waited)
        self._report(
            Ran(call, result, ending or noted_ending, ongoing.started, seconds, waited=ongoing.waited, **notes)
        )


def failure(call: ToolCall, reason: str) -> ToolResult:
    """Return an error result for `call` with the text `reason`."""
    return ToolResult(call.id, call.name, replace_surrogates(reason), is_error=True)


def invalid(call: ToolCall, problems: list[str]) -> ToolResult:
    """Return the error result of a call that was not run because of the `problems` of its arguments."""
    return failure(call, f"invalid arguments for {call.name!r}: {'; '.join(problems)}")


def error_result(error: BaseException, call: ToolCall, sensitive: Collection[str] = ()) -> Work[ToolResult]:
    """Log `error`, which the tool of `call` raised, and return the error result that describes it.

    Both are scrubbed.
    """
    arguments = input_of(call)
    secrets = [*(yield from current_secrets()), *secrets_of(arguments, sensitive)]
    arguments_text = scrub_text(repr(scrub(arguments, sensitive, secrets)), secrets)
    name = scrub_text(call.name, secrets)
    logger.error("tool %r failed with arguments %s\n%s", name, arguments_text, format_traceback(error, secrets))
    return failure(call, FAILED + scrub_text(describe_error(error), secrets))


def current_secrets() -> Work[Collection[str]]:
    """Return the run's secrets, or nothing outside of a run."""
    return (yield Emit(_SecretsRequest())) or ()


def format_traceback(error: BaseException, secrets: Collection[str]) -> str:
    """Return the traceback of `error`, scrubbed of `secrets`."""
    return scrub_text("".join(traceback.format_exception(error)), secrets)


def describe_error(error: BaseException, limit: int = _LONGEST_ERROR) -> str:
    """Return the message of `error`, cut to `limit` characters, or its type's name if it has no message."""
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - the `__str__` of other people's exceptions may raise anything
        text = ""
    name = type(error).__name__
    text = f"{name}: {text}" if isinstance(error, KeyError) else text or name
    over = len(text) - limit
    return text if over <= 0 else f"{text[:limit]} [... {over} more characters]"


def result_of(value: Any, call: ToolCall) -> ToolResult:
    """Return the result of `call`, whose tool returned `value`. A value that is not JSON makes an error result."""
    match value:
        case str():
            return ToolResult(call.id, call.name, replace_surrogates(value))
        case ToolResult():
            content = value.content
            content = (
                replace_surrogates(content)
                if isinstance(content, str)
                else [_replace_surrogates_in(part) for part in content]
            )
            return replace(value, tool_call_id=call.id, name=call.name, content=content)
        case Text() | Image() | Document() | Audio():
            return ToolResult(call.id, call.name, [_replace_surrogates_in(value)])
        case list() if value and any(isinstance(item, PARTS) for item in value):
            return ToolResult(call.id, call.name, [_to_part(item) for item in value])
    try:
        return ToolResult(call.id, call.name, write_json(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as problem:
        return failure(call, f"{FAILED}the tool returned a value that cannot be written as JSON: {problem}")


def result_of_answer(value: Any, call: ToolCall) -> ToolResult:
    """Return the result of `call` for what its resolver returned: a tool's value, or `("ok" | "error", value)`."""
    match value:
        case ("ok" | "error" as outcome, content) if type(value) is tuple:
            result = result_of(content, call)
            return replace(result, is_error=True) if outcome == "error" else result
    return result_of(value, call)


def _to_part(item: Any) -> Part:
    if isinstance(item, PARTS):
        return _replace_surrogates_in(item)
    return Text(replace_surrogates(item) if isinstance(item, str) else write_json(item))


def _replace_surrogates_in(part: Part) -> Part:
    """Return `part` with texts that every wire can carry."""
    names = getattr(part, "__struct_fields__", ())
    texts = {name: text for name in names if type(text := getattr(part, name)) is str and not text.isascii()}
    changed = {name: replaced for name, text in texts.items() if (replaced := replace_surrogates(text)) is not text}
    return replace(part, **changed) if changed else part


def replace_surrogates(text: str) -> str:
    """Return `text` with lone surrogates, which UTF-8 cannot encode, replaced by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace") if _is_broken(text) else text


def _is_broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def safe(text: str) -> str:
    r"""Return `text` with characters escaped (`\x1b`) that could steer a terminal, hide, or turn the text around."""
    return _UNSAFE.sub(escape_character, text)


def escape_character(match: re.Match[str]) -> str:
    r"""Return the escape, `\xNN` or `\uNNNN`, for a character that was matched in a text and cannot be shown."""
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def write_json(value: Any) -> str:
    """Return `value` as JSON. If it contains a set, everything is sorted, so that the text is always the same."""
    order: Any = "deterministic" if _contains(value, lambda one: isinstance(one, set | frozenset)) else None
    try:
        encoded = msgspec.json.encode(value, enc_hook=_plain, order=order)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, enc_hook=_plain, order=order)
        return replace_surrogates(json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False))
    if b"null" in encoded and _contains(value, lambda one: type(one) is float and not math.isfinite(one)):
        raise ValueError("a number is not finite")
    return encoded.decode()


def _contains(value: Any, test: Callable[[Any], bool]) -> bool:
    """Return True if `test` is true of `value` or of a value within it."""
    if test(value):
        return True
    match value:
        case str() | bytes() | int() | float() | None:
            return False
        case Mapping():
            inner: Iterable[Any] = value.values()
        case list() | tuple() | set() | frozenset():
            inner = value
        case msgspec.Struct():
            inner = [getattr(value, name) for name in value.__struct_fields__]
        case _ if hasattr(value, "__dataclass_fields__") or hasattr(value, "model_dump"):
            inner = vars(value).values() if hasattr(value, "__dict__") else ()
        case _:
            return False
    return any(_contains(item, test) for item in inner)


def _plain(value: Any) -> Any:
    """Return plain values for a type that msgspec does not know."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if hasattr(value, "__fspath__"):
        return value.__fspath__()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a value of type {type(value).__name__}")
