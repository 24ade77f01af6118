"""Submission times from nbgrader's exchange that a student cannot set.

A student writes the exchange's `timestamp.txt` and the time in the folder's name, and can set when
files were modified. But the system notes when a file's contents, owner or permissions last changed
(`st_ctime`), and a student's program cannot set that to an earlier time.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from nbgrader.exchange.default import ExchangeCollect

from autograder.instructor.course import CollectedTime, Course, add_collected_times

SOURCE: Final = "nbgrader's exchange, whose file system says when the files last changed"


class CarefulCollect(ExchangeCollect):
    """Collects submissions, and records when their files last changed in the exchange."""

    def do_copy(self, src: str, dest: str) -> None:
        """Copy a submission, and record its time."""
        paths = [Path(src), *Path(src).rglob("*")]
        changed = max(path.lstat().st_ctime for path in paths)
        super().do_copy(src, dest)
        pair = Path(dest).parent.name, Path(dest).name
        time = CollectedTime(datetime.fromtimestamp(int(changed), UTC), SOURCE)
        add_collected_times(Course(Path(self.coursedir.root)).grading, {pair: time})
