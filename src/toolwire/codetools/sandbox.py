"""The sandbox of commands: which level is in force, and how a command is started in it.

Rules of this file:
- Fails closed: without bubblewrap no command runs, unless `sandbox="none"` was chosen. Nothing falls back.
- In the sandbox a command sees the programs of the system, a few files of /etc, its own /proc, /dev and /tmp,
  and the project folder. It writes to the project folder and to /tmp, which is its own and goes with it.
- Its /proc is read-only: root may change settings of the whole machine there, in a sandbox as well.
- The variables of a command are made from nothing, so that no key of the host is among them: what it gets more
  is given by option, by name. The PATH is fixed: what a project holds is never found before what the system has.
- Secrets of the project folder that are there are covered, and without a network sockets on which somebody listens;
  what is protected is read-only. What mounts cover goes
  with the folder that holds it, wherever a command moves that. What a command makes is covered from the next one on.
- A protected name that is not there yet, at the top, is taken by an empty folder while commands run, so that none
  of them can make it. The folder is taken away by the last of them, or by the next one after a crash.
- No folder is lent as a descriptor: through one, a command could walk out. What was mounted is checked.
- The first process of it is a shell that waits for the command; when it ends, the kernel ends the rest.
"""

import contextlib
import fcntl
import functools
import itertools
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolwire.codetools import overseer
from toolwire.codetools.locks import UNLOCKABLE
from toolwire.codetools.masks import masks_of, real_path
from toolwire.codetools.paths import FOLDER, Root, Workspace
from toolwire.codetools.processes import Launch
from toolwire.codetools.spelling import shown
from toolwire.errors import ToolError
from toolwire.waiting.process_marks import MARK, new_mark

PATIENCE = 2.0
PLACEHOLDER = 0o1500
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash")
BUBBLEWRAP, NONE, _REFUSED = "bubblewrap", "none", "refused"
_LEVELS = ("auto", BUBBLEWRAP, NONE)
PLACES = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap", "/run/current-system/sw/bin/bwrap")
TMP_BYTES = 1024**3
_SHARED_BYTES = 256 * 1024**2
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
_SETTINGS = (
    *("alternatives", "ca-certificates", "crypto-policies", "debian_version", "fonts", "java", "ld.so.cache"),
    *("ld.so.conf", "ld.so.conf.d", "localtime", "magic", "magic.mime", "mime.types", "nsswitch.conf"),
    *("os-release", "perl", "pki/tls/certs", "pki/ca-trust", "protocols", "services", "ssl/certs"),
    *("ssl/openssl.cnf", "terminfo", "timezone", "xml"),
)
_ISOLATION = (
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL", "--hostname", "sandbox"),
)
FIRST = (
    'printf "\\n"; IFS= read -r go || exit 125; exec 3>&2 2>/dev/null; '
    '(exec "$0" --noprofile --norc -c "$1" bash </dev/null 2>&3 3>&-); exit $?'
)
_HOSTS = "127.0.0.1 localhost sandbox\n::1 localhost\n"
_CHOOSE = 'or choose sandbox="none", which lets commands do everything that this user may do'
_ADVICE = (
    ("uid map", "the system keeps programs from making user namespaces (AppArmor on Ubuntu 24.04: allow bwrap)"),
    ("No permissions to create", "the system has no user namespaces for users: see user.max_user_namespaces"),
    ("Creating new namespace", "the system, or the container around, allows no new namespaces"),
    ("mount proc", "the container around this allows no /proc of its own (Docker: systempaths=unconfined)"),
    ("Unknown option", "bubblewrap is too old: 0.5 or newer is needed"),
)


def level_of(options: dict[str, Any]) -> str:
    """Say which level is in force; raise what says why none is."""
    asked = options.get("sandbox", "auto")
    if asked not in _LEVELS:
        raise ToolError(f"the option `sandbox` must be one of {', '.join(_LEVELS)}, not {asked!r}")
    if not (sys.platform == "linux" and hasattr(os, "pidfd_open")):
        raise ToolError("commands run on Linux 5.3 or newer only; use the other tools")
    if asked == NONE:
        return NONE
    bubblewrap()
    return BUBBLEWRAP


def bubblewrap() -> str:
    """Give the absolute path of bubblewrap."""
    for path in PLACES:
        if os.access(path, os.X_OK):
            return path
    raise ToolError(
        "no command is run, because there is no sandbox for it: bubblewrap is not installed. "
        f"Install it (Debian, Ubuntu, Fedora, Arch: the package bubblewrap), {_CHOOSE}"
    )


@functools.lru_cache(8)
def _features(path: str, changed: int) -> frozenset[str]:
    """List the options that this bubblewrap has; it is asked again when the file was changed."""
    del changed
    listed = subprocess.run(  # noqa: S603 - it has an absolute path
        [path, "--help"], capture_output=True, text=True, timeout=20, check=False, env={}
    )
    return frozenset(word for word in listed.stdout.split() if word.startswith("--"))


