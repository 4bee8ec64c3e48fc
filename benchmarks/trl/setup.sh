#!/usr/bin/env bash
# Makes .venv-trl hold the project's own pins without DeepSpeed, so that both sides of
# benchmarks/trl_grpo.py run on the same libraries; does nothing when it does.
#     benchmarks/trl/setup.sh [PYTHON]      PYTHON: python3, which must have the venv module
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

fail() {
    echo "trl setup: $*" >&2
    exit 2
}

# The fingerprint of what .venv-trl was made from; missing while it is being made.
state=.venv-trl/trl-setup

if nvidia-smi -L 2>/dev/null | grep -q GPU; then
    lock=requirements/cuda.lock
else
    lock=requirements/cpu.lock
fi
wanted=$({
    echo "$PWD"
    cat "$lock" requirements/torch-cuda.lock benchmarks/trl/setup.sh
} | sha256sum | cut -d ' ' -f 1)

pip() {
    .venv-trl/bin/python -m pip --disable-pip-version-check "$@"
}

if [ "$(cat "$state" 2>/dev/null)" = "$wanted" ] && .venv-trl/bin/python -c '' 2>/dev/null; then
    exit 0
fi
python=${1:-python3}
"$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    fail "$python must be Python 3.11 or newer with the venv and ensurepip modules"
echo "trl setup: making .venv-trl with $("$python" --version) from $lock"
rm -rf .venv-trl
"$python" -m venv .venv-trl
# DeepSpeed is ours alone, and wandb nobody's: nothing is logged.
pip install --quiet --no-deps -r <(grep -vE '^(deepspeed|wandb)==' "$lock")
# As in requirements/setup.sh: a CUDA build of torch also runs on a CPU, with the CUDA libraries.
case $(pip list --format=freeze | grep '^torch==') in
    *+cpu) ;;
    *) pip install --quiet --no-deps -r requirements/torch-cuda.lock ;;
esac
echo "$wanted" >"$state"
echo "trl setup: done"
