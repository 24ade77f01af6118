"""How long a notebook may take: as told by how long its own solution took here."""

from pathlib import Path
from typing import Final

import msgspec
from traitlets.config import Config

TIMES: Final = 20
"""How many times as long as the solution a submission may take."""

LEAST: Final = 60
"""The fewest seconds that a notebook is given: what is quick here may once be slow."""


class Calibration(msgspec.Struct, frozen=True):
    """A calibration that was passed.

    Attributes:
        fingerprint: the state that it holds for.
        seconds: how long grading the solution took.
        cells: how long each code cell of the solution ran, by notebook.
    """

    fingerprint: str
    seconds: float
    cells: dict[str, list[float]]


def memory(root: Path, assignment: str) -> Path:
    """The file in which a course keeps what its last good calibration of an assignment was."""
    return root / "grading" / "calibration" / f"{assignment}.json"


def remembered(file: Path) -> Calibration | None:
    """The last calibration that was good; None where there was none."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Calibration)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def usual_seconds(root: Path, assignment: str) -> float:
    """How long grading an assignment's solution took here; 0 where that is not known."""
    calibration = remembered(memory(root, assignment))
    return calibration.seconds if calibration is not None else 0.0


def time_limit(config: Config, assignment: str, notebook: str) -> int | None:
    """How many seconds a notebook may run; None where that is not for calibration to say.

    Args:
        config: the configuration that it is graded by; `Sandbox.seconds` there wins.
        assignment: which it is of.
        notebook: its name, without what all notebooks end with.
    """
    root = config.CourseDirectory.get("root")
    told = "Sandbox.seconds" in config or config.CarefulAutograde.get("calibrate") is False
    if told or root is None:
        return None
    calibration = remembered(memory(Path(root), assignment))
    cells = calibration.cells.get(f"{notebook}.ipynb") if calibration is not None else None
    return max(LEAST, round(TIMES * sum(cells))) if cells is not None else None
