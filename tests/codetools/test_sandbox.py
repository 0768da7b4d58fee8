"""Groups A and C of the cases: what a command in the sandbox cannot see, reach, change or use up."""

import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.codetools.commands import names_in, run, said, tools_at
from toolwire.codetools import CodeTools, sandbox
from toolwire.codetools.masks import Mask, masks_of
from toolwire.codetools.paths import Workspace
from toolwire.codetools.processes import FILE_SIZE, MEMORY
from toolwire.codetools.sandbox import PLACEHOLDER, placeholders
from toolwire.types import ToolCall

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="commands run on Linux only"),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with what is to be kept from commands, and something beside it."""
    folder = tmp_path / "project"
    (folder / ".git" / "hooks").mkdir(parents=True)
    (folder / ".git" / "config").write_text("[core]\n")
    (folder / "web" / "app").mkdir(parents=True)
    for path in (".env", "web/.env", "web/app/.env.local", "web/.env.example"):
        (folder / path).write_text("PASSWORD=sentinel\n")
    (tmp_path / "beside").write_text("sentinel\n")
    return folder


@pytest.mark.row("C13")
def test_outside_nothing_is_written(project: Path) -> None:
    paths = ["/etc/new", "/usr/new", "/new", "/dev/new", "/var/log/new", "/run/new"]
    made = said(tools_at(project), f"for path in {' '.join(paths)}; do touch $path && echo made; done 2>&1; :")
    assert "made" not in made
    assert made.count("\n") == len(paths) - 1
    assert [path for path in paths if os.path.lexists(path)] == []


@pytest.mark.parametrize(
    "path", ["sys/kernel/core_pattern", "sys/kernel/hostname", "self/oom_score_adj", "sysrq-trigger"]
)
@pytest.mark.row("C13")
def test_settings_of_the_machine_cannot_be_opened_to_write(project: Path, path: str) -> None:
    if not Path("/proc", path).exists():
        pytest.skip(f"there is no /proc/{path} on this machine")
    # It is opened and not written, so that nothing is changed should the sandbox fail.
    assert run(tools_at(project), f": >> /proc/{path}").is_error


@pytest.mark.skipif(os.getuid() == 0, reason="root owns the devices of the machine, in the sandbox as well")
@pytest.mark.parametrize("name", ["null", "zero", "full", "random", "urandom", "tty"])
@pytest.mark.row("C13")
def test_devices_of_the_machine_keep_their_modes(project: Path, name: str) -> None:
    mode = f"{Path('/dev', name).stat().st_mode & 0o777:o}"  # it is set to what it is
    assert run(tools_at(project), f"chmod {mode} /dev/{name}").is_error


def test_devices_work(project: Path) -> None:
    assert said(tools_at(project), "echo x > /dev/null && head -c 3 /dev/urandom | wc -c") == "3"


def test_the_error_says_where_it_can_be_written(project: Path) -> None:
    assert "[in the sandbox only the project folder" in str(run(tools_at(project), "echo x > /usr/x").content)


@pytest.mark.row("C13")
def test_what_is_beside_stays(project: Path) -> None:
    run(tools_at(project), "echo x > ../beside; rm -f ../beside")
    assert (project.parent / "beside").read_text() == "sentinel\n"


@pytest.mark.row("C13")
def test_what_is_its_own_goes_with_it(project: Path) -> None:
    tools = tools_at(project)
    name = f"own-{os.getpid()}"
    listed = said(tools, f"cd; echo x > ~/.bashrc; echo x > $TMPDIR/{name}; echo x > /dev/shm/{name}; ls -A ~ /dev/shm")
    assert {".bashrc", name} <= set(listed.split())
    assert name not in said(tools, "ls -A ~ /dev/shm")
    assert not Path("/tmp", name).exists()  # noqa: S108 - it is looked for
    assert not Path("/dev/shm", name).exists()  # noqa: S108 - it is looked for


@pytest.mark.row("C13")
def test_the_rest_of_the_host_is_not_there(project: Path) -> None:
    paths = "/root /home /var/log /run/systemd /etc/shadow /etc/ssl/private /sys /boot /mnt /srv"
    assert said(tools_at(project), f"ls -d {paths} 2>/dev/null || :") == "(no output)"


def test_the_accounts_of_the_host_are_not_told(project: Path) -> None:
    lines = said(tools_at(project), "cat /etc/passwd; whoami").splitlines()
    assert len(lines) == 3
    assert lines[-1] == ("root" if os.getuid() == 0 else "user")


@pytest.mark.parametrize(
    "command",
    [
        "echo x > .git/hooks/pre-commit",
        "echo x >> .git/config",
        "rm -rf .git; mkdir .git && touch .git/config",
        "mv .git other && mkdir .git && touch .git/x",
        "git init . 2>/dev/null; git config core.pager evil",
        'python3 -c \'import os; os.rename(".git", "x")\'',
    ],
)
@pytest.mark.row("A23", "C13")
def test_what_is_protected_stays(project: Path, command: str) -> None:
    if "python3" in command and not Path("/usr/bin/python3").exists():
        pytest.skip("there is no /usr/bin/python3 on this machine")
    run(tools_at(project), command)
    assert sorted(path.name for path in (project / ".git").iterdir()) == ["config", "hooks"]
    assert (project / ".git" / "config").read_text() == "[core]\n"
    assert list((project / ".git" / "hooks").iterdir()) == []


@pytest.mark.row("A23")
def test_what_is_protected_cannot_be_made_where_it_is_missing(tmp_path: Path) -> None:
    tools = tools_at(tmp_path)
    assert run(tools, "rmdir .git; mkdir -p .git/hooks && echo x > .git/hooks/pre-commit").is_error
    assert run(tools, "mv .git away; mkdir .git && touch .git/x").is_error
    assert names_in(tmp_path) == [], "the empty folder that stands for it is gone too"


@pytest.mark.row("A23")
def test_without_protection_it_can_be_made(tmp_path: Path) -> None:  # the control
    said(tools_at(tmp_path, protected=()), "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit")
    assert (tmp_path / ".git" / "hooks" / "pre-commit").exists()


def test_a_placeholder_of_a_crash_is_taken_away(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir(PLACEHOLDER)
    said(tools_at(tmp_path), ":")
    assert names_in(tmp_path) == []


def test_a_placeholder_stays_as_long_as_somebody_needs_it(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    with placeholders(workspace):
        with placeholders(workspace):
            assert names_in(tmp_path) == [".git"]
        assert names_in(tmp_path) == [".git"]
    assert names_in(tmp_path) == []


def test_files_are_changed_beside_a_command_that_runs(tmp_path: Path) -> None:
    tools = tools_at(tmp_path)
    edit = ToolCall("2", "write_file", {"path": "a.txt", "content": "x"})
    with placeholders(tools.workspace):
        begun = time.monotonic()
        assert not tools.resolve(edit).is_error
        assert time.monotonic() - begun < 5
    assert names_in(tmp_path) == ["a.txt"]


def test_many_that_come_and_go_have_the_placeholder_as_long_as_they_need_it(tmp_path: Path) -> None:
    def one(_number: int) -> bool:
        with placeholders(Workspace(tmp_path)):
            return names_in(tmp_path) == [".git"]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(400)))
    assert names_in(tmp_path) == []


def test_what_is_refused_leaves_nothing_open(project: Path) -> None:
    tools = tools_at(project, readable=["/nosuch"])
    assert "existing folders" in str(run(tools, "ls").content)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        assert run(tools, "ls").is_error
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_folder_that_is_no_placeholder_stays(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    said(tools_at(tmp_path), ":")
    assert names_in(tmp_path) == [".git"]


@pytest.mark.row("A24", "C9")
def test_secrets_are_covered(project: Path) -> None:
    tools = tools_at(project)
    said(tools, "cat .env web/.env web/app/.env.local 2>/dev/null; mv .env x; cp .env y; rm .env; exit 0")
    assert "sentinel" not in said(tools, "grep -r sentinel --exclude=.env.example . ; cat x y; exit 0")
    assert said(tools, "cat web/.env.example") == "PASSWORD=sentinel"
    assert (project / ".env").read_text() == "PASSWORD=sentinel\n"


def test_a_secret_folder_is_covered(tmp_path: Path) -> None:
    (tmp_path / ".env").mkdir()
    (tmp_path / ".env" / "key").write_text("sentinel")
    assert "sentinel" not in str(run(tools_at(tmp_path), "cat .env/key; ls .env; echo x > .env/key").content)
    assert (tmp_path / ".env" / "key").read_text() == "sentinel"


def test_a_mask_that_is_not_in_force_is_noticed(project: Path) -> None:
    masks = masks_of(Workspace(project))
    assert [mask.is_in_force("") for mask in masks] == [False] * len(masks), "nothing is mounted out here"
    assert not Mask(str(project / "nothing"), True, False, (0, 0)).is_in_force("")
    assert Mask(str(project / ".toolwire-x"), False, False, (0, 0)).is_in_force(""), "ours come and go"


@pytest.mark.row("A8")
def test_a_folder_that_is_swapped_is_noticed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tools_at(project)
    monkeypatch.setattr(sandbox, "real_path", lambda _root: str(project / "web"))
    result = run(tools, "ls")
    assert result.is_error
    assert "was replaced meanwhile" in str(result.content)


def test_further_folders(project: Path, tmp_path: Path) -> None:
    for name in ("root", "readable"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(f"{name}\n")
    tools = tools_at(project, roots=[tmp_path / "root"], readable=[tmp_path / "readable"])
    assert said(tools, "cat ../root/file ../readable/file; echo x > ../root/new") == "root\nreadable"
    assert (tmp_path / "root" / "new").exists()
    assert run(tools, "echo x > ../readable/new").is_error


@pytest.mark.parametrize("given", ["/usr", ["relative"], ["/"], ["/nosuch"], 1])
def test_what_cannot_be_made_readable(project: Path, given: object) -> None:
    result = run(tools_at(project, readable=given), ":")
    assert "`readable` must be" in str(result.content)


def test_the_whole_disk_is_no_project() -> None:
    assert "the project folder is /" in str(run(tools_at("/"), ":").content)


@pytest.mark.row("C9")
def test_other_processes_are_not_seen(project: Path) -> None:
    command = "cat /proc/*/environ /proc/$PPID/environ | tr '\\0' '\\n'; ls -d /proc/[0-9]*; cat /proc/*/cmdline"
    text = str(run(tools_at(project, environment={"WANTED": "1"}), command).content)
    assert len([line for line in text.splitlines() if line.startswith("/proc/")]) <= 5
    assert text.count("WANTED=1") >= 2, "its own are there, so the search would find others"


REACHING = {
    "bash": "exec 3<>/dev/tcp/127.0.0.1/{port}",
    "bash udp": "echo x > /dev/udp/8.8.8.8/53",
    "curl": "curl -sS -m 2 http://127.0.0.1:{port}/",
    "wget": "wget -q -T 2 -t 1 -O- http://127.0.0.1:{port}/",
    "nc": "nc -w 2 127.0.0.1 {port}",
    "ssh": "ssh -o BatchMode=yes -o ConnectTimeout=2 -p {port} 127.0.0.1 true",
    "ping": "ping -c 1 -W 1 8.8.8.8",
    "getent": "getent hosts example.com",
    "python3": "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 2)'",
    "python3 abstract": "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"\\0{name}\")'",
    "python3 path": "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{path}\")'",
}


@pytest.mark.parametrize("way", REACHING)
@pytest.mark.row("C14")
def test_there_is_no_network(project: Path, way: str) -> None:
    program, *_ = way.split()
    if program != "bash" and not shutil.which(program, path="/usr/bin:/bin"):
        pytest.skip(f"there is no {program} on this machine")
    name, path = f"toolwire-{os.getpid()}", project.parent / "socket"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0{name}")
        abstract.listen()
        with socket.socket(socket.AF_UNIX) as there:
            there.bind(str(path))
            there.listen()
            command = REACHING[way].format(port=server.getsockname()[1], name=name, path=path)
            assert run(tools_at(project), command).is_error
            for each in (server, abstract, there):
                each.settimeout(0.01)
                with pytest.raises(TimeoutError):
                    each.accept()


@pytest.mark.parametrize("way", ["bash", "python3 abstract"])
@pytest.mark.row("C14")
def test_with_the_network_it_is_reached(project: Path, way: str) -> None:  # the control
    if way != "bash" and not Path("/usr/bin/python3").exists():
        pytest.skip("there is no /usr/bin/python3 on this machine")
    name = f"toolwire-on-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0{name}")
        abstract.listen()
        said(tools_at(project, network=True), REACHING[way].format(port=server.getsockname()[1], name=name))


KINDS = {"stream": socket.SOCK_STREAM, "datagram": socket.SOCK_DGRAM, "packets": socket.SOCK_SEQPACKET}
# Say "here" to each socket that can be reached, by each kind and by each name, also after the folder was moved.
REACH = """
import os, socket
def names():
    return [os.path.join(at, one) for at, _, files in os.walk(".") for one in files]
