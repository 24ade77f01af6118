"""Submissions that take without end, or say what no kernel says: each harms itself alone.

One class, graded by plain `nbgrader autograde`. Every one of them answers 1.1 rightly.
"""

import socket
import textwrap
import threading
from pathlib import Path

import psutil
import pytest
from nbformat.v4 import new_code_cell

from autograder.instructor import walls
from autograder.instructor.authoring import answered
from tests.instructor.room import ASSIGNMENT, LAST, RIGHT, SHORT, Classroom

pytestmark = pytest.mark.skipif(not walls.works(), reason="there is no bubblewrap here")

LIMITS = """
c.Execute.timeout = 15
c.Sandbox.seconds = 60
c.Sandbox.processes = 24
c.Sandbox.memory = 5 * 2**30
"""
BEGIN = """
import glob, os, socket, subprocess, sys, time
kernel = get_ipython().kernel
session, parent = kernel.session, kernel.get_parent("shell")
def say(kind, content, buffers=()):
    session.send(kernel.iopub_socket, kind, content, parent=parent, buffers=list(buffers))
"""
SURVIVES = {
    "fills_other_places": """
        for place in ("/", "/dev", "/dev/shm", "/etc", "/home"):
            try:
                for number in range(30):
                    with open(f"{place}/{number}", "wb") as file:
                        for _ in range(20):
                            file.write(bytes(2**20))
                print("no end of", place)
            except OSError as error:
                print(error.strerror)
        for number in range(30):
            if os.path.exists(f"/dev/shm/{number}"):
                os.remove(f"/dev/shm/{number}")
    """,
    "writes_settings": """
        for folder, _, files in os.walk("/proc/sys"):
            for file in files:
                try:
                    open(f"{folder}/{file}", "r+").close()
                    print("may write", folder, file)
                except OSError:
                    pass
        print("tried")
    """,
    "nests_sandboxes": """
        mount = "mount -t tmpfs -o size=30g none /tmp && echo mounted"
        done = subprocess.run(["unshare", "-Urm", "sh", "-c", mount], capture_output=True)
        print(done.returncode != 0, done.stdout)
    """,
    "calls_the_kernel": """
        import ctypes
        numbers = {"x86_64": (250, 425, 323), "aarch64": (219, 425, 282)}[os.uname().machine]
        libc = ctypes.CDLL(None, use_errno=True)
        for number in numbers:
            done = libc.syscall(number, 0, 0, 0, 0, 0)
            print(os.strerror(ctypes.get_errno()) if done == -1 else "done")
        try:
            socket.socket(socket.AF_VSOCK)
        except OSError as error:
            print(error.strerror)
    """,
    "makes_memory_that_nobody_holds": """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        print(os.strerror(ctypes.get_errno()) if libc.shmget(0, 2**28, 0o600) == -1 else "done")
        try:
            os.memfd_create("x")
            print("done")
        except OSError as error:
            print(error.strerror)
    """,
    "looks_for_the_log": """
        opened = [os.path.realpath(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")]
        print([p for p in opened if p.startswith("/") and not p.startswith(("/proc", "/dev"))])
    """,
    "raises_a_long_error": """
        raise ValueError("x" * 10_000_000)
    """,
    "opens_a_widget": """
        state = {"state": {"_model_name": "x", "_model_module": "y"}, "buffer_paths": [["z"]]}
        comm = {"comm_id": "x", "target_name": "jupyter.widget", "data": state}
        say("comm_open", comm, [bytes(2**23)])
    """,
    "says_what_cannot_be_kept": """
        say("display_data", {"data": {"text/plain": "x"}, "metadata": {}, "transient": [1]})
        say("display_data", {"data": 5, "metadata": "none"})
        say("display_data", {})
        say("stream", {"name": 3, "text": ["a"]})
        say("error", {"traceback": 5})
        say("execute_result", {"data": {}, "metadata": {}, "execution_count": "many"})
        say("status", {"execution_state": ["idle"]})
        say("status", {})
        say("nonsense", {"a": 1})
        print("still here")
    """,
}
ENDED = {
    "hoards_nameless_memory": (
        """
        hoards = (
            "import mmap, time; held = mmap.mmap(-1, 2**29); held.write(bytes(2**29)); "
            "held.madvise(mmap.MADV_DONTNEED); time.sleep(20)"
        )
        held = [subprocess.Popen([sys.executable, "-c", hoards]) for _ in range(12)]
        time.sleep(20)
        """,
        "it held more than 5 GiB of memory",
    ),
    "fills_the_folder_of_sockets": (
        """
        place = glob.glob("ROOM/tmp/shardlings-*")[0]
        for number in range(1000):
            with open(f"{place}/{number}", "wb") as file:
                file.write(bytes(2**20))
            time.sleep(0.01)
        """,
        "it wrote into the folder that is for its sockets alone",
    ),
    "digs_into_the_folder_of_sockets": (
        """
        os.chdir(glob.glob("ROOM/tmp/shardlings-*")[0])
        for _ in range(3000):
            os.mkdir("d")
            os.chdir("d")
        os.chmod(".", 0)
        time.sleep(10)
        """,
        "it wrote into the folder that is for its sockets alone",
    ),
    "sends_the_grader_elsewhere": (
        """
        for path in glob.glob("ROOM/tmp/shardlings-*/socket-*"):
            os.rename(path, path + ".old")
            os.symlink("LISTENER", path)
        for number in os.listdir("/proc/self/fd"):
            try:  # to make it connect again
                held = socket.socket(fileno=os.dup(int(number)))
                if held.getsockname().endswith(("-3", "-5")):
                    held.shutdown(2)
            except (OSError, ValueError, AttributeError):
                pass
        """,
        "The kernel died before this check ran",
    ),
    "talks_in_many_parts": (
        """
        say("display_data", {"data": {}, "metadata": {}}, [bytes(2**23)] * 400)
        time.sleep(10)
        """,
        "to hear it out took more than 1 GiB of memory",
    ),
    "says_it_all_at_once": (
        """
        say("stream", {"name": "stdout", "text": "x" * 2**27})
        time.sleep(1)
        """,
        "a cell said more than 64 MB at once: print less",
    ),
}
SHORT_CELLS = "import subprocess, time\nsubprocess.Popen(['sleep', '600'])\ntime.sleep(0.3)"


