"""Build the site: `make site` writes `site/` with Zensical, its pages for machines, and fails on a dead link.

The documents of the repository are the source. They are staged in `.site`, where links from one document to another
become links from one page to another, and comments are left out. `mkdocs.yml` has the navigation.
"""

import argparse
import importlib.metadata
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "mkdocs.yml"
# Documents outside of `docs/`, and their pages.
OUTSIDE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
DECISIONS = "decisions.md"
_FIRST = "---\nhide:\n  - toc\n---\n\n"  # the first page: its picture has the room of the table of contents
SHOWN = 40  # of the dead links
FILES = "files"  # what documents link to, and is no document: examples, the licence
_FENCE = re.compile(r"^ *(```|~~~)")
_LINK = re.compile(r"(\]\(|(?:src|srcset|href)=\")(?!\w+:|#|//)([^)\s\"#]+)")
_COMMENT = re.compile(r"^<!--.*-->$")  # for the tests and the scripts that write pages
_NESTED = re.compile(r"^ {2,3}(?=(?:[-*]|\d+\.) )")
_CODE = re.compile(r"`[^`]+`")
_LABEL = re.compile(r"^\*\*[^*]+[.:]\*\* +")
_LISTED = re.compile(r"^(?:[-*]|\d+\.) ")
_PAGE = re.compile(r"^ *- (?:(?P<title>[^:]+): )?(?P<page>[\w./-]+\.md)$")
_NUMBER_CELL = re.compile(r"<td( [^>]*)?>(?=[\d,.-]+</td>)")
_SECTION = re.compile(r"^  - (?P<title>[^:]+):$")


class Page(NamedTuple):
    """A page of the site."""

    path: str
    source: str
    text: str

    @property
    def title(self) -> str:
        """The first heading."""
        heading = re.search(r"(?m)^# (.+)$", self.text)
        return heading[1].replace("`", "") if heading else self.path

    @property
    def summary(self) -> str:
        """The first sentence of more than two words below the heading, as plain text and without a bold label."""
        prose = re.sub(r"(?ms)^```.*?^```$", "", self.text)
        paragraphs = [part for part in prose.split("\n\n") if re.match(r"\s*[\w*`\[]", part)]
        words = " ".join(paragraphs[0].split()) if paragraphs else ""
        unlinked = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", _LABEL.sub("", words))
        plain = re.sub(r"`([^`]*)`|\*", lambda code: code[1] or "", unlinked)
        sentences = re.split(r"(?<=[.!?]) ", plain)
        return next((one for one in sentences if one.count(" ") > 1), plain).rstrip(":")

    @property
    def url(self) -> str:
        """The address of the page, relative to the site."""
        return re.sub(r"(^|/)index$", r"\1", self.path.removesuffix(".md")).rstrip("/") + "/" * (
            self.path != "index.md"
        )


