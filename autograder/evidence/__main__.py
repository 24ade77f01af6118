"""Call functions in several processes, for a class that is graded.

`python -P -s -m autograder.evidence` reads a list of `Call`s from standard input, as JSON, and
writes the evidence of each to standard output, a line each and as soon as it is there. It runs in
the sandbox and knows no exercise. What it gives each process is that process's share alone; so that
none can look for the rest here, its memory is closed to other processes of the same user, and its
output goes through a descriptor that no other process has.
"""

import os
import sys
from typing import Any

import msgspec

from autograder.errors import Fault
from autograder.evidence.data import Evidence, MalformedEvidenceError, from_json, to_json
from autograder.evidence.plans import Call, observe
from autograder.processes import close_memory


def main() -> None:
    """Read calls, write evidence."""
    close_memory()
    written = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    written.write(b"\n")  # it has come up: whatever ends it from here on is what it was given
    written.flush()
    for call in msgspec.json.decode(sys.stdin.buffer.read(), type=list[Call]):
        written.write(msgspec.json.encode(_observed(call)) + b"\n")
        written.flush()


def _observed(call: Call) -> Any:
    try:
        return to_json(observe(call.plan, from_json(call.evidence)))
    except MalformedEvidenceError:
        return call.evidence  # the judge says so
    except Exception as error:
        fault = Fault.of(error)
        return to_json(Evidence(call.plan.exercise, dict.fromkeys(call.plan.answers, fault)))


if __name__ == "__main__":
    main()
