"""Calibration: the grader has to pass a test of its own before anybody is graded.

In: an assignment's own notebooks, and the configuration that submissions are graded by. Out:
nothing where the solution earns every point and the released notebook none; else an error that
says why not. From how long the solution took comes how long a submission may take; and what the
two compiled need not be compiled again.
"""

from autograder.instructor.calibration.calibration import CalibrationError, calibrate

__all__ = ["CalibrationError", "calibrate"]
