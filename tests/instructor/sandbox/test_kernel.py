"""Kernels: cells show what they show in Jupyter, and nothing of one submission reaches the next."""

import json
import os
import sys
import textwrap
import time

import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from traitlets.config import Config

from autograder.instructor.course import NAMESPACE
from autograder.instructor.nbgrader_plugins import CaptureEvidence
from autograder.instructor.sandbox import Kernel, Sandbox, has_bubblewrap, has_call_filter
from autograder.instructor.sandbox.limit_watch import find_family
from autograder.sandboxed import Done
from tests.conftest import some_of
from tests.helpers import pretend_bubblewrap

SLOW_WAYS = [pytest.param(w, marks=pytest.mark.slow) for w in ("cold", "without a sandbox")]

in_the_sandbox_and_without = pytest.mark.parametrize(
    "way", ["warm", SLOW_WAYS[0], "without a sandbox"], indirect=True
)


@pytest.fixture(params=["warm", *SLOW_WAYS])
def way(request, monkeypatch):
    """A way to start kernels; all three give the same output."""
    if request.param != "without a sandbox" and not has_bubblewrap():
        pytest.skip("there is no bubblewrap here")
    if request.param == "warm" and not has_call_filter():
        pytest.skip("there are no warm processes here")
    if request.param == "cold":
        monkeypatch.setattr(Sandbox, "get_warm_server", lambda *_, **__: None)
    pretend_bubblewrap(monkeypatch, request.param != "without a sandbox")
    return request.param


def run(folder, *cells, **traits):
    """The outputs of cells, and what became of the kernel."""
    notebook = new_notebook(cells=[new_code_cell(textwrap.dedent(cell)) for cell in cells])
    _, resources = CaptureEvidence(**traits).preprocess(
        notebook, {"metadata": {"path": str(folder)}}
    )
    return [cell.outputs for cell in notebook.cells], resources[NAMESPACE]["died"]


def text(outputs):
    """All that cells have printed or shown as text, or raised, and in which order."""
    parts = []
    for output in outputs:
        parts.append(output.get("text") or output.get("data", {}).get("text/plain", ""))
        if output.output_type == "error":
            parts.append(f"{output.ename}: {output.evalue}")
    return "".join(parts)


SHOWS = {
    "6 * 7": "42",
    "import sys; sys.flags.hash_randomization": "0",  # sets have the same order in each kernel
    "import sys; sys.prefix, sys.flags.safe_path": f"{(sys.prefix, True)}",
    "print('a', 1)": "a 1\n",
    "import sys; print('a', file=sys.stderr)": "a\n",
    "'a';": "",
    "'a\\ud800'; print('a\\ud800')": "a\\ud800\n",
    "import os; print('a'); os.system('echo b; echo c >&2'); print('d')": "a\nb\nd\nc\n",
    "import os; _ = os.write(1, b'a\\n')": "a\n",
    "import subprocess, sys; r = subprocess.run(['echo', 'a'], stdout=sys.stdout)": "a\n",
    "!echo a": "a\r\n",
    "%%bash\necho a": "a\n",
    "%%capture said\nprint(1)": "",
    "print(said.stdout)": "1\n\n",
    "import asyncio\nawait asyncio.sleep(0)\n5": "5",
    "asyncio.get_running_loop().is_running()": "True",
    "async def f():\n    return 6\nawait f()": "6",
    "input()": "StdinNotImplementedError: raw_input was called, but this frontend does not "
    "support input requests.",
    "import getpass; getpass.getpass()": "StdinNotImplementedError: raw_input was called, but this "
    "frontend does not support input requests.",
    "1 +": "SyntaxError: invalid syntax (<CELL>, line 1)",
    "class Odd(Exception):\n    def __str__(self):\n        raise self\nraise Odd": "Odd: ",
    "raise SystemExit(3)": "SystemExit: 3",
    "import warnings; warnings.warn('a')": "UserWarning: a",
    "import logging; logging.warning('a')": "WARNING:root:a\n",
    "from IPython.display import display, HTML; display(HTML('<b>'))": "<IPython.core.display.HTML "
    "object>",
    "shown = display('a', display_id=True); shown.update('b')": "'b'",
    "import threading; t = threading.Thread(target=print, args=('a',)); t.start(); t.join()": "a\n",
    "if os.fork() == 0:\n    print('a'); raise SystemExit\n_ = os.wait()": "a\n",
    "display?": "",
    "print(sys.stdin.read(), __name__)": " __main__\n",
    "import rich; rich.print('[bold]a')": "\x1b[1ma\x1b[0m\n",
    "%matplotlib inline\nimport matplotlib.pyplot as plt; plt.plot([1]);": "<Figure size 640x480 "
    "with 1 Axes>",
}  # fmt: skip


