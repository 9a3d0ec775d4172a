#!/usr/bin/env bash
# Measures this project and its peers, Stable-Baselines3 and SBX, on the same cores.
#
# Usage: benchmarks/run.sh [OPTION...] [NAME...]   (no NAME: all)
#   --repeats N        runs of each contestant, which take turns (default 3)
#   --first_repeat K   continues with the Kth, and keeps the records of those before (default 1)
#   --environment E    measures only on this environment
#   --output DIR       folder of benchmarks.jsonl, benchmarks.md and plots (default docs/results)
#   --resume           skips runs that benchmarks.jsonl already has
#   --full             includes what takes hours: 64 real workers, 1,000,000 transitions, HalfCheetah
# An interrupted measurement keeps its values, and --resume continues there.
#
# 1. Installs what is missing (setup.sh, with the link between hosts for the measurement `hosts`,
#    which takes root; setup_peers.sh for measurements with peers).
# 2. Runs benchmarks/__main__.py. Exit codes: 0, 1 a program failed, 78 wrong input.
set -euo pipefail

unset CDPATH
cd -- "$(dirname -- "$(realpath -- "${BASH_SOURCE[0]}")")/.."
folders="$(SAC_PLACEMENT=slurm ./setup.sh)"
export PATH="$folders:$PATH"
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
exec python -m benchmarks "$@"