@functools.lru_cache(8)
def _try_out(path: str, changed: int) -> None:
    """Make a sandbox once, to see whether that works here; one that does not is tried again."""
    del changed
    argv = [path, *_ISOLATION, "--unshare-net", *_system({}), *_own(sized=False), "--", "/bin/sh", "-c", "exit 0"]
    done = subprocess.run(  # noqa: S603 - it has an absolute path
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False, env={}
    )
    if done.returncode != 0:
        raise refusal(done.stderr)


def in_force(options: dict[str, Any]) -> str:
    """Say which level commands run at; "refused" if they do not."""
    try:
        level = level_of(options)
        if level == BUBBLEWRAP:
            _try_out(path := bubblewrap(), os.stat(path).st_mtime_ns)
    except (ToolError, OSError, subprocess.SubprocessError):
        return _REFUSED
    return level


def refusal(message: str) -> ToolError:
    """Say why a command could not be started in the sandbox."""
    advice = next((f" ({words})" for sign, words in _ADVICE if sign in message), "")
    reason = message.splitlines()[0].removeprefix("bwrap: ") if message else "it said nothing"
    return ToolError(
        f"no command is run, because its sandbox cannot be made: {reason}{advice}. "
        f"`toolwire doctor` tells more. Mend it, {_CHOOSE}"
    )


@contextlib.contextmanager
def launching(workspace: Workspace, options: dict[str, Any], command: str) -> Iterator[Launch]:
    """Give how a command is started at the level in force; what that needs is there while this lasts."""
    if level_of(options) == NONE:
        yield _bare(workspace, options, command)
        return
    with contextlib.ExitStack() as held:
        held.enter_context(placeholders(workspace))
        yield _confined(workspace, options, command, held)


def _bare(workspace: Workspace, options: dict[str, Any], command: str) -> Launch:
    if not sys.executable:
        raise ToolError('sandbox="none" needs the Python program, and it is not known where that is')
    real_path(workspace.cwd)
    variables = _variables(options.get("environment"), *_who())
    shell = [_shell(), "--noprofile", "--norc", "-c", command, "bash"]
    return Launch(
        [sys.executable, "-I", "-S", overseer.__file__, *shell], variables, f"/proc/self/fd/{workspace.cwd.fd}"
    )


def _confined(workspace: Workspace, options: dict[str, Any], command: str, held: contextlib.ExitStack) -> Launch:
    program = bubblewrap()
    known = _features(program, os.stat(program).st_mtime_ns)
    user = "root" if os.getuid() == 0 else "user"
    roots = {real_path(root): root for root in workspace.roots}
    if "/" in roots:
        raise ToolError("the project folder is /: nothing would be left to keep commands out of")
    masks = [mask for mask in masks_of(workspace) if not (mask.socket and options.get("network") is True)]
    files = _files(user, network=options.get("network") is True)
    lent = [_memory(text, held) for text in files.values()]
    covering = _memory("".join(f"{word}\0" for mask in masks for word in mask.arguments()), held)

    def verify(leader: int) -> bool:
        before = f"/proc/{leader}/root"
        mounted = all(_is_same(root.fd, before + path) for path, root in roots.items())
        return mounted and all(mask.holds(before) for mask in masks)

    words = [
        *(["--disable-userns"] if "--disable-userns" in known else []),
        *([] if options.get("network") is True else ["--unshare-net"]),
        *_system(options),
        *(word for path, fd in zip(files, lent, strict=True) for word in ("--ro-bind-data", str(fd), path)),
        *_own(sized="--size" in known),
        *_readable(options.get("readable", ())),
        *(word for path in sorted(roots, key=len) for word in ("--bind", path, path)),
        *("--args", str(covering)),
        *("--remount-ro", "/proc", "--remount-ro", "/", "--chdir", real_path(workspace.cwd)),
        *("--", "/bin/sh", "-c", FIRST, _shell(), command),
    ]
    variables = _variables(options.get("environment"), "/tmp", user)  # noqa: S108 - its own
    info = os.pipe()  # the last of all: nothing that is refused before it leaves its end for the sandbox open
    held.callback(os.close, info[0])
    argv = [program, *_ISOLATION, "--info-fd", str(info[1]), *words]
    return Launch(argv, variables, lent=(*lent, covering), info=info, verify=verify)


def _system(options: dict[str, Any]) -> Iterator[str]:
    """Give what a command sees of the system, for reading."""
    for path in _SYSTEM:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    names = (*_SETTINGS, *(["resolv.conf", "gai.conf", "host.conf"] if options.get("network") is True else []))
    for name in names:
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")


def _own(*, sized: bool) -> Iterator[str]:
    """Give what a command has for itself."""
    yield from ("--proc", "/proc", "--dev", "/dev")
    for path, most in (("/dev/shm", _SHARED_BYTES), ("/tmp", TMP_BYTES)):  # noqa: S108 - they are its own
        yield from ("--perms", "1777", *(["--size", str(most)] if sized else []), "--tmpfs", path)
    yield from ("--symlink", "/tmp", "/var/tmp", "--dir", "/run", "--remount-ro", "/dev")  # noqa: S108 - its own


