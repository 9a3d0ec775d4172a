#!/usr/bin/env bash
# Runs the tests, whatever machine this is.
#
# Usage: ./run_tests.sh [pytest arguments]; others by their marks: ./run_tests.sh -m system
#        ./run_tests.sh --faults [--repeats N] [--soak-minutes M] [--ledger FILE] [pytest arguments]
#
# 1. Installs what is missing (setup.sh).
# 2. Runs pytest, with this folder's code first and no proxy between local programs. Several
#    processes share the tests (pytest-xdist; -n 0: a single one); see tests/conftest.py. A process
#    that crashes ends the run as a failure: if replaced, it would crash again without end.
#    --faults: the faults of docs/reliability.md: kills (N of each kind, 20) and damages in real
#    runs, wrong input, and a soak of M minutes (120). Prints what survived; --ledger writes every
#    single fault to a CSV file.
set -euo pipefail

unset CDPATH
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
folders="$(SAC_PLACEMENT=slurm ./setup.sh --test)" # with stunnel, for tests of several hosts
export PATH="$folders:$PATH"
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
unset PYTHONDONTWRITEBYTECODE # else each of some hundred processes compiles all modules again
unset http_proxy https_proxy all_proxy grpc_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
exec python -m pytest --numprocesses auto --max-worker-restart 0 \
  --no-loadscope-reorder "$@"
