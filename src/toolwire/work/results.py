"""What a tool gave, as the result of its call, and what became of each call of a turn.

Rules of this file:
- A string is itself, a part or a list of parts stays parts; anything else is its JSON.
- What has no JSON (a generator, a circle, a number that is none) is an error result that says so.
- The result is linked to its call, whatever the tool said of that.
- What was raised is its result and in the log, without what is secret: what stands in the sensitive fields of the call
  itself, and what is secret in the run around it. The run says that where it is asked, and it is asked only where
  something failed.
- A call is reported once, when it has ended, whatever ended it: to those who keep a record (traces, telemetry).
- Why it ended is what was noted while it ran (`CallNote`); else its result says so.
- Durations are taken from a clock that nobody sets back.
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
from toolwire.wire.arguments import input_of
from toolwire.work.waiting import Emit, Work, through

PARTS = (Text, Image, Document, Audio)
FAILED = "Tool execution failed: "
_LONGEST_ERROR = 4000
# What tools raise is told to the model; who configures logging finds it there too, and nobody else on a terminal.
logger: logging.Logger = logging.getLogger("toolwire.tools")
logger.addHandler(logging.NullHandler())
# Control characters, halves of surrogate pairs, and the format characters (Cf) that nobody sees. The joiners U+200C and
# U+200D stay, for emoji and several scripts are written with them, and so do the signs that are drawn, such as U+0600.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)
CallEnding = Literal["ok", "error", "denied", "cancelled", "timed_out", "unknown_tool", "invalid", "interrupted"]


class CallNote(Struct, frozen=True):
    """Emitted while a call is run, for whoever keeps a record of it; what is None is not said.

    `approval` is `asked` while somebody is asked, then `granted` or `denied`; `unanswered` if nobody answered.
    """

    ending: CallEnding | None = None
    approval: str | None = None
    sandbox: str | None = None


class _SecretsWanted(Struct, frozen=True):
    """Emitted where something failed: who leads the run answers what is secret in it, or nothing."""


class Ran(Struct, frozen=True):
    """What became of a call: its result, how it ended, when it began (Unix time), how long it took.

    `waited` are the seconds until somebody approved the call; `seconds` are those of the tool.
    """

    call: ToolCall
    result: ToolResult
    ending: CallEnding
    started: float | None
    seconds: float
    approval: str | None = None
    sandbox: str | None = None
    waited: float = 0.0


class _Begun:
    """A call that runs: since when, what was noted of it, and how long it has waited for approval."""

    def __init__(self) -> None:
        self.started, self.begun = time.time(), time.monotonic()
        self.notes: dict[str, Any] = {}
        self.waited = 0.0
        self.told = False
        self._asked: float | None = None

    def note(self, note: CallNote) -> None:
        if note.approval is not None:
            self.answered()
            self._asked = time.monotonic() if note.approval == "asked" else None
        self.notes.update({name: value for name, value in asdict(note).items() if value is not None})

    def answered(self, *, going_on: bool = False) -> None:
        """Count the time since somebody was asked, if somebody was; it may go on."""
        if self._asked is not None:
            now = time.monotonic()
            self.waited += now - self._asked
            self._asked = now if going_on else None


class CallRecord:
    """Keeps what became of each call, whatever that is; `tell` gets it. `secrets` says what is secret."""

    def __init__(self, tell: Callable[[Ran], None], secrets: Callable[[], Collection[str]] = tuple) -> None:
        self._tell = tell
        self._secrets = secrets
        self._begun: dict[int, _Begun] = {}

    def keeping(self, call: ToolCall, steps: Work[ToolResult]) -> Work[ToolResult]:
        """Do the steps of a call, and keep what is said on the way."""
        begun = self._begun[id(call)] = _Begun()

        def hear(event: Any) -> Work[Collection[str] | None]:
            if type(event) is CallNote:
                begun.note(event)
            yield from ()
            return self._secrets() if type(event) is _SecretsWanted else None

        result = yield from through(steps, hear)
        if not begun.told:
            self.end(call, result)
        return result

    def stop(self, call: ToolCall) -> None:
        """Leave it to whoever stops a call to report its end, whatever its steps still give."""
        if (begun := self._begun.get(id(call))) is not None:
            begun.told = True

    def waited(self, call: ToolCall) -> float:
        """Give the seconds that a call has waited so far for somebody to approve it."""
        begun = self._begun.get(id(call))
        if begun is None:
            return 0.0
        begun.answered(going_on=begun.notes.get("approval") == "asked")
        return begun.waited

    def is_unapproved(self, call: ToolCall) -> bool:
        """Whether a call waits for somebody to approve it."""
        begun = self._begun.get(id(call))
        return begun is not None and begun.notes.get("approval") == "asked"

    def end(self, call: ToolCall, result: ToolResult, ending: CallEnding | None = None) -> None:
        """Report the end of a call; why it ended is what was noted of it, where nothing else is passed."""
        begun = self._begun.pop(id(call), None) or _Begun()
        begun.told = True
        notes, usual = begun.notes, "error" if result.is_error else "ok"
        begun.answered()
        if notes.get("approval") == "asked":
            notes["approval"] = "unanswered"
        noted = notes.pop("ending", usual)
        seconds = max(0.0, time.monotonic() - begun.begun - begun.waited)
        self._tell(Ran(call, result, ending or noted, begun.started, seconds, waited=begun.waited, **notes))


def failure(call: ToolCall, reason: str) -> ToolResult:
    """Give an error result."""
    return ToolResult(call.id, call.name, sayable(reason), is_error=True)


def invalid(call: ToolCall, problems: list[str]) -> ToolResult:
    """Give the result of a call that was not run, because of its arguments."""
    return failure(call, f"invalid arguments for {call.name!r}: {'; '.join(problems)}")


def rescuing(problem: BaseException, call: ToolCall, sensitive: Collection[str] = ()) -> Work[ToolResult]:
    """Log what was raised, and give the result that says so."""
    arguments = input_of(call)
    secrets = [*(yield from secrets_around()), *secrets_of(arguments, sensitive)]
    shown = scrub_text(repr(scrub(arguments, sensitive, secrets)), secrets)
    name = scrub_text(call.name, secrets)
    logger.error("tool %r failed with arguments %s\n%s", name, shown, traceback_of(problem, secrets))
    return failure(call, FAILED + scrub_text(text_of(problem), secrets))


def secrets_around() -> Work[Collection[str]]:
    """Ask what is secret in the run, if there is one."""
    return (yield Emit(_SecretsWanted())) or ()


def traceback_of(problem: BaseException, secrets: Collection[str]) -> str:
    """Say what was raised, with its traceback."""
    return scrub_text("".join(traceback.format_exception(problem)), secrets)


def text_of(problem: BaseException, most: int = _LONGEST_ERROR) -> str:
    """Say what an exception says, up to so many characters; its kind, where that alone says nothing."""
    try:
        text = str(problem)
    except BaseException:  # noqa: BLE001 - an exception that cannot be shown is still told
        text = ""
    kind = type(problem).__name__
    text = f"{kind}: {text}" if isinstance(problem, KeyError) else text or kind
    over = len(text) - most
    return text if over <= 0 else f"{text[:most]} [... {over} more characters]"


def result_of(value: Any, call: ToolCall) -> ToolResult:
    """Give the result of a call whose tool gave this value."""
    match value:
        case str():
            return ToolResult(call.id, call.name, sayable(value))
        case ToolResult():
            content = value.content
            content = sayable(content) if isinstance(content, str) else [_sayable_part(part) for part in content]
            return replace(value, tool_call_id=call.id, name=call.name, content=content)
        case Text() | Image() | Document() | Audio():
            return ToolResult(call.id, call.name, [_sayable_part(value)])
        case list() if value and any(isinstance(item, PARTS) for item in value):
            return ToolResult(call.id, call.name, [_part_of(item) for item in value])
    try:
        return ToolResult(call.id, call.name, write_json(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as problem:
        return failure(call, f"{FAILED}the tool gave a value that cannot be written as JSON: {problem}")


def answer_of(value: Any, call: ToolCall) -> ToolResult:
    """Give the result of a call whose resolver or `execute` gave this; `("ok", text)` is one too."""
    match value:
        case ("ok" | "error" as outcome, content) if type(value) is tuple:
            result = result_of(content, call)
            return replace(result, is_error=True) if outcome == "error" else result
    return result_of(value, call)


def _part_of(item: Any) -> Part:
    if isinstance(item, PARTS):
        return _sayable_part(item)
    return Text(sayable(item) if isinstance(item, str) else write_json(item))


def _sayable_part(part: Part) -> Part:
    """Give a part whose texts every wire can carry."""
    names = getattr(part, "__struct_fields__", ())
    texts = {name: text for name in names if type(text := getattr(part, name)) is str and not text.isascii()}
    changed = {name: said for name, text in texts.items() if (said := sayable(text)) is not text}
    return replace(part, **changed) if changed else part


def sayable(text: str) -> str:
    """Give text that every wire can carry: half of a surrogate pair becomes U+FFFD."""
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
    r"""Write what could steer a terminal, hide, or turn the writing around as its number (`\x1b`)."""
    return _UNSAFE.sub(spelled, text)


def spelled(found: re.Match[str]) -> str:
    r"""Write a character that was found in some text, and cannot be shown, as `\xNN` or `\uNNNN`."""
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def write_json(value: Any) -> str:
    """Write a value as JSON; where a set is inside, all is sorted, so that the text is always the same."""
    order: Any = "deterministic" if _holds(value, lambda one: isinstance(one, set | frozenset)) else None
    try:
        written = msgspec.json.encode(value, enc_hook=_plain, order=order)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value, enc_hook=_plain, order=order)
        return sayable(json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False))
    if b"null" in written and _holds(value, lambda one: type(one) is float and not math.isfinite(one)):
        raise ValueError("a number is not finite")
    return written.decode()


def _holds(value: Any, wanted: Callable[[Any], bool]) -> bool:
    """Whether a value is one of these, or holds one."""
    if wanted(value):
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
    return any(_holds(item, wanted) for item in inner)


def _plain(value: Any) -> Any:
    """Give plain values for what msgspec does not know."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    if hasattr(value, "__fspath__"):
        return value.__fspath__()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a value of type {type(value).__name__}")
