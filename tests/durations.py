"""Print how long each folder's tests took, beside the last run that was recorded.

`SHARDLINGS_RECORD=1 make test` records a run in `durations.json`: the time by the clock, and the
seconds of all workers per folder. Machines differ, so the shares say more than the seconds.
"""

import json
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("durations.json")

MIN_TESTS = 1000
"""The table is printed only after a run of so many tests, because that of one file says nothing."""


class Durations:
    """A plugin that adds up durations by folder."""

    def __init__(self) -> None:
        self.seconds, self.tests, self.began = Counter[str](), 0, time.monotonic()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Add one phase of a test."""
        parts = report.nodeid.partition("::")[0].split("/")[1:]
        folder = "/".join(parts[:-1][:2]) or "tests/*.py"
        self.seconds[folder] += report.duration
        self.tests += report.when == "call"

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the table, and record it if that was asked for."""
        if self.tests < MIN_TESTS:
            return
        recorded = json.loads(FILE.read_text()) if FILE.exists() else {}
        found = {"by the clock": time.monotonic() - self.began, **dict(self.seconds.most_common())}
        for line in compare(found, recorded):
            terminalreporter.write_line(line)
        if os.environ.get("SHARDLINGS_RECORD"):
            rounded = {folder: round(seconds) for folder, seconds in found.items()}
            FILE.write_text(json.dumps(rounded, indent=2) + "\n")


def compare(found: dict[str, float], recorded: dict[str, float]) -> list[str]:
    """Return the lines of a table of seconds, with the recorded ones and the change."""
    lines = [f"{'seconds of':<30}{'now':>8}{'recorded':>10}"]
    for folder in [*found, *(folder for folder in recorded if folder not in found)]:
        now, before = found.get(folder, 0.0), recorded.get(folder)
        change = f"{now / before - 1:+8.0%}" if before else ""
        shown = f"{before:10.0f}" if before is not None else f"{'–':>10}"
        lines.append(f"{folder:<30}{now:8.0f}{shown}{change}")
    return lines
