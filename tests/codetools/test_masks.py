"""What was there before a command and is kept from it: at any depth, behind anything, moved anywhere."""

import os
import random
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.amounts import FULL
from tests.codetools.commands import names_in, run, said, tools_at
from tests.timing import least
from toolwire.codetools import masks, sandbox
from toolwire.codetools.masks import Mask, masks_of
from toolwire.codetools.paths import Workspace

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="commands run on Linux only")
SENTINEL = "sentinel-5f1c"
SECRETS = (".env", ".ENV", ".Env.local", ".env.production", ".eNv. ")
REPOSITORIES = (".git", ".GIT", ".Git")
DEEPEST, CROWD, SMALL_CROWD = 30, 50_000, 12_000
FAST, SLOW = 3, 1_009 if FULL else 309
CROWDED = 50  # one tree of so many has a crowd in it
ATTACK = f"""
attack() {{
  secrets=$(find . -iname '.env*') repositories=$(find . -iname .git) IFS=$'\\n'
  cat $secrets; mv $secrets taken/; ln $secrets taken/; ls -A $secrets
  for one in $repositories; do
    echo x > "$one/planted"; echo x >> "$one/config"; echo x > "$one"; mv "$one" "$one"x
  done
  for one in $secrets; do echo x > "$one"; done
  rm -rf $secrets $repositories; find . -type l -exec cat {{}} + ; grep -rs {SENTINEL} .; unset IFS
}}
mkdir -p taken; attack
"""


