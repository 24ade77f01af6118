"""Submissions that take without end, or say what no kernel says: each harms itself alone.

One class, graded by plain `nbgrader autograde`. Every one of them answers 1.1 rightly.
"""

import textwrap
import time

import psutil
import pytest
from nbformat.v4 import new_code_cell

from autograder.instructor.authoring import fill_in_answers
from autograder.instructor.sandbox import has_call_filter
from autograder.instructor.sandbox.warm_process import SERVERS
from tests.instructor.room import ASSIGNMENT, LAST, RIGHT, SHORT, Classroom

pytestmark = [pytest.mark.bubblewrap, pytest.mark.slow]

LIMITS = """
c.Execute.timeout = 40
c.Sandbox.seconds = 60
c.Sandbox.processes = 24
c.Sandbox.memory = 5 * 2**30
"""
BEGIN = """
import json, os, socket, subprocess, sys, time
channel = get_ipython().channel._file
def send(data):
    while data:
        data = data[os.write(channel, data):]
def say(kind, **content):
    send(json.dumps({"type": kind, **content}).encode() + bytes([10]))
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
        import mmap
        libc = ctypes.CDLL(None, use_errno=True)
        print(os.strerror(ctypes.get_errno()) if libc.shmget(0, 2**28, 0o600) == -1 else "done")
        print(os.strerror(ctypes.get_errno()) if libc.semget(0, 32000, 0o600) == -1 else "done")
        for make in (lambda: os.memfd_create("x"), lambda: mmap.mmap(-1, 4096)):
            try:
                make()
                print("done")
            except OSError as error:
                print(error.strerror)
    """,
    "looks_for_the_log": """
        opened = [os.path.realpath(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")]
        own = ("/proc", "/dev", "/tmp/#")  # the last: files without a name, for what is printed
        print([p for p in opened if p.startswith("/") and not p.startswith(own)])
    """,
    "raises_a_long_error": """
        raise ValueError("x" * 30_000_000)
    """,
    "says_it_all_at_once": """
        say("Stream", name="stdout", text="x" * 2**27)
        print("y" * 2**25, end="")
        print("still here")
    """,
    "says_what_cannot_be_kept": """
        say("Display", data={"text/plain": "x"}, name=[1])
        say("Display", data=5)
        say("Display")
        say("Stream", name="stdin", text="a")
        say("Stream", name="stdout", text=["a"])
        say("Error", ename="x", evalue="y", traceback=5)
        say("Result", data={}, execution_count="many")
        say("Done", number="none")
        say("Done", number=10**9)
        say("Ready")
        say("Nonsense", a=1)
        send(b"{" * 10_000 + bytes([10]) * 10_000 + bytes(1000) + bytes([255]) * 1000 + bytes([10]))
        print("still here")
    """,
}
ENDED = {
    "hoards_memory_in_many_processes": (
        """
        hoards = "import time; held = b'x' * (3 * 2**29); time.sleep(40)"
        held = [subprocess.Popen([sys.executable, "-IS", "-c", hoards]) for _ in range(4)]
        time.sleep(40)
        """,
        "it held more than 5 GiB of memory",
    ),
}
SHORT_CELLS = "import subprocess, time\nsubprocess.Popen(['sleep', '600'])\ntime.sleep(0.3)"


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    room = Classroom.at(tmp_path_factory.mktemp("course"), until=LAST)
    config = room.root / "nbgrader_config.py"
    config.write_text(config.read_text() + LIMITS)
    room.nbgrader("generate_assignment", ASSIGNMENT, "--force")
    for name, code in SURVIVES.items():
        room.hand_in(name, {"1.1": RIGHT["1.1"]}, first=BEGIN + textwrap.dedent(code))
    for name, (code, _) in ENDED.items():
        room.hand_in(name, {"1.1": RIGHT["1.1"]}, first=BEGIN + textwrap.dedent(code))
    many = fill_in_answers(room.released(), {"1.1": RIGHT["1.1"]})
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
    room.run("nbgrader", "autograde", ASSIGNMENT, "--create")
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


def test_what_they_found(room):
    full, read_only = "No space left on device", "Read-only file system"
    said = [read_only, read_only, full, read_only, read_only]
    assert room.printed("fills_other_places").splitlines() == said
    assert room.printed("writes_settings") == "tried\n"
    assert room.printed("nests_sandboxes") == "True b''\n"
    assert room.printed("looks_for_the_log") == "[]\n"
    refused, absent = "Operation not permitted", "Function not implemented"
    if has_call_filter():
        said = room.printed("calls_the_kernel").splitlines()
        assert said == [refused, absent, refused, refused]
        said = room.printed("makes_memory_that_nobody_holds").splitlines()
        assert said == [absent, refused, absent, refused]
    assert room.printed("says_what_cannot_be_kept") == "still here\n"
    assert room.printed("says_it_all_at_once") == "still here\n"


def commands_that_name(folder):
    """The commands of all processes whose arguments name a folder."""
    running = [" ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])]
    return [command for command in running if folder in command]


def test_nothing_is_left_to_slow_the_next(room):
    assert not list((room.root / "tmp").glob("*"))
    SERVERS.close()  # those of this process, which calibrated
    until = time.monotonic() + 30
    while (left := commands_that_name(str(room.root))) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left
    graded = (room.root / "grading" / "autograded").rglob("*.ipynb")
    assert all(path.stat().st_size < 500_000 for path in graded)
