"""Nothing of one task reaches the next, one beside it, or the process that they are forked from."""

import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import OrderedDict

import psutil
import pytest

from autograder.instructor.sandbox import (
    Case,
    Kernel,
    Sandbox,
    bubblewrap,
    has_call_filter,
    judge_in_sandbox,
    read_sandbox_environment,
    sandbox,
)
from autograder.instructor.sandbox import warm_process as warming
from autograder.instructor.sandbox.limit_watch import ProcessFamily
from autograder.sandboxed import TaskSettings

pytestmark = [
    pytest.mark.skipif(not has_call_filter(), reason="there is no bubblewrap here, or no filter"),
]

RUNS_CODE = """
import socket
from autograder.sandboxed import serve
secret = "of the process that forks"
serve(socket.socket(fileno=0), lambda arguments: exec(arguments[0], {}))
"""
EXPLORES = """
import ctypes, json, os, signal, socket, sys, time
def tried(do, *arguments):
    try:
        return do(*arguments)
    except OSError as error:
        return error.strerror
libc = ctypes.CDLL(None, use_errno=True)
def called(name, *arguments):
    done = getattr(libc, name)(*arguments)
    return os.strerror(ctypes.get_errno()) if done == -1 else "done"
def read(path, size=100):
    with open(path, "rb") as file:
        return str(file.read(size))
others = [int(n) for n in os.listdir("/proc") if n.isdigit()]
"""
REFUSED = "Operation not permitted"


@pytest.fixture(scope="module")
def server():
    """A process in the sandbox that forks for each piece of code."""
    variables = {**read_sandbox_environment(), "SECRET": "of the environment"}
    made = Sandbox().get_warm_server([sys.executable, "-P", "-s", "-c", RUNS_CODE], variables)
    if made is None:
        pytest.skip("this system has no namespaces within namespaces")
    yield made
    warming.SERVERS.forget(made)
    made.process.wait(timeout=30)


def run(server, code, timeout=60):
    return server.run([EXPLORES + textwrap.dedent(code)], b"", timeout)


def found(server, code):
    """Run a task, and return the JSON that it prints."""
    done = run(server, code)
    assert done.status == 0, done.stderr.decode()
    return json.loads(done.stdout)


@contextlib.contextmanager
def beside(server, code="pass"):
    """Run a task that ends when the block does; it has to be alive until then."""
    with contextlib.ExitStack() as stack:
        (theirs_in, ours_in), (ours_out, theirs_out) = os.pipe(), os.pipe()
        to_task = stack.enter_context(open(ours_in, "w"))
        from_task = stack.enter_context(open(ours_out))
        with open(theirs_in), open(theirs_out):
            code = f"{textwrap.dedent(code)}\nprint('begun', flush=True)\nprint(input())"
            task = server.start([EXPLORES + code], [theirs_in, theirs_out, theirs_out])
        stack.enter_context(contextlib.closing(task))
        assert from_task.readline() == "begun\n"
        yield
        print("still here", file=to_task, flush=True)
        assert from_task.read() == "still here\n"
        assert task.wait(60).status == 0


def test_a_task_has_no_rights_and_nothing_open(server):
    about = found(
        server,
        """
        lines = dict(line.split(":\\t") for line in open("/proc/self/status") if ":\\t" in line)
        known = ("CapEff", "CapPrm", "CapBnd", "CapInh", "NoNewPrivs", "Seccomp")
        about = {name: int(lines[name], 16) for name in known}
        print(json.dumps(about | {"open": os.listdir("/proc/self/fd"), "pid": os.getpid()}))
        """,
    )
    assert about.pop("open") == ["0", "1", "2", "3"], "the last is that of the list itself"
    assert about == {
        "CapEff": 0, "CapPrm": 0, "CapBnd": 0, "CapInh": 0, "NoNewPrivs": 1, "Seccomp": 2, "pid": 2,
    }  # fmt: skip


