"""Attacks by submitted code earn what the honest answer earns, and harm nobody.

One class, graded by four workers at once. Every attacker answers 1.1 rightly, and attacks before
that; one neighbour is graded beside the first of them, and another one after most.
"""

import io
import os
import socket
import textwrap
import threading
import warnings
from pathlib import Path

import psutil
import pytest
from rich.console import Console
from sqlalchemy.exc import SAWarning

from autograder.instructor.classroom import Workers, grade_class
from autograder.instructor.course import Course
from tests.conftest import some_of
from tests.instructor.room import ASSIGNMENT, LAST, RIGHT, SHORT, UNCALIBRATED, Classroom

pytestmark = pytest.mark.bubblewrap

MARK = "pwned-by-a-test"
SECONDS = 31.41592  # by which a process that outlived its grading is known

ATTACKS = {
    "reads_solutions": """
        found = [
            os.path.join(folder, file)
            for folder, _, files in os.walk("/")
            if not folder.startswith("/proc")
            for file in files
            if file in ("bank.py", "gradebook.db") and "autograder/instructor" not in folder
            or file.endswith(".ipynb") and "submission" not in folder and "student" not in folder
        ]
        print("found", [path for path in found if "site-packages" not in path])
    """,
    "reads_the_neighbour": """
        for path in ("{room}/solutions", "{room}/grading", "/etc/passwd", "/root/.ssh"):
            print("sees", path, os.path.exists(path))
    """,
    "reads_the_environment": """
        print(sorted(os.environ))
        try:
            print(open("/proc/1/environ", "rb").read())
        except OSError as error:
            print(error)
    """,
    "writes_the_gradebook": """
        import sqlite3
        os.makedirs("{room}/grading", exist_ok=True)
        book = sqlite3.connect("{room}/grading/gradebook.db")
        book.execute("UPDATE grade SET auto_score = 99")
        book.commit()
    """,
    "overwrites_the_neighbours": """
        for folder in ("submitted", "autograded", "feedback"):
            place = "{room}/grading/" + folder + "/a_neighbour/{assignment}/{assignment}.ipynb"
            os.makedirs(os.path.dirname(place), exist_ok=True)
            open(place, "w").write("{mark}")
    """,
    "leaves_a_start_up_file": """
        for home in (os.path.expanduser("~"), "{home}"):
            place = home + "/.ipython/profile_default/startup"
            os.makedirs(place, exist_ok=True)
            open(place + "/{mark}.py", "w").write("raise SystemExit")
    """,
    "writes_into_packages": """
        import jax, autograder, sysconfig
        for folder in (os.path.dirname(jax.__file__), os.path.dirname(autograder.__file__),
                       sysconfig.get_path("purelib"), sys.prefix, "/usr/bin"):
            try:
                open(folder + "/{mark}.py", "w").write("")
                print("wrote", folder)
            except OSError as error:
                print(error)
    """,
    "leaves_files": """
        for folder in ("/tmp", "/home/student", "/var/tmp", "/dev/shm", "/submission", "/"):
            try:
                open(folder + "/{mark}", "w").write("")
            except OSError as error:
                print(error)
    """,
    "fills_caches": """
        import jax
        jax.config.update("jax_compilation_cache_dir", "/tmp/{mark}-cache")
        jax.jit(lambda x: x + 1)(1)
        for home in (os.path.expanduser("~"), "{home}"):
            os.makedirs(home + "/.cache/{mark}", exist_ok=True)
    """,
    "leaves_busy_processes": """
        import subprocess
        for _ in range(4):
            subprocess.Popen(["sh", "-c", "while :; do :; done", "{seconds}"])
    """,
    "leaves_a_process": """
        import subprocess
        subprocess.Popen(["sleep", "{seconds}"], start_new_session=True)
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.execvp("sleep", ["sleep", "{seconds}"])
            os._exit(0)
    """,
    "calls_home": """
        for family, place in ((socket.AF_INET, ("127.0.0.1", {port})),
                              (socket.AF_UNIX, "\\0{mark}-{pid}")):
            try:
                socket.socket(family).connect(place)
                print("connected", place)
            except OSError as error:
                print(error)
    """,
    "listens": """
        server = socket.create_server(("0.0.0.0", 0))
        print("interfaces", [name for _, name in socket.if_nameindex()])
    """,
    "signals_everybody": """
        for pid in (1, os.getppid(), {pid}):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError as error:
                print(error)
    """,
    "mounts": """
        import subprocess
        for command in (
            ["mount", "-o", "remount,rw", "/usr"], ["unshare", "-rm", "touch", "/usr/x"],
            ["mknod", "/tmp/disk", "b", "8", "0"], ["chroot", "/tmp"],
        ):
            try:
                print(command, subprocess.run(command, capture_output=True).returncode)
            except OSError as error:
                print(error)
    """,
    "takes_memory": """
        try:
            hoard = bytearray(64 * 2**30)
            print("took it")
        except MemoryError:
            print("no")
    """,
    "fills_the_disk": """
        try:
            for number in range(100):
                with open(f"/tmp/{{number}}", "wb") as file:
                    for _ in range(100):
                        file.write(bytes(2**20))
            print("no end")
        except OSError as error:
            print(error)
        for number in range(100):
            if os.path.exists(f"/tmp/{{number}}"):
                os.remove(f"/tmp/{{number}}")
    """,
    "opens_files": """
        try:
            opened = [open("/dev/null") for _ in range(100_000)]
        except OSError as error:
            print(error)
        opened = None
    """,
    "loops": """
        while True:
            pass
    """,
    "floods": """
        for _ in range(300):
            print("x" * 100_000)
    """,
    "floods_with_pictures": """
        from IPython.display import display
        for _ in range(300):
            display({{"image/png": "A" * 100_000}}, raw=True)
    """,
    "hooks_imports": """
        class Hook:
            def find_spec(self, name, path=None, target=None):
                if name.startswith("autograder."):
                    import types
                    sys.modules[name] = types.ModuleType(name)
                    return None
        sys.meta_path.insert(0, Hook())
        print("hooked")
    """,
    "patches_the_shell": """
        shell = type(get_ipython())
        original = shell.run_cell
        def run_cell(self, source, *rest, **more):
            return original(self, source.replace('check("1.2"', 'print("1.2"'), *rest, **more)
        shell.run_cell = run_cell
        get_ipython().transform_cell = lambda source: source.replace('check("1.2"', 'print("1.2"')
    """,
    "oversized_evidence": """
        from IPython.display import display
        for size in (12_000_000, 30_000_000):
            display({{"application/vnd.shardlings.evidence+json":
                     {{"exercise": "1.2", "answers": {{"blocks": "x" * size}}}}}}, raw=True)
    """,
    "deep_evidence": """
        from IPython.display import display
        deep = []
        for _ in range(500):
            deep = [deep]
        display({{"application/vnd.shardlings.evidence+json":
                 {{"exercise": "1.2", "answers": deep}}}}, raw=True)
    """,
}