@in_the_sandbox_and_without
def test_cells_show_what_they_show_in_jupyter(tmp_path, way):
    found, died = run(tmp_path, *SHOWS)
    assert died is None
    for (cell, expected), outputs in zip(SHOWS.items(), found, strict=True):
        said = text(outputs)
        if "invalid syntax" in expected:
            assert said.startswith("SyntaxError: invalid syntax")
        elif any(part in cell for part in ("warn(", "SystemExit(", "Odd")):
            assert expected in said
        else:
            assert said == expected, cell
    assert "image/png" in found[-1][0].data


def test_a_kernel_that_exits_ends_after_its_cell(tmp_path, way):
    (first, second), died = run(tmp_path, "print('a')\nexit()", "print('b')")
    assert (text(first), text(second), died.cell) == ("a\n", "", 1)


@in_the_sandbox_and_without
def test_files_beside_a_notebook_are_there_and_start_up_files_are_not(tmp_path, way):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / os.fsdecode(b"\xff.csv")).write_text("1,2")
    (tmp_path / ".ipython").mkdir()
    (tmp_path / ".ipython" / "start.py").write_text("")
    (tmp_path / "link").symlink_to("/etc/passwd")
    looks = "import os; print(os.listdir('data'), [f for f in names if os.path.lexists(f)])"
    (_, found), _ = run(tmp_path, "names = ['data', 'link', '.ipython/start.py']", looks)
    seen = ["data", "link", ".ipython/start.py"][: None if way == "without a sandbox" else 1]
    assert text(found) == f"['\\udcff.csv'] {seen}\n"


INTERRUPTED = {
    "python": "while True:\n    pass",
    "sleep": "import time; time.sleep(10_000)",
    "shell": "import os; os.system('sleep 10000')",
    "command": "!sleep 10000",
    "await": "import asyncio; await asyncio.sleep(10_000)",
    "thread": "import threading; threading.Event().wait()",
}


PAIRS = [("python", "shell"), ("sleep", "command"), ("thread", "await")]


@pytest.mark.parametrize("endless", some_of(PAIRS, at_least=1))
def test_cells_without_end_are_interrupted_and_the_next_is_run(tmp_path, way, endless):
    cells = [part for code in endless for part in (INTERRUPTED[code], "print('next')")]
    found, died = run(tmp_path, *cells, timeout=1)
    assert died is None
    assert [text(outputs) for outputs in found[1::2]] == ["next\n"] * 2
    assert found[0][0].ename == "KeyboardInterrupt"
    assert found[0][0].evalue == "the cell was stopped after 1 second"
    assert found[0][0].traceback[-1] == "KeyboardInterrupt: the cell was stopped after 1 second"


FORGE = """
import json, os
def say(text):
    os.write(get_ipython().channel._file, text)
def forge(kind, **content):
    say(json.dumps({"type": kind, **content}).encode() + bytes([10]))
"""


def test_forged_messages_are_outputs_at_most(tmp_path):
    found, died = run(
        tmp_path,
        FORGE,
        "say(b'{\"half a message'); print('a')",
        "forge('Done', number=77); forge('Ready'); print('b')",
        "forge('Done', number=3, error=None); print('c')",
        "say(bytes([10]) * 2**20); print('d')",
    )
    assert died is None
    said = [text(outputs) for outputs in found]
    assert said[1:3] == ["a\n", "b\n"]
    assert "".join(said[3:]).endswith("d\n")


