"""The rules of `.gitignore` files, as git applies them, for searches without git.

Rules of this file:
- Only files named `.gitignore` inside of the roots count: no settings of the host, no `.git/info`, no `.ignore`.
- The last matching rule decides, in the nearest file. A nested repository has its own rules.
- An ignored folder is not entered, so no rule can re-include a file in it.
- A `.gitignore` that is a link or not a regular file is not read.
- As for git, a name is a sequence of bytes: `?` matches one byte, and no character of several bytes.
"""

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, groupby, islice

from msgspec import Struct

from toolwire.codetools.paths import READ, ProjectPath, closing_fd, open_root_folder
from toolwire.codetools.patterns import FOLDERS, MAX_PATTERN, Test, match_whole, to_regex

_NAME = ".gitignore"
_MAX_BYTES = 16 * 1024 * 1024
_MAX_RULES, _MAX_LETTERS = 20_000, 2_000_000
_RULES_PER_TEST = 256
# The first character of a tested path: whether it is a folder.
_FOLDER, _OTHER = "d", "f"


class _Rule(Struct, frozen=True):
    """One line: a regular expression for the paths it matches, and whether it re-includes them."""

    body: str
    negated: bool


class _IgnoreFile:
    def __init__(self, rules: Sequence[_Rule]) -> None:
        groups = ((negated, [rule.body for rule in run]) for negated, run in groupby(rules, lambda rule: rule.negated))
        tests = [(negated, test) for negated, bodies in groups for test in _compile_tests(bodies)]
        self._last_first: list[tuple[bool, Test]] = tests[::-1]

    def verdict(self, path: str, *, is_folder: bool) -> bool | None:
        """Return whether `path`, relative to this file's folder, is ignored; None if no rule matches it."""
        path = (_FOLDER if is_folder else _OTHER) + (path if path.isascii() else os.fsencode(path).decode("latin-1"))
        return next((not negated for negated, fits in self._last_first if fits(path)), None)


def _compile_tests(bodies: Sequence[str]) -> Iterator[Test]:
    """Yield the tests of rules with the same effect, many rules in one test; a rule that is too large never matches."""
    for start in range(0, len(bodies), _RULES_PER_TEST):
        batch = bodies[start : start + _RULES_PER_TEST]
        try:
            yield _compile_rules("|".join(batch))
        except ValueError:
            if len(batch) > 1:
                yield from chain.from_iterable(_compile_tests([body]) for body in batch)


@lru_cache(64)
def _compile_rules(body: str) -> Test:
    """Compile rules. A large `.gitignore` takes milliseconds, and each listing reads the same ones."""
    return match_whole(body)


class Level(Struct, frozen=True):
    """A folder above a path: where relative paths begin in the path, its rules, and whether it is a repository."""

    start: int
    rules: _IgnoreFile | None
    is_repository: bool


def is_ignored(levels: Sequence[Level], path: str, *, is_folder: bool) -> bool:
    """Return True if a path is ignored; `levels` are the folders above it, from the top."""
    for level in reversed(levels):
        if level.rules is not None:
            verdict = level.rules.verdict(path[level.start :], is_folder=is_folder)
            if verdict is not None:
                return verdict
        if level.is_repository:
            break
    return False


def read_level(fd: int, start: int, names: Sequence[str] | None = None) -> Level:
    """Return the level of an open folder; `names` are its entries, if they are known."""
    rules = _read_rules(fd) if names is None or _NAME in names else None
    if names is not None:
        return Level(start, rules, ".git" in names)
    try:
        os.stat(".git", dir_fd=fd, follow_symlinks=False)
    except OSError:
        return Level(start, rules, is_repository=False)
    return Level(start, rules, is_repository=True)


def levels_above(location: ProjectPath) -> list[Level]:
    """Return the levels of the folders above `location`, from its root."""
    levels: list[Level] = []
    for count in range(len(location.parts)):
        start = sum(len(name) + 1 for name in location.parts[:count])
        with contextlib.suppress(OSError), open_root_folder(location.root, location.parts[:count]) as fd:
            levels.append(read_level(fd, start))
    return levels


def _read_rules(folder: int) -> _IgnoreFile | None:
    """Read the `.gitignore` of an open folder; return None if it has none, or none with rules."""
    try:
        with closing_fd(os.open(_NAME, READ | os.O_NOFOLLOW, dir_fd=folder)) as fd:
            return parse_gitignore(os.read(fd, _MAX_BYTES)) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    except OSError:
        return None


def parse_gitignore(data: bytes) -> _IgnoreFile | None:
    """Parse a `.gitignore`."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    parsed_rules = filter(None, (_parse_rule(line.removesuffix(b"\r").decode("latin-1")) for line in lines))
    rules: list[_Rule] = []
    size = 0
    for rule in islice(parsed_rules, _MAX_RULES):
        size += len(rule.body)
        if size > _MAX_LETTERS:
            break
        rules.append(rule)
    return _IgnoreFile(rules) if rules else None


def _parse_rule(line: str) -> _Rule | None:
    stripped = line.rstrip(" \t")
    if stripped.endswith("\\") and not stripped.endswith("\\\\") and stripped != line:
        stripped += line[len(stripped)]
    if not stripped or stripped.startswith("#") or len(stripped) > MAX_PATTERN:
        return None
    pattern = stripped.removeprefix("!")
    folders_only = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    anchored = "/" in pattern
    pattern = pattern.removeprefix("/")
    if not pattern:
        return None
    try:
        body = to_regex(pattern, braces=False)
    except ValueError:
        return None
    prefix = _FOLDER if folders_only else f"[{_FOLDER}{_OTHER}]"
    return _Rule(f"{prefix}{body}" if anchored else f"{prefix}{FOLDERS}{body}", stripped.startswith("!"))


class IgnoreTree:
    """Decides whether files below a folder are ignored, by its rules and those of the folders above and below it."""

    def __init__(self, location: ProjectPath, fd: int, above: list[Level]) -> None:
        self._location = location
        self._prefix = "".join(f"{name}/" for name in location.parts)
        self._levels: dict[str, list[Level]] = {"": [*above, read_level(fd, len(self._prefix))]}
        self.is_in_repository: bool = any(level.is_repository for level in self._levels[""])

    def is_ignored(self, path: str) -> bool:
        """Return True if a path, or a folder above it, is ignored."""
        above = ""
        for name in path.split("/")[:-1]:
            if is_ignored(self._levels[above], f"{self._prefix}{above}{name}", is_folder=True):
                return True
            self._enter(above, name)
            above = f"{above}{name}/"
        return is_ignored(self._levels[above], self._prefix + path, is_folder=False)

    def _enter(self, above: str, name: str) -> None:
        """Read the rules of a folder once."""
        folder = f"{above}{name}/"
        if folder in self._levels:
            return
        level = Level(len(self._prefix) + len(folder), None, is_repository=False)
        parts = (*self._location.parts, *folder.strip("/").split("/"))
        with contextlib.suppress(OSError), open_root_folder(self._location.root, parts) as fd:
            level = read_level(fd, level.start)
        self._levels[folder] = [*self._levels[above], level]
