"""What the servers of the vendors refuse, by dialect.

Rules of this file:
- What is refused, and in which words, follows what the vendors document and what their users report. What no
  vendor is known to refuse is let through.
- The tables and the checks of a vendor stand in its file, `rules_*`.
"""

from toolwire.testing import rules_anthropic, rules_gemini, rules_ollama, rules_openai_chat, rules_openai_responses
from toolwire.testing.rules import Rejection, WireRequest

_CHECKS = {
    "openai-chat": rules_openai_chat.CHECKS,
    "openai-responses": rules_openai_responses.CHECKS,
    "anthropic": rules_anthropic.CHECKS,
    "gemini": rules_gemini.CHECKS,
    "ollama": rules_ollama.CHECKS,
}


def judge(request: WireRequest) -> None:
    """Raise a Rejection, if the server of this dialect would not take a request."""
    for check in _CHECKS[request.dialect]:
        check(request)


def refusal(request: WireRequest) -> Rejection | None:
    """Say why the server of this dialect would not take a request, or None."""
    try:
        judge(request)
    except Rejection as rejection:
        return rejection.with_traceback(None)
    return None
