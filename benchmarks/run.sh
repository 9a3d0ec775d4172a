#!/usr/bin/env bash
# Measures this project beside its peers, Stable-Baselines3 and SBX, on the same cores.
#
# Usage: benchmarks/run.sh [OPTION...] [NAME...]   (no NAME: all)
#   --repeats N        runs of each contestant, which take turns (default 3)
#   --first_repeat K   goes on with the Kth, and keeps what is recorded of those before (default 1)
#   --environment E    measures on this environment alone
#   --output DIR       where benchmarks.jsonl, benchmarks.md and plots go (default docs/results)
#   --resume           leaves out the runs that benchmarks.jsonl has values of
#   --full             also what takes hours: 64 real workers, 1,000,000 transitions, HalfCheetah
# What is cut short keeps the values that it has, and --resume goes on from there.
#
# 1. Installs what is missing (setup.sh, with the link between hosts for the measurement `hosts`,
#    which takes root; setup_peers.sh for measurements with peers).
# 2. Hands over to benchmarks/__main__.py. Exit codes: 0, 1 a program failed, 78 wrong input.
set -euo pipefail

unset CDPATH
cd -- "$(dirname -- "$(realpath -- "${BASH_SOURCE[0]}")")/.."
folders="$(SAC_PLACEMENT=slurm ./setup.sh)"
export PATH="$folders:$PATH"
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
exec python -m benchmarks "$@"
