"""A kernel, started directly: it reads requests and writes messages, each one line of JSON."""

import os
import socket
import subprocess
import sys

import msgspec
import pytest

from autograder.evidence import Plan, TablePlan
from autograder.sandboxed import (
    Begin,
    Display,
    Done,
    Error,
    Interrupt,
    Message,
    Ready,
    Request,
    Result,
    RunCell,
    Stream,
)
from shardlings.devices import environment

pytest.importorskip("IPython")  # which comes with the instructor's half


BEGIN = Begin([Plan("1.7", {"answer": TablePlan()})], [(b"data/a.csv", b"1,2")])


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Return a function that sends requests and returns messages, up to `Done` or `Ready`."""
    home = tmp_path_factory.mktemp("home")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "autograder.sandboxed"],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            cwd=home,
            env={**os.environ, **environment(), "HOME": str(home)},
        )
        theirs.close()
        output = ours.makefile("rb")

        def send(*requests: Request) -> list[Message]:
            for request in requests:
                ours.sendall(msgspec.json.encode(request) + b"\n")
            messages: list[Message] = []
            while not messages or not isinstance(messages[-1], Done | Ready):
                line = output.readline()
                assert line, "it has ended"
                messages += [msgspec.json.decode(line, type=Message)] if line.strip() else []
            return messages

        assert send(BEGIN, Interrupt()) == [Ready()]
        yield send
        output.close()
    assert process.wait(timeout=20) == 0, "it ends when its input is closed"


def test_a_kernel_answers_each_request(ask):
    printed, shown, done = ask(RunCell(3, "print(open('data/a.csv').read())\n6 * 7"))
    assert (printed, done) == (Stream("stdout", "1,2\n"), Done(3))
    assert isinstance(shown, Result)
    assert bytes(shown.data["text/plain"]) == b'"42"'
    error, done = ask(RunCell(4, "1 / 0"))
    assert isinstance(error, Error)
    assert error.ename == "ZeroDivisionError"
    assert done == Done(4, error)


def test_a_cell_is_interrupted_and_an_interrupt_between_cells_is_ignored(ask):
    (done,) = ask(Interrupt(), RunCell(0, "x = 1"))
    assert done == Done(0)
    sleeps = "import os, signal, threading, time\nthreading.Timer(0.2, print, ['.']).start()\n"
    messages = ask(RunCell(1, f"{sleeps}time.sleep(0.5); x = 2"))
    assert messages[-1] == Done(1)
    messages = ask(RunCell(2, "os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(600)"))
    assert messages[-1].error.ename == "KeyboardInterrupt"
    assert ask(RunCell(3, "x"))[-1] == Done(3)


def test_a_kernel_captures_by_its_plans_and_remembers_failed_cells(ask):
    ask(RunCell(0, "from autograder import *\nfrom shardlings import *\nemulate_devices(8);"))
    (shown, _) = ask(RunCell(1, "check('1.7', answer={'a': 1})"))
    assert isinstance(shown, Display)
    assert b'"exercise":"1.7"' in bytes(shown.data["application/vnd.shardlings.evidence+json"])
    ask(RunCell(2, "stopped = 1 / 0"))
    error, printed, _ = ask(RunCell(3, "stopped"))
    assert (error.ename, "did not finish" in printed.text) == ("NameError", True)
