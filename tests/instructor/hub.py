"""A real JupyterHub with its proxy, a teacher, a helper and two students, as the page sets it up.

As root, each has an account of the machine, with a home that nobody else can read; the accounts
exist only in the hub's own mount namespace. As an ordinary user, all share one account with the
name that containers give it, `jovyan`, and the hub runs in bubblewrap, because only that can rename
an account.
"""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from tests.conftest import ROOT
from tests.instructor.room import ASSIGNMENT, Classroom

PAGE = ROOT / "docs" / "hubs_and_containers.md"
COURSE = "shardlings"
NAMES = ("teacher", "helper", "ann", "bo")
BIN = Path(sys.executable).parent
HAS_ACCOUNTS = os.geteuid() == 0
"""True if each user has an account; otherwise all share one."""

FOR_TESTS = """
c.JupyterHub.authenticator_class = "dummy"
c.JupyterHub.bind_url = "http://127.0.0.1:{proxy}"
c.JupyterHub.hub_port = {hub}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{api}"
c.JupyterHub.services[0]["url"] = "http://127.0.0.1:{service}"
c.Spawner.environment = c.JupyterHub.services[0]["environment"] = {{
    "JUPYTER_CONFIG_PATH": "{base}/jupyter", "SHARDLINGS_WORKERS": "1",
}}
"""
"""Settings that differ from the page: who may log in, ports, and the place of `/etc/jupyter`."""

SHARING = """
c.JupyterHub.spawner_class = "simple"  # no account, only a home
c.SimpleLocalProcessSpawner.home_dir_template = "{base}/home/{{username}}"
del c.JupyterHub.services[0]["user"]
c.JupyterHub.services[0]["environment"]["HOME"] = "{base}/home/teacher"
"""


