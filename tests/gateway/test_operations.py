"""What operators are given: the page names tests that are there, and the container starts what there is."""

import re
import tomllib
from pathlib import Path

import yaml

from scripts.rows import spelt
from toolwire.config import read_settings

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "gateway-operations.md").read_text()
SECURITY = (ROOT / "docs" / "security.md").read_text()


def test_each_row_of_the_page_names_a_test_or_a_limit() -> None:
    written = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    rows = dict(re.findall(r"(?m)^\| (O\d+(?:, O\d+)*) \| (.*)", SECURITY))
    assert [row for line in rows for row in line.split(", ")] == spelt("O", 33)
    for test in re.findall(r"`(test_\w+)`", PAGE + SECURITY):
        assert f"def {test}(" in written, test


def test_each_row_of_what_a_request_costs_names_the_tests_that_hold_it() -> None:
    table = PAGE.partition("### What a request costs")[2].partition("\n- ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 14
    for row in rows:
        assert re.search(r"\| `test_\w+`(, `test_\w+`)* \|$", row), row


def test_the_settings_of_the_page_are_settings() -> None:
    text = "".join(re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL))
    settings = read_settings(text)
    assert settings.server.needs_keys
    assert settings.routes["sonnet"].on_context == "long"


def test_the_container_runs_without_rights_and_installs_what_is_declared() -> None:
    lines = (ROOT / "Dockerfile").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [wanted] = re.findall(r"'\.\[([\w,]+)\]'", lines)
    assert set(wanted.split(",")) <= set(extras)
    assert re.search(r"(?m)^USER toolwire$", lines)
    for source in re.findall(r"(?m)^COPY (?!--from)(.*) \S+$", lines):
        assert all((ROOT / name).exists() for name in source.split())
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignored[0] == "*"


def test_the_compose_file_starts_two_gateways_and_a_database() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    assert services["gateway"]["deploy"]["replicas"] == 2
    assert services["gateway"]["read_only"] is True
    assert services["gateway"]["depends_on"]["database"]["condition"] == "service_healthy"
    assert "PASSWORD: " not in (ROOT / "compose.yaml").read_text().replace("PASSWORD: ${PGPASSWORD:?}", "")
