"""What is refused of a path, in words: the path as it was given, and never where it is on the host."""

import contextlib
import errno
import os
from collections.abc import Iterator

from toolwire.codetools.spelling import shown
from toolwire.errors import ToolError


class PathRefused(ToolError):
    """A path that cannot be used; `code` says why in one word."""

    def __init__(self, code: str, given: str, reason: str) -> None:
        super().__init__(f"{shown(given)}: {reason}")
        self.code = code


REASONS: dict[int, tuple[str, str]] = {
    errno.ENOENT: ("not_found", "there is no such file or folder"),
    errno.ENOTDIR: ("not_a_folder", "a part of the path is no folder"),
    errno.EISDIR: ("not_regular_file", "it is a folder"),
    errno.EACCES: ("no_permission", "permission denied"),
    errno.EPERM: ("no_permission", "permission denied"),
    errno.EROFS: ("no_permission", "the file system is read-only"),
    errno.ELOOP: ("link_loop", "its symbolic links go around in a circle, or it is one itself"),
    errno.ENAMETOOLONG: ("invalid_path", "a name in it is too long"),
    errno.EXDEV: ("outside_root", "it leads out of the project folder"),
    errno.EEXIST: ("stale", "something is there by now: read it first"),
    errno.ENXIO: ("not_regular_file", "it is no regular file"),
    errno.ENOSPC: ("no_space", "no space is left on the disk"),
    errno.EDQUOT: ("no_space", "the disk quota is used up"),
    errno.EFBIG: ("no_space", "the file would be too large"),
}


def refusal(problem: OSError, given: str) -> PathRefused:
    """Say what the system said of a path, without the host's own paths."""
    code, reason = REASONS.get(problem.errno or 0, ("io_error", os.strerror(problem.errno or errno.EIO)))
    return PathRefused(code, given, reason)


@contextlib.contextmanager
def saying(given: str) -> Iterator[None]:
    """Turn what the system says of a path into a refusal."""
    try:
        yield
    except OSError as problem:
        raise refusal(problem, given) from None