def test_no_open_file_comes_with_a_kernels_words(tmp_path):
    """Closing a lingering socket that a kernel has sent would take as long as the kernel likes."""
    sends = """
        import errno, socket
        try:
            socket.socket(fileno=os.dup(get_ipython().channel._file)).sendmsg([b"a"], [])
        except OSError as error:
            print(errno.errorcode[error.errno])
    """
    (_, said), died = run(tmp_path, "import os", sends)
    assert (text(said), died) == ("ENOTSOCK\n", None)


def test_a_kernel_that_does_not_read_is_ended_when_its_time_is_up(tmp_path, way):
    """It says that its cell is done, lets go of nothing, and the next cell finds no room."""
    stops = "forge('Done', number=1)\nimport ctypes\nctypes.PyDLL(None).sleep(100000)"
    seconds = 2 if way == "warm" else 6  # others take a while to start
    config = Config({"Sandbox": {"seconds": seconds}})
    _, died = run(tmp_path, FORGE, stops, f"# {'x' * 2**21}", config=config)
    assert died.reason == f"the notebook took more than {seconds} seconds"


def test_what_all_errors_say_is_within_the_allowance(tmp_path):
    says = """
        import sys
        from autograder.sandboxed.messages import Error
        kernel = sys.modules["autograder.sandboxed.kernel"]
        kernel.run_cell = lambda *_: Error("E", "e", ["x" * 4096] * 100)
    """
    found, died = run(tmp_path, says, *["1"] * 20, notebook_output=2**20)
    assert died is None
    assert all(outputs[0].output_type == "error" for outputs in found[1:])
    assert 2**19 < sum(len(json.dumps(outputs)) for outputs in found) < 2**21


def test_evidence_by_another_name_is_not_changed_later(tmp_path):
    """An update changes what was shown, in whatever cell that was; it adds nothing."""
    updates = """
        from IPython.display import display, update_display
        update_display("b", display_id="never shown")
        update_display("b", display_id="x")
    """
    found, _ = run(tmp_path, "display('a', display_id='x');", updates)
    assert [text(outputs) for outputs in found] == ["'b'", ""]


needs_warm = pytest.mark.skipif(not has_call_filter(), reason="there are no warm processes here")


@needs_warm
def test_kernels_are_forked_from_one_process_and_have_the_same_number(tmp_path):
    where = "import os, sys; os.getpid(), id(sys)"  # an address is drawn anew for each program
    (first,), _ = run(tmp_path, where)
    (second,), _ = run(tmp_path, where)
    assert text(first) == text(second)
    assert text(first).startswith("(2, ")


LEAVES = """
import builtins, jax, json, os, random, signal, subprocess, sys, threading, time
import autograder, matplotlib
for folder in ("/tmp", "/dev/shm", os.path.expanduser("~")):
    open(f"{folder}/left", "w").write("here")
os.environ["LEFT"] = "here"
builtins.left = json.left = jax.left = autograder.left = get_ipython().left = "here"
autograder.check = None
matplotlib.rcParams["figure.figsize"] = (1, 1)
sys.path.insert(0, "/tmp")
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.setitimer(signal.ITIMER_REAL, 1000)
subprocess.Popen(["sleep", "600"], start_new_session=True)
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
os.write(get_ipython().channel._file, b"left" * 100)
%alias_magic left time
"""
LOOKS = """
import builtins, jax, json, os, signal, sys, threading
import autograder, matplotlib
print(json.dumps({
    "files": [os.listdir(f) for f in ("/tmp", "/dev/shm", os.path.expanduser("~"))],
    "environment": "LEFT" in os.environ,
    "modules": [m.__name__ for m in (builtins, json, jax, autograder) if hasattr(m, "left")],
    "shell": [hasattr(get_ipython(), "left"), get_ipython().find_magic("left") is None],
    "names": "left" in globals() or get_ipython().execution_count,
    "check": autograder.check is None,
    "figure": list(matplotlib.rcParams["figure.figsize"]),
    "path": "/tmp" in sys.path,
    "signals": signal.getsignal(signal.SIGTERM) == 0,
    "timer": signal.getitimer(signal.ITIMER_REAL)[0],
    "processes": sorted(int(n) for n in os.listdir("/proc") if n.isdigit()),
    "unix": len(open("/proc/net/unix").readlines()),
    "terminals": os.listdir("/dev/pts"),
}))
print(len(threading.enumerate()))
"""


