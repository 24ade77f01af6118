"""Imported first by the server that forks workers: no worker can read another's memory."""

from autograder.processes.isolation import close_memory

close_memory()
