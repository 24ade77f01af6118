"""nbgrader's configuration: the course's folders, and the plugins that replace nbgrader's.

A course's `nbgrader_config.py` calls `configure`; `nbgrader` on the command line, Formgrader and
`make grade` all read that file. With our preprocessors, the judge grades evidence; without them a
check is an ordinary nbgrader test, which raises if it fails.

Formgrader's handlers get a content security policy here, because the Jupyter server around them
does not read this file; a policy in the server's own configuration is kept. The database version
for a new gradebook is read directly, because nbgrader's `alembic heads` takes four seconds.
"""

import contextlib
import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

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

from autograder.instructor.gradebook import ADDRESS_VARIABLE, install_engine, parse_address
from autograder.instructor.nbgrader_plugins.autograde import install_autograde, install_stopping
from autograder.instructor.nbgrader_plugins.capture_evidence import CaptureEvidence
from autograder.instructor.nbgrader_plugins.exchange_times import SafeCollect
from autograder.instructor.nbgrader_plugins.feedback import ReleaseNewFeedback, install_feedback
from autograder.instructor.nbgrader_plugins.judge_evidence import JudgeEvidence
from autograder.instructor.nbgrader_plugins.lateness import (
    LatePenalty,
    install_submission_times,
    install_timestamps,
)
from autograder.instructor.nbgrader_plugins.publishing import (
    ClearTraces,
    CompleteStubs,
    ExpandTests,
    Publish,
)
from autograder.instructor.nbgrader_plugins.release import (
    GatherCells,
    RestoreCells,
    install_release,
)
from autograder.instructor.pages import FILES, FILTERS, formgrader_policy


def install_handlers() -> None:
    """Change Formgrader's handlers, if they are imported: their policies, and how they end."""
    handlers: Any = sys.modules.get("nbgrader.server_extensions.formgrader.handlers")
    if handlers is None:  # importing them would import a whole server
        return
    handlers.BaseHandler.content_security_policy = property(_page_policy)
    handlers.SubmissionFilesHandler.content_security_policy = property(_file_policy)
    handlers.SubmissionFilesHandler.set_extra_headers = _set_download_header
    handlers.BaseHandler.on_finish = _end_transaction


def _page_policy(handler: Any) -> str:
    policy = handler.settings.get("headers", {}).get("Content-Security-Policy")
    mathjax = handler.settings["nbgrader_exporter"].mathjax_url
    return policy or formgrader_policy(mathjax)


def _file_policy(_: Any) -> str:
    return FILES


def _set_download_header(handler: Any, _: str) -> None:
    handler.set_header("Content-Disposition", "attachment")


def _end_transaction(handler: Any) -> None:
    """End a request's transaction.

    All requests share a session. After a score could not be saved, because the gradebook was
    locked, the session would refuse every later one until the server starts again.
    """
    gradebook = handler.settings["nbgrader_gradebook"]
    if gradebook is not None:
        gradebook.db.rollback()


def read_schema_version() -> str:
    """Return the newest version of nbgrader's database schema, as `alembic heads` prints it."""
    return str(ScriptDirectory(ALEMBIC_DIR).get_current_head())


def install_gradebook_version() -> None:
    """Make nbgrader use `read_schema_version`."""
    nbgrader.api.get_alembic_version = read_schema_version


def configure(c: Any, root: Path) -> None:
    """Configure a course's folders and preprocessors, and install our replacements in nbgrader.

    Args:
        c: nbgrader's configuration, as `get_config()` returns it. Settings that are not set here
            stay as they are.
        root: the course's folder.
    """
    _install_all()
    with contextlib.suppress(OSError):  # without the right to write, a user can still read
        (root / "grading").mkdir(exist_ok=True)  # nbgrader does not make the gradebook's folder
    _configure_folders(c, root)
    _configure_release(c, root)
    _configure_grading(c)
    c.ExchangeFactory.collect = SafeCollect
    c.ExchangeFactory.release_feedback = ReleaseNewFeedback
    # Formgrader and feedback pages show students' HTML, whose scripts would run as the viewer.
    c.HTMLExporter.sanitize_html = True
    c.HTMLExporter.filters = FILTERS


def _install_all() -> None:
    """Install our replacements in nbgrader, and let it find the programs that it runs by name."""
    # `nbgrader db upgrade` runs `alembic` by name, which may not be on the path.
    scripts, path = sysconfig.get_path("scripts"), os.environ.get("PATH", "")
    # PATH is part of a sandbox's command, so if it grew with each call, no warm server would match
    if scripts not in path.split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join([scripts, path])
    install_autograde()
    install_release()
    install_feedback()
    install_gradebook_version()
    install_engine()
    install_timestamps()
    install_submission_times()
    install_handlers()
    install_stopping()


def _configure_folders(c: Any, root: Path) -> None:
    """Configure where everything is: the course's folders, and the gradebook."""
    c.CourseDirectory.root = str(root)
    c.CourseDirectory.course_id = "shardlings"
    c.CourseDirectory.source_directory = "solutions"
    c.CourseDirectory.release_directory = "course"
    c.CourseDirectory.submitted_directory = "grading/submitted"
    c.CourseDirectory.autograded_directory = "grading/autograded"
    c.CourseDirectory.feedback_directory = "grading/feedback"
    c.CourseDirectory.solution_directory = "grading/solution"
    address = os.environ.get(ADDRESS_VARIABLE)  # DB=…, for grading on more than one machine
    file = f"sqlite:///{root / 'grading' / 'gradebook.db'}"
    c.CourseDirectory.db_url = parse_address(address) if address else file
    c.CourseDirectory.ignore = [
        ".ipynb_checkpoints",
        "*.pyc",
        "__pycache__",
        "feedback",
        # nbgrader copies files that are not ignored into the release, and to where submissions run.
        "*.md",
        "bank.py",
    ]


def _configure_release(c: Any, root: Path) -> None:
    """Configure how the notebooks that students open are made of the solutions."""
    # The line above the stub is `name = ...`, so an unsolved notebook runs to its end.
    c.ClearSolutions.code_stub = {"python": "# YOUR CODE HERE"}
    c.GenerateAssignment.preprocessors = [
        Publish,
        IncludeHeaderFooter,
        ExpandTests,  # in place of nbgrader's InstantiateTests
        LockCells,
        ClearSolutions,
        CompleteStubs,
        ClearOutput,
        CheckCellMetadata,
        ComputeChecksums,
        GatherCells,  # in place of nbgrader's SaveCells
        ClearHiddenTests,
        ClearMarkScheme,
        ClearTraces,
        ComputeChecksums,
        CheckCellMetadata,
    ]
    c.ClearMarkScheme.check_attachment_leakage = False  # `ClearTraces` removes them
    c.Publish.pyproject = str(root / "pyproject.toml")


def _configure_grading(c: Any) -> None:
    """Configure how a submission is prepared, run and judged, and what it loses by being late."""
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
        CheckCellMetadata,  # `entering.py` enters scores and penalties
    ]

    c.AssignLatePenalties.plugin_class = LatePenalty
