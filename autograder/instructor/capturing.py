"""Run a submission in a kernel that only captures evidence."""

import os
import secrets
from typing import Any, Final

from nbclient.exceptions import DeadKernelError
from nbgrader.preprocessors import Execute

from autograder import devices, evidence
from autograder.notebook import SEED_VARIABLE

RESOURCE: Final = "shardlings"
"""Where, in nbconvert's resources, one preprocessor leaves what the next needs."""


class CaptureEvidence(Execute):
    """nbgrader's `Execute`, in a kernel that has its devices and that judges nothing."""

    def preprocess(self, nb: Any, resources: Any, km: Any = None) -> tuple[Any, Any]:
        """Run every cell; whatever a cell does, the next one is run."""
        for cell in nb.cells:
            cell.get("outputs", []).clear()  # evidence is what this run publishes
        self.seed = secrets.randbits(32)
        died = False
        try:
            nb, resources = super().preprocess(nb, resources, km)
        except DeadKernelError:
            died = True  # what was handed in before is judged
        resources[RESOURCE] = {"seed": self.seed, "kernel_died": died}
        return nb, resources

    def setup_kernel(self, **kwargs: Any) -> Any:
        """Start the kernel in an environment of its own."""
        environment = {**os.environ, **devices.environment(), SEED_VARIABLE: str(self.seed)}
        return super().setup_kernel(env=environment, **kwargs)


def published(cell: Any) -> list[dict[str, Any]]:
    """The evidence in a cell's outputs, as plain data that may be anything."""
    found = [
        output.data[evidence.MIME]
        for output in cell.get("outputs", [])
        if output.output_type == "display_data" and evidence.MIME in output.get("data", {})
    ]
    return [item for item in found if isinstance(item, dict)]
