"""Shardlings: what a notebook of the course imports.

The rooms, from the ground up: `errors` and `pictures`; `layouts` and `programs`; `evidence`;
`exercises`; `judge`; what a notebook calls; and the instructor's half. `docs/architecture.md` draws
them. In all of them,

- an *answer* is what a learner's cell has made: an array, a sharding, a function, a table;
- a *layout* says which device holds which *block* of an array; a *placement* is the mesh and the
  spec that a sharding was made of, as data, from which a layout follows;
- an *argument* is an array that a function is given, described by shape, mesh and spec; a *draw* is
  one set of values for a function's arguments; a *case* is what a plain function is called with;
- a *program* is a function as StableHLO or as compiled; an *artifact* is the bytes of an exported
  one; a *collective* is asked for by hand (*requested*) or made by the compiler (*compiled*);
- a *plan* says what capturing has to know of an exercise, *evidence* is what leaves the kernel, a
  *finding* is what became of one requirement, and a *verdict* is all findings;
- a *picture* is what is drawn; a *diagnosis* names what is wrong in a word or two, and a *lesson*
  is what an exercise has to say of it;
- to *grade* is to run a submission and have it judged; a *calibration* grades the course's own
  notebooks, and a class is judged again (*regraded*) from the evidence that was kept.
"""

from autograder.devices import emulate_devices
from autograder.evidence import watch_cells
from autograder.layouts import show
from autograder.notebook import check, hint, progress, target
from autograder.processes import on_processes
from autograder.programs import communication

__all__ = [
    "check",
    "communication",
    "emulate_devices",
    "hint",
    "on_processes",
    "progress",
    "show",
    "target",
]

watch_cells()  # a check is to know of the cells that ran before it and stopped
