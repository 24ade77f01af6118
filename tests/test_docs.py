"""Every command and every block of code of README and docs/ is run, here or where it says.

Commands that act on a class are run in one with made-up submissions, in the order of the pages.
What is too heavy for that, or reaches outside, is in `ELSEWHERE`.
"""

import contextlib
import fnmatch
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest
from markdown_it import MarkdownIt

pytest.importorskip("nbgrader", reason="what grades is installed with the instructor's extra")
from nbgrader.apps.nbgraderapp import NbGraderApp

from autograder.instructor.__main__ import main
from autograder.instructor.sandbox import has_bubblewrap
from tests.conftest import ROOT
from tests.instructor.classroom.plain_course import hand_in, plain_course

pytestmark = [
    pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here"),
    pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning"),
]

PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "first_class.md",  # in which there is nothing graded yet
    *sorted(path for path in (ROOT / "docs").glob("*.md") if path.stem != "first_class"),
]
FOLLOWED = {
    "docs/authoring.md": "tests/instructor/authoring/test_authoring.py",
    "docs/communication.md": "tests/test_communication_page.py",
    "docs/what_moved.md": "tests/test_moved.py",
}
"""Pages all of whose blocks a test of their own runs."""

INLINE = re.compile(
    r"(make|nbgrader|dask|apt|openssl|git|bwrap|(\.venv/bin/)?pip|\.venv/bin/\S+) |\.ci/run"
)
"""Begins a piece of code within a sentence that is a command."""

CLASS, WORKFLOW = "tests/instructor/classroom", ".github/workflows/tests.yml"
HUB = "tests/instructor/hub.py"
ELSEWHERE = [
    # a command, why it is not run here, the file that runs it, and words that are in that file
    ("make demo", "takes a minute", f"{CLASS}/test_grading.py", "def graded"),
    ("make test", "takes ten minutes", ".ci/run", "make test\n"),
    ("make test-all", "takes hours", WORKFLOW, "make test-all"),
    (
        "make test-grading",
        "takes a quarter of an hour",
        ".ci/run",
        "make test-grading\n",
    ),
    ("make test-slow", "takes minutes", ".ci/run", "make test-slow\n"),
    ("make test-library", "takes minutes", ".ci/run", "make test-library"),
    ("make test-orders*", "takes hours", WORKFLOW, "make test-orders ORDERS="),
    ("make test-oldest", "takes minutes", ".ci/run", "make test-oldest"),
    ("make test-newest", "takes minutes", ".ci/run", "make test-newest"),
    ("make test-hub", "takes minutes", WORKFLOW, "make test-hub"),
    ("python3 -m venv /srv/hub", "changes the machine", "Makefile", ".venv-hub/installed:"),
    ("/srv/hub/bin/pip install *", "asks the package index", "Makefile", "$(@D) hub,test"),
    ("mkdir -m 777 /srv/exchange", "changes the machine", HUB, ".chmod(0o777)"),
    ("make test-colab", "takes minutes", ".ci/run", "make test-colab"),
    ("SHARDLINGS_EVERY=1 make test-newest", "takes hours", WORKFLOW, "make test-newest"),
    (".venv/bin/python -m pytest *", "is a test", WORKFLOW, "make test"),
    (".ci/run", "takes half an hour", WORKFLOW, "make test-oldest"),
    (".ci/newest-python *", "writes what tests compare", ".ci/run", "make test-newest"),
    ("make lock", "asks the package index", "tests/test_course.py", "def test_the_locks_hold"),
    ("make site", "takes minutes", "tests/test_site.py", '"-m", "website"'),
    ("make sync", "rewrites notebooks", FOLLOWED["docs/authoring.md"], "follow(HERE)"),
    ("make try *", "tries a whole bank", "tests/exercises/test_bank.py", "def test_"),
    ("make lab", "is a server", "tests/test_docs.py", "def test_the_course_opens_in_jupyterlab"),
    (".venv/bin/jupyter lab", "is a server", "tests/test_docs.py", "def test_the_course_opens"),
    ("git clone *", "asks GitHub", WORKFLOW, "actions/checkout"),
    ("pip install *", "asks the package index", "requirements/install.sh", 'by_uv -e ".[$extra]"'),
    (".venv/bin/pip install *", "asks the package index", "requirements/install.sh", "by_pip -e"),
    ("apt install *", "changes the machine", WORKFLOW, "bubblewrap libseccomp2"),
    ("make grade DB=*", "needs a server", "tests/instructor/gradebook/test_postgresql.py", "room"),
    ("make grade SCHEDULER=tls:*", "needs a network", f"{CLASS}/test_two_machines.py", "def test_"),
    ("dask *", "needs a network", f"{CLASS}/two_machines.py", '"--protocol", "tls"'),
    ("export DASK_*", "needs a network", f"{CLASS}/test_side_by_side.py", "certificates(tmp_path"),
    (
        "make collect *TIMES=*",
        "needs a platform's table",
        "tests/instructor/collecting/test_times.py",
        "def test_",
    ),
    ("make withdraw*", "changes who is in the class", f"{CLASS}/test_counting.py", "withdraw"),
    ("make feedback RELEASE=1", "needs an exchange", f"{CLASS}/test_by_hand.py", '"--release"'),
    (
        "* --exporter=*.Moodle *",
        "needs Moodle's ids",
        "tests/instructor/test_exporters.py",
        "Moodle",
    ),
    ("make gradescope*", "zips a checkout", "tests/instructor/test_gradescope.py", '"gradescope"'),
    ("docker *", "needs a container runtime", "tests/test_opening.py", "grader.Containerfile"),
    ("openssl *", "makes keys", f"{CLASS}/test_side_by_side.py", "def certificates"),
]

