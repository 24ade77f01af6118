"""Start a judge's process, which may run for 120 s: `python -m autograder.instructor.sandbox 120`.

With `forks` instead of a number of seconds, start a fork server for judges, which reads requests
from the socket on its standard input. `judge_process.py` is what runs in either.
"""

import gc
import socket
import sys

from autograder.instructor.sandbox.judge_process import IMPORTED, main
from autograder.sandboxed import load_modules, serve

if sys.argv[1] == "forks":
    load_modules(IMPORTED)
    gc.freeze()  # otherwise garbage collection in a fork would copy the pages that forks share
    serve(socket.socket(fileno=0), lambda arguments: main(float(arguments[0])))
else:
    main(float(sys.argv[1]))
