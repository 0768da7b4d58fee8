"""What was raised while a call ran, as its result and in the log: without what is secret there.

Rules of this file:
- Secret is what stands in the sensitive fields of the call itself, and what is secret in the run around it.
- The run says that where it is asked, and it is asked only where something failed.
"""

import logging
import traceback
from collections.abc import Collection

from toolwire.scrubbing import scrub, scrub_text, secrets_of
from toolwire.types import ToolCall, ToolResult
from toolwire.wire.arguments import input_of
from toolwire.work.results import FAILED, SecretsWanted, failure
from toolwire.work.waiting import Emit, Work

logger = logging.getLogger("toolwire")
LONGEST = 4000


def rescuing(problem: BaseException, call: ToolCall, sensitive: Collection[str] = ()) -> Work[ToolResult]:
    """Log what was raised, and give the result that says so."""
    given = input_of(call)
    secrets = [*(yield from secrets_around()), *secrets_of(given, sensitive)]
    arguments = scrub_text(repr(scrub(given, sensitive, secrets)), secrets)
    name = scrub_text(call.name, secrets)
    logger.error("tool %r failed with arguments %s\n%s", name, arguments, told(problem, secrets))
    return failure(call, FAILED + scrub_text(text_of(problem), secrets))


def secrets_around() -> Work[Collection[str]]:
    """Ask what is secret in the run, if there is one."""
    return (yield Emit(SecretsWanted())) or ()


def told(problem: BaseException, secrets: Collection[str]) -> str:
    """Say what was raised, with its traceback."""
    return scrub_text("".join(traceback.format_exception(problem)), secrets)


def text_of(problem: BaseException) -> str:
    """Say what an exception says; its kind, where that alone says nothing."""
    try:
        text = str(problem)
    except Exception:  # noqa: BLE001 - an exception that cannot be shown is still told
        text = ""
    kind = type(problem).__name__
    text = f"{kind}: {text}" if isinstance(problem, KeyError) else text or kind
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} [... {len(text) - LONGEST} more characters]"