def find_problem() -> str:
    """Return why there can be no hub here, in a line; empty if there can be one."""
    enters = [*namespace(Path("/etc/passwd"), Path("/etc/group")), "true"]
    done = subprocess.run(enters, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def namespace(passwd: Path, group: Path) -> list[str]:
    """Return the beginning of a command that runs where accounts are those of two files.

    All its processes end with it.
    """
    if not HAS_ACCOUNTS:
        binds = ("--ro-bind", passwd, "/etc/passwd", "--ro-bind", group, "/etc/group")
        same = ("--unshare-user", "--unshare-pid", "--die-with-parent", "--dev-bind", "/", "/")
        return ["bwrap", *same, "--proc", "/proc", *map(str, binds)]
    script = [f"mount --bind {passwd} /etc/passwd", f"mount --bind {group} /etc/group"]
    for closed, needed in closed_folders().items():  # of root's home, only what has to be read
        script += [f"mount --bind {closed} /mnt", f"mount -t tmpfs -o mode=755 tmpfs {closed}"]
        for path in needed:
            inside = f"/mnt/{path.relative_to(closed)}"
            script += [f"mkdir -p {path}", f"mount --bind {inside} {path}"]
        script += ["umount -l /mnt"]
    alone = ("--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
    return ["unshare", *alone, "sh", "-c", "\n".join(["set -e", *script, 'exec "$@"']), "sh"]


def closed_folders() -> dict[Path, set[Path]]:
    """Return what has to be read by all accounts, by the closed folders that it is in."""
    closed = dict[Path, set[Path]]()
    for path in {Path(sys.prefix), Path(sys.base_prefix), ROOT}:
        for folder in reversed(path.resolve().parents):
            if not folder.stat().st_mode & 0o001:
                closed.setdefault(folder, set()).add(path.resolve())
                break
    return closed


@dataclass
class Hub:
    """A running JupyterHub.

    Attributes:
        base: the folder with the homes and the exchange.
        room: the teacher's course.
        address: where the hub's proxy listens.
    """

    base: Path
    room: Classroom
    address: str
    accounts: dict[str, "Account"] = field(default_factory=dict)

    def __getitem__(self, name: str) -> "Account":
        """Return somebody who is logged in, and whose server runs."""
        if name not in self.accounts:
            self.accounts[name] = Account.log_in(self.address, name)
        return self.accounts[name]

    @property
    def inbound(self) -> Path:
        return self.base / "exchange" / COURSE / "inbound"


@dataclass
class Account:
    """Somebody who is logged in to a hub."""

    address: str
    name: str
    headers: dict[str, str]

    @classmethod
    def log_in(cls, address: str, name: str) -> "Account":
        """Log in with the form, as in a browser, and start a server."""
        form = {"username": name, "password": "any"}
        with requests.Session() as session:
            session.get(f"{address}/hub/login").raise_for_status()
            guard = {"_xsrf": str(session.cookies["_xsrf"])}
            page = f"{address}/hub/login"
            done = session.post(page, params=guard, data=form, allow_redirects=False)
            assert done.status_code == 302, done.text
            referer = {"Referer": f"{address}/hub/"}
            user = session.get(f"{address}/hub/api/user", headers=referer).json()
            guard = {"X-XSRFToken": str(session.cookies["_xsrf"])}
            tokens = f"{address}/hub/api/users/{user['name']}/tokens"
            token = session.post(tokens, headers=guard, json={}).json()["token"]
        account = cls(address, user["name"], {"Authorization": f"token {token}"})
        server = f"hub/api/users/{account.name}"
        account.ask("POST", f"{server}/server")
        wait_until(lambda: account.ask("GET", server).json()["servers"].get("", {}).get("ready"))
        return account

    def ask(self, method: str, path: str, **options: Any) -> requests.Response:
        """Send a request to any server of the hub."""
        where = f"{self.address}/{path}"
        return requests.request(method, where, headers=self.headers, timeout=300, **options)

    def own(self, method: str, path: str, **options: Any) -> Any:
        """Send a request to the own server, and return what it answers."""
        done = self.ask(method, f"user/{self.name}/{path}", **options)
        done.raise_for_status()
        return done.json()

    def click(self, button: str, **form: str) -> Any:
        """Press a button of the Assignment List or of Validate, and return what it answers."""
        form = form or {"course_id": COURSE, "assignment_id": ASSIGNMENT}
        answer = self.own("POST", f"assignments/{button}", data=form)
        assert answer["success"], answer
        return answer["value"]

    def grade(self, method: str, path: str, **options: Any) -> Any:
        """Send a request to Formgrader, and return what it answers."""
        done = self.ask(method, f"services/formgrader/formgrader/api/{path}", **options)
        done.raise_for_status()
        return done.json()

    def type(self, command: str) -> tuple[int, str]:
        """Run a command in a terminal of the own server; return its status and what it printed."""
        return asyncio.run(self._type(command))

    async def _type(self, command: str) -> tuple[int, str]:
        name = self.own("POST", "api/terminals")["name"]
        address = f"{self.address}/user/{self.name}/terminals/websocket/{name}"
        request = HTTPRequest(address.replace("http", "ws", 1), headers=self.headers)
        terminal = await websocket_connect(request)
        await terminal.write_message(json.dumps(["stdin", f"{command}; echo 'sta''tus' $?.\r"]))
        printed = ""
        while not (end := re.search(r"status (\d+)\.", printed)):
            kind, *text = json.loads(await terminal.read_message() or '["closed"]')
            assert kind != "closed", printed
            printed += text[0] if kind == "stdout" else ""
        terminal.close()
        while await terminal.read_message() is not None:
            pass
        return int(end[1]), printed


def wait_until(condition: Any) -> None:
    """Wait until something holds."""
    for _ in range(600):
        with contextlib.suppress(requests.ConnectionError):
            if condition():
                return
        time.sleep(0.2)
    raise TimeoutError("The hub did not get that far within two minutes.")


@contextlib.contextmanager
def running_hub() -> Iterator[Hub]:
    """Set up a hub as the page says, and start it."""
    base = Path(tempfile.mkdtemp(prefix="hub-"))
    try:
        base.chmod(0o755)
        room, ports = furnish(base), free_ports("proxy", "hub", "api", "service")
        more = FOR_TESTS if HAS_ACCOUNTS else FOR_TESTS + SHARING
        config = read_block("jupyterhub_config.py", base) + more.format(base=base, **ports)
        (base / "jupyterhub_config.py").write_text(config)
        entered = namespace(base / "passwd", base / "group")
        command = [*entered, BIN / "jupyterhub", "-f", base / "jupyterhub_config.py"]
        with (base / "log").open("w") as log:
            process = subprocess.Popen(
                [*map(str, command)], cwd=base, env=room.environment(), stdout=log, stderr=log
            )
        try:
            address = f"http://127.0.0.1:{ports['proxy']}"
            log_of = (base / "log").read_text
            wait_until(lambda: "JupyterHub is now running" in log_of() or process.poll())
            assert process.poll() is None, log_of()
            yield Hub(base, room, address)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
    finally:
        shutil.rmtree(base, ignore_errors=True)


def furnish(base: Path) -> Classroom:
    """Make the accounts, their homes, the exchange, and the teacher's course."""
    homes = {name: base / "home" / name for name in NAMES}
    for home in homes.values():
        home.mkdir(parents=True)
    (base / "exchange").mkdir()
    (base / "exchange").chmod(0o777)
    (base / "jupyter").mkdir()
    students = read_block("jupyter/nbgrader_config.py", base)
    (base / "jupyter" / "nbgrader_config.py").write_text(students)
    room = Classroom.at(homes["teacher"] / "shardlings", until="1.2")
    room.forget_the_others()
    with (room.root / "nbgrader_config.py").open("a") as file:
        file.write(f'c.Exchange.root = "{base}/exchange"\n')
    ids = {name: 61001 + number for number, name in enumerate(NAMES)}
    if not HAS_ACCOUNTS:
        ids = {"jovyan": os.getuid()}
    passwd, group = Path("/etc/passwd").read_text(), Path("/etc/group").read_text()
    mine = [f"{name}:x:{id}:{id}::{base}/home/{name}:/bin/bash\n" for name, id in ids.items()]
    (base / "passwd").write_text("".join(mine) + passwd)
    (base / "group").write_text("".join(f"{name}:x:{id}:\n" for name, id in ids.items()) + group)
    for name, home in homes.items():
        if HAS_ACCOUNTS:
            subprocess.run(["chown", "-R", f"{ids[name]}:{ids[name]}", home], check=True)
        home.chmod(0o700)
    return room


def read_block(name: str, base: Path) -> str:
    """Return a file of the page, with the test's folders in place of the page's."""
    found = re.search(rf"```text file={re.escape(name)}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found, f"{PAGE.name} has no block `file={name}`."
    text = found[1].replace("/srv/hub/bin", str(BIN)).replace("/srv/exchange", f"{base}/exchange")
    return text.replace("/home/", f"{base}/home/")


def free_ports(*names: str) -> dict[str, int]:
    """Return ports that nobody listens on."""
    with contextlib.ExitStack() as stack:
        ports = {}
        for name in names:
            free = stack.enter_context(socket.socket())
            free.bind(("127.0.0.1", 0))
            ports[name] = free.getsockname()[1]
    return ports
