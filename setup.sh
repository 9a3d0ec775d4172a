#!/usr/bin/env bash
# Makes what the programs of this project need, once; later calls find it ready and say nothing.
#
# Usage: PATH="$(./setup.sh [--test]):$PATH"
#   --test   also the packages of the tests and linters
#
# 1. Takes the active environment (VIRTUAL_ENV or CONDA_PREFIX) if it has the locked packages.
# 2. Otherwise makes or completes .venv from the lock files, with Python 3.10 or 3.11.
# 3. Finds supervise (daemontools) or installs it, without root into .venv/daemontools.
# 4. Prints the folders for the front of PATH on stdout; what it does is said on stderr.
#
# .venv/.lock-<checksum> marks a complete .venv, .venv/.unfinished an interrupted one, which is
# made anew. Exit code 78: something is missing that only the user can provide; a message says what.
set -euo pipefail

say() { printf 'setup: %s\n' "$*" >&2; }
die() {
  say "$*"
  exit 78
}

unset CDPATH
project="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)"
cd -- "$project"
[[ $project != *:* ]] || die "PATH cannot hold $project, because of its ':': rename that folder"

lock_files=(requirements.lock)
case "$#:${1:-}" in
  0:) ;;
  1:--test) lock_files=(requirements.lock requirements-test.lock) ;;
  *) die "unknown arguments: $*. Usage: setup.sh [--test]" ;;
esac
system="$(uname -s)"

# Names the mark of a .venv that is complete for these lock files. The checksum covers the place
# too, because the project's own installation in .venv points to it.
stamp_of() {
  local checksum
  checksum="$({ cat -- "$@" && printf '%s\n' "$project"; } | cksum)"
  printf '.venv/.lock-%s\n' "${checksum%% *}"
}
stamp="$(stamp_of "${lock_files[@]}")"

# Exits with 0 if this Python is of a right version and has the packages of the lock files given;
# TensorFlow, TF-Agents and Reverb exactly as locked, since they only fit each other.
readonly HAS_PACKAGES='
import importlib.metadata, platform, sys
if not (3, 10) <= sys.version_info[:2] <= (3, 11): sys.exit(1)
facts = {"python_version": "%d.%d" % sys.version_info[:2], "sys_platform": sys.platform,
         "platform_python_implementation": platform.python_implementation()}
for path in sys.argv[1:]:
    for line in open(path, encoding="utf-8"):
        requirement, _, marker = line.strip().partition(" ; ")
        name, _, version = requirement.partition("==")
        if not version or marker and not eval(marker, dict(facts)): continue
        try: found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError: sys.exit(1)
        exact = name in ("tensorflow", "tf-agents", "dm-reverb")
        if exact and found.version != version: sys.exit(1)
'

# Prints the bin folder of the active environment if that can run this project.
active_bin() {
  local root
  for root in "${VIRTUAL_ENV:-}" "${CONDA_PREFIX:-}"; do
    if [[ -n $root && ! $root -ef .venv && -x $root/bin/python ]] &&
      "$root/bin/python" -I -c "$HAS_PACKAGES" "${lock_files[@]}" >/dev/null 2>&1 </dev/null; then
      printf '%s\n' "$root/bin"
      return 0
    fi
  done
  return 1
}

version_of() {
  "$1" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null </dev/null
}
is_right() { [[ $(version_of "$1") =~ ^3\.1[01]$ ]]; }
has_ensurepip() { "$1" -I -c 'import ensurepip, venv' >/dev/null 2>&1 </dev/null; }

# Runs a command quietly; if it fails, shows the end of what it printed.
quietly() {
  local output status=0
  output="$("$@" 2>&1 </dev/null)" || status=$?
  ((status == 0)) || printf '%s\n' "$output" | tail -n 15 >&2
  return "$status"
}

