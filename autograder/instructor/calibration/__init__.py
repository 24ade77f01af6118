"""Calibration: the grader has to pass a test of its own before anybody is graded.

In: an assignment's own notebooks, and the configuration that submissions are graded by. Out:
nothing where the solution earns every point and the released notebook none; else an error that
says why not. From how long the solution took comes how long a submission may take; and what the
two compiled need not be compiled again.
"""

from autograder.instructor.calibration import fingerprint
from autograder.instructor.calibration.basis import JUDGED, Basis, of_grades
from autograder.instructor.calibration.calibration import CalibrationError, calibrate
from autograder.instructor.calibration.compiled_before import compiled_before
from autograder.instructor.calibration.time_limits import time_limit, usual_seconds
from autograder.instructor.calibration.versions import versions

__all__ = [
    "JUDGED",
    "Basis",
    "CalibrationError",
    "calibrate",
    "compiled_before",
    "fingerprint",
    "of_grades",
    "time_limit",
    "usual_seconds",
    "versions",
]