DEADLY = {
    # these end their own kernel, and with it what they would have earned
    "kills_itself": "os.kill(os.getpid(), signal.SIGKILL)",
    "stops_itself": "os.kill(os.getpid(), signal.SIGSTOP)",
    "ignores_interrupts": """
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        while True:
            signal.pause()
    """,
    "drags": """
        import time
        get_ipython().events.register("pre_run_cell", lambda *_: time.sleep(3.8))
    """,
    "fork_bomb": """
        while True:
            try:
                if os.fork() == 0:
                    import time
                    time.sleep(60)
            except OSError:
                pass
    """,
}
TRIED, DEADLY_TRIED = some_of([*ATTACKS], at_least=12), some_of([*DEADLY], at_least=2)

PRINTS = {
    "reads_solutions": lambda said: said == "found []\n",
    "reads_the_neighbour": lambda said: "False" in said and "True" not in said,
    "reads_the_environment": lambda said: "HOME" in said and MARK not in said,
    "writes_into_packages": lambda said: "Read-only" in said and "wrote" not in said,
    "calls_home": lambda said: "refused" in said and "connected" not in said,
    "listens": lambda said: said == "interfaces ['lo']\n",
    "takes_memory": lambda said: said == "no\n",
    "fills_the_disk": lambda said: "No space" in said and "no end" not in said,
    "opens_files": lambda said: "Too many open files" in said,
    "floods": lambda said: len(said) < 300_000,
}
"""For some of the attacks, what is true of all that they print."""

WHY = {
    "kills_itself": "The kernel died before this check ran, so",
    "stops_itself": "a cell did not end in its time, and heeded no interrupt",
    "ignores_interrupts": "a cell did not end in its time, and heeded no interrupt",
    "drags": "the notebook took more than 23 seconds",
    "fork_bomb": "it started more than 48 processes",
}

# A cell has seven seconds, and ten more to heed an interrupt: less than 23. Who drags takes 3.8 in
# each of the seven cells before the first check: more than 23, and never what a cell has.
LIMITS = """
c.Execute.timeout = 7
c.Sandbox.seconds = 23
c.Sandbox.processes = 48
c.CaptureEvidence.cell_output = 200_000
"""


