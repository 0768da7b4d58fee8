"""The Vercel AI SDK (https://www.npmjs.com/package/ai): programs with five of its providers, in `ai_sdk/cases.mjs`."""

import json
import shutil
import subprocess

from conformance.environments import ROOT, node_packages
from conformance.gateways import UPSTREAMS, gateway
from conformance.outcomes import Outcome, Suite

_SOURCE = ROOT / "conformance" / "ai_sdk"


def run(short: bool) -> tuple[str, list[Outcome]]:
    """Run the programs in front of each upstream; a short run has two upstreams."""
    node, folder = node_packages(_SOURCE)
    version = json.loads((folder / "node_modules" / "ai" / "package.json").read_text("utf-8"))["version"]
    program = shutil.copy(_SOURCE / "cases.mjs", folder)
    outcomes: list[Outcome] = []
    for upstream in UPSTREAMS[1:3] if short else UPSTREAMS:
        with gateway(upstream) as url:
            command = [str(node), str(program), url]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode:
            raise RuntimeError(f"the programs did not run: {done.stderr[-2000:]}")
        outcomes += [
            Outcome(
                f"{case['provider']} -> {upstream}",
                case["case"],
                "failed" if case["detail"] else "passed",
                case["detail"],
            )
            for case in json.loads(done.stdout.splitlines()[-1])
        ]
    return version, outcomes


SUITE = Suite("ai-sdk", "Vercel AI SDK", "programs with five of its providers", "provider -> upstream", run)
