"""Which ripgrep is run, what it is told, how it ends; and how many searches run at once."""

import asyncio
import os
import resource
import stat
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.codetools.folders import Project
from tests.codetools.searching import ENGINES, HAS_RG, RG, Searched, lines, script
from toolwire import ToolCall
from toolwire.codetools import fallback, hits, ripgrep, search
from toolwire.codetools.paths import Root

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="ripgrep is started by a descriptor on Linux only"),
]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.file("a.txt", "one needle\nsecond needle\n")
    made.file("d/b.txt", "needle\n")
    return made


def fake(project: Project, body: str) -> Searched:
    """Search with a program that behaves in this way."""
    return Searched(project, str(script(project.outside / "rg", body)))


def says(*found: tuple[str, str]) -> str:
    """Write what makes the program say these lines of these files."""
    return "printf '" + "\\n".join(f"./{path}\\000{text}\\n" for path, text in found) + "'"


@HAS_RG
@pytest.mark.row("D2")
def test_neither_path_nor_settings_of_the_host_mean_anything(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "marker"
    evil = script(tmp_path / "rg", f"touch {marker}")
    script(tmp_path / "pre.sh", f"touch {marker}")
    settings = tmp_path / "settings"
    settings.write_text(f"--pre={tmp_path}/pre.sh\n--no-line-number\n")
    project.file(".ripgreprc", settings.read_text())
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(settings))
    assert lines(Searched(project, None).grep("second")) == ["a.txt:2: second needle"]
    assert not marker.exists()
    os.system("rg x . > /dev/null 2>&1")  # noqa: S605, S607 - the control: the naive way runs it
    assert marker.exists()
    assert evil.exists()


@pytest.mark.row("D2")
def test_only_a_new_enough_ripgrep_outside_of_the_roots_is_taken(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = project.file("bin/rg").parent
    script(inside / "rg", "exit 1")
    old = tmp_path / "old"
    old.mkdir()
    script(old / "rg", "exit 1").write_text("#!/bin/sh\necho ripgrep 12.1.1\n")
    other = tmp_path / "other"
    other.mkdir()
    script(other / "rg", "exit 1").chmod(0o777)
    good = tmp_path / "good"
    good.mkdir()
    script(good / "rg", "exit 1")
    roots = [Root(str(project.root))]
    found: dict[str, str | None] = {}
    for folder in (inside, old, other, tmp_path / "none", good):
        monkeypatch.setattr(ripgrep, "search_folders", lambda folder=folder: [str(folder)])
        found[folder.name] = ripgrep.find_program(None, roots)
    assert found == {"bin": None, "old": None, "other": None, "none": None, "good": str(good / "rg")}
    assert ripgrep.find_program(False, roots) is None
    assert all(folder.startswith("/") for folder in ripgrep.search_folders())


@pytest.mark.parametrize("option", ["rg", "./rg", "/nothing/rg", "/etc/passwd", "/bin/sh"])
@pytest.mark.row("D11")
def test_a_ripgrep_that_cannot_be_run_is_an_error_and_no_silent_change(project: Project, option: str) -> None:
    assert "rg_missing" in Searched(project, option).refused()


@pytest.mark.parametrize(
    ("marks", "found"),
    [
        ((".git/HEAD", "lib/.git/HEAD"), ["lib/a.log:1: needle"]),
        (("lib/.git",), ["lib/a.log:1: needle"]),
        ((".git",), ["No matches found"]),
        ((), ["No matches found"]),
    ],
)
@pytest.mark.row("D8")
def test_rules_of_a_folder_end_at_the_repositories_in_it_whatever_ripgrep_makes_of_them(
    tmp_path: Path, marks: tuple[str, ...], found: list[str]
) -> None:
    project = Project(tmp_path)
    for path in (*marks, ".gitignore", "a.log", "lib/a.log"):
        project.file(path, "*.log\n" if path == ".gitignore" else "needle\n")
    both = says(("a.log", "1:0:needle"), ("lib/a.log", "1:0:needle"))
    listed = "[ ! -e lib/.git ] || echo ./lib/.git"
    said = fake(project, f'case "$*" in *" --files "*) {listed};; *" --require-git "*) {both};; esac').grep()
    assert lines(said) == found


@HAS_RG
@pytest.mark.row("D1")
def test_what_a_model_says_is_a_value_and_never_a_word_of_its_own() -> None:
    query = hits.Query("--pre=x", False, False, 0, 5, False, lambda _: True, ("*.py",))
    argv = ripgrep.search_command("/usr/bin/rg", query, file=False)
    assert argv[argv.index("-e") + 1 :] == ["--pre=x", "--", "./"]
    assert argv.count("--pre=x") == 1
    for glob in ("--pre=x", "*.{a,b}", "!*.py", "-x", "a*b*c", "**", "*", "[a]*", "x/**"):
        assert search._plain_names(glob) == (("*.py",) if glob == "*.py" else ()), glob
    assert [search._plain_names(glob) for glob in ("*.py", "src/**/*.ts", "test_*")] == [
        ("*.py",),
        ("*.ts",),
        ("test_*",),
    ]


ALL = "a.txt:1: one needle\na.txt:2: second needle\nd/b.txt:1: needle"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("exit 1", "No matches found"),
        (says(("a.txt", "1:0:one needle")) + "; exit 0", "a.txt:1: one needle"),
        (
            says(("a.txt", "1:0:one needle")) + "; echo 'rg: ./x: denied' >&2; exit 2",
            "a.txt:1: one needle\n\n[Files or folders that could not be read: 1.]",
        ),
        (says(("a.txt", "1:0:one needle")) + "; kill -9 $$", ALL),
        ("exit 7", ALL),
        ("exit 2", None),
    ],
)
@pytest.mark.row("D11")
def test_how_ripgrep_ends_is_told(project: Project, body: str, expected: str | None) -> None:
    searched = fake(project, body)
    if expected is None:
        assert "cannot be used" in searched.refused()
    else:
        assert searched.grep() == expected


