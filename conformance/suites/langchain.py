"""LangChain's standard tests of a chat model (https://pypi.org/project/langchain-tests/), with five of its clients."""

import os
import subprocess
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

from conformance.environments import ROOT, python_of, version_of
from conformance.gateways import UPSTREAMS, gateway
from conformance.outcomes import Outcome, Suite

_TITLES = {
    "TestOpenAIChat": "langchain-openai, Chat",
    "TestOpenAIResponses": "langchain-openai, Responses",
    "TestAnthropic": "langchain-anthropic",
    "TestGoogle": "langchain-google-genai",
    "TestOllama": "langchain-ollama",
}
# The clients keep their connections for all tests, so that all tests need one event loop.
_SETTINGS = """[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = session
asyncio_default_test_loop_scope = session
"""
_FILE = ROOT / "conformance" / "judges" / "langchain_clients.py"


def run(short: bool) -> tuple[str, list[Outcome]]:
    """Run the tests in front of each upstream; a short run has one."""
    version = version_of("langchain", "langchain-tests")
    outcomes: list[Outcome] = []
    for upstream in UPSTREAMS[:1] if short else UPSTREAMS:
        with gateway(upstream) as url, tempfile.TemporaryDirectory() as folder:
            outcomes += _read(_run_tests(url, Path(folder)), upstream)
    return version, outcomes


def _run_tests(url: str, folder: Path) -> Path:
    """Run the tests in an empty folder, so that no settings of this project apply, and return their report."""
    settings, report = folder / "pytest.ini", folder / "report.xml"
    settings.write_text(_SETTINGS, "utf-8")
    command = [str(python_of("langchain")), "-m", "pytest", "-q", "-c", str(settings), "--rootdir", str(folder)]
    command += ["-p", "no:cacheprovider", "--import-mode=importlib", f"--junitxml={report}", str(_FILE)]
    environment = os.environ | {"TOOLWIRE_GATEWAY": url, "LANGSMITH_TRACING": "false"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    if not report.exists():
        raise RuntimeError(f"the tests did not run: {(done.stdout + done.stderr)[-2000:]}")
    return report


def _read(report: Path, upstream: str) -> Iterator[Outcome]:
    """Yield the outcomes of a report in the form of JUnit."""
    for case in ET.parse(report).iter("testcase"):
        subject = f"{_TITLES[case.get('classname', '').rpartition('.')[2]]} -> {upstream}"
        problem = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        name = case.get("name", "")
        if problem is None:
            yield Outcome(subject, name, "passed")
            continue
        expected = problem.get("type") == "pytest.xfail"
        skipped = problem.tag == "skipped"
        words = problem.get("message") or problem.text or ""
        yield Outcome(subject, name, "skipped" if skipped and not expected else "failed", " ".join(words.split()))


SUITE = Suite("langchain", "LangChain", "its standard tests, with five clients", "client -> upstream", run)
