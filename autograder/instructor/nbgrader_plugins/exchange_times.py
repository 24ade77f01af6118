"""Collecting from nbgrader's exchange, where students can put links and wrong names and times.

The time of a submission is when the system last saw its contents, owner or permissions change
(`st_ctime`): unlike all other times there, a student cannot set it to an earlier one.
"""

import os
import pwd
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from nbgrader.exchange.default import ExchangeCollect
from nbgrader.utils import parse_utc

from autograder.instructor import course
from autograder.instructor.commands import printable
from autograder.instructor.gradebook import as_naive_utc, as_utc

SOURCE: Final = "nbgrader's exchange, whose file system says when the files last changed"


class SafeCollect(ExchangeCollect):
    """Collects safe submissions, and records when their files last changed in the exchange."""

    def init_src(self) -> None:
        """Find each student's newest submission that is safe to copy, and report the unsafe."""
        super().init_src()
        self.src_records: list[Any] = [r for r in self.src_records if r["filename"]]

    def _path_to_record(self, path: str) -> dict[str, Any]:
        """Return a submission's student, folder and time; no folder if it must not be copied."""
        folder = Path(path)
        try:
            student, _, claimed, *_ = folder.name.rsplit("+", 3)
            time = min(parse_utc(claimed), _last_change(folder))
            problem = course.find_unsafe_file(folder)
            if self.check_owner and pwd.getpwnam(student).pw_uid != folder.lstat().st_uid:
                problem = problem or f"its owner is not {printable(student)}. Ask who it is."
        except KeyError:  # in containers, students have no accounts
            pass
        except OSError as error:
            problem = f"it cannot be read: {error.strerror}. Collect it again."
        except (OverflowError, ValueError):
            problem = "`nbgrader submit` names folders differently. Submit it again."
        if not problem:
            return {"filename": folder.name, "username": student, "timestamp": time}
        self.log.error("%s was not collected: %s", printable(folder.name), problem)
        # with a name of its own, so that nbgrader finds the student's earlier submission
        return {"filename": "", "username": path, "timestamp": datetime.min}

    def do_copy(self, src: str, dest: str) -> None:
        """Copy a submission, and record its time, unless it changes meanwhile."""
        changed = _last_change(Path(src))
        super().do_copy(src, dest)
        for folder, _, _ in os.walk(dest):
            os.chmod(folder, os.stat(folder).st_mode | 0o700)  # a later submission replaces it
        if course.find_unsafe_file(Path(src)) or _last_change(Path(src)) != changed:
            self.log.error("%s changed while it was copied. Collect again.", printable(src))
            shutil.rmtree(dest)
            return
        if (stamp := Path(dest, "timestamp.txt")).is_file():
            stamp.unlink()  # it may be read-only
            stamp.write_text(f"{changed} UTC")  # nbgrader compares it with later submissions
        pair = Path(dest).parent.name, Path(dest).name
        time = course.CollectedTime(as_utc(changed.replace(microsecond=0)), SOURCE)
        course.add_collected_times(Path(self.coursedir.root, "grading"), {pair: time})


def _last_change(folder: Path) -> datetime:
    """Return when anything in a folder last changed, as a naive time in UTC."""
    changes = (path.lstat().st_ctime for path in (folder, *folder.rglob("*")))
    return as_naive_utc(datetime.fromtimestamp(max(changes), UTC))
