#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the image.
set -euo pipefail
cd "${AUTOGRADER:-/autograder}/source"
. ./settings.sh
install() { DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@"; }
is_new_enough() { "$1" -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))'; }
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    install bubblewrap libseccomp2 python3-venv
    # Ubuntu 22.04 has Python 3.10, and a newer one beside it.
    is_new_enough python3 || install python3.11-venv
fi
is_new_enough python3 && python=python3 || python=python3.11
PYTHON=$python sh requirements/install.sh .venv instructor requirements/lock.txt
# Submissions see the packages in .venv, but never what is beside it.
find . -mindepth 1 -maxdepth 1 ! -name .venv -exec chmod -R go-rwx {} +
# Without a submission this only calibrates: the solution has to get all points here.
.venv/bin/python -m autograder.instructor grade-one --assignment "$ASSIGNMENT" $CONTAINER
