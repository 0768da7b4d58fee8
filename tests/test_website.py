"""The site has every document, its links have targets, and machines can read it."""

import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

from scripts import data_pages, diagrams, website
from toolwire import Capabilities
from toolwire.providers import PROVIDERS

ROOT = website.ROOT
PAGES = website.pages_of()
PYTHON = ROOT / ".venv-site" / "bin" / "python"


def test_every_page_is_in_the_navigation() -> None:
    listed = [path for path, _, _ in website.navigation()]
    assert len(listed) == len(set(listed)) > 60
    assert set(listed) <= {page.path for page in PAGES}
    left_out = {page.path for page in PAGES} - set(listed)
    assert {path for path in left_out if not re.match(r"decisions/20\d\d-", path)} == set(), "add it to mkdocs.yml"


def test_the_configuration_is_plain_yaml_but_for_one_function() -> None:
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert text.count("!!python") == 1
    config = yaml.safe_load(re.sub(r"!!python/\S+", "", text))
    assert [next(iter(section)) for section in config["nav"]] == list(
        dict.fromkeys(section for _, _, section in website.navigation())
    )


def test_a_link_of_the_repository_is_a_link_of_the_site() -> None:
    paths = {source: website.page_path(source) for source in ("README.md", "docs/do/a.md", "docs/programs/README.md")}
    text = "[a](../programs/README.md#b) [b](../../examples/x.py) [c](../decisions) [d](https://a.b/c) [e](#f)"
    assert website.staged(text, "docs/do/a.md", paths).split() == [
        "[a](../programs/index.md#b)",
        "[b](../files/examples/x.py)",
        "[c](../decisions.md)",
        "[d](https://a.b/c)",
        "[e](#f)",
    ]
    image = '<img src="docs/a.svg"> ![a](docs/programs/README.md)'
    assert website.staged(image, "README.md", paths) == '<img src="a.svg"> ![a](programs/index.md)\n'


def test_lists_and_tables_are_as_python_markdown_reads_them() -> None:
    text = "Words:\n- a\n  - b\n\n```text\nWords:\n- a\n  - b\n[x](y.md)\n```\n\n| `a \\| b` | c \\| d |"
    assert website.staged(text, "README.md", {"README.md": "index.md"}) == (
        "Words:\n\n- a\n    - b\n\n```text\nWords:\n- a\n  - b\n[x](y.md)\n```\n\n| `a | b` | c \\| d |\n"
    )


def test_comments_are_for_the_repository_alone() -> None:
    text = "a\n<!-- answers: [] -->\n```python\n<!-- b -->\n```\n"
    assert website.staged(text, "README.md", {"README.md": "index.md"}) == "a\n```python\n<!-- b -->\n```\n"
    assert [page.path for page in PAGES if "<!-- " in page.text] == []


def test_the_decisions_are_listed_by_day() -> None:
    [page] = [page for page in PAGES if page.path == website.DECISIONS]
    days = re.findall(r"(?m)^## (\S+)$", page.text)
    assert days == sorted(days, reverse=True)
    decisions = [*(ROOT / "docs" / "decisions").glob("*.md")]
    assert len(re.findall(r"(?m)^- \[.+\]\(decisions/20\S+\.md\)$", page.text)) == len(decisions) > 40


def test_every_page_is_staged_with_what_it_links_to(tmp_path: Path) -> None:
    pages = website.stage(tmp_path)
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.md")} >= {page.path for page in pages}
    assert (tmp_path / "files" / "examples" / "gateway.py").exists()
    assert (tmp_path / "files" / "examples" / "project" / "index.md").exists()
    assert (tmp_path / "understand" / "turn.svg").exists()
    assert not (tmp_path / "ruff.toml").exists()
    assert [*website.dead_links(tmp_path)] == []


def test_machines_get_every_page(tmp_path: Path) -> None:
    website.stage(tmp_path)
    website.write_for_machines(PAGES, tmp_path)
    index = (tmp_path / "llms.txt").read_text("utf-8")
    assert index.startswith("# toolwire\n\n> ")
    assert set(re.findall(r"\]\(([^)]+\.md)\)", index)) == {page.path for page in PAGES}
    assert [line for line in index.splitlines() if line.startswith("- ") and not re.search(r": \S.{8,}", line)] == []
    whole = (tmp_path / "llms-full.txt").read_text("utf-8")
    assert [page.path for page in PAGES if page.text.strip() not in whole] == []
    for page in PAGES:
        text = (tmp_path / page.path).read_text("utf-8")
        _, front, body = text.split("---\n", 2)
        fields = yaml.safe_load(front)
        assert list(fields)[:4] == ["title", "url", "summary", "source"]
        assert all(fields.values())
        [link] = re.findall(r"\[llms\.txt\]\(([^)]+)\)", body.splitlines()[1])
        assert (tmp_path / page.path).parent.joinpath(link).resolve() == tmp_path / "llms.txt"
    assert [*website.dead_links(tmp_path)] == []