def main(arguments: list[str] | None = None) -> int:
    """Build the site, or only check the one that is built. Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only check the links of site/")
    parser.add_argument("--stage", action="store_true", help="only stage the pages in .site/, for `zensical serve`")
    options = parser.parse_args(arguments)
    site = ROOT / "site"
    if not options.check:
        pages = stage(ROOT / ".site")
        if options.stage:
            return 0
        build(site)
        write_for_machines(pages, site)
    dead = [*dead_links(site)]
    for line in dead[:SHOWN]:
        print(line, file=sys.stderr)
    print(f"{len([*site.rglob('*.html')])} pages, {len(dead)} dead links")
    return 1 if dead else 0


# Pages


def pages_of(root: Path = ROOT) -> list[Page]:
    """Return every page, in the order of the navigation; those that it does not list come last."""
    sources = {path: root / path for path in OUTSIDE}
    sources |= {path.relative_to(root).as_posix(): path for path in sorted((root / "docs").rglob("*.md"))}
    paths = {source: page_path(source) for source in sources}
    pages = [
        Page(paths[source], source, staged(file.read_text("utf-8"), source, paths)) for source, file in sources.items()
    ]
    decisions = [page for page in pages if page.path.startswith("decisions/")]
    pages.append(Page(DECISIONS, "docs/decisions", _decisions(decisions)))
    order = {path: number for number, (path, _, _) in enumerate(navigation())}
    return sorted(pages, key=lambda page: order.get(page.path, len(order)))


def page_path(source: str) -> str:
    """Return the path of the page of a document: `docs/programs/README.md` is `programs/index.md`."""
    path = OUTSIDE.get(source) or source.removeprefix("docs/")
    return re.sub(r"(^|/)README\.md$", r"\1index.md", path)


def navigation(config: Path = CONFIG) -> list[tuple[str, str, str]]:
    """Return the path, the title (empty: the page's own) and the section of every page of the navigation."""
    section, entries = "", []
    for line in config.read_text("utf-8").partition("\nnav:\n")[2].splitlines():
        if heading := _SECTION.match(line):
            section = heading["title"]
        elif entry := _PAGE.match(line):
            entries.append((entry["page"], entry["title"] or "", section))
    return entries


def staged(text: str, source: str, paths: Mapping[str, str]) -> str:
    """Return a document as a page, without comments: links lead to pages, lists are as Python-Markdown reads them."""
    lines, in_code, before = [], False, ""
    for line in text.splitlines():
        if _FENCE.match(line):
            in_code = not in_code
        elif not in_code and _COMMENT.match(line):
            continue
        elif not in_code:
            line = _NESTED.sub("    ", line)  # noqa: PLW2901 - the same line, of another dialect
            if _LISTED.match(line) and before.strip() and not _is_in_list(before):
                lines.append("")
            if line.startswith("|"):
                line = _CODE.sub(lambda code: code[0].replace("\\|", "|"), line)  # noqa: PLW2901 - the same
        before = line
        lines.append(line if in_code else _LINK.sub(lambda link: _relinked(link, source, paths), line))
    return "\n".join(lines) + "\n"


def _is_in_list(line: str) -> bool:
    return bool(_LISTED.match(line)) or line.startswith("  ")


def _relinked(link: re.Match[str], source: str, paths: Mapping[str, str]) -> str:
    here = PurePosixPath(paths[source]).parent.as_posix()
    target = normpath(PurePosixPath(source).parent.joinpath(link[2]).as_posix())
    if target in paths:
        page = paths[target]
    elif target == "docs/decisions":
        page = DECISIONS
    else:
        page = target.removeprefix("docs/") if target.startswith("docs/") else f"{FILES}/{target}"
    return link[1] + relpath(page, here)


def _decisions(pages: list[Page]) -> str:
    lines = [
        "# Decisions",
        "",
        "Why toolwire is as it is: each page has one decision, its reasons and its figures.",
        "",
    ]
    for day, dated in groupby(reversed(pages), key=lambda page: page.path[10:20]):
        lines += [f"## {day}", "", *(f"- [{page.title}]({page.path})" for page in dated), ""]
    return "\n".join(lines)


def stage(target: Path) -> list[Page]:
    """Write every page, and every file that a page links to, into `target`. Return the pages."""
    shutil.rmtree(target, ignore_errors=True)
    pages = pages_of()
    for page in pages:
        file = target / page.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_FIRST + page.text if page.path == "index.md" else page.text, "utf-8")
    for file in (ROOT / "docs").rglob("*"):
        if file.is_file() and file.suffix not in (".md", ".toml"):
            _copy(file, target / file.relative_to(ROOT / "docs"))
    for page in pages:
        for link in _LINK.finditer(page.text):
            path = normpath(PurePosixPath(page.path).parent.joinpath(link[2]).as_posix())
            if path.startswith(f"{FILES}/"):
                _copy(ROOT / path.removeprefix(f"{FILES}/"), target / path)
    return pages


