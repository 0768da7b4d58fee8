"""What the servers of the vendors refuse, by dialect: tables of small checks over the body as it came.

Rules of this package:
- A check is a function from what was asked to the refusals that it finds; the first one is the answer, and
  nothing after it is looked at. So a check may count on what those before it have found to be right.
- What is refused, and in which words, follows what the vendors document and what their users report. What no
  vendor is known to refuse is let through.
"""

import importlib

from toolwire.testing.strictness.asked import Asked, Memory, Rejection

__all__ = ["Asked", "Memory", "Rejection", "refusal"]


def refusal(asked: Asked) -> Rejection | None:
    """Say why the server of this dialect would not take a request, or None."""
    checks = importlib.import_module(f"toolwire.testing.strictness.{asked.dialect.replace('-', '_')}").CHECKS
    return next((found for check in checks for found in check(asked)), None)
