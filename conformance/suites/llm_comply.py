"""llm-comply: the shapes of responses and streams, by the vendors' schemas (https://pypi.org/project/llm-comply/).

Its own command sends the requests and judges the answers. Its format of Gemini's Interactions is left out, because the
gateway has no such wire.
"""

import json

from conformance.environments import run_script, version_of
from conformance.gateways import UPSTREAMS, gateway
from conformance.outcomes import Outcome, Suite

# The paths below the base, how the key is sent, and the model that a client of the wire asks for.
_FORMATS = {
    "open-responses": ("/v1", [], "gpt-5"),
    "openai-chat": ("/v1", [], "gpt-5"),
    "anthropic": ("/v1", ["--auth-header", "x-api-key", "--no-bearer"], "claude-sonnet-4-5"),
    "google-genai": ("", ["--auth-header", "x-goog-api-key", "--no-bearer"], "gemini-2.5-pro"),
}


def run(short: bool) -> tuple[str, list[Outcome]]:
    """Run each format in front of each upstream; a short run has two upstreams."""
    version = version_of("llm-comply", "llm-comply")
    outcomes: list[Outcome] = []
    for upstream in UPSTREAMS[:2] if short else UPSTREAMS:
        with gateway(upstream) as url:
            for name in _FORMATS:
                outcomes += _run_format(name, upstream, url)
    return version, outcomes


def _run_format(name: str, upstream: str, url: str) -> list[Outcome]:
    path, auth, model = _FORMATS[name]
    options = ["--base-url", f"{url}{path}", "--api-key", "any", "--model", model, "--timeout", "20", *auth]
    code = "import sys; from llm_comply.cli import main; main(); sys.exit(0)"
    # Its status is 1 if a case fails; what it prints has them.
    wrapped = f"import contextlib\nwith contextlib.suppress(SystemExit):\n    {code}"
    printed = json.loads(run_script("llm-comply", ["-c", wrapped, "--json", "--format", name, *options]))
    return [
        Outcome(f"{name} -> {upstream}", case["id"], case["status"], "; ".join(case.get("errors", ())))
        for case in printed["results"]
    ]


SUITE = Suite("llm-comply", "llm-comply", "shapes of responses and streams", "format -> upstream", run)
