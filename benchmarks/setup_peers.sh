#!/usr/bin/env bash
# Makes a Python environment of peers, once; later calls find it ready and print nothing.
#
# Usage: benchmarks/setup_peers.sh [NAME]
#
# benchmarks/.venv-NAME gets the packages of requirements-NAME.lock, torch first: peers (default) is
# SB3 and SBX, mlagents is ML-Agents. The file .lock-<checksum> in it marks it as complete for this
# lock file and path; any other environment is made again. Exit code 78: there is no such lock file,
# Python 3.11 is missing, or pip failed.
set -euo pipefail

say() { printf 'setup_peers: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 78
}

unset CDPATH
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
folder="$(pwd -P)"
name="${1:-peers}"
lock="requirements-$name.lock"
venv=".venv-$name"
[[ -r $lock ]] || die "NAME is $name, but benchmarks/ has no $lock; it has $(echo requirements-*.lock)"
checksum="$({ cat "$lock" && printf '%s\n' "$folder"; } | cksum)"
stamp=$venv/.lock-${checksum%% *}

find_python() {
  local candidate
  for candidate in python3.11 python3 python; do
    if "$candidate" -I -c 'import ensurepip, sys, venv; sys.exit(sys.version_info[:2] != (3, 11))' \
      >/dev/null 2>&1; then
      command -v "$candidate"
      return 0
    fi
  done
  die "needs Python 3.11 with its venv module for the peers' packages"
}

pip_install() {
  local output
  output="$("$venv/bin/python" -I -m pip install --quiet --disable-pip-version-check \
    --no-input "$@" 2>&1 </dev/null)" && return 0
  printf '%s\n' "$output" | tail -n 15 >&2
  die "pip failed; its last lines are above"
}

make_venv() {
  local python
  python="$(find_python)"
  say "installing the peers into benchmarks/$venv (the first time, some minutes)"
  find "$venv" -mindepth 1 -maxdepth 1 ! -name .setup-lock -exec rm -rf {} +
  "$python" -I -m venv "$venv"
  pip_install --constraint "$lock" "$(grep '^torch==' "$lock")"
  # ML-Agents 1.1.0 says that it needs Python 3.10.12 or older; it runs with 3.11.
  pip_install --no-deps --ignore-requires-python -r "$lock"
  touch "$stamp"
}

if [[ ! -e $stamp ]]; then
  mkdir -p "$venv"
  exec 9>>"$venv/.setup-lock"
  flock 9 # a second call waits here, then finds it done
  [[ -e $stamp ]] || make_venv
fi