FILLED_IN = {
    "make collect": "make collect FROM=submissions.zip",
    "make grade AGAIN=1 STUDENT=…": "make grade AGAIN=1 STUDENT=ann",
}
"""What a reader would write for a command that a page leaves open."""

ON_ITS_OWN = ("make help", "bwrap ", "git tag ", "git push ")
"""The beginnings of commands that are run by a shell."""


class Block(NamedTuple):
    """A block of code on a page."""

    place: str
    about: str
    text: str

    @property
    def language(self) -> str:
        return self.about.partition(" ")[0]

    @property
    def page(self) -> str:
        return self.place.partition(":")[0]


def read(page):
    """The blocks of a page, in order; a command in a sentence is a block of its own."""
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text()):
        place = f"{page.relative_to(ROOT)}:{token.map[0] + 1}" if token.map else ""
        if token.type in ("fence", "code_block"):
            yield Block(place, token.info, token.content)
        for part in token.children or ():
            typed = " ".join(part.content.split())
            if part.type == "code_inline" and INLINE.match(typed):
                yield Block(place, "console inline", f"$ {typed}\n")


BLOCKS = [block for page in PAGES for block in read(page)]


def commands(block):
    """The commands in a block, without what they print and without remarks."""
    for line in block.text.splitlines():
        if line.startswith("$ "):
            yield re.sub(r"\s{2,}#.*", "", line.removeprefix("$ ")).strip()


COMMANDS = sorted({command for block in BLOCKS for command in commands(block)})


def in_class():
    """What is run here: each file once, and each command, where a page first has it."""
    known = set()
    for block in BLOCKS:
        if block.page in FOLLOWED and "inline" not in block.about:
            continue
        if " file=" in block.about:
            yield block, ""
        for command in commands(block) if block.language == "console" else ():
            if command not in known and not elsewhere(command):
                yield block, command
            known.add(command)


def elsewhere(command):
    """The entry of a command that is run elsewhere."""
    return next((entry for entry in ELSEWHERE if fnmatch.fnmatch(command, entry[0])), None)


def test_each_block_says_what_it_is():
    for block in BLOCKS:
        if block.page in FOLLOWED and block.language:
            continue
        assert block.language in ("console", "python", "text", "toml", "mermaid"), (
            f"{block.place}: begin this block with ```console, ```python, ```text for a picture, "
            f"or ```toml file=NAME for a file of a class, so that a test knows how to run it."
        )
        assert block.language != "toml" or " file=" in block.about, (
            f"{block.place}: write ```toml file=NAME, so that a test puts it into a class."
        )
        assert block.language != "console" or list(commands(block)), (
            f"{block.place}: begin each command with `$ `, which tells it from what it prints."
        )


def run_python(blocks):
    """Run the Python on a page, from top to bottom."""
    names = dict[str, object]()
    for block in blocks:
        if block.about == "python":
            exec(compile(block.text, block.place, "exec"), names)


def test_python_on_the_pages_runs():
    for page in {block.page for block in BLOCKS} - {"docs/communication.md"}:  # pytest's files
        run_python(block for block in BLOCKS if block.page == page)
    with pytest.raises(NameError):
        run_python([Block("page:1", "python", "x = 1"), Block("page:2", "python", "x + y")])


