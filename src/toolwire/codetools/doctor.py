"""Check the sandbox on this machine by attacking it.

Rules of this file:
- Each probe is a command that runs like the commands of a model, and attempts what the sandbox must prevent.
- Each probe searches the host for what it may have left there, and removes it.
- A probe that cannot run is a failed check, never a passed one.
"""

import contextlib
import os
import secrets
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct

from toolwire.codetools import sandbox
from toolwire.codetools.masks import masks_of, real_path
from toolwire.codetools.paths import Workspace
from toolwire.codetools.processes import FILE_SIZE, MEMORY, MOST_PROCESSES, MOST_TASKS, NotStarted, pipe_of, run
from toolwire.errors import ToolError

_SECONDS = 20.0
_NAME = "TOOLWIRE_PROBE_KEY"


class _Finding(Struct, frozen=True):
    """The result of one check: its name, whether it passed, and what that means."""

    name: str
    passed: bool
    description: str


class _ProbeSite(Struct, frozen=True):
    workspace: Workspace
    options: dict[str, Any]

    def run(self, command: str) -> str:
        with sandbox.open_launch(self.workspace, self.options, command) as launch:
            ended = run(launch, _SECONDS)
        return bytes(ended.stdout.head).decode("utf-8", "replace").strip()


# Whether a check passed, its description if it did, and its description if it did not.
_Outcome = tuple[bool, str, str]
_Probe = Callable[[_ProbeSite], _Outcome]


def probe(workspace: Workspace, options: dict[str, Any] | None = None) -> list[_Finding]:
    """Check the sandbox for commands of this folder, with these options."""
    site = _ProbeSite(workspace, options or {})
    try:
        level = sandbox.level_of(site.options)
        site.run("exit 0")
    except NotStarted as problem:
        return [_Finding("sandbox", False, str(sandbox.sandbox_error(str(problem))))]
    except (ToolError, OSError) as problem:
        return [_Finding("sandbox", False, str(problem))]
    confined = level != sandbox.NONE
    description = "commands run in bubblewrap" if confined else 'sandbox="none": commands do all that this user may do'
    return [_Finding("sandbox", confined, description), *(_run_probe(check, site) for check in PROBES)]


def _run_probe(probe: _Probe, site: _ProbeSite) -> _Finding:
    name = probe.__name__.strip("_").replace("_", " ")
    try:
        passed, success, failure = probe(site)
    except (ToolError, NotStarted, OSError, LookupError, ValueError, subprocess.SubprocessError) as error:
        return _Finding(name, False, f"the check could not run: {error}")
    return _Finding(name, passed, success if passed else failure)


def _write_inside(site: _ProbeSite) -> _Outcome:
    name = f".toolwire-probe-{secrets.token_hex(4)}"
    output = site.run(f"echo x > {name} && cat {name} && rm {name}")
    return output == "x", "the project folder can be written", "the project folder cannot be written"


def _write_outside(site: _ProbeSite) -> _Outcome:
    """Write beside the project and into the temporary folder; for other folders only test the permission."""
    name = f".toolwire-probe-{secrets.token_hex(4)}"
    folders = (os.path.dirname(real_path(site.workspace.cwd)), tempfile.gettempdir())
    paths = [os.path.join(folder, name) for folder in dict.fromkeys(folders)]
    output = site.run(
        "".join(f"echo x > {shlex.quote(path)}\n" for path in paths)
        + "".join(f"[ -w {folder} ] && echo {folder}\n" for folder in ("/", "/usr", "/etc", "/dev", "/proc/sys"))
    )
    created = [path for path in paths if os.path.lexists(path)]
    for path in created:
        os.unlink(path)
    written = [*map(os.path.dirname, created), *output.split()]
    return not written, "nothing outside of the project folder can be written", f"can be written: {', '.join(written)}"


def _protected(site: _ProbeSite) -> _Outcome:
    """Test whether protected files can be written."""
    names = [name for name in site.workspace.protected_names if "*" not in name]
    quoted = [shlex.quote(name) for name in names]
    output = site.run("".join(f"[ -e {name} ] && [ -w {name} ] && echo {name}\n" for name in quoted))
    secret = sum(mask.secret and not mask.socket for mask in masks_of(site.workspace))
    description = f"{', '.join(names) or 'nothing'} cannot be written" if not output else f"written: {output.split()}"
    description = f"{description}; {secret} secrets covered"
    return not output, description, description


def _settings(site: _ProbeSite) -> _Outcome:
    """Open files of /proc that configure the machine; nothing is written."""
    names = ("sys/kernel/core_pattern", "sys/vm/overcommit_memory", "sysrq-trigger")
    output = site.run("".join(f"(: >> /proc/{name}) 2>/dev/null && echo {name}\n" for name in names))
    return not output, "those of the machine cannot be written", f"can be written: {', '.join(output.split())}"


