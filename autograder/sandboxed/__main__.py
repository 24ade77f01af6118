"""Start a kernel that reads requests from standard input: `python -P -s -m autograder.sandboxed`.

With the argument `forks`, start a server instead. It forks such a kernel for each task that it
reads from standard input, which is then a socket.
"""

import gc
import socket
import sys

from autograder.sandboxed.fork_server import serve
from autograder.sandboxed.kernel import WarmKernel

kernel = WarmKernel()
if sys.argv[1:] == ["forks"]:
    gc.freeze()  # otherwise garbage collection in a fork would copy the pages that forks share
    serve(socket.socket(fileno=0), lambda _: kernel.run())
else:
    kernel.run()