def test_a_task_sees_no_other_process(server):
    """Not the one that forks, not bubblewrap, not another task beside this one."""
    looks = """
        kinds = ("environ", "mem", "maps", "fd", "cwd", "root", "exe", "syscall", "stack", "fdinfo")
        me, seen = int(os.readlink("/proc/self")), []
        for path in [f"/proc/{other}/{kind}" for other in others if other != me for kind in kinds]:
            try:
                if path.endswith(("fd", "fdinfo")):
                    path = f"{path}/{os.listdir(path)[0]}"
                if path.endswith(("cwd", "root", "exe")) or "/fd/" in path:
                    os.readlink(path)
                elif path.endswith("mem"):
                    open(path, "r+b", 0)
                elif read(path) == "b''":
                    continue
                seen.append(path)
            except (OSError, IndexError):
                continue
        print(json.dumps([others, seen, os.listdir("/dev/pts")]))
    """
    with beside(server, "secret = 'beside'"):
        seen = found(server, looks)
    assert seen == [[1, 2], [], ["ptmx"]], "the first is its supervisor"


def test_a_task_reaches_no_other_process_by_signals(server):
    with beside(server):
        said = found(
            server,
            """
            said = {str(tried(os.kill, pid, 9)) for pid in range(3, 3000)}
            print(json.dumps([sorted(said), str(tried(os.kill, -1, 9)), str(tried(os.kill, 1, 9))]))
            """,
        )
    assert said == [["No such process"], "No such process", "None"], "the first one ignores it"
    assert server.process.poll() is None


def test_a_task_makes_no_sandbox_and_mounts_nothing(server):
    said = found(
        server,
        """
        new_user, new_mount = 0x1000_0000, 0x2_0000
        print(json.dumps({
            "unshare": called("unshare", new_user),
            "clone": called("syscall", 56 if os.uname().machine == "x86_64" else 220, new_user, 0),
            "mount": called("mount", None, b"/tmp", b"tmpfs", 0, None),
            "unmount": called("umount2", b"/tmp", 2),
            "ptrace": called("ptrace", 16, others[0], 0, 0),
            "settings": tried(open, "/proc/sys/user/max_user_namespaces", "w"),
            "more": tried(open, "/proc/sys/kernel/core_pattern", "w"),
            "package": tried(open, "/shardlings/autograder/__init__.py", "a"),
        }))
        """,
    )
    assert {said.pop(name) for name in ("settings", "more", "package")} <= {
        "Permission denied", "Read-only file system",
    }  # fmt: skip
    assert set(said.values()) == {REFUSED}


def test_nothing_that_a_task_leaves_is_found_by_the_next(server):
    leaves = """
        for folder in ("/tmp", "/dev/shm", os.environ["HOME"]):
            open(f"{folder}/left", "w").write("here")
        os.environ["LEFT"] = "here"
        import builtins
        builtins.left = "here"
        sys.modules["json"].left = "here"
        signal.setitimer(signal.ITIMER_REAL, 1)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        os.setpriority(os.PRIO_PROCESS, 0, 19)
        if os.fork() == 0:
            time.sleep(600)
        print(json.dumps(os.getcwd()))
    """
    home = found(server, leaves)
    looks = """
        import builtins
        left = [os.listdir(f) for f in ("/tmp", "/dev/shm", os.environ["HOME"], ".")]
        print(json.dumps([
            left, "LEFT" in os.environ, hasattr(builtins, "left"), hasattr(json, "left"),
            signal.getitimer(signal.ITIMER_REAL)[0], signal.getsignal(signal.SIGALRM) == 0,
            os.getpriority(os.PRIO_PROCESS, 0), os.getcwd(),
        ]))
    """
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert found(server, looks) == [[[]] * 4, False, False, False, 0, True, own, home]


def test_a_task_finds_no_socket_and_no_network_of_another(server):
    listens = """
        listener = socket.socket(socket.AF_UNIX)
        listener.bind("\\0here")
        listener.listen()
    """
    with beside(server, listens):
        said = found(
            server,
            """
            calls = tried(socket.socket(socket.AF_UNIX).connect, "\\0here")
            names = [name for _, name in socket.if_nameindex()]
            print(json.dumps([calls, "lo" in names, len(open("/proc/net/unix").readlines())]))
            """,
        )
    assert said == ["Connection refused", True, 1]