class Listener:
    """Somebody on this machine who may be spoken to, and counts who speaks."""

    def __init__(self):
        self.calls = 0
        self.sockets = [socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)]
        self.sockets[1].bind(f"\0{MARK}-{os.getpid()}")
        self.sockets[1].listen()
        for each in self.sockets:
            threading.Thread(target=self._answer, args=(each,), daemon=True).start()

    @property
    def port(self):
        return self.sockets[0].getsockname()[1]

    def _answer(self, listening):
        while True:
            try:
                listening.accept()[0].close()
            except OSError:
                return
            self.calls += 1


@pytest.fixture(scope="module")
def listener():
    listener = Listener()
    yield listener
    for each in listener.sockets:
        each.close()


LOOKS = f"""import os
own = {{".cache", ".ipython"}}  # which a kernel makes that no warm server made ready
print(
    sorted({{*os.listdir()}} - own),
    [p for p in os.scandir("/tmp") if p.is_file()],
    [each for _, *names in os.walk(".") for each in sum(names, []) if {MARK!r} in each],
)"""
"""Prints what lies around: in the notebook's folder, in `/tmp`, and with the attacks' mark."""


@pytest.fixture(scope="module")
def room(tmp_path_factory, listener):
    room = Classroom.at(tmp_path_factory.mktemp("course"), until=LAST, calibrated=False)
    config = room.root / "nbgrader_config.py"
    config.write_text(config.read_text() + LIMITS + UNCALIBRATED)
    room.nbgrader("generate_assignment", ASSIGNMENT, "--force")
    known = {
        "room": room.root, "assignment": ASSIGNMENT, "mark": MARK, "home": Path.home(),
        "seconds": SECONDS, "port": listener.port, "pid": os.getpid(),
    }  # fmt: skip
    for name in TRIED:
        attack = textwrap.dedent(ATTACKS[name]).format(**known)
        imports = "import os, signal, socket, sys"
        room.hand_in(name, {"1.1": RIGHT["1.1"]}, first=f"{imports}\n{attack}")
    for name in DEADLY_TRIED:
        attack = f"import os, signal\n{textwrap.dedent(DEADLY[name])}"
        room.hand_in(name, {"1.1": RIGHT["1.1"]}, first=attack)
    room.hand_in("a_neighbour", RIGHT)
    room.hand_in("zz_next", RIGHT, first=LOOKS)
    os.environ["SHARDLINGS_TEST_SECRET"] = MARK
    try:
        with warnings.catch_warnings(action="ignore", category=SAWarning):  # nbgrader's
            grade_class(Course(room.root), Console(file=io.StringIO()), workers=Workers(number=4))
    finally:
        del os.environ["SHARDLINGS_TEST_SECRET"]
    return room


HONEST = {**dict.fromkeys(SHORT, 0), "1.1": 1}


@pytest.mark.parametrize("name", TRIED)
def test_an_attack_earns_what_its_honest_answer_earns(room, name):
    assert room.scores()[name] == HONEST


@pytest.mark.parametrize("name", DEADLY_TRIED)
def test_who_kills_the_kernel_is_told_so(room, name):
    assert room.scores()[name] == dict.fromkeys(SHORT, 0)
    assert WHY[name] in room.verdicts(name)["ex-1-1-check"]


@pytest.mark.parametrize("name", ["a_neighbour", "zz_next"])
def test_the_others_are_graded_as_alone(room, name):
    assert room.scores()[name] == SHORT


@pytest.mark.parametrize("name", [name for name in PRINTS if name in TRIED])
def test_an_attack_prints_that_it_failed(room, name):
    said = room.printed(name)
    assert PRINTS[name](said), said


@pytest.mark.usefixtures("room")
def test_nobody_was_reached(listener):
    assert listener.calls == 0
    with socket.create_connection(("127.0.0.1", listener.port)):
        pass  # it does listen


def test_nothing_was_left_behind(room):
    places = [room.root, Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"), Path("/"), Path.home()]
    for place in places:
        assert not (place / MARK).exists()
    assert not list(room.root.rglob(f"{MARK}*"))
    assert not (Path.home() / ".ipython/profile_default/startup" / f"{MARK}.py").exists()
    assert not (Path.home() / ".cache" / MARK).exists()
    assert room.printed("zz_next") == f"['{ASSIGNMENT}.ipynb'] [] []\n"


def test_no_process_outlives_its_grading(room):
    commands = [p.info["cmdline"] or [] for p in psutil.process_iter(["cmdline"])]
    assert not [c for c in commands if str(SECONDS) in c]


def test_graded_notebooks_are_small(room):
    graded = room.root / "grading" / "autograded"
    assert all(p.stat().st_size < 3_000_000 for p in graded.rglob("*.ipynb"))
