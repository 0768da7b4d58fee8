"""Documents do not lie: every snippet runs, the support matrix is what the code says."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scripts import stub, support_matrix
from toolwire import Usage, errors
from toolwire.catalogue import cost
from toolwire.cli import main
from toolwire.dialects import NAMES
from toolwire.providers import ALIASES as PROVIDER_ALIASES
from toolwire.providers import PROVIDERS, provider_of
from toolwire.testing import simulate

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# What a simulated model answers, a snippet, and what the page says that it prints.
_SNIPPET = re.compile(r"(?:<!-- answers: ([^\n]*) -->\n)?```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
# Pages for beginners, whose snippets warn of nothing.
QUIET = ("README.md", "docs/tutorial.md", "docs/do/", "docs/start/", "docs/providers/")
# Its snippet runs commands, which print a session with paths of the machine.
SESSIONS = ("docs/command-line.md",)
SNIPPETS = [
    pytest.param(*snippet, str(page.relative_to(ROOT)), id=f"{page.relative_to(ROOT)}:{number}")
    for page in PAGES
    for number, snippet in enumerate(_SNIPPET.findall(page.read_text("utf-8")))
]


_PROVIDER = "|".join(re.escape(name) for name in (*PROVIDERS, *PROVIDER_ALIASES))
# A model has a digit in its name; `openai/any`, `openai/M` and a path with `/v1` are none.
_MODEL = r"(?!v1\b)(?=[\w.:-]*\d)[a-zA-Z][\w.:-]*[\w]"
_NAMED_MODEL = re.compile(rf"(?<![\w/.])({_PROVIDER})(?:/|\", \")({_MODEL})")


_OF_MODELS = [page for page in PAGES if page.name != "conformance.md"]  # it names cases of suites


@pytest.mark.parametrize("page", _OF_MODELS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_model_of_a_page_has_a_price(page: Path) -> None:
    named = set(_NAMED_MODEL.findall(page.read_text("utf-8")))
    models = {(provider_of(provider)[0].name, model) for provider, model in named}
    catalogued = {(provider.removesuffix("-responses"), model) for provider, model in models}
    assert [one for one in sorted(catalogued) if cost(Usage(1, 1), "/".join(one)) is None] == []


def test_a_model_without_a_price_is_found() -> None:
    """A control."""
    found = _NAMED_MODEL.findall(
        '`openai/gpt-9` at openai/v1, Client("anthropic", "claude-9"), `openai/any`, my/openai/m3'
    )
    assert found == [("openai", "gpt-9"), ("anthropic", "claude-9")]
    assert all(cost(Usage(1, 1), "/".join(one)) is None for one in found)


@contextmanager
def answering(answers: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Answer at the addresses of all providers, as the README tells its readers to do it."""
    if not answers:
        yield
        return
    monkeypatch.chdir(folder)
    with simulate(json.loads(answers)) as model:
        for provider in PROVIDERS.values():
            if provider.base_url_env:
                monkeypatch.setenv(provider.base_url_env, model.url)
            for name in provider.env:
                monkeypatch.setenv(name, "any")
        yield