def test_how_a_task_ends_is_told(server):
    assert run(server, "sys.exit(7)").status == 7
    assert run(server, "os._exit(75)").status == 75
    raised = run(server, "raise ValueError('why')")
    assert (raised.status, b"ValueError: why" in raised.stderr) == (1, True)
    aborted = run(server, "os.abort()")
    assert aborted.status == -signal.SIGABRT
    spun = run(server, "began = time.process_time()\nwhile time.process_time() - began < 0.4: pass")
    assert 0.3 < spun.cpu_seconds < 0.9
    much = run(server, "while True: os.write(1, bytes(2**20))")
    assert much.status == 1
    assert b"File too large" in much.stderr


def running(mark):
    found = [p.info["cmdline"] or [] for p in psutil.process_iter(["cmdline"])]
    return [command for command in found if mark in command]


def wait_until(holds):
    """Wait half a minute at most."""
    deadline = time.monotonic() + 30
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert holds()


def test_a_task_whose_time_is_up_ends_with_all_that_it_started(server):
    mark = "314.159265"
    with pytest.raises(subprocess.TimeoutExpired):
        run(server, f"import subprocess\nsubprocess.run(['sleep', '{mark}'])", timeout=1)
    wait_until(lambda: not running(mark))
    assert run(server, "pass").status == 0


GRADES = f"""
import sys
from autograder.instructor.sandbox import Sandbox, read_sandbox_environment
command = [sys.executable, "-P", "-s", "-c", {RUNS_CODE!r}]
server = Sandbox().get_warm_server(command, read_sandbox_environment())
code = f"import subprocess; subprocess.run(['sleep', '{{sys.argv[1]}}'])"
server.run([code], b"", 600)
"""


HAS_NO_ROOM = """
import errno, os, socket
from autograder.sandboxed import serve
fork, server, asked = os.fork, os.getpid(), []
def fork_but_once():
    asked.append(os.getpid())
    if asked == [server, server]:
        raise BlockingIOError(errno.EAGAIN, "no room")
    return fork()
os.fork = fork_but_once
serve(socket.socket(fileno=0), lambda arguments: exec(arguments[0], {}))
"""


@pytest.mark.usefixtures("server")
def test_where_there_is_no_room_for_a_task_the_others_go_on():
    server = Sandbox().get_warm_server(
        [sys.executable, "-P", "-s", "-c", HAS_NO_ROOM], read_sandbox_environment()
    )
    assert server is not None
    with pytest.raises(OSError, match="has ended"):
        run(server, "pass")
    assert run(server, "print('done')").stdout == b"done\n"
    warming.SERVERS.forget(server)


STARTS_FEW = """
import socket
from autograder.sandboxed import fork_server
fork_server.MAX_STARTED_PROCESSES = 100
fork_server.serve(socket.socket(fileno=0), lambda arguments: exec(arguments[0], {}))
"""


@pytest.mark.usefixtures("server")
def test_who_starts_processes_without_end_is_ended_however_short_they_live():
    command = [sys.executable, "-P", "-s", "-c", STARTS_FEW]
    server = Sandbox().get_warm_server(command, read_sandbox_environment())
    assert server is not None
    few = run(server, "for _ in range(50): os.fork() or os._exit(0); os.wait()")
    assert few.status == 0
    with tempfile.TemporaryFile() as file:
        endless = textwrap.dedent("while True:\n    os.fork() or os._exit(0)\n    os.wait()")
        task = server.start([EXPLORES + endless], [file.fileno()] * 3)
        with contextlib.closing(task):
            deadline = time.monotonic() + 60
            while task.poll() is None and time.monotonic() < deadline:
                time.sleep(0.1)
            assert task.passed_limit.startswith("it started more than")
    warming.SERVERS.forget(server)


