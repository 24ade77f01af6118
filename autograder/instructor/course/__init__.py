"""The course on disk: its folders, the lock for grading, the class's files, and submissions.

In: a folder with `nbgrader_config.py`. Out: a `Course`; the reason why a submission cannot be
accepted, before any of it is copied, opened or run; its notebook, rewritten in the sandbox.
"""

from autograder.instructor.course.atomic_files import write_atomically, write_first
from autograder.instructor.course.class_file import (
    DROPPED,
    EXEMPT,
    TIMES_FILE,
    WITHDRAWN_FILE,
    ClassError,
    ClassRules,
    WrittenTableError,
    describe_duration,
    is_written,
    modification_times,
    parse_time,
    read_class_file,
    read_table,
    read_time_zone,
    read_times,
    read_withdrawn,
    suggest_names,
)
from autograder.instructor.course.collected_times import (
    CollectedTime,
    add_collected_times,
    read_collected_times,
)
from autograder.instructor.course.course import (
    NAMESPACE,
    NOT_RUN,
    REBUILDING_FILE,
    Course,
    ReleaseError,
    find_first_exception,
    list_folder,
)
from autograder.instructor.course.names import (
    ACCEPTED_SUFFIXES,
    EXCHANGE_FILES,
    begin_sentence,
    describe_rejected_files,
    escape_surrogates,
    is_accepted_file,
    printable,
    show_control_characters,
    show_invisible_characters,
    with_noun,
)
from autograder.instructor.course.notebook_rewriting import (
    BASE64,
    MAX_PICTURE_CHARACTERS,
    PICTURE_TYPES,
)
from autograder.instructor.course.process_executor import ProcessExecutor
from autograder.instructor.course.reading_submissions import (
    MAX_NOTEBOOK_BYTES,
    MAX_SUBMISSION_BYTES,
    ReaderFailedError,
    RewrittenNotebook,
    UnreadableError,
    explain_missing_notebook,
    find_notebook_problem,
    find_unsafe_file,
    read_in_sandbox,
)
from autograder.instructor.course.stopping import STOPPED, STOPPED_STATUSES, stop_on_signal
from autograder.instructor.course.temporary_files import keep_temporary_files
from autograder.instructor.gradebook import BusyError, GradebookError

__all__ = [
    "ACCEPTED_SUFFIXES",
    "BASE64",
    "DROPPED",
    "EXCHANGE_FILES",
    "EXEMPT",
    "MAX_NOTEBOOK_BYTES",
    "MAX_PICTURE_CHARACTERS",
    "MAX_SUBMISSION_BYTES",
    "NAMESPACE",
    "NOT_RUN",
    "PICTURE_TYPES",
    "REBUILDING_FILE",
    "STOPPED",
    "STOPPED_STATUSES",
    "TIMES_FILE",
    "WITHDRAWN_FILE",
    "BusyError",
    "ClassError",
    "ClassRules",
    "CollectedTime",
    "Course",
    "GradebookError",
    "ProcessExecutor",
    "ReaderFailedError",
    "ReleaseError",
    "RewrittenNotebook",
    "UnreadableError",
    "WrittenTableError",
    "add_collected_times",
    "begin_sentence",
    "describe_duration",
    "describe_rejected_files",
    "escape_surrogates",
    "explain_missing_notebook",
    "find_first_exception",
    "find_notebook_problem",
    "find_unsafe_file",
    "is_accepted_file",
    "is_written",
    "keep_temporary_files",
    "list_folder",
    "modification_times",
    "parse_time",
    "printable",
    "read_class_file",
    "read_collected_times",
    "read_in_sandbox",
    "read_table",
    "read_time_zone",
    "read_times",
    "read_withdrawn",
    "show_control_characters",
    "show_invisible_characters",
    "stop_on_signal",
    "suggest_names",
    "with_noun",
    "write_atomically",
    "write_first",
]