def test_pages_that_are_followed_elsewhere_are():
    for page, test in FOLLOWED.items():
        assert Path(page).name in (ROOT / test).read_text()


def test_what_is_run_elsewhere_is_and_is_on_a_page():
    for pattern, _, file, words in ELSEWHERE:
        assert words in (ROOT / file).read_text(), f"{pattern}: {file} does not run it any more"
        assert fnmatch.filter(COMMANDS, pattern), f"{pattern}: no page has it any more"


def test_make_understands_each_command(subtests):
    for command in COMMANDS:
        words = [word for word in shlex.split(command) if not word.startswith("SHARDLINGS_")]
        if words[0] == "make":
            with subtests.test(command):
                made = [*words, "-n", "-o", ".venv/installed"]
                done = subprocess.run(made, cwd=ROOT, capture_output=True, text=True, check=False)
                assert done.returncode == 0, done.stderr


@pytest.fixture
def room(tmp_path, monkeypatch):
    """A class of two, with a zip file, an exchange, and a repository that can be pushed."""
    assignments = ("01_sharding_basics", "06_shard_map_matmul", "ps1")
    room = plain_course(tmp_path / "class", assignments)
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    exchange.chmod(0o777)
    with (room.root / "nbgrader_config.py").open("a") as file:
        file.write(f"c.Exchange.root = {str(exchange)!r}\nc.LockedAutograde.calibrate = False\n")
    for student in ("ann", "bo"):
        hand_in(room, student, assignments[0])
    first = room.root / "grading" / "submitted" / "ann"
    with zipfile.ZipFile(room.root / "submissions.zip", "w") as archive:
        for path in first.rglob("*.ipynb"):
            archive.write(path, path.relative_to(first.parent))
    shutil.rmtree(first)  # until it is collected
    origin = tmp_path / "origin"
    identity = ("-c", "user.name=ann", "-c", "user.email=ann@example.edu")
    for arguments in (
        ("init", "-q", "--bare", origin),
        ("init", "-q"),
        ("remote", "add", "origin", origin),
        (*identity, "commit", "-q", "--allow-empty", "-m", "The course"),
    ):
        subprocess.run(["git", *arguments], cwd=room.root, check=True)
    monkeypatch.chdir(room.root)
    return room


def test_commands_and_files_of_a_class_work(room, subtests):
    for block, command in in_class():
        with subtests.test(f"{block.place} {command or block.about}"):
            if command:
                run(room, command)
            else:
                path = room.root / block.about.partition(" file=")[2]
                path.parent.mkdir(exist_ok=True)
                path.write_text(block.text)
    students = (room.root / "grading" / "students.csv").read_text("utf-8-sig")
    assert "Ann Lee" in students
    assert ",4.0," in (room.root / "grading" / "exercises.csv").read_text("utf-8-sig"), "by hand"


def run(room, command):
    """Run a command in the class."""
    copies = sorted((room.root / "grading" / "backups").glob("*.db"))
    filled_in = FILLED_IN.get(command, command)
    if copies:
        filled_in = filled_in.replace("grading/backups/…", str(copies[-1]))
    words = shlex.split(filled_in)
    if command.startswith(ON_ITS_OWN):
        if words[0] == "bwrap" and not has_bubblewrap():
            return
        where = ROOT if words[0] == "make" else room.root
        subprocess.run(filled_in, shell=True, cwd=where, check=True, capture_output=True)
    elif words[0] == "make":
        assert main(["--root", str(room.root), *instructor_arguments(room, words[1:])]) == 0
    elif words[0] == ".venv/bin/python" and words[1].endswith(".py"):
        subprocess.run([sys.executable, *words[1:]], cwd=room.root, check=True)
    elif "-m autograder.instructor" in command:
        assert main(["--root", str(room.root), *words[3:]]) == 0
    elif words[0] in ("nbgrader", ".venv/bin/nbgrader"):
        assert words[1] in NbGraderApp.subcommands
        if words[2:]:  # else it is the command's name
            room.nbgrader(*words[1:])
    else:
        pytest.fail(
            f"No test runs `{command}`. Add it to ELSEWHERE in tests/test_docs.py, with the test "
            f"that runs it, or to ON_ITS_OWN if a shell can run it anywhere in a second."
        )


