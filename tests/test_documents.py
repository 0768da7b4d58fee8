"""Documents do not lie: every snippet runs, the support matrix is what the code says."""

import re
from pathlib import Path

import pytest

from scripts import reference, stub, support_matrix
from toolwire.dialects import NAMES

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SNIPPETS = [
    pytest.param(snippet, id=f"{page.relative_to(ROOT)}:{number}")
    for page in PAGES
    for number, snippet in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_every_snippet_runs(snippet: str) -> None:
    assert "assert" in snippet, "a snippet shows what it claims"
    exec(compile(snippet, "snippet", "exec"), {"__name__": "snippet"})  # noqa: S102 - our own documents


def test_a_wrong_snippet_is_found() -> None:
    """A control."""
    with pytest.raises(AssertionError):
        test_every_snippet_runs("assert 1 == 2")


def test_the_support_matrix_is_what_the_code_says() -> None:
    page = (ROOT / "docs" / "support-matrix.md").read_text()
    assert support_matrix.markdown() in page, "run `make docs`"


def test_type_checkers_read_the_same_public_names() -> None:
    assert stub.STUB.read_text() == stub.stub(), "run `make docs`"


def test_the_reference_is_what_the_code_says() -> None:
    for path, text in reference.pages().items():
        assert path.read_text() == text, f"run `make docs`: {path.name}"
        assert re.findall(r"(?m)^\|.*\|  \|$", text) == [], "what is public has a sentence"


def test_the_matrix_judges_each_dialect_for_itself() -> None:
    rows = dict(support_matrix.verdicts())
    assert len(rows) >= 50
    assert set(rows["tool declaration"]) == set(NAMES)
    assert rows["top_k"]["openai-chat"] == "impossible"
    assert rows["top_k"]["ollama"] == "exact"
    assert rows["late system message"]["anthropic"] == "approximated"
