"""The course on disk: its folders, the lock for grading, the class's files, and submissions.

In: a folder with `nbgrader_config.py`. Out: a `Course`; the reason why a submission cannot be
accepted, before any of it is copied, opened or run; its notebook, rewritten in the sandbox.
"""

from autograder.instructor.course.accepted_files import (
    EXCHANGE_FILES,
    describe_rejected_files,
    is_accepted_file,
)
from autograder.instructor.course.class_file import (
    CLASS_FILE,
    DAY_SECONDS,
    DROPPED,
    EXEMPT,
    ClassRules,
    parse_time,
    read_class_file,
    read_time_zone,
)
from autograder.instructor.course.class_tables import (
    TIMES_FILE,
    WITHDRAWN_FILE,
    modification_times,
    read_times,
    read_withdrawals,
    read_withdrawn,
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
    find_first_exception,
    list_folder,
)
from autograder.instructor.course.notebook_rewriting import (
    BASE64,
    MAX_PICTURE_CHARACTERS,
    PICTURE_TYPES,
    WORD,
    list_read_names,
)
from autograder.instructor.course.platform_settings import (
    ANY_PLATFORM_COLUMN,
    MOODLE_ID_PREFIX,
    PLATFORM_COLUMNS,
    PLATFORM_ID_COLUMNS,
)
from autograder.instructor.course.reading_submissions import (
    MAX_NOTEBOOK_BYTES,
    MAX_SUBMISSION_BYTES,
    UnreadableError,
    explain_missing_notebook,
    find_notebook_problem,
    find_unsafe_file,
    read_in_sandbox,
)
from autograder.instructor.course.written_tables import (
    ClassError,
    WrittenTableError,
    compose_name,
    is_written,
    read_column_name,
    read_table,
)
from autograder.instructor.gradebook import BusyError, GradebookError

__all__ = [
    "ANY_PLATFORM_COLUMN",
    "BASE64",
    "CLASS_FILE",
    "DAY_SECONDS",
    "DROPPED",
    "EXCHANGE_FILES",
    "EXEMPT",
    "MAX_NOTEBOOK_BYTES",
    "MAX_PICTURE_CHARACTERS",
    "MAX_SUBMISSION_BYTES",
    "MOODLE_ID_PREFIX",
    "NAMESPACE",
    "NOT_RUN",
    "PICTURE_TYPES",
    "PLATFORM_COLUMNS",
    "PLATFORM_ID_COLUMNS",
    "REBUILDING_FILE",
    "TIMES_FILE",
    "WITHDRAWN_FILE",
    "WORD",
    "BusyError",
    "ClassError",
    "ClassRules",
    "CollectedTime",
    "Course",
    "GradebookError",
    "UnreadableError",
    "WrittenTableError",
    "add_collected_times",
    "compose_name",
    "describe_rejected_files",
    "explain_missing_notebook",
    "find_first_exception",
    "find_notebook_problem",
    "find_unsafe_file",
    "is_accepted_file",
    "is_written",
    "list_folder",
    "list_read_names",
    "modification_times",
    "parse_time",
    "read_class_file",
    "read_collected_times",
    "read_column_name",
    "read_in_sandbox",
    "read_table",
    "read_time_zone",
    "read_times",
    "read_withdrawals",
    "read_withdrawn",
]
