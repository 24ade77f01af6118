"""`python -P -s -m autograder.sandboxed`: a kernel that reads requests from its standard input.

With `forks` behind it, it is a server that forks such a kernel for each task, which come through
the socket that is its standard input.
"""

import gc
import socket
import sys

from autograder.sandboxed.fork_server import serve
from autograder.sandboxed.kernel import WarmKernel

kernel = WarmKernel()
if sys.argv[1:] == ["forks"]:
    gc.freeze()  # else the children's collections copy pages that all of them share
    serve(socket.socket(fileno=0), lambda _: kernel.run())
else:
    kernel.run()