@needs_warm
def test_nothing_that_a_submission_leaves_is_found_by_the_next(tmp_path):
    (before,), _ = run(tmp_path, LOOKS)
    _, died = run(tmp_path, LEAVES)
    assert died is None
    (after,), _ = run(tmp_path, LOOKS)
    assert text(after) == text(before)
    assert '"modules": []' in text(after)
    assert '"processes": [1, 2]' in text(after)


def printed_by(kernel, number, source):
    """Run a cell in a kernel to its end, and return what it prints or raises."""
    kernel.run(number, source)
    said = ""
    while not isinstance(message := kernel.receive(), Done):
        said += getattr(message, "text", "")
    return said + (message.error.evalue if message.error else "")


@needs_warm
def test_a_submission_finds_nothing_of_another_one_beside_it(tmp_path):
    mark = "of-another-submission"
    holds = f"""
        import os, socket, subprocess
        mark = os.environ["MARK"] = "{mark}"
        open("/tmp/{mark}", "w").write(mark)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind("\\0{mark}")
        other = subprocess.Popen(["sleep", "601"])
    """
    looks = f"""
        import os, signal, subprocess, socket
        seen = []
        for folder, _, files in os.walk("/"):
            seen += [folder for name in files if "{mark}" in name]
            for name in files:
                if folder.startswith("/proc/") and name in ("environ", "cmdline", "maps"):
                    try:
                        if b"{mark}" in open(f"{{folder}}/{{name}}", "rb").read() != b"":
                            seen.append(folder)
                    except OSError:
                        pass
        try:
            socket.socket(socket.AF_UNIX).connect("\\0{mark}")
        except OSError as error:
            print(error.strerror)
        print([each for each in seen if "/self" not in each])
    """
    with Kernel(Sandbox(), [], tmp_path) as beside:
        assert printed_by(beside, 0, textwrap.dedent(holds)) == ""
        (found,), _ = run(tmp_path, looks, timeout=100)
        assert printed_by(beside, 1, "print(other.poll())") == "None\n"
    assert text(found) == "Connection refused\n[]\n"


@needs_warm
def test_a_kernel_has_no_rights_and_only_its_own_files_open(tmp_path):
    looks = """
        import os
        lines = dict(line.split(":\\t") for line in open("/proc/self/status") if ":\\t" in line)
        names = ("CapEff", "CapPrm", "CapBnd", "CapInh", "NoNewPrivs", "Seccomp")
        opened = [f"/proc/self/fd/{n}" for n in range(99)]
        opened = [os.readlink(file) for file in opened if os.path.lexists(file)]
        opened = {file.split(":")[0].split("#")[0] for file in opened}
        print([[int(lines[n], 16) for n in names], sorted(opened)])
    """
    (found,), _ = run(tmp_path, looks)
    kinds = ["/dev/null", "/tmp/", "anon_inode", "pipe", "socket"]
    assert text(found) == f"[[0, 0, 0, 0, 1, 2], {kinds}]\n"


def runs(process):
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@in_the_sandbox_and_without
def test_a_kernel_that_is_stopped_ends_at_once(tmp_path, way):
    """As where Ctrl-C ends the grading."""
    with Kernel(Sandbox(), [], tmp_path) as kernel:
        kernel.run(0, "import time; time.sleep(600)")
        family = find_family(kernel.process.pid)
    assert len(family) > 1
    until = time.monotonic() + 10
    while time.monotonic() < until and any(map(runs, family)):
        time.sleep(0.05)
    assert not any(map(runs, family))