class Tree:
    """A random tree with secrets and repositories in it."""

    def __init__(self, top: Path, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - it keeps no secret
        self.top = top
        top.mkdir()
        self.folders = [top]
        self.kept: dict[tuple[int, int], bytes] = {}
        self._grow()
        if seed % CROWDED == 7:
            crowd = self.random.choice(self.folders)
            for number in range(CROWD if seed >= FAST else SMALL_CROWD):
                os.mknod(crowd / f"{number}")
        for _ in range(self.random.randint(2, 8)):
            self._hide()
        for file in top.rglob("*"):
            if not file.is_symlink() and file.is_file() and (data := file.read_bytes()):
                self.kept[identity(file)] = data

    def _grow(self) -> None:
        for _ in range(self.random.randint(1, 6)):
            folder = self.random.choice(self.folders)
            for _ in range(self.random.randint(1, max(1, DEEPEST - len(folder.relative_to(self.top).parts)))):
                folder /= self.random.choice("abcde")
                folder.mkdir(exist_ok=True)
                self.folders.append(folder)
        self.folders = sorted(set(self.folders))

    def _hide(self) -> None:
        """Put a secret, a secret folder, a secret that a link leads to, a repository or a file of one somewhere."""
        folder, kind = self.random.choice(self.folders), self.random.randrange(6)
        secret, repository = folder / self.random.choice(SECRETS), folder / self.random.choice(REPOSITORIES)
        if os.path.lexists(secret) or os.path.lexists(repository):
            return
        if kind < 2:
            secret.write_text(SENTINEL)
        elif kind == 2:
            secret.mkdir()
            (secret / "key").write_text(SENTINEL)
        elif kind == 3:
            secret.write_text(SENTINEL)
            (folder / f"through {secret.name}").symlink_to(secret.name)
        elif kind == 4:
            (repository / "hooks").mkdir(parents=True)
            (repository / "config").write_text("[core]\n")
            (repository / ".env").write_text(SENTINEL)
        else:
            repository.write_text("gitdir: elsewhere\n")

    def moves(self) -> Iterator[str]:
        """Give commands that move folders about: up, down, into each other, into new repositories and far down."""
        names = [shlex.quote(str(folder.relative_to(self.top))) for folder in self.folders[1:]]
        for number in range(self.random.randint(1, 6)):
            one, other = self.random.choice(names), self.random.choice(names)
            deep = "/".join(self.random.choice("xyz") for _ in range(self.random.randint(1, DEEPEST)))
            yield self.random.choice(
                [
                    f"mv {one} {other}/",
                    f"mv {one} moved{number}",
                    f"mkdir -p {deep} && mv {one} {deep}/",
                    f"mkdir -p n{number}/.git && mv {one} n{number}/.git/",
                    f"mkdir -p {other}/.GIT && mv {one} {other}/.GIT/x",
                    f"ln -s {one} link{number}; mv link{number} {other}/",
                    f"cp -r {one} copy{number}",
                    f"mkdir other{number}; mount --bind {one} other{number}; unshare -rm umount -l {one}",
                ]
            )

    def problems(self, output: str) -> list[str]:
        """Say what was read, and what is not as it was."""
        now = {identity(path): path for path in self.top.rglob("*") if path.is_file() and not path.is_symlink()}
        changed = [key for key, data in self.kept.items() if key not in now or now[key].read_bytes() != data]
        planted = [str(path) for path in self.top.rglob("planted") if self._was_there(path.parent)]
        return [*(["read"] if SENTINEL in output else []), *map(str, changed), *planted]

    def _was_there(self, repository: Path) -> bool:
        config = repository / "config"
        return config.exists() and identity(config) in self.kept


def identity(path: Path) -> tuple[int, int]:
    """Say which file it is, wherever it was moved."""
    status = path.lstat()
    return status.st_dev, status.st_ino


def problems_of(top: Path, seed: int) -> list[str]:
    """Let two commands move and attack a random tree; give what they got or changed."""
    tree = Tree(top, seed)
    tools, output = tools_at(top), ""
    for _ in range(2):
        output += str(
            run(tools, f"{{ {ATTACK}\n{'; '.join(tree.moves())}\nattack\n}} 2>&1; exit 0", timeout=60).content
        )
    assert "no command is run" not in output, output
    return tree.problems(output)


@pytest.mark.parametrize("part", range(3))
def test_nothing_is_read_and_nothing_written(tmp_path: Path, part: int) -> None:
    for seed in range(part, FAST, 3):
        assert problems_of(tmp_path / f"{seed}", seed) == [], seed


@pytest.mark.slow
@pytest.mark.timeout(900)  # two of the trees have 50,000 entries
@pytest.mark.parametrize("part", range(20))
def test_nothing_is_read_and_nothing_written_often(tmp_path: Path, part: int, tally: Counter[str]) -> None:
    for seed in range(FAST + part, FAST + SLOW, 20):
        assert problems_of(tmp_path / f"{seed}", seed) == [], seed
        tally["random trees that two commands moved about and attacked: nothing read, nothing written"] += 1


@pytest.mark.slow
def test_a_look_that_ends_early_lets_something_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: with the limits that there once were, 4 folders and 10,000 entries, the same attack succeeds."""

    def of_the_upper_ones(workspace: Workspace, *_: object) -> list[Mask]:
        top, found = str(workspace.cwd.path), masks_of(workspace)
        return [mask for mask in found if mask.path.removeprefix(top).count("/") <= 4]

    monkeypatch.setattr(sandbox, "masks_of", of_the_upper_ones)
    got: set[bool] = set()
    for seed in range(6):
        got |= {problem == "read" for problem in problems_of(tmp_path / f"{seed}", seed)}
        if got == {True, False}:
            return
    pytest.fail(f"nothing was read, or nothing was changed: {got}")


@pytest.mark.slow
@pytest.mark.row("A24")
def test_a_secret_that_was_moved_far_down_is_covered_there(tmp_path: Path) -> None:
    for path in ("svc/.git/hooks", "sub"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "svc/.env").write_text(SENTINEL)
    tools = tools_at(tmp_path)
    said(tools, "mkdir -p d/d/d/d/d && mv svc d/d/d/d/d/ && mkdir z && for i in $(seq 12000); do : > z/f$i; done")
    assert SENTINEL not in str(run(tools, "cat d/d/d/d/d/svc/.env").content)
    assert run(tools, "echo x > d/d/d/d/d/svc/.git/hooks/pre-commit").is_error
    assert run(tools, "rm -rf d").is_error
    assert (tmp_path / "d/d/d/d/d/svc/.env").read_text() == SENTINEL


@pytest.mark.parametrize("name", [".git", ".GIT"])
def test_what_a_command_makes_is_its_own_until_it_ends(tmp_path: Path, name: str) -> None:
    tools = tools_at(tmp_path)
    said(tools, f"mkdir -p new/{name}/hooks && echo x > new/{name}/hooks/one && echo y > new/.env && cat new/.env")
    assert run(tools, f"echo x > new/{name}/hooks/two").is_error
    assert said(tools, "cat new/.env") == "# ", "a cover of the same size"
    assert names_in(tmp_path / "new" / name / "hooks") == ["one"]


def test_of_a_link_what_it_leads_to_is_covered(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "settings").write_text(SENTINEL)
    (tmp_path / "sub/.env").symlink_to("../settings")
    for number, target in enumerate(("../nosuch", "..", "/", "/etc/passwd", ".env.loop", str(tmp_path))):
        (tmp_path / f"sub/.env.{number}").symlink_to(target)
    (tmp_path / "sub/.env.loop").symlink_to(".env.loop")
    assert [Path(mask.path).name for mask in masks_of(Workspace(tmp_path))] == ["settings"]
    assert SENTINEL not in str(run(tools_at(tmp_path), "cat sub/.env sub/../settings").content)


def test_a_secret_in_what_is_covered_whole_needs_no_cover_of_its_own(tmp_path: Path) -> None:
    (tmp_path / ".env/sub").mkdir(parents=True)
    (tmp_path / ".env/sub/key").write_text(SENTINEL)
    (tmp_path / ".env.link").symlink_to(".env/sub/key")
    assert [mask.path for mask in masks_of(Workspace(tmp_path))] == [str(tmp_path / ".env")]
    assert SENTINEL not in str(run(tools_at(tmp_path), "cat .env.link .env/sub/key").content)


def test_a_hard_link_of_a_secret_is_covered_as_well(tmp_path: Path) -> None:
    for path in ("sub/deep", "other"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "sub/.env").write_text(SENTINEL)
    (tmp_path / "traces.db").write_text(SENTINEL)
    for link, secret in (("other/one", "sub/.env"), ("two", "sub/.env"), ("sub/deep/three", "traces.db")):
        os.link(tmp_path / secret, tmp_path / link)
    os.link(tmp_path / "sub/.env", tmp_path / "sub/.env.example")
    tools = tools_at(tmp_path, covered=[tmp_path / "traces.db"])
    result = run(tools, "cat other/one two sub/.env.example sub/deep/three; echo x | tee other/one two sub/deep/three")
    assert SENTINEL not in str(result.content)
    assert (tmp_path / "sub/.env").read_text() == (tmp_path / "traces.db").read_text() == SENTINEL


def test_covered_files_stay_where_they_are(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "sub/deep").mkdir(parents=True)
    (project / "sub/.git/x").mkdir(parents=True)
    for path in (
        project / "traces.db",
        project / "sub/deep/other.db",
        project / "sub/.git/x/y.db",
        tmp_path / "out.db",
    ):
        path.write_text(SENTINEL)
    wanted = ["traces.db", "sub/deep/other.db", "sub/.git/x/y.db", "nosuch/a.db", "../out.db", "sub/../traces.db"]
    workspace = Workspace(project, covered=[f"{project}/{path}" for path in wanted])
    found = [(os.path.relpath(mask.path, project), mask.secret, mask.open) for mask in masks_of(workspace)]
    assert sorted(found) == [
        ("sub", False, True),
        ("sub/.git", False, False),
        ("sub/.git/x/y.db", True, False),
        ("sub/deep", False, True),
        ("sub/deep/other.db", True, False),
        ("traces.db", True, False),
    ]


@pytest.mark.parametrize(
    "command", ["mv sub old", "mv sub/deep .", "rm -rf sub", "mv sub/deep sub/old", "mv sub/deep /tmp"]
)
def test_the_folders_above_a_covered_file_are_not_moved(tmp_path: Path, command: str) -> None:
    (tmp_path / "sub/deep").mkdir(parents=True)
    (tmp_path / "sub/deep/traces.db").write_text(SENTINEL)
    tools = tools_at(tmp_path, covered=[tmp_path / "sub/deep/traces.db"])
    assert said(tools, "touch sub/deep/file && mv sub/deep/file sub/file && mv sub/file . && ls") == "file\nsub"
    result = run(tools, f"{command}; cat sub/deep/traces.db old/deep/traces.db sub/old/traces.db deep/traces.db")
    assert result.is_error
    assert SENTINEL not in str(result.content)
    assert (tmp_path / "sub/deep/traces.db").read_text() == SENTINEL


def test_a_folder_that_cannot_be_read_is_covered_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shut/sub").mkdir(parents=True)
    (tmp_path / "shut/sub/.env").write_text(SENTINEL)
    read = masks._read

    def denied(root: object, parts: tuple[str, ...]) -> object:
        if parts == ("shut",):
            raise PermissionError(13, "Permission denied")
        return read(root, parts)  # type: ignore[arg-type]

    monkeypatch.setattr(masks, "_read", denied)
    [mask] = masks_of(Workspace(tmp_path))
    assert (mask.path, mask.secret, mask.folder) == (str(tmp_path / "shut"), True, True)
    assert run(tools_at(tmp_path), "cat shut/sub/.env; ls shut/sub").is_error


@pytest.mark.skipif(os.getuid() == 0, reason="root reads every folder")
@pytest.mark.parametrize("mode", [0o000, 0o400, 0o100])
def test_a_mode_keeps_nothing_from_being_covered(tmp_path: Path, mode: int) -> None:
    (tmp_path / "shut/sub").mkdir(parents=True)
    for path in ("shut/.env", "shut/sub/.env"):
        (tmp_path / path).write_text(SENTINEL)
    (tmp_path / "shut").chmod(mode)
    try:
        result = run(tools_at(tmp_path), "chmod 700 shut; cat shut/.env shut/sub/.env")
    finally:
        (tmp_path / "shut").chmod(0o700)
    assert SENTINEL not in str(result.content)


def test_a_folder_whose_path_is_too_long_is_covered_whole(tmp_path: Path) -> None:
    (tmp_path / "svc").mkdir()
    (tmp_path / "svc/.env").write_text(SENTINEL)
    tools, name = tools_at(tmp_path), "n" * 200
    down = f"while cd {name} 2>/dev/null; do :; done"
    said(tools, f"svc=$PWD/svc; for i in $(seq 30); do mkdir {name} && cd {name}; done; {down}; mv $svc .; [ -d svc ]")
    assert SENTINEL not in str(run(tools, f"{down}; cd {name}; cat svc/.env; grep -rs {SENTINEL} .").content)
    found = masks_of(Workspace(tmp_path))
    assert max(len(mask.path) for mask in found) < 4096 - 100
    assert any(mask.secret and mask.folder and mask.path.endswith(name) for mask in found)


@pytest.mark.parametrize(
    ("limit", "most", "words"),
    [
        ("MAX_MASKS", 3, "4 files and folders would have to be covered"),
        ("MAX_ENTRIES", 3, "the limit is 3 entries"),
        ("SEARCH_SECONDS", 0.0, "too large to search for secret files"),
    ],
)
def test_where_a_limit_is_met_no_command_runs(
    tmp_path: Path, limit: str, most: float, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ".env").touch()
    tools = tools_at(tmp_path)
    monkeypatch.setattr(masks, limit, most)
    result = run(tools, "touch ran")
    assert result.is_error
    assert str(result.content).count("no command is run: ") == 1
    assert words in str(result.content)
    assert names_in(tmp_path) == ["a", "b", "c"]


@pytest.mark.slow
def test_as_many_as_are_allowed_can_be_covered(tmp_path: Path) -> None:
    for number in range(masks.MAX_MASKS - 1):  # and .git, which is taken
        folder = tmp_path / f"{number}"
        folder.mkdir()
        if number % 3:
            (folder / ".env").write_text(SENTINEL)
        else:
            (folder / ".env").mkdir()
            (folder / ".env" / "key").write_text(SENTINEL)
    tools = tools_at(tmp_path)
    assert said(tools, f"grep -rs {SENTINEL} . ; grep -c ' {tmp_path}/' /proc/self/mounts") == f"{masks.MAX_MASKS}"
    (tmp_path / ".env").touch()
    assert "the limit is 1,000" in str(run(tools, ":").content)


def test_what_moves_while_it_is_looked_for_is_looked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/.env").touch()
    read, left = masks._read, [2]

    def moving(root: object, parts: tuple[str, ...]) -> object:
        if parts == ("a",) and left[0]:
            left[0] -= 1
            raise FileNotFoundError(2, "No such file or directory")
        return read(root, parts)  # type: ignore[arg-type]

    monkeypatch.setattr(masks, "_read", moving)
    assert [mask.path for mask in masks_of(Workspace(tmp_path))] == [str(tmp_path / "a/.env")]
    left[0] = masks.ATTEMPTS
    assert "were moved during the search" in str(run(tools_at(tmp_path), ":").content)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize(("folders", "files", "seconds"), [(1_000, 9, 0.03), (10_000, 9, 0.25), (1, 100_000, 0.25)])
def test_looking_costs_little(tmp_path: Path, folders: int, files: int, seconds: float) -> None:
    """At most 30 ms for 10,000 entries and 250 ms for 100,000, of processor time, on the best of some looks."""
    for number in range(folders):
        folder = tmp_path / f"{number % 10}" / f"{number}"
        folder.mkdir(parents=True)
        for name in range(files):
            os.mknod(folder / f"file{name}.py")
    (folder / ".env").touch()
    workspace = Workspace(tmp_path)
    assert least(lambda: masks_of(workspace), 40, enough=seconds) <= seconds
    assert len(masks_of(workspace)) == 1
