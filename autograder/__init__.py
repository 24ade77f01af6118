"""The judge and grader, and what notebooks call: `check`, `hint`, `progress` and `target`.

`docs/architecture.md` describes the packages and how an answer becomes a grade. They use the words
of `shardlings`, the library below this package, and these:

- An *answer* is what a learner's cell has made: an array, a sharding, a function or a table. A
  *submission* is a notebook that a student hands in.
- A *placement* is a sharding's mesh and spec as plain data, from which a layout follows.
- An *argument* is an array that a function is called with, described by its shape, mesh and spec. A
  *sample* has values for all arguments of a function. A *case* is what a plain function is called
  with. An *artifact* is the bytes of an exported program.
- A *plan* says what to capture for an exercise, and *evidence* is what was captured. A *finding*
  says whether one requirement is met, and a *verdict* has all findings.
- A *diagnosis* names a mistake in a word or two, and a *lesson* is an exercise's explanation of it.
- To *grade* is to run a submission and judge its evidence. To *regrade* is to judge the stored
  evidence again. A *calibration* grades the course's own notebooks.
"""

from autograder import command_start as command_start  # isort: skip  # before what takes seconds
from autograder import course_packages as course_packages  # isort: skip  # before what needs them
from autograder.evidence import watch_cells
from autograder.notebook import check, hint, progress, target
from autograder.processes import on_processes
from shardlings.pictures import show_figures_in_page_colours

__all__ = ["check", "hint", "on_processes", "progress", "target"]

show_figures_in_page_colours()  # in figures of a notebook's own, too
watch_cells()  # so that a check knows which cells failed before it
