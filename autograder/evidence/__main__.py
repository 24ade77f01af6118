"""Call functions in several processes, when a class is graded.

`python -P -s -m autograder.evidence` reads a list of `ObserveRequest`s from standard input, as
JSON, and writes the evidence of each to standard output, a line each, as soon as it has it. It runs
in the sandbox and knows no exercise. It samples the inputs of all processes and passes each process
only its own share. To keep a process from finding the rest here, it closes its memory to other
processes of the same user, and writes to a descriptor that no other process has.
"""

import os
import sys
from typing import Any

import msgspec

from autograder.evidence.data import Evidence, MalformedEvidenceError, from_json, to_json
from autograder.evidence.plans import ObserveRequest, observe
from autograder.explanations import Fault
from autograder.processes import close_memory


def main() -> None:
    """Read calls and write their evidence."""
    close_memory()
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    output.write(b"\n")  # The start succeeded: if the process dies later, its input caused it.
    output.flush()
    for call in msgspec.json.decode(sys.stdin.buffer.read(), type=list[ObserveRequest]):
        output.write(msgspec.json.encode(_observe_call(call)) + b"\n")
        output.flush()


def _observe_call(call: ObserveRequest) -> Any:
    try:
        return to_json(observe(call.plan, from_json(call.evidence)))
    except MalformedEvidenceError:
        return call.evidence  # The judge reports that it is malformed.
    except Exception as error:
        fault = Fault.of(error)
        return to_json(Evidence(call.plan.exercise, dict.fromkeys(call.plan.answers, fault)))


if __name__ == "__main__":
    main()
