"""What each notebook of this course asks: one module for each, called as the notebook is.

In: requirements, layouts and arguments to describe. Out: a tuple `EXERCISES`, in the order of the
notebook. Everything that is right stands here, and in no other room.
"""