def _copy(file: Path, target: Path) -> None:
    """Copy a file; of a folder, write the list of its files."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if file.is_dir():
        inner = [path for path in sorted(file.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
        links = [f"- [{path.relative_to(file)}]({path.relative_to(file)})" for path in inner]
        target.mkdir(exist_ok=True)
        (target / "index.md").write_text("\n".join([f"# {file.name}", "", *links, ""]), "utf-8")
        for path in inner:
            _copy(path, target / path.relative_to(file))
    elif file.exists():
        shutil.copyfile(file, target)


def build(site: Path) -> None:
    """Build `site` from the staged pages, with Zensical."""
    try:
        version = importlib.metadata.version("zensical")
    except importlib.metadata.PackageNotFoundError:
        raise SystemExit("Zensical builds the site, and is not installed here: run `make site`") from None
    shutil.rmtree(site, ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--config-file", str(CONFIG)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    if done.returncode:
        raise SystemExit(f"Zensical {version} failed:\n{done.stderr or done.stdout}")


# For machines


def write_for_machines(pages: list[Page], site: Path) -> None:
    """Write `llms.txt`, `llms-full.txt`, and each page as Markdown with a front matter."""
    titles = {path: (title, section) for path, title, section in navigation()}
    index = [
        "# toolwire",
        "",
        f"> {pages[0].summary}",
        "",
        "Every page as Markdown. `llms-full.txt` has all of them.",
        "",
    ]
    section = ""
    for page in pages:
        twin = site / page.path
        twin.parent.mkdir(parents=True, exist_ok=True)
        twin.write_text(as_markdown(page), "utf-8")
        _finish(site / page.url / "index.html", page)
        name, part = titles.get(page.path, ("", "Optional"))
        if part != section:
            section = part
            index += ["", f"## {section}", ""]
        index.append(f"- [{name or page.title}]({page.path}): {page.summary}")
    (site / "llms.txt").write_text(re.sub(r"\n{3,}", "\n\n", "\n".join(index)) + "\n", "utf-8")
    text = "\n\n".join(f"<!-- {page.path} -->\n\n{page.text.strip()}" for page in pages)
    (site / "llms-full.txt").write_text(f"{text}\n", "utf-8")


def _finish(file: Path, page: Page) -> None:
    """Name a page's Markdown in the head of its HTML, and mark the cells of dates and numbers, which do not wrap."""
    if file.exists():
        link = relpath(page.path, page.url or ".")
        tag = f'<link rel="alternate" type="text/markdown" href="{link}">\n'
        html = file.read_text("utf-8").replace("</head>", f"{tag}</head>", 1)
        file.write_text(_NUMBER_CELL.sub(r'<td class="number"\1>', html), "utf-8")


def as_markdown(page: Page) -> str:
    """Return a page with its front matter, and a link to the list of all pages."""
    depth = page.path.count("/")
    fields = {"title": page.title, "url": page.url or ".", "summary": page.summary, "source": page.source}
    if updated := changed(page.source):
        fields["updated"] = updated
    lines = [f"{name}: {_quoted(value)}" for name, value in fields.items()]
    return "\n".join(["---", *lines, "---", "", f"All pages: [llms.txt]({'../' * depth}llms.txt)", "", page.text])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def changed(source: str) -> str:
    """Return the day on which a document was changed; empty if git does not know it."""
    return _days().get(source, "")


@cache
def _days() -> Mapping[str, str]:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        return {}
    command = [git, "log", "--format=:%cs", "--name-only", "--", "docs", *OUTSIDE]
    log = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout  # noqa: S603 - git
    days: dict[str, str] = {}
    day = ""
    for line in log.splitlines():
        if line.startswith(":"):
            day = line[1:]
        elif line:
            days.setdefault(line, day)
    return days


# Links


class _Anchors(HTMLParser):
    """Collects the anchors of a page, and its links."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the anchors and the links of one tag."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        names = ("href", "src", "srcset") if tag != "base" else ()
        self.links += [values[name].split()[0] for name in names if values.get(name, "").strip()]


def dead_links(site: Path) -> Iterator[str]:
    """Yield a line for every link of the site that leads to no file, or to no anchor of its page."""
    parsed = {page: _parsed(page) for page in sorted(site.rglob("*.html"))}
    for page, anchors in parsed.items():
        yield from _dead(site, page, anchors.links, lambda target: parsed[target].anchors if target in parsed else None)
    for page in sorted([*site.rglob("*.md"), *site.glob("llms.txt")]):
        links = [f"{link[2]}" for line in _prose(page) for link in _LINK.finditer(line)]
        yield from _dead(site, page, links, lambda _: None)


def _dead(site: Path, page: Path, links: list[str], anchors: Callable[[Path], set[str] | None]) -> Iterator[str]:
    for link in dict.fromkeys(links):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        base = site if parts.path.startswith("/") else page.parent
        target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else page
        if target.is_dir():
            target /= "index.html" if page.suffix == ".html" or (target / "index.html").exists() else "index.md"
        known = anchors(target)
        if not target.exists():
            yield f"{page.relative_to(site)}: {link} leads to no file"
        elif known is not None and parts.fragment and unquote(parts.fragment) not in known:
            yield f"{page.relative_to(site)}: {link} leads to no anchor"


def _parsed(page: Path) -> _Anchors:
    parser = _Anchors()
    parser.feed(page.read_text("utf-8"))
    return parser


def _prose(page: Path) -> Iterator[str]:
    in_code = False
    for line in page.read_text("utf-8").splitlines():
        if _FENCE.match(line):
            in_code = not in_code
        elif not in_code:
            yield line


if __name__ == "__main__":
    sys.exit(main())