def _readable(paths: Any) -> Iterator[str]:
    """Give the folders that were made readable by option."""
    if isinstance(paths, str | os.PathLike) or not isinstance(paths, Iterable):
        raise ToolError("the option `readable` must be a list of absolute paths")
    for path in map(os.fspath, paths):
        if not os.path.isabs(path) or os.path.normpath(path).strip("/") == "" or not os.path.exists(path):
            raise ToolError("the option `readable` must be a list of absolute paths of existing folders")
        yield from ("--ro-bind", path, path)


def _files(user: str, *, network: bool) -> dict[str, str]:
    """Write the files of /etc that say who is here, without the accounts of the host."""
    number, group = os.getuid(), os.getgid()
    nobody = "nobody:x:65534:65534:nobody:/:/bin/false\n" if number != 65534 else ""
    nogroup = "nogroup:x:65534:\n" if group != 65534 else ""
    made = {
        "/etc/passwd": f"{user}:x:{number}:{group}:{user}:/tmp:/bin/bash\n{nobody}",
        "/etc/group": f"{user}:x:{group}:\n{nogroup}",
    }
    return made if network else made | {"/etc/hosts": _HOSTS}


def _memory(text: str, held: contextlib.ExitStack) -> int:
    """Give a descriptor that reads as this text."""
    fd = os.memfd_create("toolwire")
    held.callback(os.close, fd)
    os.write(fd, os.fsencode(text))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _is_same(fd: int, path: str, **way: Any) -> bool:
    try:
        return os.path.samestat(os.stat(path, **way), os.fstat(fd))
    except OSError:
        return False


def _variables(wanted: Any, home: str, user: str) -> dict[str, str]:
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
    return own | _checked_variables({} if wanted is None else wanted) | {MARK: new_mark()}


def _checked_variables(wanted: Any) -> dict[str, str]:
    if not isinstance(wanted, Mapping):
        raise ToolError("the option `environment` must map names of variables to text")
    for name, value in wanted.items():
        if not (isinstance(name, str) and isinstance(value, str)) or not name or "=" in name:
            raise ToolError("the option `environment` must map names of variables to text")
        if "\0" in name + value:
            raise ToolError("the option `environment` holds a NUL")
    return dict(wanted)


def _who() -> tuple[str, str]:
    """Give the home folder and the name of the one who runs this, as the system knows them."""
    import pwd  # noqa: PLC0415 - only where commands run

    try:
        entry = pwd.getpwuid(os.getuid())
    except KeyError:
        return "/", "user"
    return entry.pw_dir, entry.pw_name


def _shell() -> str:
    for path in _SHELLS:
        if os.access(path, os.X_OK):
            return path
    raise ToolError(f"bash is not installed here: there is none of {', '.join(_SHELLS)}")


@contextlib.contextmanager
def placeholders(workspace: Workspace) -> Iterator[None]:
    """Take the protected names that are free, while this lasts."""
    names = [name for name in workspace.protected_names if "*" not in name and "/" not in name]
    with contextlib.ExitStack() as taken:
        for root, name in itertools.product(workspace.roots, names):
            if (fd := _take(root, name)) is not None:
                taken.callback(_let_go, root, name, fd)
        yield


def _take(root: Root, name: str) -> int | None:
    """Take a name with an empty folder, and hold that; None if the name is not free, or cannot be had."""
    deadline = time.monotonic() + PATIENCE
    while not _stays(root, name):
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, PLACEHOLDER, dir_fd=root.fd)
            if (fd := _hold(root, name)) is not None:
                return fd
        except OSError:
            return None
        if time.monotonic() >= deadline:
            raise ToolError(f"another program makes and removes {shown(name)} in the project folder; try again")
        time.sleep(0.001)
    return None


def _hold(root: Root, name: str) -> int | None:
    """Keep others from removing the folder that takes a name; None if it goes just now."""
    try:
        fd = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=root.fd)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        gone = not _leads_to(root, name, fd)
    except OSError as problem:  # where there are no locks, it stays when the command has ended
        gone = problem.errno not in UNLOCKABLE
    if gone:
        os.close(fd)
        return None
    return fd


def _leads_to(root: Root, name: str, fd: int) -> bool:
    return _is_same(fd, name, dir_fd=root.fd, follow_symlinks=False)


def _stays(root: Root, name: str) -> bool:
    """Whether a name is there, and not as a placeholder."""
    try:
        mode = os.stat(name, dir_fd=root.fd, follow_symlinks=False).st_mode
    except OSError:
        return False
    return not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX)


def _let_go(root: Root, name: str, fd: int) -> None:
    """Remove a placeholder, if no other command needs it; only what is empty can be removed."""
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _leads_to(root, name, fd):
                os.rmdir(name, dir_fd=root.fd)
    finally:
        os.close(fd)
