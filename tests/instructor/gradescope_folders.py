"""A bundle in folders laid out as Gradescope's are, and a submission that attacks them."""

import json
import shutil
import subprocess
import zipfile

import nbformat

from autograder.instructor.__main__ import main
from tests.conftest import ROOT
from tests.instructor.room import ASSIGNMENT, Classroom

METADATA = {
    "id": 123456,
    "created_at": "2018-07-01T14:22:32.365935-07:00",
    "assignment": {"id": 25828, "title": "Programming Assignment 1", "total_points": "20.0"},
    "submission_method": "upload",
    "users": [{"email": "student@example.com", "id": 1234, "name": "Student User"}],
    "previous_submissions": [],
}

# Each line is tried, and what comes of it is printed.
HOSTILE = """
import os, subprocess, sys
from pathlib import Path
ROOT = Path({root!r})
TRIES = dict(
    results=lambda: (ROOT / "results/results.json").write_text('{{"score": 1000}}'),
    plants=lambda: os.symlink("/tmp/mine", ROOT / "results/other.json"),
    solution=lambda: (ROOT / "source/solutions/{name}/{name}.ipynb").read_text(),
    references=lambda: (ROOT / "source/autograder/exercises/catalogue.py").read_text(),
    imports=lambda: __import__("autograder.exercises"),
    links=lambda: os.symlink("/etc/passwd", ROOT / "submission/link"),
    metadata=lambda: (ROOT / "submission_metadata.json").write_text("{{}}"),
)
for name, attempt in TRIES.items():
    try:
        attempt()
        print(name, "SUCCEEDED")
    except BaseException as error:
        print(name, type(error).__name__)
subprocess.Popen(
    ["sh", "-c", "while :; do echo mine > {root}/results/results.json; sleep 0.1; done"],
    start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)
"""


def hostile(root):
    """A cell that tries to get points otherwise than by an answer."""
    return HOSTILE.format(root=str(root), name=ASSIGNMENT)


class Gradescope:
    """The folders of a Gradescope image, with a bundle in them."""

    def __init__(self, root, bundle):
        self.root = root
        for name in ("source", "submission", "results"):
            (root / name).mkdir(parents=True)
        with zipfile.ZipFile(bundle) as zipped:
            zipped.extractall(root / "source")
        for script in ("setup.sh", "run_autograder"):  # Gradescope's harness runs them
            (root / "source" / script).chmod(0o755)
        shutil.copy(root / "source" / "run_autograder", root)
        (root / "submission_metadata.json").write_text(json.dumps(METADATA))

    def hand_in(self, notebook):
        """Put a notebook where Gradescope puts a submission, in place of the last."""
        shutil.rmtree(self.root / "submission")
        (self.root / "submission").mkdir()
        nbformat.write(notebook, self.root / "submission" / f"{ASSIGNMENT}.ipynb")

    def run(self, **variables):
        """Run the autograder: its status, what it prints, and its results if there are any."""
        done = subprocess.run(
            [self.root / "run_autograder"],
            cwd=self.root,
            env={**variables, "AUTOGRADER": str(self.root)},
            capture_output=True,
            text=True,
            timeout=800,
            check=False,
        )
        results = self.root / "results" / "results.json"
        found = json.loads(results.read_text()) if results.exists() else None
        return done.returncode, done.stdout + done.stderr, found


def make_bundle(folder, visibility="visible", container=False):
    """Make the bundle of a notebook with one exercise."""
    room = Classroom.at(folder, until="1.1", calibrated=False)
    for name in ("shardlings", "autograder", "containers", "requirements"):
        shutil.copytree(ROOT / name, room.root / name)
    for name in ("LICENSE", "README.md", "nbgrader_config.py"):
        shutil.copy(ROOT / name, room.root)
    options = ["--visibility", visibility, *["--container-is-sandbox"] * container]
    command = ["--root", str(room.root), "gradescope", "--assignment", ASSIGNMENT]
    assert main([*command, *options]) == 0
    return room, room.root / "grading" / "exports" / f"gradescope-{ASSIGNMENT}.zip"


def fill_in(room, answers, first=""):
    """The room's released notebook, filled in."""
    return nbformat.read(room.hand_in("hypatia", answers, first=first), 4)
