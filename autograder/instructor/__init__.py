"""The instructor's half: all that touches nbgrader, in rooms of its own.

`walls` and `course` stand on the ground; `calibration` is above them, then `plugins`, `authoring`
and `classroom`. A student's kernel imports none of it.
"""