def instructor_arguments(room, words):
    """What make gives to the package, which a script in place of Python prints."""
    python = room.root / "bin" / "python"
    python.parent.mkdir(exist_ok=True)
    python.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    python.chmod(0o755)
    make = ["make", "-s", "-f", ROOT / "Makefile", "-o", ".venv/installed", "BIN=bin", *words]
    done = subprocess.run(make, cwd=room.root, capture_output=True, text=True, check=True)
    option, module, *arguments = done.stdout.splitlines()
    assert (option, module) == ("-m", "autograder.instructor"), (
        f"`make {' '.join(words)}` acts on no class. Add it to ELSEWHERE in tests/test_docs.py, "
        f"with the test that runs it."
    )
    return arguments


TAKES = (
    "ASSIGNMENT",
    "STUDENT",
    "AGAIN",
    "WORKERS",
    "SCHEDULER",
    "RELEASE",
    "FROM",
    "ALL",
    "VISIBILITY",
    "CONTAINER",
    "TIMES",
    "BACK",
)


def test_the_reference_lists_what_each_instructors_command_takes(room):
    page = (ROOT / "docs" / "reference.md").read_text()
    listed = dict(re.findall(r"(?m)^\| `make (\w+)` \| [^|]* \| ([^|]*) \|$", page))
    for target, takes in listed.items():
        plain = instructor_arguments(room, [target])
        with_each = {name: instructor_arguments(room, [target, f"{name}=1"]) for name in TAKES}
        taken = {name for name, arguments in with_each.items() if arguments != plain}
        assert set(re.findall(r"`([A-Z]+)=", takes)) == taken - MEANT_FOR_ONE.get(target, set())
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(
        r"(?m)^(\w+): .*##.*\n\t@\$\(BIN\)/python -m autograder.instructor", makefile
    )
    assert set(targets) - {"exercise", "try"} == listed.keys()


MEANT_FOR_ONE = {"release": {"STUDENT"}}
"""Variables that make passes on, and that the command refuses."""


def test_each_target_of_make_is_on_a_page():
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"(?m)^([a-z-]+):.*## ", makefile)
    assert len(targets) > 20
    named = " ".join(COMMANDS)
    # what only saves a contributor some typing: `make help` lists it
    typing = {"format", "links", "benchmarks", "clean"}
    assert {target for target in targets if f"make {target}" not in named} <= typing


def test_the_tests_that_pages_name_exist():
    folders = (ROOT, ROOT / "tests", ROOT / "tests" / "instructor")  # as each page says
    named = {
        name
        for page in sorted((ROOT / "docs").glob("*.md"))
        for name in re.findall(r"`((?:[\w.]+/)*test_\w+\.py)`", page.read_text())
    }
    assert len(named) > 50
    assert [n for n in sorted(named) if not any((f / n).exists() for f in folders)] == []


def test_the_readme_is_short():
    words = len((ROOT / "README.md").read_text().split())
    assert words <= 900, f"README.md has {words} words; what is longer belongs on a page of docs/."


NEWS = "@jupyterlab/apputils-extension:notification"


@pytest.mark.slow
def test_the_course_opens_in_jupyterlab(tmp_path):
    """`make lab` starts a server with the course in it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "open_browser": False,
        "allow_root": True,
        "port": port,
        "token": "a",
        "ip": "127.0.0.1",
    }
    (tmp_path / "jupyter_server_config.json").write_text(json.dumps({"ServerApp": settings}))
    command = ["make", "-o", ".venv/installed", f"BIN={Path(sys.executable).parent}", "lab"]
    directories = {"JUPYTER_CONFIG_DIR": str(tmp_path), "JUPYTER_RUNTIME_DIR": str(tmp_path)}
    server = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **directories}, start_new_session=True
    )
    try:
        names = {
            entry["name"]
            for entry in json.loads(ask(f"http://127.0.0.1:{port}/api/contents?token=a"))["content"]
        }
        page = ask(f"http://127.0.0.1:{port}/lab?token=a").decode()
        news = json.loads(ask(f"http://127.0.0.1:{port}/lab/api/settings/{NEWS}?token=a"))
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait()
    assert "00_setup" in names
    (settings,) = re.findall(r"jupyter-config-data[^>]*>(.*?)</script>", page, re.DOTALL)
    off = json.loads(settings)["disabledExtensions"]
    assert "@jupyter/nbgrader" in off, "a learner neither validates nor creates assignments"
    assert news["schema"]["properties"]["fetchNews"]["default"] == "false", (
        "no question comes first"
    )


def ask(address):
    """What a server answers, once it does."""
    for _ in range(120):
        with contextlib.suppress(OSError), urllib.request.urlopen(address) as answer:
            return answer.read()
        time.sleep(0.5)
    pytest.fail("JupyterLab did not start within a minute.")
