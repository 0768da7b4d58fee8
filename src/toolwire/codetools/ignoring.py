"""Which files `.gitignore` names: the rules of git, for those who look without it.

Rules of this file:
- Only files named `.gitignore` inside the roots count: nothing of the host, of `.git/info` or of `.ignore`.
- The last rule that fits decides, in the file that is nearest; a repository inside has its own rules.
- A folder that is ignored is not entered, so nothing in it can be taken back.
- A `.gitignore` that is a link or no regular file is not read.
- As for git, a name is a row of bytes: `?` is one of them, and no letter of more than one.
"""

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, groupby, islice

from msgspec import Struct

from toolwire.codetools.paths import READ, ProjectPath, closing_fd, open_root_folder
from toolwire.codetools.patterns import FOLDERS, MAX_PATTERN, Test, translated, whole

_NAME = ".gitignore"
_MAX_BYTES = 16 * 1024 * 1024
_MAX_RULES, _MAX_LETTERS = 20_000, 2_000_000
_TOGETHER = 256
# What a path begins with, to say whether it is a folder.
_FOLDER, _OTHER = "d", "f"


class _Rule(Struct, frozen=True):
    """One line: the paths that it fits, as a regular expression, and whether it takes them back."""

    body: str
    negated: bool


class _IgnoreFile:
    def __init__(self, rules: Sequence[_Rule]) -> None:
        runs = ((negated, [rule.body for rule in run]) for negated, run in groupby(rules, lambda rule: rule.negated))
        tests = [(negated, test) for negated, bodies in runs for test in _tests_of(bodies)]
        self._last_first: list[tuple[bool, Test]] = tests[::-1]

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """Say whether a path is ignored, from the folder of this file; None if no rule is about it."""
        path = (_FOLDER if is_folder else _OTHER) + (path if path.isascii() else os.fsencode(path).decode("latin-1"))
        return next((not negated for negated, fits in self._last_first if fits(path)), None)


def _tests_of(bodies: Sequence[str]) -> Iterator[Test]:
    """Give the tests of rules that say the same, many in one; a rule that is too large fits nothing."""
    for start in range(0, len(bodies), _TOGETHER):
        together = bodies[start : start + _TOGETHER]
        try:
            yield _compiled("|".join(together))
        except ValueError:
            if len(together) > 1:
                yield from chain.from_iterable(_tests_of([body]) for body in together)


@lru_cache(64)
def _compiled(body: str) -> Test:
    """Compile rules; those of a large `.gitignore` take milliseconds, and each listing reads the same ones."""
    return whole(body)


class Level(Struct, frozen=True):
    """A folder on the way down: where paths below it begin, its rules, and whether it is a repository."""

    start: int
    rules: _IgnoreFile | None
    is_repository: bool


def is_ignored(levels: Sequence[Level], path: str, *, is_folder: bool) -> bool:
    """Whether a path is ignored; the levels lead to it from the top."""
    for level in reversed(levels):
        if level.rules is not None:
            verdict = level.rules.verdict(path[level.start :], is_folder=is_folder)
            if verdict is not None:
                return verdict
        if level.is_repository:
            break
    return False


def level_of(fd: int, start: int, names: Sequence[str] | None = None) -> Level:
    """Read the rules of an open folder; `names` are its entries, where they are known."""
    rules = _rules_of(fd) if names is None or _NAME in names else None
    if names is not None:
        return Level(start, rules, ".git" in names)
    try:
        os.stat(".git", dir_fd=fd, follow_symlinks=False)
    except OSError:
        return Level(start, rules, is_repository=False)
    return Level(start, rules, is_repository=True)


def levels_above(location: ProjectPath) -> list[Level]:
    """Read the rules of the folders above a place, which begins at its root."""
    found: list[Level] = []
    for count in range(len(location.parts)):
        start = sum(len(name) + 1 for name in location.parts[:count])
        with contextlib.suppress(OSError), open_root_folder(location.root, location.parts[:count]) as fd:
            found.append(level_of(fd, start))
    return found


def _rules_of(folder: int) -> _IgnoreFile | None:
    """Read the `.gitignore` of an open folder; None if it has none, or no rules in it."""
    try:
        with closing_fd(os.open(_NAME, READ | os.O_NOFOLLOW, dir_fd=folder)) as fd:
            return parsed(os.read(fd, _MAX_BYTES)) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    except OSError:
        return None


def parsed(data: bytes) -> _IgnoreFile | None:
    """Read the text of a `.gitignore`."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    read = filter(None, (_rule(line.removesuffix(b"\r").decode("latin-1")) for line in lines))
    rules: list[_Rule] = []
    letters = 0
    for rule in islice(read, _MAX_RULES):
        letters += len(rule.body)
        if letters > _MAX_LETTERS:
            break
        rules.append(rule)
    return _IgnoreFile(rules) if rules else None


def _rule(line: str) -> _Rule | None:
    bare = line.rstrip(" \t")
    if bare.endswith("\\") and not bare.endswith("\\\\") and bare != line:
        bare += line[len(bare)]
    if not bare or bare.startswith("#") or len(bare) > MAX_PATTERN:
        return None
    pattern = bare.removeprefix("!")
    folders_only = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    anchored = "/" in pattern
    pattern = pattern.removeprefix("/")
    if not pattern:
        return None
    try:
        body = translated(pattern, braces=False)
    except ValueError:
        return None
    kind = _FOLDER if folders_only else f"[{_FOLDER}{_OTHER}]"
    return _Rule(f"{kind}{body}" if anchored else f"{kind}{FOLDERS}{body}", bare.startswith("!"))


class Below:
    """Whether the rules of a folder, and of those above it, are about what was found below."""

    def __init__(self, location: ProjectPath, fd: int, above: list[Level]) -> None:
        self._location = location
        self._prefix = "".join(f"{name}/" for name in location.parts)
        self._levels: dict[str, list[Level]] = {"": [*above, level_of(fd, len(self._prefix))]}
        self.is_in_repository: bool = any(level.is_repository for level in self._levels[""])

    def is_ignored(self, path: str) -> bool:
        """Whether a path, or a folder on the way to it, is ignored."""
        above = ""
        for name in path.split("/")[:-1]:
            if is_ignored(self._levels[above], f"{self._prefix}{above}{name}", is_folder=True):
                return True
            self._enter(above, name)
            above = f"{above}{name}/"
        return is_ignored(self._levels[above], self._prefix + path, is_folder=False)

    def _enter(self, above: str, name: str) -> None:
        """Read the rules of a folder, once."""
        folder = f"{above}{name}/"
        if folder in self._levels:
            return
        level = Level(len(self._prefix) + len(folder), None, is_repository=False)
        parts = (*self._location.parts, *folder.strip("/").split("/"))
        with contextlib.suppress(OSError), open_root_folder(self._location.root, parts) as fd:
            level = level_of(fd, level.start)
        self._levels[folder] = [*self._levels[above], level]