def test_the_html_of_a_page_names_its_markdown_and_marks_its_dates(tmp_path: Path) -> None:
    for url in ("", "do/chat/"):
        (tmp_path / url).mkdir(parents=True, exist_ok=True)
        (tmp_path / url / "index.html").write_text("<head></head><body></head><td>2026-11-27</td><td>a 1</td>")
    website.write_for_machines(PAGES, tmp_path)
    named = '<head><link rel="alternate" type="text/markdown" href="{}">\n</head><body></head>'
    named += '<td class="number">2026-11-27</td><td>a 1</td>'
    assert (tmp_path / "index.html").read_text() == named.format("index.md")
    assert (tmp_path / "do" / "chat" / "index.html").read_text() == named.format("../chat.md")


def test_the_title_and_the_summary_of_a_page() -> None:
    page = website.Page("do/a.md", "docs/do/a.md", '# Ask `x`\n\n![p](p.svg)\n\nAsk *"it"* [here](b.md). Then go.\n')
    assert (page.title, page.summary, page.url) == ("Ask x", 'Ask "it" here.', "do/a/")
    labelled = website.Page("a.md", "", "# A\n\n**Decided.** Pass `**here` to *each* call. Then go.\n")
    assert labelled.summary == "Pass **here to each call."
    assert website.Page("programs/index.md", "", "").url == "programs/"
    assert website.Page("index.md", "", "").url == ""
    assert 'summary: "Ask \\"it\\" here."' in website.as_markdown(page)


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ('<a href="../b/">', None),
        ('<a href="../b/#here">', None),
        ('<a href="https://a.b/#c">', None),
        ('<a href="/b/index.html">', None),
        ('<a href="../c/">', "a/index.html: ../c/ leads to no file"),
        ('<a href="../b/#there">', "a/index.html: ../b/#there leads to no anchor"),
        ('<a href="#there">', "a/index.html: #there leads to no anchor"),
        ('<img src="x.svg">', "a/index.html: x.svg leads to no file"),
        ('<source srcset="x.svg 2x">', "a/index.html: x.svg leads to no file"),
    ],
)
def test_a_dead_link_is_found(link: str, problem: str | None, tmp_path: Path) -> None:
    for name, text in (("a", link), ("b", '<h2 id="here">')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").write_text(text)
    assert [*website.dead_links(tmp_path)] == ([problem] if problem else [])


def test_a_dead_link_between_pages_for_machines_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("[b](b.md) `[c](c.md)`\n```\n[d](d.md)\n```\n")
    (tmp_path / "llms.txt").write_text("[a](a.md) [e](e.md)\n")
    assert [*website.dead_links(tmp_path)] == [
        "a.md: b.md leads to no file",
        "a.md: c.md leads to no file",
        "llms.txt: e.md leads to no file",
    ]


def test_providers_and_programs_have_pages_made_from_their_data() -> None:
    assert [path.name for path, text in data_pages.pages().items() if path.read_text("utf-8") != text] == [], (
        "run `make docs`"
    )
    pages = {path.stem for path in (ROOT / "docs" / "providers").glob("*.md")} - {"README"}
    assert pages == {data_pages.file_name(name) for name in PROVIDERS}
    assert set(data_pages.TITLES) == set(PROVIDERS), "a provider has a title in scripts/data_pages.py"
    assert set(data_pages.CAPABILITIES) == set(Capabilities.__struct_fields__)
    assert {one.dialect for one in PROVIDERS.values()} <= set(data_pages.WIRES)


def test_the_pictures_are_drawn_by_their_script() -> None:
    for name, draw in diagrams.PICTURES.items():
        text = draw().svg()
        assert (diagrams.FOLDER / f"{name}.svg").read_text("utf-8") == text, "run `make docs`"
        root = ET.fromstring(text)  # noqa: S314 - our own picture
        assert root.findtext("{*}title")


def test_the_picture_of_the_layers_has_every_room() -> None:
    doors = {path.stem for path in (ROOT / "src" / "toolwire").glob("*.py")}
    rooms = {room for row in diagrams.layered_rooms() for room in row} - doors | {"errors"}
    assert rooms == set(diagrams.ROOMS), "a room has its words in scripts/diagrams.py"


@pytest.mark.slow
@pytest.mark.skipif(
    not PYTHON.exists(), reason="Zensical is not installed; `make site` installs it, and builds the site"
)
def test_the_site_is_built_and_has_no_dead_link() -> None:
    done = subprocess.run([PYTHON, ROOT / "scripts" / "website.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(" pages, 0 dead links\n")
    for name in ("llms.txt", "llms-full.txt", "index.md", "search.json"):
        assert (ROOT / "site" / name).stat().st_size > 1000