def test_where_too_many_files_are_on_their_way_it_is_tried_again(server, monkeypatch):
    """Linux counts those of a user together, and somebody else may have sent them."""
    send, failures = socket.send_fds, iter([errno.ETOOMANYREFS] * 3)

    def send_fds(*arguments):
        if number := next(failures, 0):
            raise OSError(number, os.strerror(number))
        return send(*arguments)

    monkeypatch.setattr(socket, "send_fds", send_fds)
    monkeypatch.setattr(warming, "SEND_PAUSE_SECONDS", 0)
    assert run(server, "print('done')").stdout == b"done\n"
    failures = iter([errno.ETOOMANYREFS] * 100)
    with pytest.raises(OSError, match="Too many references"):
        run(server, "print('done')")


def test_a_server_that_could_not_be_started_is_tried_again_after_a_while(monkeypatch):
    servers, setting = warming._Servers(), TaskSettings(b"", (), 0)
    starts = []

    def start(*_):
        starts.append(1)
        raise OSError

    monkeypatch.setattr(warming, "WarmProcess", start)
    for _ in range(2):
        assert servers.get(["false"], {}, setting) is None
    assert len(starts) == 1
    monkeypatch.setattr(warming, "RETRY_SECONDS", 0)
    servers.get(["false"], {}, setting)
    assert len(starts) == 2


def test_empty_files_count_too_and_terminals_are_few(server):
    made = found(
        server,
        """
        folders = (tried(os.mkdir, f"/tmp/{number}") for number in range(2**17))
        opened = [tried(os.openpty) for _ in range(20)]
        print(json.dumps([next(filter(None, folders)), sum(type(o) is tuple for o in opened)]))
        """,
    )
    assert made == ["No space left on device", 16]


@pytest.mark.usefixtures("server")
def test_all_of_it_dies_with_the_grading_process():
    mark = "271.828184"
    with subprocess.Popen([sys.executable, "-c", GRADES, mark]) as grading:
        try:
            wait_until(lambda: ["sleep", mark] in running(mark))
        finally:
            grading.kill()
    wait_until(lambda: not running(mark))


@pytest.mark.usefixtures("server")
def test_a_server_that_is_closed_lets_its_tasks_end():
    variables = {**read_sandbox_environment(), "OTHER": "server"}
    server = Sandbox().get_warm_server([sys.executable, "-P", "-s", "-c", RUNS_CODE], variables)
    assert server is not None
    with beside(server):
        warming.SERVERS.forget(server)
    server.process.wait(timeout=30)


def signal_servers(number):
    """Send a signal to the processes of all warm servers, and return the servers."""
    servers = list(warming.SERVERS.servers.values())
    for server in servers:
        for child in psutil.Process(server.process.pid).children(recursive=True):
            with contextlib.suppress(ProcessLookupError):  # it went with another one
                os.kill(child.pid, number)
    return servers


@pytest.mark.usefixtures("server")
def test_where_a_server_was_killed_another_one_judges(monkeypatch):
    monkeypatch.setattr(warming.SERVERS, "servers", OrderedDict())  # the others stay alive
    case = Case("1.1", {}, 0)
    (before,) = judge_in_sandbox([case])
    servers = signal_servers(signal.SIGKILL)
    for server in servers:
        server.process.wait(timeout=30)
    (after,) = judge_in_sandbox([case])
    assert after == before
    assert servers


@pytest.mark.usefixtures("server")
def test_a_server_that_hangs_is_killed_and_a_new_process_judges(monkeypatch):
    monkeypatch.setattr(warming.SERVERS, "servers", OrderedDict())  # the others stay alive
    monkeypatch.setattr(warming, "TASK_START_SECONDS", 1)
    case = Case("1.1", {}, 0)
    (before,) = judge_in_sandbox([case])
    (server,) = signal_servers(signal.SIGSTOP)
    assert server._task_start_seconds == 1, "only the first task may take longer"
    (after,) = judge_in_sandbox([case], seconds=10)
    assert after == before
    assert server.process.wait(timeout=30) == -signal.SIGKILL
    assert not warming.SERVERS.servers, "the next judge starts another server"


