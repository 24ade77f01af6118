"""The exercises of this course: a module for each notebook, with the notebook's name.

In: requirements, layouts and arguments to describe. Out: a tuple `EXERCISES`, in the order of the
notebook. No other package contains what is right, so a grading kernel, which lacks this one, cannot
reveal it.
"""