def test_a_pattern_that_ripgrep_alone_reads_ends_with_it(project: Project) -> None:
    assert fake(project, "exit 7").refused("[a-z&&[^b]]") == "ripgrep ended before the search was complete: try again"


@HAS_RG
def test_rules_without_an_end_do_not_take_the_memory_of_the_machine(project: Project) -> None:
    (project.root / ".gitignore").symlink_to("/dev/zero")
    assert Searched(project, RG).grep() == ALL
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 1024**2, "kilobytes"


@pytest.mark.parametrize(
    ("said", "notice"),
    [
        (("gone.txt", "1:0:needle"), "changed during the search and were left out: 1."),
        (("a.txt", "1:0:other text"), "changed during the search and were left out: 1."),
        (("a.txt", "1:5000:one needle"), "changed during the search and were left out: 1."),
        (("link-out", "1:0:needle outside"), ""),
        (("way/needle.txt", "1:0:needle outside"), ""),
        (("../outside/needle.txt", "1:0:needle outside"), ""),
        (("pipe", "1:0:needle"), ""),
        (("d", "1:0:needle"), ""),
        (("x" * 5000, "1:0:needle"), ""),
        (("/".join("x" * 1000), "1:0:needle"), ""),
        ((".env", "1:0:needle"), ""),
        (("/etc/passwd", "1:0:root:x:0:0"), ""),
    ],
)
@pytest.mark.row("A8", "A26", "D12", "D15")
def test_what_ripgrep_says_is_read_again_and_never_believed(
    project: Project, said: tuple[str, str], notice: str
) -> None:
    (project.outside / "needle.txt").write_text("needle outside\n")
    (project.root / "link-out").symlink_to("../outside/needle.txt")
    (project.root / "way").symlink_to("../outside")
    os.mkfifo(project.root / "pipe")
    project.file(".env", "needle\n")
    answer = fake(project, says(said)).grep("needle|root")
    assert answer.startswith("No matches found")
    assert notice in answer


@pytest.mark.row("D10")
def test_a_name_that_looks_like_a_warning_forges_nothing(project: Project) -> None:
    evil = 'a.txt: WARNING: stopped searching binary file after match (found "\\0" byte around offset 1)\nd'
    project.file(f"{evil}/b.txt", "needle forged\n")
    for engine in (RG, False) if RG else (False,):
        found = Searched(project, engine).grep()
        assert found.endswith("\nd/b.txt:1: needle")
        assert "\nd/b.txt:1: needle forged" not in found


def children() -> list[int]:
    """List the processes that this one has begun and not reaped."""
    return [int(one) for one in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()]


@pytest.mark.parametrize("body", ["sleep 60", "exec yes", "trap '' TERM; while :; do :; done", "yes >&2"])
@pytest.mark.row("D5")
def test_a_search_ends_with_its_time_and_leaves_no_process(
    project: Project, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "SEARCH_SECONDS", 0.15)
    before = children()
    begin = time.monotonic()
    assert "this is not all" in fake(project, body).grep()
    assert time.monotonic() - begin < 20
    assert set(children()) <= set(before)


