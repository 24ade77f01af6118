"""`python -P -s -m autograder.instructor.walls 120`: the judge, in a process of its own."""

import sys

from autograder.instructor.walls.judge_process import main

main(float(sys.argv[1]))
