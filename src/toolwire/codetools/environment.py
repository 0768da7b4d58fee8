"""The variables of commands: made from nothing, so that no key of the host is among them.

Rules of this file:
- Nothing is taken from the environment of the host; what a command gets more is given by option, by name.
- The PATH is fixed: what a project holds is never found before what the system has.
"""

import os
from collections.abc import Mapping
from typing import Any

from toolwire.codetools.marks import MARK, new_mark
from toolwire.errors import ToolError

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash")


def variables(given: Any, home: str, user: str) -> dict[str, str]:
    """Give the variables of a command."""
    own = {
        "PATH": PATH,
        "HOME": home,
        "USER": user,
        "LOGNAME": user,
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "TMPDIR": "/tmp",  # noqa: S108 - in the sandbox it is private; without one it is what it is
    }
    return own | _checked({} if given is None else given) | {MARK: new_mark()}


def _checked(given: Any) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise ToolError("the option `environment` must map names of variables to text")
    for name, value in given.items():
        if not (isinstance(name, str) and isinstance(value, str)) or not name or "=" in name:
            raise ToolError("the option `environment` must map names of variables to text")
        if "\0" in name + value:
            raise ToolError("the option `environment` holds a NUL")
    return dict(given)


def who() -> tuple[str, str]:
    """Give the home folder and the name of the one who runs this, as the system knows them."""
    import pwd  # noqa: PLC0415 - only where commands run

    try:
        entry = pwd.getpwuid(os.getuid())
    except KeyError:
        return "/", "user"
    return entry.pw_dir, entry.pw_name


def shell() -> str:
    """Give the absolute path of bash."""
    for path in SHELLS:
        if os.access(path, os.X_OK):
            return path
    raise ToolError(f"bash is not installed here: there is none of {', '.join(SHELLS)}")