@pytest.mark.parametrize(("answers", "snippet", "output", "page"), SNIPPETS)
@pytest.mark.row("L11", "T17")
def test_every_snippet_runs(
    answers: str,
    snippet: str,
    output: str,
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert output or (page in SESSIONS and "assert" in snippet), "a snippet prints something, and the page shows it"
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    with answering(answers, tmp_path, monkeypatch):
        exec(compile(snippet, "snippet", "exec"), {"__name__": "snippet"})  # noqa: S102 - our own documents
    if output:
        assert capsys.readouterr().out.strip() == output.strip()
    if page.startswith(QUIET):
        assert [record.getMessage() for record in caplog.records] == [], "it warns of nothing"


@pytest.mark.parametrize(
    ("snippet", "output", "page"),
    [
        ("assert 1 == 2", "", "docs/command-line.md"),
        ("print(1)", "", "docs/command-line.md"),
        ("print(1)", "2", "docs/a.md"),
        ("print(1)", "", "docs/a.md"),
        ("assert 1 == 1", "", "README.md"),
        ("import logging; logging.getLogger('toolwire').warning('x'); print(1)", "1", "README.md"),
    ],
)
def test_a_wrong_snippet_is_found(
    snippet: str,
    output: str,
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A control."""
    with pytest.raises(AssertionError):
        test_every_snippet_runs("", snippet, output, page, tmp_path, monkeypatch, capsys, caplog)


def test_the_support_matrix_is_what_the_code_says() -> None:
    page = (ROOT / "docs" / "support-matrix.md").read_text()
    assert support_matrix.markdown() in page, "run `make docs`"


def test_type_checkers_read_the_same_public_names() -> None:
    assert stub.STUB.read_text() == stub.stub(), "run `make docs`"
    assert stub.QUIRK_OPTIONS.read_text() == stub.quirk_options(), "run `make docs`"


def test_the_matrix_judges_each_dialect_for_itself() -> None:
    rows = dict(support_matrix.verdicts())
    assert len(rows) >= 50
    assert set(rows["tool declaration"]) == set(NAMES)
    assert rows["top_k"]["openai-chat"] == "impossible"
    assert rows["top_k"]["ollama"] == "exact"
    assert rows["late system message"]["anthropic"] == "approximated"


def test_the_readme_is_short_and_in_the_order_of_a_visitor() -> None:
    assert len(README.splitlines()) <= 200
    assert re.findall(r"(?m)^## (.*)$", README) == [
        "Two commands",
        "Ask a model",
        "Stream, with tools",
        "Structured output",
        "Translation, with its losses",
        "The gateway, and its page",
        "Durable runs",
        "Conformance",
        "What is not promised",
        "All pages",
    ]
    [first, *_] = re.findall(r"## Ask a model.*?```python\n(.*?)```", README, re.DOTALL)
    assert len([line for line in first.splitlines() if line.strip()]) == 3
    assert "simulate" not in "".join(snippet for _, snippet, _ in _SNIPPET.findall(README)), "that is not the product"


def test_the_readme_links_every_page() -> None:
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")}
    assert pages <= set(re.findall(r"\]\((docs/[\w-]+\.md)\)", README))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_page_and_a_heading(page: Path) -> None:
    for target, heading in re.findall(r"\]\((?!\w+:)([^)#]*)(?:#([^)]*))?\)", page.read_text("utf-8")):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), target
        assert not heading or heading in headings_of(file), f"{target}#{heading}"


def headings_of(page: Path) -> list[str]:
    """Name the headings of a page as links name them."""
    found = re.findall(r"(?m)^#+ (.*)$", page.read_text("utf-8"))
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found]


def test_the_tree_of_exceptions_names_every_one() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py")]
    classes = [one for text in texts for one in re.findall(r"(?m)^ *class (\w+)\(([^)]+)\):", text)]
    known = {"ToolwireError"}
    while more := {name for name, bases in classes if known & set(re.split(r"[,\s]+", bases))} - known:
        known |= more
    named = set(re.findall(r"\w+", str(errors.__doc__)))
    assert len(known) >= 30
    public = {name for name in known if not name.startswith("_")}
    assert public <= named
    table = (ROOT / "docs" / "reference" / "errors.md").read_text("utf-8")
    assert set(re.findall(r"(?m)^\| `(\w+)`", table)) == public


def test_an_extra_is_quoted_for_shells_that_expand_brackets() -> None:
    files = [*PAGES, *(ROOT / "src").rglob("*.py")]
    unquoted = re.compile(r"pip install (?!')\S*\[")
    assert [str(path) for path in files if unquoted.search(path.read_text("utf-8"))] == []


def test_the_gateway_of_the_readme_answers_as_printed() -> None:
    """The commands are run as they stand, but for the port; `...` in what is printed stands for anything."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    [session] = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    serve, asked, printed = re.findall(r"(?s)\$ (toolwire.*?)\n\$ (curl.*?'\{.*?\}')\n(.*)", session)[0]
    command = [sys.executable, "-m", *serve.split(), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            typed = shlex.split(asked.replace("http://127.0.0.1:8080", url))
            shown = subprocess.check_output(typed, text=True, timeout=30)
        finally:
            process.terminate()
    for line in printed.splitlines():
        wanted = ".*".join(map(re.escape, line.split("...")))
        assert re.search(f"(?m)^{wanted}\r?$", shown), f"{line} in {shown}"


def test_the_session_of_the_code_tools_is_what_the_command_line_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git = shutil.which("git")
    if git is None or shutil.which("bwrap") is None:
        pytest.skip("bubblewrap or git is not installed")
    project = tmp_path / "project"
    shutil.copytree(ROOT / "examples" / "project", project, ignore=shutil.ignore_patterns("__pycache__"))
    for arguments in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"],
    ):
        subprocess.run([git, "-C", str(project), *arguments], check=True)
    page = (ROOT / "docs" / "code-tools.md").read_text("utf-8")
    [session] = re.findall(r"(?s)## A session from the command line.*?```\n(.*?)\n```", page)
    for step in session.split("\n\n> "):
        command, _, printed = step.removeprefix("> ").partition("\n")
        main(["call", *shlex.split(command), "--cwd", str(project)])
        shown = "".join(capsys.readouterr()).rstrip()
        assert when(shown) == when(printed), command


def when(text: str) -> str:
    """Leave out what is other on each machine: when a file was written, and what its owner lets others do."""
    return re.sub(r"(?m)^(modified|mode): .*$", r"\1", text)
