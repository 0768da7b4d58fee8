"""What `doctor` finds out: that it holds in the sandbox, and, as a control, that without one it does not."""

import os
import sys
from pathlib import Path

import pytest

from tests.codetools.commands import names_in, needs
from toolwire.codetools import doctor, sandbox
from toolwire.codetools.doctor import PROBES, probe
from toolwire.codetools.paths import Workspace

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="commands run on Linux only"),
]
ALIKE = {"write inside", "survivors", "descriptors", "bounds", "time", "user"}


@pytest.mark.row("C16")
def test_all_holds_in_the_sandbox(tmp_path: Path) -> None:
    needs("bubblewrap")
    found = probe(Workspace(tmp_path))
    assert len(found) == len(PROBES) + 1
    lacking = {finding.name: finding.description for finding in found if not finding.passed}
    assert set(lacking) == ({"user"} if os.getuid() == 0 else set()), lacking
    assert names_in(tmp_path) == []


@pytest.mark.row("C13", "C16")
def test_without_one_it_does_not(tmp_path: Path) -> None:  # the control of every probe
    (tmp_path / ".git").mkdir()
    found = probe(Workspace(tmp_path), {"sandbox": "none"})
    held = {finding.name for finding in found if finding.passed}
    bound_anyway = {"settings", "privileges"} if os.getuid() else set()
    assert held - bound_anyway <= ALIKE, held
    assert names_in(tmp_path) == [".git"]


def test_the_network_that_was_asked_for_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("bubblewrap")
    monkeypatch.setattr(doctor, "PROBES", [one for one in PROBES if one.__name__ == "_network"])
    [_, network] = probe(Workspace(tmp_path), {"network": True})
    assert not network.passed
    assert "as the option" in network.description


@pytest.mark.parametrize(("says", "words"), [("exit 0", "ended immediately"), ("echo uid map >&2; exit 1", "AppArmor")])
@pytest.mark.row("C16")
def test_what_cannot_be_made_is_said(tmp_path: Path, says: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sandbox, "PLACES", (str(program),))
    [finding] = probe(Workspace(tmp_path))
    assert (finding.name, finding.passed) == ("sandbox", False)
    assert words in finding.description


def test_without_bubblewrap_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "PLACES", ())
    [finding] = probe(Workspace(tmp_path))
    assert not finding.passed
    assert "package bubblewrap" in finding.description