def reach():
    for name in names():
        folder = os.open(os.path.dirname(name), os.O_PATH)
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
            try:
                with socket.socket(socket.AF_UNIX, kind) as one:
                    os.fchdir(folder)
                    one.connect(os.path.basename(name))
                    one.send(b"here")
                    print("reached", name)
            except OSError:
                pass
            finally:
                os.fchdir(top)
top = os.open(".", os.O_PATH)
reach()
os.rename("deep", "moved")
reach()
"""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.row("C14")
def test_a_socket_in_the_project_is_not_reached(project: Path, kind: str) -> None:
    if not Path("/usr/bin/python3").exists():
        pytest.skip("there is no /usr/bin/python3 on this machine")
    folder = project / "deep" / ("d" * 120)
    folder.mkdir(parents=True)
    (project / "reach.py").write_text(REACH)
    here = os.open(folder, os.O_PATH)
    with socket.socket(socket.AF_UNIX, KINDS[kind]) as there:
        there.bind(f"/proc/self/fd/{here}/there")
        os.link(folder / "there", project / "again")
        if kind != "datagram":
            there.listen()
        assert said(tools_at(project), "python3 reach.py") == "(no output)"
        there.settimeout(0.01)
        with pytest.raises(TimeoutError):
            there.recv(10) if kind == "datagram" else there.accept()
        (project / "moved").rename(project / "deep")
        assert "reached" in said(tools_at(project, network=True), "python3 reach.py")
    os.close(here)


def test_a_socket_on_which_nobody_listens_is_a_file_as_others(project: Path) -> None:
    for name in ("left", "bound"):
        with socket.socket(socket.AF_UNIX) as there:
            there.bind(str(project / name))
    assert said(tools_at(project), "rm left bound && ls") != ""
    assert not (project / "left").exists()


def test_a_command_has_sockets_of_its_own_in_the_project(project: Path) -> None:
    if not Path("/usr/bin/python3").exists():
        pytest.skip("there is no /usr/bin/python3 on this machine")
    code = "import socket as s; a = s.socket(s.AF_UNIX); a.bind('own'); a.listen(); s.socket(s.AF_UNIX).connect('own')"
    for _ in range(2):
        assert said(tools_at(project), f'rm -f own; python3 -c "{code}" && echo 1') == "1"


def test_localhost_is_its_own(project: Path) -> None:
    if not Path("/usr/bin/python3").exists():
        pytest.skip("there is no /usr/bin/python3 on this machine")
    code = "import socket as s; a = s.create_server(('localhost', 0)); s.create_connection(a.getsockname())"
    assert said(tools_at(project), f'python3 -c "{code}" && echo 1') == "1"


@pytest.mark.parametrize(
    ("command", "sign"),
    [
        ("head -c 3M /dev/zero > $TMPDIR/x", "No space left"),
        (f"dd if=/dev/zero of=big bs=1 count=1 seek={FILE_SIZE + 1}", "File too large|exceeded|SIGXFSZ"),
        (
            f'ulimit -d unlimited; python3 -c "bytearray({MEMORY + (1 << 30)})"',
            "MemoryError|cannot modify limit",
        ),
        ("ulimit -c", "^0$"),
    ],
    ids=["disk in /tmp", "a file", "memory", "core"],
)
@pytest.mark.row("C15")
def test_bounds(project: Path, command: str, sign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "TMP_BYTES", 1 << 20)

    if "python3" in command and not Path("/usr/bin/python3").exists():
        pytest.skip("there is no /usr/bin/python3 on this machine")
    assert re.search(sign, str(run(tools_at(project), command, timeout=30).content), re.MULTILINE)


@pytest.mark.row("C15")
def test_too_many_processes_are_ended(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolwire.codetools.processes.MOST_PROCESSES", 20)
    result = run(tools_at(project), "for n in {1..40}; do sleep 100 & done; wait")
    assert "started too many processes" in str(result.content)


@pytest.mark.row("C15")
def test_too_much_memory_is_ended(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolwire.codetools.processes.MEMORY", 30 << 20)
    monkeypatch.setattr("toolwire.codetools.processes.LIMITS", {})
    result = run(tools_at(project), 'x=$(head -c 60M /dev/zero | tr "\\0" x); sleep 100')
    assert "too much memory" in str(result.content)


@pytest.mark.parametrize("level", ["auto", "bubblewrap"])
@pytest.mark.row("C16")
def test_without_bubblewrap_no_command_runs(project: Path, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "PLACES", ("/nosuch/bwrap",))
    tools = CodeTools(project, sandbox=level)
    result = run(tools, "touch ran")
    assert result.is_error
    assert "package bubblewrap" in str(result.content)
    assert 'sandbox="none"' in str(result.content)
    assert tools.sandbox == "refused"
    assert not (project / "ran").exists()


@pytest.mark.parametrize(
    ("says", "advice"),
    [
        ("setting up uid map: Permission denied", "AppArmor"),
        ("No permissions to create new namespace", "max_user_namespaces"),
        ("Can't mount proc on /newroot/proc: Operation not permitted", "systempaths=unconfined"),
        ("Unknown option --perms", "too old"),
        ("", "it ended immediately"),
    ],
)
@pytest.mark.row("C16")
def test_a_sandbox_that_cannot_be_made_is_said(
    project: Path, tmp_path: Path, says: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bwrap"
    program.write_text(f'#!/bin/sh\n[ -z "{says}" ] || echo "bwrap: {says}" >&2\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setattr(sandbox, "PLACES", (str(program),))
    tools = CodeTools(project)
    result = run(tools, "touch ran")
    assert result.is_error
    assert advice in str(result.content)
    assert tools.sandbox == "refused"
    assert not (project / "ran").exists()


def test_a_sandbox_that_failed_once_is_tried_again(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tools_at(project)
    program = tmp_path / "bwrap"
    program.write_text(f'#!/bin/sh\n[ -e {tmp_path}/broken ] && exit 1\nexec {sandbox.bubblewrap()} "$@"\n')
    program.chmod(0o755)
    (tmp_path / "broken").touch()
    monkeypatch.setattr(sandbox, "PLACES", (str(program),))
    assert tools.sandbox == "refused"
    (tmp_path / "broken").unlink()
    assert tools.sandbox == "bubblewrap"


@pytest.mark.row("C17")
def test_options_count_as_they_are_now(project: Path) -> None:
    tools = tools_at(project)
    assert tools.sandbox == "bubblewrap"
    tools.desk.options["sandbox"] = "none"
    assert tools.sandbox == "none"
    assert said(tools, f"cat {project.parent}/beside") == "sentinel"
    tools.desk.options["sandbox"] = "maybe"
    assert "must be one of" in str(run(tools, "ls").content)


@pytest.mark.row("C10")
def test_nothing_of_the_host_is_open(project: Path) -> None:
    fd = os.open(project.parent, os.O_RDONLY)
    os.set_inheritable(fd, True)
    listed = said(tools_at(project), "ls /proc/$$/fd /proc/1/fd; true").split()
    os.close(fd)
    assert {int(name) for name in listed if name.isdigit()} <= {0, 1, 2, 3, 10, 11, 12, 13}
    assert stat.S_ISDIR(project.stat().st_mode)
    text = said(tools_at(project), "ls -l /proc/$$/fd /proc/1/fd; true")
    targets = {line.split(" -> ")[1].split(":")[0] for line in text.splitlines() if " -> " in line}
    assert targets == {"/dev/null", "pipe"}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with secret files under version control, as frameworks create them."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    for name in (".env", ".env.local", "web/.env.test", "web/.env.example"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("PASSWORD=sentinel\n")
    (tmp_path / "a.py").write_text("print(1)\n")
    a_while_ago = time.time() - 60
    for path in tmp_path.rglob("*"):
        os.utime(path, (a_while_ago, a_while_ago))
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-f", "."], [*identity, "commit", "-qm", "first"]):
        subprocess.run([git, "-C", str(tmp_path), *words], check=True, capture_output=True)
    return tmp_path


def test_git_shows_what_changed_and_not_that_secret_files_are_covered(repository: Path) -> None:
    (repository / "a.py").write_text("print(2)\n")
    tools = tools_at(repository)
    assert said(tools, "git status --short") == " M a.py"
    diff = said(tools, "git diff")
    assert "+print(2)" in diff
    assert ".env" not in diff
    assert said(tools, "git stash list; git log --oneline | wc -l") == "1"


def test_a_covered_file_that_did_change_is_named_and_not_shown(repository: Path) -> None:
    (repository / ".env").write_text("PASSWORD=sentinel\nOTHER=sentinel\n")
    tools = tools_at(repository)
    assert "[the sandbox covers .env, because it may contain secrets: git may report" in said(tools, "git status")
    diff = said(tools, "git diff; git log -p -1")
    assert "Binary files a/.env and b/.env differ" in diff
    assert diff.count("sentinel") == 1, "only the example"


def test_a_file_as_old_as_the_index_does_not_stop_git(repository: Path) -> None:
    (repository / "a.py").write_text("print(2)\n")
    index = repository / ".git" / "index"
    os.utime(index, ns=(0, (repository / ".env").stat().st_mtime_ns))  # git then compares contents
    tools = tools_at(repository)
    diff = said(tools, "git diff")
    assert "+print(2)" in diff
    assert "PASSWORD" not in diff.replace("web/.env.example", "")
    assert "[the sandbox covers .env" in diff


def test_a_covered_file_reads_as_settings_without_any(project: Path) -> None:
    shown = said(tools_at(project), "cat .env; . ./.env; echo ${PASSWORD:-none}; wc -c < .env")
    assert shown.startswith("# The sandbox co")
    assert shown.endswith("none\n18")
