"""A pytest fixture that compares a program's communication with a stored baseline.

    def test_step(communication_baseline):
        communication_baseline.check(communication(step, params, batch))

The first time, and after each change that is meant, `pytest --update-communication` writes the
baseline beside the test, to be committed.
"""

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from shardlings.programs import Report, TargetReports

FOLDER: Final = "communication"
"""The folder of baselines, beside the file with the test."""

UPDATE: Final = "--update-communication"

TOLERANCE: Final = 0.02
"""The share by which a number may grow before a test fails."""

PLAIN: Final = re.compile(r"[\w.-]+(\[[\w.-]*[\w.]\])?(-[\w.-]+( [\w.-]+)*(?<!-))?")
"""Names of tests that differ in more than the characters that a file name cannot have."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes baselines."""
    group = parser.getgroup("shardlings")
    group.addoption(UPDATE, action="store_true", help="write the baselines of communication")


@dataclass(frozen=True)
class CommunicationBaseline:
    """The baselines of one test.

    Attributes:
        folder: where they are stored.
        test: the test's name.
        is_updated: whether they are written and not compared.
        checked: the names that were checked already, with hyphens for spaces.
    """

    folder: Path
    test: str
    is_updated: bool
    checked: set[str] = field(default_factory=set)

    def check(
        self, report: "Report | TargetReports", name: str = "", tolerance: float = TOLERANCE
    ) -> None:
        """Assert that a program communicates, holds and computes no more than its baseline says.

        Args:
            report: what `communication(f, x)` returns; with a target, the program for it counts.
            name: tells several baselines of one test apart.
            tolerance: the share by which bytes, memory and operations may grow.

        Raises:
            TypeError: this is no report.
            ValueError: the test has checked another report of this name.
            AssertionError: there is no baseline, or something has grown. The message has what is
                new, gone, larger and smaller, by lines of code.
        """
        __tracebackhide__ = True
        from shardlings.programs import (
            Report,
            StoredReport,
            StoredReportError,
            TargetReports,
            compare,
        )

        if not isinstance(report, Report | TargetReports):
            raise TypeError(
                f"check expects what communication(f, x) returns, but got {type(report).__name__}."
            )
        words = name.replace(" ", "-")  # as in the name of the file
        if words in self.checked:
            raise ValueError(
                "A test that checks several reports gives each a name: "
                "communication_baseline.check(report, name=…)."
            )
        self.checked.add(words)
        path, stored = self._path(name), StoredReport.of(report)
        if self.is_updated:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(stored.to_json(), encoding="utf-8")
            return
        if not path.exists():
            raise AssertionError(
                f"There is no baseline {path}. pytest {UPDATE} writes it, to be committed."
            )
        try:
            before = StoredReport.from_json(path.read_text(encoding="utf-8"))
        except StoredReportError as error:
            raise AssertionError(f"{path}: {error}") from None
        comparison = compare(before, stored)
        if grown := comparison.find_growth(tolerance):
            meant = f"If that is meant, pytest {UPDATE} writes {path} again."
            raise AssertionError("\n".join([*grown, "", str(comparison), "", meant]))

    def _path(self, name: str) -> Path:
        whole = f"{self.test}-{name}" if name else self.test
        stem = re.sub(r"[^\w.-]+", "-", whole).strip("-")
        if not PLAIN.fullmatch(whole):  # "n<2" and "n>2" would both be "n-2"
            stem = f"{stem}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
        return self.folder / f"{stem}.json"


@pytest.fixture
def communication_baseline(request: pytest.FixtureRequest) -> CommunicationBaseline:
    """Compare what programs communicate with baselines that are stored beside the test."""
    path = request.path
    name, bracket, parameters = request.node.nodeid.partition("::")[2].partition("[")
    return CommunicationBaseline(
        path.parent / FOLDER,
        f"{path.stem}-{name.replace('::', '-')}{bracket}{parameters}",
        bool(request.config.getoption(UPDATE)),
    )
