"""`python -P -s -m autograder.instructor.walls`: the judge, in a process of its own."""

from autograder.instructor.walls.judge_process import main

main()
