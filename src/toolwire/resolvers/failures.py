"""What was raised while a call ran, as its result and in the log: without what its arguments keep secret."""

import logging
import traceback
from collections.abc import Collection

from toolwire.outcome import FAILED, failure
from toolwire.scrubbing import scrub, scrub_text, secrets_of
from toolwire.types import ToolCall, ToolResult

logger = logging.getLogger("toolwire")
LONGEST = 4000


def rescued(problem: BaseException, call: ToolCall, sensitive: Collection[str] = ()) -> ToolResult:
    """Log what was raised, and give the result that says so."""
    secrets = secrets_of(call.arguments, sensitive)
    told = scrub_text("".join(traceback.format_exception(problem)), secrets)
    arguments = scrub_text(repr(scrub(call.arguments, sensitive)), secrets)
    logger.error("tool %r failed with arguments %s\n%s", call.name, arguments, told)
    return failure(call, FAILED + scrub_text(text_of(problem), secrets))


def text_of(problem: BaseException) -> str:
    """Say what an exception says; its kind, where that alone says nothing."""
    try:
        text = str(problem)
    except Exception:  # noqa: BLE001 - an exception that cannot be shown is still told
        text = ""
    kind = type(problem).__name__
    text = f"{kind}: {text}" if isinstance(problem, KeyError) else text or kind
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} [... {len(text) - LONGEST} more characters]"
