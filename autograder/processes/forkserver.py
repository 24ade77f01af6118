"""Close the memory of the server that forks the children; the server imports this module first.

It is a module of its own because `multiprocessing` can have the server import modules, but not call
functions.
"""

from autograder.processes.isolation import close_memory

close_memory()
