"""Dask's workers: those of a cluster on this machine, or of a scheduler that stands somewhere.

Whoever can reach a scheduler can have its workers do anything. So the one on this machine speaks to
nobody without a certificate that is made for this grading, and one on another machine is only
spoken to with TLS. One that stands on this machine may be without, which is said.
"""

import ipaddress
import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import dask
from distributed import Client, LocalCluster, Security

PATIENCE: Final = 30
"""How many seconds a scheduler has to answer, and to have a worker."""

HOW: Final = (
    "Start scheduler and workers with certificates (dask scheduler --tls-ca-file … --tls-cert … "
    "--tls-key …), name the same files here by DASK_DISTRIBUTED__COMM__TLS__CA_FILE, …__CLIENT__"
    "CERT and …__CLIENT__KEY, and give its address as tls://…"
)
"""How a scheduler on another machine is reached."""


HERE: Final[dict[str, Any]] = {
    "distributed.admin.large-graph-warning-threshold": "10 GB",
    "distributed.comm.timeouts.connect": "10 minutes",
    "distributed.comm.timeouts.tcp": "10 minutes",
    "distributed.scheduler.worker-ttl": None,
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
"""Settings of workers on this machine. Who dies here is missed at once, so that who is silent is
only kept waiting by a busy machine; and nothing is told to whoever asks by HTTP.
"""

NO_CTRL_C: Final = "import signal; signal.signal(signal.SIGINT, lambda *_: None)"
"""What a worker on this machine begins with. A terminal sends Ctrl-C to it, too, and it would say
where it was; who started it ends it. A kernel inherits nothing of this, and can be interrupted.
"""


OPEN: Final = (
    "The scheduler at {address} is without TLS, so whoever has an account on this machine can "
    "reach it, read what is handed in, and send any grade. Where somebody else has one, use TLS. "
)
"""What is said before it is used, with how it is done otherwise."""


class SchedulerError(RuntimeError):
    """A scheduler is not to be used, or cannot be; the message says why, and what to do."""


@contextmanager
def standing(address: str) -> Iterator[Client]:
    """A client of a scheduler that stands.

    Raises:
        SchedulerError: it may not be spoken to, does not answer, or has no workers.
    """
    check_address(address)
    security = Security(require_encryption=address.startswith("tls://"))
    try:
        client = Client(address, security=security, timeout=PATIENCE, set_as_default=False)
    except Exception as error:
        raise SchedulerError(
            f"The scheduler at {address} does not answer as it should: {_said(error)}. Is it "
            f"there, and are its certificates and those named here of one authority?"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise SchedulerError(
                f"The scheduler at {address} has no workers. Start one: dask worker {address} "
                f"--nworkers auto --nthreads 1"
            ) from None
        yield client


@contextmanager
def on_this_machine(number: int) -> Iterator[Client]:
    """A client of so many workers, each a process on this machine, for as long as it is used."""
    with (
        tempfile.TemporaryDirectory(prefix="shardlings-") as scratch,
        dask.config.set(HERE),
        LocalCluster(
            n_workers=number,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,  # what runs behind walls has its own limits
            host="127.0.0.1",
            protocol="tls://",
            security=Security.temporary(),
            dashboard_address="127.0.0.1:0",  # any port, at which nothing is told
            worker_dashboard_address="127.0.0.1:0",
            local_directory=scratch,
            preload=[NO_CTRL_C],
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def warning_of(address: str) -> str:
    """What is to be said before a scheduler is used; empty where it has TLS, or there is none."""
    parts = urlsplit(address)
    is_open = parts.scheme == "tcp" and _is_loopback(parts.hostname or "")
    return f"{OPEN.format(address=address)}{HOW}." if is_open else ""


def check_address(address: str) -> None:
    """See that an address is one that nobody can listen to, or pretend to be.

    Raises:
        SchedulerError: it is not.
    """
    parts = urlsplit(address)
    if parts.scheme not in ("tcp", "tls") or not parts.hostname:
        raise SchedulerError(
            f"{address} is no address of a scheduler. One is tls://host:8786, or, on this machine "
            f"alone and where nobody else has an account, tcp://127.0.0.1:8786."
        )
    if parts.scheme == "tcp" and not _is_loopback(parts.hostname):
        raise SchedulerError(
            f"{address} is on another machine and without TLS: whoever listens would read what is "
            f"handed in, and whoever answers could send any grades. {HOW}"
        )
    if parts.scheme == "tls" and not dask.config.get("distributed.comm.tls.ca-file", None):
        raise SchedulerError(f"No certificates are named here for {address}. {HOW}")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _said(error: Any) -> str:
    """An error in a line, with what caused it: Dask tells of certificates there."""
    first = error
    while first.__cause__ or first.__context__:
        first = first.__cause__ or first.__context__
    return f"{type(first).__name__}: {first}".splitlines()[0]
