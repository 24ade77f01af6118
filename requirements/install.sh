# Install the course into an environment of its own, and say at each stage what goes on:
#
#     sh requirements/install.sh FOLDER EXTRA LOCK
#
# FOLDER is the environment's, EXTRA what to install besides the package, and LOCK the file that
# says in which versions. PYTHON is what the environment is made with. WITHIN, if there is any, is a
# command through which everything is run, for a Python that this system does not have itself.
# FOLDER/installed is there when all went well, and only then.
#
# uv installs in seconds what takes pip a minute, but it knows little of pip's settings; where it
# cannot reach an index, pip may.
set -u
folder=$1 extra=$2 lock=$3
PYTHON=${PYTHON:-python3}
python="${WITHIN:-} $folder/bin/python"
log=$folder/installing.log

stage() { # which one, what it does, and the command that does it
    printf 'Installing %s: %s … ' "$1" "$2"
    shift 2
    began=$(date +%s)
    "$@" >"$log" 2>&1 || return
    echo "$(($(date +%s) - began)) s"
}

new_enough() {
    ${WITHIN:-} "$PYTHON" -c 'import sys; sys.version_info >= (3, 11) or sys.exit(f"""\
Shardlings needs Python 3.11 or newer, and {sys.argv[1]} is {sys.version.split()[0]}. \
Say which to use: make PYTHON=python3.12 ...""")' "$PYTHON"
}

environment() {
    test -x "$folder/bin/pip" || ${WITHIN:-} "$PYTHON" -m venv "$folder"
}

pip() {
    $python -m pip "$@"
}

by_pip() {
    pip install --quiet --disable-pip-version-check -c "$lock" "$@"
}

by_uv() {
    # What runs in a sandbox cannot keep the bytecode it compiles, so it is compiled now.
    ${WITHIN:-} "$folder/bin/uv" pip install --quiet --compile-bytecode \
        --python "$folder/bin/python" -c "$lock" "$@"
}

failed() {
    echo 'it failed:'
    cat "$log"
    echo "The installation did not succeed, so there is nothing to run yet. Most often the package"
    echo "index cannot be reached: look at the network and at pip's settings (python3 -m pip config"
    echo "list), and run make again. 'make clean' starts from nothing."
    exit 1
}

why() { # the last lines of what a stage printed
    tail -n 5 "$log" | sed 's/^/    /'
}

new_enough || exit 1
mkdir -p "$folder"
rm -f "$folder/installed"
stage 1/3 "an environment in $folder" environment || failed

index=${PIP_INDEX_URL:-$(pip config get global.index-url 2>/dev/null)}
if [ -n "$index" ]; then
    export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
fi
course="the course and all it needs"
if ! stage 2/3 'uv, which installs the rest quickly' by_pip uv; then
    echo 'it cannot be had here, so pip does it:'
    why
    slowly=true
elif ! stage 3/3 "$course, with uv" by_uv -e ".[$extra]"; then
    echo 'it did not succeed, so pip does it:'
    why
    slowly=true
fi
if [ -n "${slowly:-}" ]; then
    stage 3/3 "$course, with pip (a minute or more)" by_pip -e ".[$extra]" || failed
fi
# The same of the course's own code, which uv leaves out. Without it, all works, but more slowly.
$python -m compileall -q shardlings autograder >"$log" 2>&1 || true
touch "$folder/installed"
