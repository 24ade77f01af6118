"""The loopback interface in the sandbox: processes find each other there, and nothing else."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from autograder.instructor.sandbox import Sandbox, read_sandbox_environment
from shardlings import devices

pytestmark = pytest.mark.bubblewrap

ATTACK = """
import socket, sys
import jax
import numpy as np
from autograder import on_processes
from shardlings import emulate_devices
emulate_devices(8)
ports, abstract = {ports}, {abstract!r}

def reaches():
    mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    ones = jax.device_put(np.ones(8, np.float32), jax.NamedSharding(mesh, jax.P("x")))
    reached = []
    for address, port in ports:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family) as out:
            out.settimeout(3)
            if out.connect_ex((address, port)) == 0:
                reached.append(address)
        with socket.socket(family, socket.SOCK_DGRAM) as out:
            try:
                out.sendto(b"here", (address, port))
            except OSError:
                pass
    with socket.socket(socket.AF_UNIX) as out:
        if out.connect_ex("\\0" + abstract) == 0:
            reached.append("abstract")
    others = [name for _, name in socket.if_nameindex() if name != "lo"]
    return float(ones.sum()), reached, others

print(on_processes(reaches, 2))
"""


@pytest.fixture
def heard() -> Iterator[tuple[list[tuple[str, int]], str, list[str]]]:
    """Listen on all addresses here; yield the ports, a socket's name, and what is heard."""
    heard: list[str] = []
    sockets: list[socket.socket] = []
    ports: list[tuple[str, int]] = []
    for address in _own_addresses():
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            listener = socket.socket(family, kind)
            listener.bind((address, ports[-1][1] if kind == socket.SOCK_DGRAM else 0))
            if kind == socket.SOCK_STREAM:
                listener.listen()
                ports.append((address, listener.getsockname()[1]))
            sockets.append(listener)
    abstract = f"shardlings-{os.getpid()}"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0{abstract}")
    listener.listen()
    sockets.append(listener)

    def listen(listener: socket.socket) -> None:
        try:
            if listener.type == socket.SOCK_DGRAM:
                heard.append(repr(listener.recv(100)))
            else:
                listener.accept()[0].close()
                heard.append("a connection")
        except OSError:
            pass

    for each in sockets:
        each.settimeout(0.2)

    stop = threading.Event()

    def listen_to_all() -> None:
        while not stop.is_set():
            for each in sockets:
                listen(each)

    listening = threading.Thread(target=listen_to_all)
    listening.start()
    yield ports, abstract, heard
    stop.set()
    listening.join()
    for each in sockets:
        each.close()


def _own_addresses() -> list[str]:
    """The addresses of this machine: the loopback interface's, and what its name stands for."""
    try:
        named = {str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None)}
    except OSError:
        named = set()
    return sorted({"127.0.0.1", *named})


def run(command: list[str]) -> str:
    variables = {**os.environ, **read_sandbox_environment(), **devices.environment(8)}
    done = subprocess.run(
        command, env=variables, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_processes_find_each_other_there_and_reach_nothing_beyond(heard):
    ports, abstract, came = heard
    script = ATTACK.format(ports=ports, abstract=abstract)
    variables = {**read_sandbox_environment(), **devices.environment(8)}
    said = run(Sandbox().command([sys.executable, "-c", script], variables))
    assert said == "[(8.0, [], []), (8.0, [], [])]\n"
    assert came == []


def test_outside_of_the_sandbox_the_same_reaches_everything(heard):
    """Else the test above could not fail."""
    ports, abstract, came = heard
    said = run([sys.executable, "-c", ATTACK.format(ports=ports, abstract=abstract)])
    assert "'127.0.0.1'" in said
    assert "'abstract'" in said
    assert "a connection" in came
    assert repr(b"here") in came
