"""Programs in new processes, which inherit no settings of devices."""

import os
import subprocess
import sys

from shardlings.devices import environment


def run(code: str, **variables: str) -> str:
    """Run a program in a process without this one's environment variables; return its output."""
    clean = {k: v for k, v in os.environ.items() if k not in (*environment(), "JAX_PLATFORMS")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**clean, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr[-2000:]
