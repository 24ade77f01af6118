"""What bubblewrap needs of a container, without a container: its capabilities and its seccomp.

Docker's default profile refuses the calls in `GATED` to whoever lacks CAP_SYS_ADMIN
(https://github.com/moby/moby/blob/master/profiles/seccomp/default.json), and gives root the
capabilities in `DOCKERS` (https://docs.docker.com/engine/security/); both read on 2026-11-25.
"""

import json
import re
import subprocess
import sys

import pytest

from autograder.instructor.sandbox import has_call_filter, is_root
from tests.conftest import ROOT

pytestmark = [
    pytest.mark.bubblewrap,
    pytest.mark.skipif(not is_root(), reason="only root can give up capabilities like a container"),
]

DOCKERS = (
    "chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw "
    "sys_chroot mknod audit_write setfcap"
)

GATED = (
    "bpf clone fsconfig fsmount fsopen fspick mount mount_setattr move_mount open_tree "
    "perf_event_open pivot_root quotactl setdomainname sethostname setns syslog umount2 unshare "
    "keyctl add_key request_key"
)

LOOK = """
import errno, json, sys
import pyseccomp as seccomp
from autograder.instructor.sandbox import has_bubblewrap, has_call_filter
profile = seccomp.SyscallFilter(seccomp.ALLOW)
for name in json.loads(sys.argv[1]):
    if name == "clone":
        for bit in (17, *range(25, 31)):  # a new namespace of each kind
            new = seccomp.Arg(0, seccomp.MASKED_EQ, 1 << bit, 1 << bit)
            profile.add_rule(seccomp.ERRNO(errno.EPERM), name, new)
    else:
        profile.add_rule(seccomp.ERRNO(errno.EPERM), name)
profile.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
profile.load()
print(has_bubblewrap(), has_call_filter())
"""


def look(allowed):
    """Whether bubblewrap and its filter work for a container's root, with some calls allowed."""
    keeps = ",".join(["-all", *(f"+{name}" for name in DOCKERS.split())])
    refused = [name for name in GATED.split() if name not in allowed]
    done = subprocess.run(
        ["setpriv", f"--bounding-set={keeps}", "--inh-caps=-all", sys.executable, "-c", LOOK,
         json.dumps(refused)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.split()


def documented_calls():
    """The system calls that the page says a profile has to allow."""
    page = (ROOT / "docs" / "hubs_and_containers.md").read_text()
    (names,) = re.findall(r'"names": (\[[^\]]+\])', page)
    return json.loads(names)


def test_with_dockers_default_profile_there_is_no_sandbox():
    assert look([]) == ["False", "False"]


def test_with_the_calls_that_the_page_names_there_is():
    if not has_call_filter():
        pytest.skip("there is no filter of system calls here")
    assert look(documented_calls()) == ["True", "True"]


@pytest.mark.slow
def test_each_of_these_calls_is_needed():
    for name in documented_calls():
        allowed = [other for other in documented_calls() if other != name]
        assert look(allowed)[0] == "False", f"{name} need not be allowed"
