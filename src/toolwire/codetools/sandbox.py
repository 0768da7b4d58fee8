"""The sandbox of commands: which level is in force, and how a command is started in it.

Rules of this file:
- It fails closed: without bubblewrap no command runs, unless `sandbox="none"` was chosen. There is no fallback.
- In the sandbox a command sees the system's programs, some files of /etc, its own /proc, /dev and /tmp, and the
  project folder. It writes to the project folder and to its own /tmp, which is deleted at its end.
- Its /proc is read-only, because root could change settings of the whole machine there, even in a sandbox.
- A command's environment is built from nothing, so that it contains no key of the host. Further variables are passed
  by option, by name. PATH is fixed: a program of the project never comes before one of the system.
- Existing secret files of the project folder are covered: a command reads a comment. The cover has the size and the
  time of the file, which git compares. Settings of git leave out their lines where it shows differences. Without a
  network, listening sockets are covered too.
  Protected files are read-only. A mount moves with the folder that it is in. Files that a command creates are covered
  from the next command on.
- A protected name that does not exist at the top of a root is occupied by an empty folder while commands run, so that
  no command can create it. The last command removes the folder; after a crash the next one does.
- No descriptor of a folder is passed on: a command could leave the sandbox through it. The mounts are checked before
  the command starts.
- The first process of the sandbox is a shell that waits for the command. When it ends, the kernel ends all the
  others.
"""