def _network(site: _ProbeSite) -> _Outcome:
    """Connect to a port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        site.run(f"exec 3<>/dev/tcp/127.0.0.1/{port}")
        reached = True
        try:
            server.accept()[0].close()
        except TimeoutError:
            reached = False
    others = site.run("while read -r name rest; do case $name in *:) echo $name;; esac; done < /proc/net/dev").split()
    is_isolated = not reached and set(others) <= {"lo:"}
    cause = ", as the option `network` says" if site.options.get("network") is True else ""
    return is_isolated, "none can be reached", f"it can be reached{cause}"


def _processes(site: _ProbeSite) -> _Outcome:
    count = int(site.run("set -- /proc/[0-9]*; echo $#").split()[0])
    return count <= 3, f"{count} are visible", f"{count} are visible"


def _keys(site: _ProbeSite) -> _Outcome:
    """Search for a key in the environment of another process of the host."""
    key = secrets.token_hex(16)
    with _other_process({_NAME: key}):
        output = site.run("env; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -a ^" + _NAME)
    leaked = [name for name, value in os.environ.items() if _is_a_key(name) and len(value) > 7 and value in output]
    success = "none can be read from the environment of this or of another process"
    return key not in output and not leaked, success, "the environment of other processes can be read"


def _is_a_key(name: str) -> bool:
    return any(word in name.upper() for word in ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"))


@contextlib.contextmanager
def _other_process(variables: dict[str, str]) -> Iterator[None]:
    """Run another process of the host during the `with` block."""
    command = [sys.executable, "-I", "-S", "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables) as process:  # noqa: S603 - it is our own
        pipe_of(process.stdout).readline()
        yield
        pipe_of(process.stdin).close()


def _survivors(site: _ProbeSite) -> _Outcome:
    """Leave a process behind, in a session of its own."""
    mark = f"987654.{secrets.randbelow(10**9):09d}"
    site.run(f"(setsid sleep {mark} </dev/null >/dev/null 2>&1 &); sleep 0.05")
    survivors = [pid for pid in filter(str.isdigit, os.listdir("/proc")) if mark.encode() in _line_of(pid)]
    for pid in survivors:
        os.kill(int(pid), 9)
    return not survivors, "a command leaves none behind", f"{len(survivors)} were left"


def _line_of(pid: str) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _descriptors(site: _ProbeSite) -> _Outcome:
    output = site.run("ls /proc/$$/fd; true").split()
    extra = [fd for fd in output if int(fd) not in (0, 1, 2)]
    return not extra, "only stdin, stdout and stderr are open", f"open: {extra}"


def _privileges(site: _ProbeSite) -> _Outcome:
    output = dict(line.split(":", 1) for line in site.run("cat /proc/self/status").splitlines() if ":" in line)
    has_none = int(output.get("CapEff", "1"), 16) == 0 and output.get("NoNewPrivs", "").strip() == "1"
    return has_none, "none, and none can be gained", "those of this user"


def _user(site: _ProbeSite) -> _Outcome:
    del site
    devices = "who owns the devices of the machine: a command can change the mode of /dev/null"
    return os.getuid() != 0, "this is not root", f"this is root, {devices}. Use another user"


def _namespaces(site: _ProbeSite) -> _Outcome:
    output = site.run("unshare -U true 2>/dev/null && echo made; command -v unshare")
    failure = "further ones can be made" if output else "the check could not run"
    return "made" not in output and bool(output), "no further ones can be made", failure


def _bounds(site: _ProbeSite) -> _Outcome:
    output = site.run("ulimit -d; ulimit -f; ulimit -u").split()
    are_set = output[:2] == [str(MEMORY // 1024), str(FILE_SIZE // 1024)]
    tasks = f"{MOST_TASKS} tasks by the system, " if os.getuid() and output[2] == str(MOST_TASKS) else ""
    success = (
        f"memory {MEMORY >> 20} MB, a file {FILE_SIZE >> 20} MB, {tasks}{MOST_PROCESSES} processes by "
        "polling; disk space, the number of files and processor time are limited by the timeout only"
    )
    return are_set, success, f"they differ from those that were set: {' '.join(output)}"


def _time(site: _ProbeSite) -> _Outcome:
    start = time.monotonic()
    site.run("exit 0")
    spent = (time.monotonic() - start) * 1000
    return True, f"an empty command takes {spent:.0f} ms", ""


PROBES: tuple[_Probe, ...] = (
    *(_write_inside, _write_outside, _protected, _settings, _network, _processes, _keys, _survivors),
    *(_descriptors, _privileges, _user, _namespaces, _bounds, _time),
)
