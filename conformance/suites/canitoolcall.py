"""CanIToolCall: texts of open models, and the calls in them (https://pypi.org/project/canitoolcall/).

`conformance/judges/canitoolcall.py` decodes and judges them in the environment of the suite.
"""

import json

from conformance.environments import run_script, version_of
from conformance.outcomes import Outcome, Suite


def run(short: bool) -> tuple[str, list[Outcome]]:
    """Run all fixtures; a short run takes every fourth."""
    version = version_of("canitoolcall", "canitoolcall")
    every = ["--every", "4"] if short else []
    judged = json.loads(run_script("canitoolcall", ["-m", "conformance.judges.canitoolcall", *every]))
    return version, [
        Outcome(
            case["family"],
            case["id"],
            "passed" if case["status"] in ("pass", "soft_pass") else "failed",
            case["detail"],
        )
        for case in judged
    ]


SUITE = Suite("canitoolcall", "CanIToolCall", "calls in the text of open models", "family", run)