import contextlib
import fcntl
import functools
import itertools
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolwire.codetools import overseer
from toolwire.codetools.locks import UNLOCKABLE
from toolwire.codetools.masks import Mask, masks_of, real_path
from toolwire.codetools.paths import EXAMPLES, FOLDER, Root, Workspace
from toolwire.codetools.processes import Launch
from toolwire.codetools.spelling import escape_name
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
_SYSTEM_SETTINGS = (
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
# git compares the size and the time of a file, which its cover has too (https://git-scm.com/docs/git-config#_variables).
_GIT_CONFIG = "[core]\n\tcheckStat = minimal\n"
_COVER_BYTES = 1024**2
_COVER_TEXT = b"# The sandbox covers this file, because it may contain secrets.\n"
_CHOOSE = 'or choose sandbox="none", which lets commands do everything that this user may do'
_REMEDIES = (
    ("uid map", "the system forbids user namespaces (AppArmor on Ubuntu 24.04: allow bwrap)"),
    ("No permissions to create", "the system has no user namespaces for users: see user.max_user_namespaces"),
    ("Creating new namespace", "the system, or the surrounding container, allows no new namespaces"),
    ("mount proc", "the surrounding container allows no new /proc (Docker: systempaths=unconfined)"),
    ("Unknown option", "bubblewrap is too old: 0.5 or newer is needed"),
)


def level_of(options: dict[str, Any]) -> str:
    """Return the level that commands run at; raise `ToolError` if they cannot run."""
    level = options.get("sandbox", "auto")
    if level not in _LEVELS:
        raise ToolError(f"the option `sandbox` must be one of {', '.join(_LEVELS)}, not {level!r}")
    if not (sys.platform == "linux" and hasattr(os, "pidfd_open")):
        raise ToolError("commands run on Linux 5.3 or newer only; use the other tools")
    if level == NONE:
        return NONE
    bubblewrap()
    return BUBBLEWRAP


def bubblewrap() -> str:
    """Return the absolute path of bubblewrap."""
    for path in PLACES:
        if os.access(path, os.X_OK):
            return path
    raise ToolError(
        "no command is run, because there is no sandbox for it: bubblewrap is not installed. "
        f"Install it (Debian, Ubuntu, Fedora, Arch: the package bubblewrap), {_CHOOSE}"
    )


@functools.lru_cache(8)
def _features(path: str, changed: int) -> frozenset[str]:
    """Return the options that this bubblewrap has; they are cached until the file changes."""
    del changed
    completed = subprocess.run(  # noqa: S603 - it has an absolute path
        [path, "--help"], capture_output=True, text=True, timeout=20, check=False, env={}
    )
    return frozenset(word for word in completed.stdout.split() if word.startswith("--"))


@functools.lru_cache(8)
def _try_out(path: str, changed: int) -> None:
    """Raise `ToolError` unless a sandbox can be made here; only a success is cached."""
    del changed
    argv = [
        path,
        *_ISOLATION,
        "--unshare-net",
        *_system_mounts({}),
        *_private_mounts(sized=False),
        "--",
        "/bin/sh",
        "-c",
        "exit 0",
    ]
    completed = subprocess.run(  # noqa: S603 - it has an absolute path
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False, env={}
    )
    if completed.returncode != 0:
        raise sandbox_error(completed.stderr)


def in_force(options: dict[str, Any]) -> str:
    """Return the level that commands run at, or "refused" if they cannot run."""
    try:
        level = level_of(options)
        if level == BUBBLEWRAP:
            _try_out(path := bubblewrap(), os.stat(path).st_mtime_ns)
    except (ToolError, OSError, subprocess.SubprocessError):
        return _REFUSED
    return level


def sandbox_error(message: str) -> ToolError:
    """Return the error for a sandbox that could not be made, with a remedy if `message` is known."""
    advice = next((f" ({remedy})" for pattern, remedy in _REMEDIES if pattern in message), "")
    reason = message.splitlines()[0].removeprefix("bwrap: ") if message else "bubblewrap gave no reason"
    return ToolError(
        f"no command is run, because its sandbox cannot be made: {reason}{advice}. "
        f"`toolwire doctor` shows more. Repair it, {_CHOOSE}"
    )


@contextlib.contextmanager
def open_launch(workspace: Workspace, options: dict[str, Any], command: str) -> Iterator[Launch]:
    """Yield how a command is started at the level in force, and hold its resources during the `with` block."""
    if level_of(options) == NONE:
        yield _unconfined_launch(workspace, options, command)
        return
    with contextlib.ExitStack() as resources:
        resources.enter_context(placeholders(workspace))
        yield _confined_launch(workspace, options, command, resources)


def _unconfined_launch(workspace: Workspace, options: dict[str, Any], command: str) -> Launch:
    if not sys.executable:
        raise ToolError('sandbox="none" needs the Python interpreter, and sys.executable does not name it')
    real_path(workspace.cwd)
    variables = _variables(options.get("environment"), *_current_user())
    shell = [_shell(), "--noprofile", "--norc", "-c", command, "bash"]
    return Launch(
        [sys.executable, "-I", "-S", overseer.__file__, *shell], variables, f"/proc/self/fd/{workspace.cwd.fd}"
    )


def _confined_launch(
    workspace: Workspace, options: dict[str, Any], command: str, resources: contextlib.ExitStack
) -> Launch:
    program = bubblewrap()
    features = _features(program, os.stat(program).st_mtime_ns)
    user = "root" if os.getuid() == 0 else "user"
    roots = {real_path(root): root for root in workspace.roots}
    if "/" in roots:
        raise ToolError("the project folder is /: a sandbox would protect nothing. Choose a folder below it")
    masks = [mask for mask in masks_of(workspace) if not (mask.socket and options.get("network") is True)]
    files = _user_files(user, network=options.get("network") is True) | _git_files(workspace)
    lent = [_memory_file(text, resources) for text in files.values()]
    covers = _Covers(resources)
    words = [word for mask in masks for word in mask.arguments(covers.file_for(mask))]
    mask_arguments = _memory_file("".join(f"{word}\0" for word in words), resources)

    def verify(leader: int) -> bool:
        root_path = f"/proc/{leader}/root"
        mounted = all(_is_same(root.fd, root_path + path) for path, root in roots.items())
        return mounted and all(mask.is_in_force(root_path) for mask in masks)

    arguments = [
        *(["--disable-userns"] if "--disable-userns" in features else []),
        *([] if options.get("network") is True else ["--unshare-net"]),
        *_system_mounts(options),
        *(word for path, fd in zip(files, lent, strict=True) for word in ("--ro-bind-data", str(fd), path)),
        *_private_mounts(sized="--size" in features),
        *_readable_mounts(options.get("readable", ())),
        *(word for path in sorted(roots, key=len) for word in ("--bind", path, path)),
        *("--args", str(mask_arguments)),
        *("--remount-ro", "/proc", "--remount-ro", "/", "--chdir", real_path(workspace.cwd)),
        *("--", "/bin/sh", "-c", FIRST, _shell(), command),
    ]
    variables = _variables(options.get("environment"), "/tmp", user)  # noqa: S108 - its own
    info = os.pipe()  # opened last, so that no earlier error leaves its write end open
    resources.callback(os.close, info[0])
    argv = [program, *_ISOLATION, "--info-fd", str(info[1]), *arguments]
    return Launch(argv, variables, lent=(*lent, mask_arguments), info=info, verify=verify)


def _system_mounts(options: dict[str, Any]) -> Iterator[str]:
    """Yield the arguments that mount the system's programs and settings read-only."""
    for path in _SYSTEM:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    names = (*_SYSTEM_SETTINGS, *(["resolv.conf", "gai.conf", "host.conf"] if options.get("network") is True else []))
    for name in names:
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")


def _private_mounts(*, sized: bool) -> Iterator[str]:
    """Yield the arguments that give a command its own /proc, /dev and /tmp."""
    yield from ("--proc", "/proc", "--dev", "/dev")
    for path, limit in (("/dev/shm", _SHARED_BYTES), ("/tmp", TMP_BYTES)):  # noqa: S108 - they are its own
        yield from ("--perms", "1777", *(["--size", str(limit)] if sized else []), "--tmpfs", path)
    yield from ("--symlink", "/tmp", "/var/tmp", "--dir", "/run", "--remount-ro", "/dev")  # noqa: S108 - its own


def _readable_mounts(paths: Any) -> Iterator[str]:
    """Yield the arguments that mount the folders of the option `readable`."""
    if isinstance(paths, str | os.PathLike) or not isinstance(paths, Iterable):
        raise ToolError("the option `readable` must be a list of absolute paths")
    for path in map(os.fspath, paths):
        if not os.path.isabs(path) or os.path.normpath(path).strip("/") == "" or not os.path.exists(path):
            raise ToolError("the option `readable` must be a list of absolute paths of existing folders")
        yield from ("--ro-bind", path, path)


def _user_files(user: str, *, network: bool) -> dict[str, str]:
    """Return the files of /etc that describe the present user, without the accounts of the host."""
    user_id, group_id = os.getuid(), os.getgid()
    nobody = "nobody:x:65534:65534:nobody:/:/bin/false\n" if user_id != 65534 else ""
    nogroup = "nogroup:x:65534:\n" if group_id != 65534 else ""
    files = {
        "/etc/passwd": f"{user}:x:{user_id}:{group_id}:{user}:/tmp:/bin/bash\n{nobody}",
        "/etc/group": f"{user}:x:{group_id}:\n{nogroup}",
    }
    return files if network else files | {"/etc/hosts": _HOSTS}


class _Covers:
    """The files that commands see in the place of secret ones: a comment, with the size and the time of the secret.

    A program that reads settings finds none there. git takes the file for unchanged, because it compares size and time
    first; with /dev/null, `git diff` failed ("unsupported file type") wherever a `.env` is under version control.
    """

    def __init__(self, resources: contextlib.ExitStack) -> None:
        self._resources = resources
        self._folder = ""
        self._count = 0

    def file_for(self, mask: Mask) -> str:
        """Return the path of a cover for `mask`; /dev/null if it covers no file, or a large one."""
        try:
            status = os.lstat(mask.path)
        except OSError:
            return os.devnull
        if not (mask.secret and stat.S_ISREG(status.st_mode) and status.st_size <= _COVER_BYTES):
            return os.devnull
        if not self._folder:
            self._folder = self._resources.enter_context(tempfile.TemporaryDirectory(prefix="toolwire-covers-"))
        self._count += 1
        path = f"{self._folder}/{self._count}"
        with open(path, "xb") as file:
            file.write((_COVER_TEXT + b"\n" * status.st_size)[: status.st_size])
        os.chmod(path, status.st_mode & 0o555)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        return path


def _git_files(workspace: Workspace) -> dict[str, str]:
    """Return git's settings, and attributes by which it does not show the content of secret files."""
    escaped = [name.replace("\\", "\\\\").replace('"', '\\"') for name in workspace.secret_names]
    hidden = [f'"{name}" -diff\n' for name in escaped] + [f"{name} !diff\n" for name in sorted(EXAMPLES)]
    return {"/etc/gitconfig": _GIT_CONFIG, "/etc/gitattributes": "".join(hidden)}


def _memory_file(text: str, resources: contextlib.ExitStack) -> int:
    """Return a descriptor from which `text` can be read."""
    fd = os.memfd_create("toolwire")
    resources.callback(os.close, fd)
    os.write(fd, os.fsencode(text))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _is_same(fd: int, path: str, **options: Any) -> bool:
    try:
        return os.path.samestat(os.stat(path, **options), os.fstat(fd))
    except OSError:
        return False


def _variables(extra: Any, home: str, user: str) -> dict[str, str]:
    defaults = {
        "PATH": PATH,
        "HOME": home,
        "USER": user,
        "LOGNAME": user,
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "TMPDIR": "/tmp",  # noqa: S108 - in the sandbox it is private; without one it is what it is
    }
    return defaults | _checked_variables({} if extra is None else extra) | {MARK: new_mark()}


def _checked_variables(extra: Any) -> dict[str, str]:
    if not isinstance(extra, Mapping):
        raise ToolError("the option `environment` must map names of variables to text")
    for name, value in extra.items():
        if not (isinstance(name, str) and isinstance(value, str)) or not name or "=" in name:
            raise ToolError("the option `environment` must map names of variables to text")
        if "\0" in name + value:
            raise ToolError("the option `environment` contains a NUL")
    return dict(extra)


def _current_user() -> tuple[str, str]:
    """Return the home folder and the name of the current user, or "/" and "user" if the system has no entry."""
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
    raise ToolError(f"bash is not installed here: none of {', '.join(_SHELLS)} exists")


@contextlib.contextmanager
def placeholders(workspace: Workspace) -> Iterator[None]:
    """Occupy the protected names that do not exist, during the `with` block."""
    names = [name for name in workspace.protected_names if "*" not in name and "/" not in name]
    with contextlib.ExitStack() as resources:
        for root, name in itertools.product(workspace.roots, names):
            if (fd := _occupy(root, name)) is not None:
                resources.callback(_release, root, name, fd)
        yield


def _occupy(root: Root, name: str) -> int | None:
    """Occupy a name with an empty folder, and lock that; return None if the name exists or cannot be created."""
    deadline = time.monotonic() + PATIENCE
    while not _is_occupied(root, name):
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, PLACEHOLDER, dir_fd=root.fd)
            if (fd := _lock_placeholder(root, name)) is not None:
                return fd
        except OSError:
            return None
        if time.monotonic() >= deadline:
            raise ToolError(f"another program makes and removes {escape_name(name)} in the project folder; try again")
        time.sleep(0.001)
    return None


def _lock_placeholder(root: Root, name: str) -> int | None:
    """Open and lock a placeholder, so that no other command removes it; return None if it is gone already."""
    try:
        fd = os.open(name, FOLDER | os.O_NOFOLLOW, dir_fd=root.fd)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        is_removed = not _is_placeholder(root, name, fd)
    except OSError as problem:  # on a file system without locks, the placeholder stays after the command
        is_removed = problem.errno not in UNLOCKABLE
    if is_removed:
        os.close(fd)
        return None
    return fd


def _is_placeholder(root: Root, name: str, fd: int) -> bool:
    return _is_same(fd, name, dir_fd=root.fd, follow_symlinks=False)


def _is_occupied(root: Root, name: str) -> bool:
    """Return True if `name` exists in `root` and is not a placeholder: a folder with the sticky bit."""
    try:
        mode = os.stat(name, dir_fd=root.fd, follow_symlinks=False).st_mode
    except OSError:
        return False
    return not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX)


def _release(root: Root, name: str, fd: int) -> None:
    """Remove a placeholder unless another command needs it; only an empty folder can be removed."""
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_placeholder(root, name, fd):
                os.rmdir(name, dir_fd=root.fd)
    finally:
        os.close(fd)