@pytest.mark.row("D5")
def test_the_search_without_ripgrep_ends_with_its_time(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(300):
        project.file(f"x/{number}", "a\n" * 1000)
    monkeypatch.setattr(search, "SEARCH_SECONDS", 0)
    said = Searched(project, False).grep()
    assert said.startswith("No matches found")
    assert said.count("this is not all") == 1


def wait_for(path: Path) -> None:
    while not path.exists() or not path.read_text().strip():
        time.sleep(0.005)


@pytest.mark.row("D16")
def test_whoever_stops_waiting_ends_the_search(project: Project, tmp_path: Path) -> None:
    searched = fake(project, f"echo $$ > {tmp_path}/pid; exec sleep 60")
    before = children()

    async def main() -> float:
        task = asyncio.create_task(searched.project.tools.aresolve(ToolCall("1", "grep", {"pattern": "x"})))
        await asyncio.to_thread(wait_for, tmp_path / "pid")
        begin = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - begin

    assert asyncio.run(main()) < 5
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert set(children()) <= set(before)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.row("D16")
def test_a_hundred_searches_wait_for_each_other(project: Project, engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = Searched(project, engine)
    running = [0, 0]
    lock = threading.Lock()
    original = search.Search._search_folder

    def counted(self: search.Search, fd: int, rg: str | None) -> None:
        with lock:
            running[0] += 1
            running[1] = max(running)
        try:
            original(self, fd, rg)
        finally:
            with lock:
                running[0] -= 1

    monkeypatch.setattr(search.Search, "_search_folder", counted)

    async def main() -> list[Any]:
        calls = [ToolCall(str(number), "grep", {"pattern": "needle"}) for number in range(100)]
        return await asyncio.gather(*map(searched.project.tools.aresolve, calls))

    results = asyncio.run(main())
    assert {len(lines(result.content)) for result in results} == {3}
    assert running[1] <= search.MAX_SEARCHES


@pytest.mark.row("D16")
def test_searches_that_wait_too_long_say_so(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SEARCH_SECONDS", 0.1)
    monkeypatch.setattr(search, "_slots", threading.BoundedSemaphore(1))
    with search._slots:
        assert "try again" in Searched(project, False).refused()
    assert len(lines(Searched(project, False).grep())) == 3


@pytest.mark.parametrize("change", ["unlink", "folder", "link", "pipe"])
@pytest.mark.row("A26", "D12")
def test_a_file_that_changes_between_list_and_read_is_passed_over(
    project: Project, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: dict[str, Callable[[Path], Any]] = {
        "unlink": lambda _: None,
        "folder": lambda path: path.mkdir(),
        "link": lambda path: path.symlink_to("../outside/f.txt"),
        "pipe": os.mkfifo,
    }
    original = fallback.open_entry

    def changed(folder: int, name: str) -> int:
        if name == "a.txt":
            (project.root / name).unlink()
            changes[change](project.root / name)
        return original(folder, name)

    monkeypatch.setattr(search, "open_entry", changed)
    assert lines(Searched(project, False).grep("needle|outside")) == ["d/b.txt:1: needle"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.row("A22")
def test_a_deleted_project_folder_is_an_answer(project: Project, engine: Any) -> None:
    searched = Searched(project, engine)
    for path in ("a.txt", "d/b.txt"):
        (project.root / path).unlink()
    (project.root / "d").rmdir()
    project.root.rmdir()
    said, _ = searched.project.call("grep", pattern="needle")
    assert "needle" not in said
    assert stat.S_ISDIR(os.fstat(project.tools.workspace.cwd.fd).st_mode)


@pytest.mark.parametrize("size", [1, 7, 64, 10_000])
def test_output_may_be_cut_anywhere(size: int) -> None:
    query = hits.Query("x", False, False, 1, 3, False, lambda path: path != "no", ())
    said = (
        b"./a\x001:0:x\n2-2-y\n\n./no\x001:0:x\n2:2:x\n\n./new\nline\x003:9:x\n\n"
        b"./late\x001:0:x\n./late: WARNING: stopped searching binary file after match\n\n./z\x004:1:x\n"
    )
    gathering = hits.HitCollector(query)
    reader = ripgrep.OutputReader(gathering)
    for place in range(0, len(said), size):
        reader.feed(said[place : place + size])
    assert {path: [(one.number, one.hit) for one in found] for path, found in gathering.records.items()} == {
        "a": [(1, True), (2, False)],
        "new\nline": [(3, True)],
        "z": [(4, True)],
    }


@pytest.mark.row("D5")
def test_few_of_many_matches_are_kept() -> None:
    query = hits.Query("x", False, False, 0, 10, False, lambda _: True, ())
    gathering = hits.HitCollector(query)
    reader = ripgrep.OutputReader(gathering)
    kept = 0
    for number in range(3_000, 0, -1):
        reader.feed(f"./{number:06}\0".encode() + b"1:0:x\n" * 11 + b"\n")
        kept = max(kept, sum(map(len, gathering.records.values())))
    assert kept < 100
    assert min(gathering.records) == "000001"
    assert gathering.more


@pytest.mark.row("D6")
def test_one_endless_line_of_output_is_not_kept() -> None:
    query = hits.Query("x", False, False, 0, 10, False, lambda _: True, ())
    gathering = hits.HitCollector(query)
    reader = ripgrep.OutputReader(gathering)
    reader.feed(b"./a\x001:0:")
    for _ in range(100):
        reader.feed(b"y" * 100_000)
        assert len(reader._rest) < 2 * ripgrep.CHUNK
    reader.feed(b"\n\n./b\x002:0:x\n\n")
    assert sorted(gathering.records) == ["a", "b"]
