"""The table of what was tried."""

from typing import Any

from tests.programs import test_clients


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print which program did what with which model."""
    if test_clients.TRIED:
        terminalreporter.section("client programs")
    for (program, wire, kind), told in sorted(test_clients.TRIED.items()):
        terminalreporter.line(f"{program:<10} {wire:<17} {kind:<7} {told}")
