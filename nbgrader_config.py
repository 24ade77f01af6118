"""nbgrader's configuration: where the course's parts are, and who judges.

`nbgrader` on the command line, Formgrader and `make grade` all read this file. Take away the two
lists of preprocessors, and nbgrader still works, as it does everywhere: a failed check raises.
"""

import contextlib
import os
import sysconfig
from pathlib import Path

from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    ClearHiddenTests,
    ClearMarkScheme,
    ClearOutput,
    ClearSolutions,
    ComputeChecksums,
    IgnorePattern,
    IncludeHeaderFooter,
    LimitOutput,
    LockCells,
    OverwriteCells,
    OverwriteKernelspec,
    SaveAutoGrades,
    SaveCells,
)

from autograder.instructor import careful, cleaning, releasing
from autograder.instructor.capturing import CaptureEvidence
from autograder.instructor.judging import JudgeEvidence
from autograder.instructor.publishing import Publish
from autograder.instructor.restoring import RestoreCells

c = get_config()

# nbgrader runs `alembic` by name; it stands beside nbgrader, which may not be on the path.
os.environ["PATH"] = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])

careful.install()
releasing.install()

root = Path(__file__).resolve().parent
with contextlib.suppress(OSError):  # who may not write here only reads
    (root / "grading").mkdir(exist_ok=True)  # the gradebook's, which nbgrader expects to be there
c.CourseDirectory.root = str(root)
c.CourseDirectory.course_id = "shardlings"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "course"
c.CourseDirectory.submitted_directory = "grading/submitted"
c.CourseDirectory.autograded_directory = "grading/autograded"
c.CourseDirectory.feedback_directory = "grading/feedback"
c.CourseDirectory.solution_directory = "grading/solution"
c.CourseDirectory.db_url = f"sqlite:///{root / 'grading' / 'gradebook.db'}"
c.CourseDirectory.ignore = [
    ".ipynb_checkpoints",
    "*.pyc",
    "__pycache__",
    "feedback",
    # nbgrader copies what is not ignored into the release, and to where submissions run.
    "*.md",
    "bank.py",
    "*.evidence.json",
    "*.graded",
]

# Notebooks run from top to bottom with nothing filled in: the line above the stub is `name = ...`.
c.ClearSolutions.code_stub = {"python": "# YOUR CODE HERE"}
c.GenerateAssignment.preprocessors = [
    Publish,
    IncludeHeaderFooter,
    LockCells,
    ClearSolutions,
    ClearOutput,
    CheckCellMetadata,
    ComputeChecksums,
    SaveCells,
    ClearHiddenTests,
    ClearMarkScheme,
    ComputeChecksums,
    CheckCellMetadata,
]
c.Publish.pyproject = str(root / "pyproject.toml")

c.Autograde.sanitize_preprocessors = [
    ClearOutput,
    OverwriteKernelspec,
    RestoreCells,  # in place of nbgrader's DeduplicateIds
    OverwriteCells,
    CheckCellMetadata,
]
c.Autograde.autograde_preprocessors = [
    CaptureEvidence,
    JudgeEvidence,
    IgnorePattern,
    LimitOutput,
    SaveAutoGrades,
    AssignLatePenalties,
    CheckCellMetadata,
]

# Formgrader and feedback pages show what strangers wrote; scripts of theirs would be one's own.
c.HTMLExporter.sanitize_html = True
c.HTMLExporter.filters = cleaning.FILTERS
