"""nbgrader's configuration: where a course's parts are, and which plugins replace nbgrader's.

A course's `nbgrader_config.py` calls `configure`; `nbgrader` on the command line, Formgrader and
`make grade` all read that file. With our preprocessors, checks are judged from evidence; without
them, as in any course of nbgrader's, a failed check raises.

Formgrader's handlers get a content security policy here, because the Jupyter server around them
does not read this file; a policy in the server's own configuration is kept. The database version
for a new gradebook is read directly, because nbgrader's `alembic heads` takes four seconds.
"""

import contextlib
import os
import sys
import sysconfig
from pathlib import Path
from typing import Any, Final

import nbgrader.api
from alembic.script import ScriptDirectory
from nbgrader.dbutil import ALEMBIC_DIR
from nbgrader.preprocessors import (
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
)

from autograder.instructor.gradebook import VARIABLE, take_address
from autograder.instructor.nbgrader_plugins.autograde import install_autograde, install_stopping
from autograder.instructor.nbgrader_plugins.capture_evidence import CaptureEvidence
from autograder.instructor.nbgrader_plugins.feedback import CarefulReleaseFeedback, install_feedback
from autograder.instructor.nbgrader_plugins.judge_evidence import JudgeEvidence
from autograder.instructor.nbgrader_plugins.lateness import (
    LatePenalty,
    install_submission_times,
    install_timestamps,
)
from autograder.instructor.nbgrader_plugins.release import (
    GatherCells,
    Publish,
    RestoreCells,
    install_release,
)
from autograder.instructor.pages import FILES, FILTERS, of_formgrader

HEADER: Final = "Content-Security-Policy"


def install_page_policies() -> None:
    """Have Formgrader's handlers name their policies, where there are such handlers."""
    handlers: Any = sys.modules.get("nbgrader.server_extensions.formgrader.handlers")
    if handlers is None:  # to import them takes as long as to import a server
        return
    handlers.BaseHandler.content_security_policy = property(_of_pages)
    handlers.SubmissionFilesHandler.content_security_policy = property(_of_files)
    handlers.SubmissionFilesHandler.set_extra_headers = _download


def _of_pages(handler: Any) -> str:
    said = handler.settings.get("headers", {}).get(HEADER)
    mathjax = handler.settings["nbgrader_exporter"].mathjax_url
    return said or of_formgrader(mathjax)


def _of_files(_: Any) -> str:
    return FILES


def _download(handler: Any, _: str) -> None:
    handler.set_header("Content-Disposition", "attachment")


def newest_version() -> str:
    """What `alembic heads` says of nbgrader's gradebooks."""
    return str(ScriptDirectory(ALEMBIC_DIR).get_current_head())


def install_gradebook_version() -> None:
    """Have nbgrader ask this."""
    nbgrader.api.get_alembic_version = newest_version


def configure(c: Any, root: Path) -> None:
    """Say where a course's parts are, and put what is ours where nbgrader looks.

    Args:
        c: nbgrader's configuration, as `get_config()` gives it; what stands in it already stays,
            but for what is said here.
        root: the course's folder.
    """
    # `nbgrader db upgrade` runs `alembic` by name, which may not be on the path.
    scripts, path = sysconfig.get_path("scripts"), os.environ.get("PATH", "")
    if scripts not in path.split(os.pathsep):  # a longer one each time would be another sandbox
        os.environ["PATH"] = os.pathsep.join([scripts, path])
    install_autograde()
    install_release()
    install_feedback()
    install_gradebook_version()
    install_timestamps()
    install_submission_times()
    install_page_policies()
    install_stopping()
    with contextlib.suppress(OSError):  # who may not write here only reads
        (root / "grading").mkdir(exist_ok=True)  # for the gradebook: nbgrader expects it there
    c.CourseDirectory.root = str(root)
    c.CourseDirectory.course_id = "shardlings"
    c.CourseDirectory.source_directory = "solutions"
    c.CourseDirectory.release_directory = "course"
    c.CourseDirectory.submitted_directory = "grading/submitted"
    c.CourseDirectory.autograded_directory = "grading/autograded"
    c.CourseDirectory.feedback_directory = "grading/feedback"
    c.CourseDirectory.solution_directory = "grading/solution"
    said = os.environ.get(VARIABLE)  # DB=, for whoever has more than one machine at work
    file = f"sqlite:///{root / 'grading' / 'gradebook.db'}"
    c.CourseDirectory.db_url = take_address(said) if said else file
    c.CourseDirectory.ignore = [
        ".ipynb_checkpoints",
        "*.pyc",
        "__pycache__",
        "feedback",
        # nbgrader copies what is not ignored into the release, and to where submissions run.
        "*.md",
        "bank.py",
    ]

    # The line above the stub is `name = ...`, so an unsolved notebook runs to its end.
    c.ClearSolutions.code_stub = {"python": "# YOUR CODE HERE"}
    c.GenerateAssignment.preprocessors = [
        Publish,
        IncludeHeaderFooter,
        LockCells,
        ClearSolutions,
        ClearOutput,
        CheckCellMetadata,
        ComputeChecksums,
        GatherCells,  # in place of nbgrader's SaveCells
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
    c.ExchangeFactory.release_feedback = CarefulReleaseFeedback
    c.Autograde.autograde_preprocessors = [
        CaptureEvidence,
        JudgeEvidence,
        IgnorePattern,
        LimitOutput,
        CheckCellMetadata,  # scores and penalties are entered by `entering.py`
    ]

    c.AssignLatePenalties.plugin_class = LatePenalty
    # Formgrader and feedback pages show what strangers wrote; scripts of theirs would be one's own.
    c.HTMLExporter.sanitize_html = True
    c.HTMLExporter.filters = FILTERS
