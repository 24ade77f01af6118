"""All that touches nbgrader: releasing, capturing, judging, grading a class."""
