"""What a compiler made of a program: HLO text, read as instructions, and never searched.

In: the text of a compiled program, in which a learner may have named things. Out: its
collectives, with their mesh axes, bytes, number of runs, and where they come from.
"""

from autograder.programs.compiled.collectives import read
from autograder.programs.compiled.hlo import parse
from autograder.programs.compiled.work_in_loops import work_of_further_rounds

__all__ = ["parse", "read", "work_of_further_rounds"]