has_apt_as_root() { [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; }
apt_install() {
  say "installing the Debian package $1"
  # dpkg needs the sbin folders, which a bare PATH lacks.
  local -x PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" DEBIAN_FRONTEND=noninteractive
  quietly apt-get update -qq && quietly apt-get install -y -qq --no-install-recommends "$1"
}

# Prints the Python to make .venv with.
find_python() {
  local candidate found="" others=""
  for candidate in python3.11 python3.10 python3 python \
    "${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/3.1[01].*/bin/python3; do
    command -v "$candidate" >/dev/null || continue
    if ! is_right "$candidate"; then
      others+="${others:+, }$candidate is $(version_of "$candidate" || echo broken)"
    elif has_ensurepip "$candidate"; then
      printf '%s\n' "$candidate"
      return 0
    else
      found="${found:-$candidate}"
    fi
  done
  [[ -n $found ]] || die "needs Python 3.10 or 3.11: TensorFlow 2.15 and Reverb have no others" \
    "(${others:-there is no Python on PATH}). Install one, for example with" \
    "'apt-get install python3.11 python3.11-venv', 'pyenv install 3.11' or" \
    "'conda env create -f environment.yml', and start again."
  local package
  package="python$(version_of "$found")-venv"
  if has_apt_as_root && apt_install "$package" && has_ensurepip "$found"; then
    printf '%s\n' "$found"
    return 0
  fi
  die "$found cannot make a virtual environment. As root: apt-get install $package" \
    "(or python3-venv), and start again."
}

venv_is_complete() { [[ -e $stamp && -x .venv/bin/python ]]; }

pip_install() {
  quietly .venv/bin/python -I -m pip install --quiet --disable-pip-version-check --no-input \
    --no-user --no-deps "$@" && return 0
  rm -f .venv/.unfinished # pip has put back what it had changed
  die "pip failed; its last lines are above. It needs the network (behind a proxy: https_proxy)" \
    "and 3 GB of free disk space ($(df -Ph . | awk 'NR == 2 {print $4}') are free here)." \
    "Mend that and start again."
}

make_venv() {
  if [[ -e .venv/.unfinished ]] || ! is_right .venv/bin/python ||
    ! .venv/bin/python -I -c 'import pip' 2>/dev/null </dev/null; then
    local python
    python="$(find_python)"
    say "making .venv with $python $(version_of "$python")"
    find .venv -mindepth 1 -maxdepth 1 ! -name .setup-lock ! -name daemontools -exec rm -rf {} +
    touch .venv/.unfinished
    quietly "$python" -I -m venv .venv ||
      die "making .venv with $python failed; its last lines are above"
  fi
  say "installing the packages of ${lock_files[*]} into .venv (the first time, some minutes)"
  rm -f .venv/.lock-*
  touch .venv/.unfinished
  pip_install -r "${lock_files[${#lock_files[@]} - 1]}"
  pip_install --no-build-isolation -e .
  rm -f .venv/.unfinished
  # A .venv with the test packages is complete for runs too.
  local mark
  for mark in "$(stamp_of requirements.lock)" "$stamp"; do
    touch "$mark.new"
    mv -f "$mark.new" "$mark"
  done
}

# Prints the folder to add to PATH, nothing if supervise is on PATH; fails if there is none.
find_supervise() {
  if command -v supervise >/dev/null; then
    return 0
  elif [[ -x .venv/daemontools/usr/bin/supervise ]]; then
    printf '%s\n' "$project/.venv/daemontools/usr/bin"
  else
    return 1
  fi
}

unpack_daemontools() {
  say "unpacking daemontools into .venv/daemontools"
  local folder
  folder="$(mktemp -d .venv/daemontools.XXXXXX)" # interrupted ones go with the next .venv
  (cd "$folder" && quietly apt-get download -qq daemontools && quietly dpkg -x ./*.deb .) &&
    rm -rf .venv/daemontools && chmod 755 "$folder" && mv "$folder" .venv/daemontools && return 0
  rm -rf "$folder"
  return 1
}

install_supervise() {
  if has_apt_as_root && apt_install daemontools && command -v supervise >/dev/null; then
    return 0
  elif command -v apt-get >/dev/null && command -v dpkg >/dev/null && unpack_daemontools; then
    return 0
  fi
  die "supervise (of daemontools) is not on PATH and could not be installed. Install the package" \
    "daemontools with the system's package manager, or ask its administrator to (Debian, Ubuntu:" \
    "apt-get install daemontools), and start again."
}

# Lets only one setup change .venv at a time; a second one waits here.
lock_venv() {
  if ! { mkdir -p .venv && : >>.venv/.setup-lock; } 2>/dev/null; then
    die "cannot write to $project/.venv: call setup.sh once as the owner of that folder"
  fi
  exec 9>>.venv/.setup-lock
  # macOS has no flock; there two setups at once are the user's to avoid.
  if command -v flock >/dev/null && ! flock -n 9; then
    say "waiting for another setup of this folder to end"
    flock 9
  fi
}

if ! folders="$(active_bin)"; then
  folders="$project/.venv/bin"
  if ! venv_is_complete; then
    lock_venv
    venv_is_complete || make_venv
  fi
fi
if [[ $system != Darwin ]]; then # no Reverb on macOS, so nothing to supervise
  if ! supervise_folder="$(find_supervise)"; then
    lock_venv
    find_supervise >/dev/null || install_supervise
    supervise_folder="$(find_supervise)"
  fi
  folders+="${supervise_folder:+:$supervise_folder}"
fi
printf '%s\n' "$folders"