@pytest.mark.usefixtures("server")
def test_a_server_that_hangs_is_killed_and_a_new_process_runs_cells(monkeypatch):
    monkeypatch.setattr(warming.SERVERS, "servers", OrderedDict())  # the others stay alive
    monkeypatch.setattr(warming, "TASK_START_SECONDS", 1)
    with Kernel(Sandbox(), [], None):
        (server,) = signal_servers(signal.SIGSTOP)
    with Kernel(Sandbox(), [], None) as kernel:
        assert isinstance(kernel.process, ProcessFamily)
    assert server.process.wait(timeout=30) == -signal.SIGKILL
    assert server not in warming.SERVERS.servers.values(), "the next kernel starts another server"


@pytest.mark.usefixtures("server")
def test_a_task_sees_a_python_below_its_own_empty_folders(tmp_path, monkeypatch):
    """Python may be installed in /tmp, where each task has an empty folder of its own."""
    python = tmp_path / "python"
    python.mkdir()
    (python / "module.py").write_text("x = 1")
    (tmp_path / "somebody's").touch()
    folders = [*bubblewrap.list_visible_folders(), python]
    for module in (bubblewrap, sandbox):
        monkeypatch.setattr(module, "list_visible_folders", lambda: folders)
    server = Sandbox().get_warm_server(
        [sys.executable, "-P", "-s", "-c", RUNS_CODE], read_sandbox_environment()
    )
    assert server is not None
    said = found(
        server,
        f"""
        said = [
            read("{python}/module.py"), tried(open, "{python}/new", "w"),
            os.listdir("{tmp_path}"), os.listdir("/tmp"),
        ]
        print(json.dumps(said))
        """,
    )
    assert said == ["b'x = 1'", "Read-only file system", ["python"], [tmp_path.parts[2]]]
    warming.SERVERS.forget(server)


@pytest.mark.usefixtures("server")
def test_one_server_serves_all_assignments_and_each_task_sees_its_own_cache(tmp_path):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}-program").touch()
    code = """
        said = [
            os.listdir("/compiled"), os.listdir("/caches"), tried(open, "/compiled/new", "w"),
            tried(open, "/caches/new", "w"), called("umount2", b"/caches", 2),
            called("umount2", b"/compiled", 2),
        ]
        print(json.dumps(said))
    """
    refused = ["Read-only file system", "Read-only file system", REFUSED, REFUSED]
    servers = set()
    for name in ("first", "second", ""):
        made = Sandbox(compiled=str(tmp_path / (name or "no such cache")))
        server = made.get_warm_server(
            [sys.executable, "-P", "-s", "-c", RUNS_CODE],
            read_sandbox_environment(),
            cached=True,
        )
        assert server is not None
        servers.add(server)
        done = server.run([EXPLORES + textwrap.dedent(code)], b"", 60, made.find_task_cache())
        assert done.status == 0, done.stderr.decode()
        expected = [f"{name}-program"] if name else []
        assert json.loads(done.stdout)[:2] == [expected, []]
        assert json.loads(done.stdout)[2:] == refused
    (only,) = servers
    warming.SERVERS.forget(only)


def test_a_task_whose_supervisor_was_killed_has_no_status():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    with theirs:
        theirs.send(b"started")
    message = "the process that forks for each task has ended"
    with (
        contextlib.closing(warming.ForkedTask(ours, 1)) as task,
        pytest.raises(OSError, match=message),
    ):
        task.wait(1)


def test_without_namespaces_in_namespaces_there_is_no_server():
    setting = TaskSettings(b"", (), 0)
    assert warming._Servers().get(["false"], read_sandbox_environment(), setting) is None


def test_a_server_whose_tasks_cannot_enter_a_sandbox_is_not_used(monkeypatch):
    failed = warming.FinishedTask(1, b"", b"", 0.0)
    monkeypatch.setattr(warming.WarmProcess, "run", lambda *_: failed)
    setting = TaskSettings(b"", (), 0)
    assert warming._Servers().get(["cat"], read_sandbox_environment(), setting) is None


@pytest.mark.slow
def test_without_a_server_each_judge_is_a_process_of_its_own(monkeypatch):
    monkeypatch.setattr(Sandbox, "get_warm_server", lambda *_, **__: None)
    (verdict,) = judge_in_sandbox([Case("1.1", {}, 0)])
    assert verdict.diagnoses
