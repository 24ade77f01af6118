"""A bundle for Gradescope, installed and run in a root file system like that of its image.

debootstrap makes the file system, and chroot enters it. As in most containers, bubblewrap does not
work there: Linux gives a process whose root was changed no user namespace.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest

from autograder.instructor.sandbox import is_root
from tests.instructor.gradescope_folders import Gradescope, fill_in, hostile, make_bundle
from tests.instructor.room import ASSIGNMENT, RIGHT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        not is_root() or shutil.which("debootstrap") is None,
        reason="only root can make a root file system, with debootstrap",
    ),
]


def list_index_folders():
    """Return the folders with the settings of this machine's package index, and it, if it is one.

    Certificates, pip's settings, and what those name by a file's address.
    """
    settings = subprocess.run(
        ["pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    folders = re.findall(r"(?:file://|find-links='?)(/[^\s']+)", settings)
    wanted = ["/etc/ssl", "/etc/xdg", "/usr/share/ca-certificates", *folders]
    return [folder for folder in dict.fromkeys(wanted) if Path(folder).is_dir()]


class Image:
    """A root file system with a bundle in `/autograder`."""

    def __init__(self, root):
        self.root = root
        packages = "python3,python3-venv,ca-certificates"
        command = ["debootstrap", "--variant=minbase", f"--include={packages}", "testing"]
        subprocess.run([*command, str(root)], check=True, capture_output=True)
        for name in ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf"):
            if Path(name).exists():
                shutil.copy(name, root / name[1:])
        # Debian's lists are only valid for a week, and this machine may be one without a clock
        valid = root / "etc" / "apt" / "apt.conf.d" / "99valid"
        valid.write_text('Acquire::Check-Valid-Until "false";\n')

    def run(self, *command):
        """Run a command in it; its status, and what it prints."""
        mounts = [f"mount -t proc proc {self.root}/proc", f"mount --rbind /dev {self.root}/dev"]
        for folder in list_index_folders():
            (self.root / folder[1:]).mkdir(parents=True, exist_ok=True)
            mounts.append(f"mount --rbind {folder} {self.root}{folder}")
        script = f'set -e; {"; ".join(mounts)}; exec chroot {self.root} "$@"'
        kept = {k: v for k, v in os.environ.items() if k.startswith(("PIP_", "UV_", "SSL_"))}
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, "sh", *command],
            env={**kept, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """The image of a bundle, for which the container is the sandbox, after `setup.sh`."""
    folder = tmp_path_factory.mktemp("image")
    room, bundle = make_bundle(folder / "course", container=True)
    image = Image(folder / "root")
    gradescope = Gradescope(folder / "root" / "autograder", bundle)
    status, printed = image.run("/autograder/source/setup.sh")
    assert status == 0, printed
    return room, image, gradescope


def grade(image, gradescope, notebook):
    """Grade a notebook, and return Gradescope's results."""
    gradescope.hand_in(notebook)
    status, printed = image.run("/autograder/run_autograder")
    assert status == 0, printed
    assert "so the container is the sandbox" in printed
    return json.loads((gradescope.root / "results" / "results.json").read_text())


def test_a_right_answer_gets_its_points(image):
    room, image, gradescope = image
    results = grade(image, gradescope, fill_in(room, {"1.1": RIGHT["1.1"]}))
    assert (results["score"], results["output"]) == (1, "")


def test_a_submission_that_writes_results_or_reads_answers_gets_no_point_by_it(image):
    room, image, gradescope = image
    notebook = fill_in(room, {}, first=hostile("/autograder"))
    assert grade(image, gradescope, notebook)["score"] == 0
    assert os.listdir(gradescope.root / "results") == ["results.json"]


def test_every_attempt_on_answers_and_results_fails(image):
    room, image, gradescope = image
    gradescope.hand_in(fill_in(room, {}, first=hostile("/autograder")))
    script = (
        "import json; from pathlib import Path; from rich.console import Console\n"
        "from autograder.instructor.course import Course\n"
        "from autograder.instructor.one_submission import prepare_grader\n"
        f"grader = prepare_grader(Course(Path('.')), Console(), {ASSIGNMENT!r}, True)\n"
        "outcome = grader.grade(Path('/autograder/submission'))\n"
        f"Path('/graded.ipynb').write_text(outcome.notebooks[{ASSIGNMENT!r}])\n"
    )
    run = f'cd /autograder/source && .venv/bin/python -c "{script}"'
    status, printed = image.run("bash", "-c", run)
    assert status == 0, printed
    (cell,) = [
        cell
        for cell in nbformat.read(image.root / "graded.ipynb", 4).cells
        if "attempt()" in cell.source
    ]
    attempts = "".join(output.get("text", str(output)) for output in cell.outputs).splitlines()
    assert dict(line.split() for line in attempts if len(line.split()) == 2) == {
        "results": "PermissionError",
        "plants": "PermissionError",
        "solution": "PermissionError",
        "references": "PermissionError",
        "imports": "ModuleNotFoundError",
        "links": "PermissionError",
        "metadata": "PermissionError",
    }


def test_without_being_told_that_the_container_is_the_sandbox_it_refuses(image):
    _, image, gradescope = image
    settings = gradescope.root / "source" / "settings.sh"
    before = settings.read_text()
    settings.write_text(before.replace("--container-is-sandbox", "''"))
    status, printed = image.run("/autograder/run_autograder")
    settings.write_text(before)
    assert status == 1
    assert "no working bubblewrap" in printed
    assert not (gradescope.root / "results" / "results.json").exists()