class Listener:
    """A socket of the machine's, and how many have called."""

    def __init__(self, path):
        self.path, self.calls = path, 0
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(path))
        self.socket.listen()
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self):
        while True:
            try:
                self.socket.accept()[0].close()
            except OSError:
                return
            self.calls += 1


@pytest.fixture(scope="module")
def listener(tmp_path_factory):
    listener = Listener(Path(tmp_path_factory.mktemp("host")) / "socket")
    yield listener
    listener.socket.close()


@pytest.fixture(scope="module")
def room(tmp_path_factory, listener):
    room = Classroom.at(tmp_path_factory.mktemp("course"), until=LAST)
    config = room.root / "nbgrader_config.py"
    config.write_text(config.read_text() + LIMITS)
    room.nbgrader("generate_assignment", ASSIGNMENT, "--force")
    for name, code in SURVIVES.items():
        room.hand_in(name, {"1.1": RIGHT["1.1"]}, first=BEGIN + textwrap.dedent(code))
    for name, (code, _) in ENDED.items():
        attack = code.replace("LISTENER", str(listener.path)).replace("ROOM", str(room.root))
        room.hand_in(name, {"1.1": RIGHT["1.1"]}, first=BEGIN + textwrap.dedent(attack))
    many = answered(room.released(), {"1.1": RIGHT["1.1"]})
    many.cells[2:2] = [new_code_cell(SHORT_CELLS) for _ in range(40)]
    room.hand_in_notebook("many_short_cells", many)
    beside = room.hand_in("brings_files", RIGHT, first="import helpers\nprint(helpers.HELP)").parent
    for module in ("random", "json", "ipykernel_launcher", "autograder", "sitecustomize"):
        (beside / f"{module}.py").write_text("raise SystemExit('in the way')")
    (beside / "helpers.py").write_text("HELP = 'helped'")
    start_up = beside / ".ipython" / "profile_default" / "startup"
    start_up.mkdir(parents=True)
    (start_up / "00.py").write_text("import time\ntime.sleep(600)")
    room.hand_in("zz_next", RIGHT)
    before = psutil.virtual_memory().shared
    room.nbgrader("autograde", ASSIGNMENT, "--create")
    assert psutil.virtual_memory().shared - before < 2**26, "memory is left behind"
    return room


HONEST = {**dict.fromkeys(SHORT, 0), "1.1": 1}


@pytest.mark.parametrize("name", SURVIVES)
def test_who_survives_earns_what_the_answer_earns(room, name):
    assert room.scores()[name] == HONEST


@pytest.mark.parametrize("name", ENDED)
def test_who_takes_too_much_is_ended_and_told_why(room, name):
    assert room.scores()[name] == dict.fromkeys(SHORT, 0)
    assert ENDED[name][1] in room.verdicts(name)["ex-1-1-check"]


def test_short_cells_are_watched_too(room):
    assert room.scores()["many_short_cells"] == dict.fromkeys(SHORT, 0)
    said = room.verdicts("many_short_cells")["ex-1-1-check"]
    assert "it started more than 24 processes" in said


def test_the_next_is_graded_as_alone(room):
    assert room.scores()["zz_next"] == SHORT


def test_files_beside_the_notebook_can_be_used_and_are_in_nobodys_way(room):
    assert room.printed("brings_files") == "helped\n"
    assert room.scores()["brings_files"] == SHORT


def test_what_they_found(room, listener):
    full, read_only = "No space left on device", "Read-only file system"
    said = [read_only, read_only, full, read_only, read_only]
    assert room.printed("fills_other_places").splitlines() == said
    assert room.printed("writes_settings") == "tried\n"
    assert room.printed("nests_sandboxes") == "True b''\n"
    assert room.printed("looks_for_the_log") == "[]\n"
    refused, absent = "Operation not permitted", "Function not implemented"
    if walls.filters():
        said = room.printed("calls_the_kernel").splitlines()
        assert said == [refused, absent, refused, refused]
        said = room.printed("makes_memory_that_nobody_holds").splitlines()
        assert said == [absent, absent]
    assert room.printed("says_what_cannot_be_kept") == "still here\n"
    assert listener.calls == 0
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(listener.path))  # it does listen


def test_nothing_is_left_to_slow_the_next(room):
    assert not list((room.root / "tmp").glob("*"))
    running = [" ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])]
    assert not [command for command in running if str(room.root) in command]
    graded = (room.root / "grading" / "autograded").rglob("*.ipynb")
    assert all(path.stat().st_size < 500_000 for path in graded)
