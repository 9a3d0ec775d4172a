#!/usr/bin/env bash
# Installs what the programs of this project need, once; later calls find it ready and print nothing.
#
# Usage: PATH="$(./setup.sh [--test] [--with EXTRA,...]):$PATH"
#   --test            also installs the packages of the tests and linters
#   --with EXTRA,...  also installs the optional packages of locks/EXTRA.lock, in locked versions.
#                     Later calls keep them.
#
# 1. Takes the active environment (VIRTUAL_ENV or CONDA_PREFIX) if it has the locked packages.
# 2. Otherwise makes or completes .venv from the lock files, with Python 3.10 or 3.11. If the system
#    has neither, or an incomplete one (Debian without python3-venv), uv makes it, without root.
#    pip in .venv installs nothing that breaks learning (locks/constraints.txt). Other versions
#    that the user has installed stay; each later call that installs something names them.
# 3. Finds supervise (daemontools) or installs it, without root into .venv/daemontools. If
#    SAC_PLACEMENT is slurm or ray, does the same with stunnel, for the link between hosts.
# 4. Builds the compiled ops of the learner, if there is a C++ compiler and the CPU can run them.
# 5. Prints the folders for the front of PATH on stdout; reports what it does on stderr.
#
# .venv/.lock-NAME is a copy of the installed locks/NAME.lock; .venv/.unfinished marks an interrupted
# .venv, which is made again, and .venv/.updating an interrupted update, which is done again and keeps
# packages of the user's own. Exit code 78: something is missing that only the user can provide; a
# message tells what.
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

usage='Usage: setup.sh [--test] [--with EXTRA,...]'
system="$(uname -s)"

list_extras() {
  local file
  for file in locks/*.lock; do
    file="${file##*/}"
    [[ $file == base.lock || $file == test.lock ]] || printf '%s\n' "${file%.lock}"
  done
}

# Prints the extra whose name is most similar to $1, if any is similar.
nearest_extra() {
  list_extras | awk -v name="$1" '
    function least(a, b) { return a < b ? a : b }
    {
      for (j = 0; j <= length($0); j++) d[0, j] = j
      for (i = 1; i <= length(name); i++) {
        d[i, 0] = i
        for (j = 1; j <= length($0); j++)
          d[i, j] = least(d[i - 1, j - 1] + (substr(name, i, 1) != substr($0, j, 1)),
            least(d[i - 1, j], d[i, j - 1]) + 1)
      }
      distance = d[length(name), length($0)]
      if (NR == 1 || distance < best) { best = distance; nearest = $0 }
    }
    END { if (best <= 1 + length(nearest) / 4) print nearest }'
}

names=(base) # of the lock files to install
add_extra() {
  local name="${1//-/_}" hint
  if [[ $name == base || $name == test || $name == */* || ! -f locks/$name.lock ]]; then
    hint="$(nearest_extra "$name")"
    die "there is no extra '$1'.${hint:+ Did you mean $hint?} There are: $(list_extras | paste -sd ' ' -)"
  fi
  names+=("$name")
}

while (($#)); do
  case "$1" in
    --test) names+=(test) ;;
    --with=*) set -- --with "${1#--with=}" "${@:2}" && continue ;;
    --with)
      [[ -n ${2:-} ]] || die "--with needs names: $(list_extras | paste -sd ' ' -). $usage"
      IFS=, read -ra extras <<<"$2"
      for extra in "${extras[@]}"; do add_extra "$extra"; done
      shift
      ;;
    *) die "unknown argument: $1. $usage" ;;
  esac
  shift
done

version_of() {
  "$1" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null </dev/null
}
is_right() { [[ $(version_of "$1") =~ ^3\.1[01]$ ]]; }
has_ensurepip() { "$1" -I -c 'import ensurepip, venv' >/dev/null 2>&1 </dev/null; }

# Prints the bin folder of the active environment if it can run this project.
active_bin() {
  local root message
  for root in "${VIRTUAL_ENV:-}" "${CONDA_PREFIX:-}"; do
    if [[ -z $root || $root -ef .venv ]] || ! is_right "$root/bin/python"; then
      continue
    elif message="$("$root/bin/python" -sE -m tfagents_system.launch.checks.packages \
      "${names[@]/%/.lock}" 2>&1 </dev/null)"; then
      printf '%s\n' "$root/bin"
      return 0
    fi
    venv_is_complete || say "not using the active environment: ${message%%$'\n'*}"
  done
  return 1
}

# Runs a command quietly; if it fails, shows the end of its output.
quietly() {
  local output status=0
  output="$("$@" 2>&1 </dev/null)" || status=$?
  ((status == 0)) || printf '%s\n' "$output" | tail -n 15 >&2
  return "$status"
}

has_apt_as_root() { [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; }
apt_install() {
  say "installing the Debian package $1"
  # dpkg needs the sbin folders, which a minimal PATH lacks.
  local -x PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" DEBIAN_FRONTEND=noninteractive
  quietly apt-get update -qq && quietly apt-get install -y -qq --no-install-recommends "$1"
}

# Unpacks a Debian package into .venv/PACKAGE, for users who cannot install it.
unpack() { # PACKAGE [LIBRARY...]: Debian packages, into one folder
  command -v apt-get >/dev/null && command -v dpkg >/dev/null || return 1
  say "unpacking $1 into .venv/$1"
  local folder
  folder="$(mktemp -d ".venv/$1.XXXXXX")" # interrupted ones go with the next .venv
  (
    cd "$folder" && quietly apt-get download -qq "$@" &&
      for package in ./*.deb; do quietly dpkg -x "$package" .; done
  ) && rm -rf ".venv/$1" && chmod 755 "$folder" && mv "$folder" ".venv/$1" && return 0
  rm -rf "$folder"
  return 1
}

# Sets `python` to a Python of this system that can make .venv; else fails, with the reason in `why`.
find_python() {
  local candidate others=""
  for candidate in python3.11 python3.10 python3 python \
    "${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/3.1[01].*/bin/python3; do
    command -v "$candidate" >/dev/null || continue
    if ! is_right "$candidate"; then
      others+="${others:+, }$candidate is $(version_of "$candidate" || echo broken)"
    elif has_ensurepip "$candidate"; then
      python="$candidate"
      return 0
    else
      others+="${others:+, }$candidate cannot make a virtual environment"
    fi
  done
  why="needs Python 3.10 or 3.11: TensorFlow 2.15 and Reverb have no others (${others:-there is no \
Python on PATH}). Install one, for example with 'apt-get install python3.11 python3.11-venv', \
'pyenv install 3.11' or 'conda env create -f environment.yml', and start again."
  return 1
}

# Prints the system's wheel of pip, or the one in its package python3-pip-whl.
pip_wheel() {
  local bundled # with a Python that has no pip, but ensurepip
  bundled="$(python3 -I -c 'import ensurepip; print(*ensurepip.__path__)' 2>/dev/null </dev/null)"
  find ${bundled:+"$bundled"} .venv/python3-pip-whl /usr/share/python-wheels -name 'pip-*.whl' \
    2>/dev/null | head -n 1
}

# Installs uv into .venv/uv with the python3 of this system, whatever its version.
install_uv() {
  local pip=(python3 -I -m pip)
  if ! "${pip[@]}" --version >/dev/null 2>&1 </dev/null; then
    [[ -n $(pip_wheel) ]] || { has_apt_as_root && apt_install python3-pip-whl; } ||
      unpack python3-pip-whl || return 1
    pip=(python3 -I "$(pip_wheel)/pip") # a wheel can be run as it is
  fi
  say "installing uv from the package index into .venv/uv"
  # A system's pip refuses to change the system (PEP 668), but not to fill a folder.
  quietly "${pip[@]}" install --quiet --disable-pip-version-check --no-input --no-deps \
    --only-binary :all: --target .venv/uv "$(grep '^uv==' locks/test.lock)"
}

# Makes .venv with uv, which needs no ensurepip, and downloads a Python if there is no suitable one.
make_venv_with_uv() {
  local uv
  if ! uv="$(command -v uv)"; then
    version_of python3 >/dev/null && install_uv || return 1
    uv=.venv/uv/bin/uv
  fi
  say "making .venv with uv"
  quietly "$uv" venv --quiet --no-project --allow-existing --seed --python '>=3.10,<3.12' .venv &&
    is_right .venv/bin/python
}

venv_is_complete() {
  local name
  for name in $(wanted_locks); do
    [[ $(cat ".venv/.lock-$name" 2>/dev/null) == "$(mark_of "$name")" ]] || return 1
  done
  [[ -x .venv/bin/python && ! -e .venv/.unfinished && ! -e .venv/.updating ]]
}

# Prints the names of the requested lock files, and of those requested earlier.
wanted_locks() {
  local mark name
  {
    printf '%s\n' "${names[@]}"
    for mark in .venv/.lock-*; do
      name="${mark##*/.lock-}"
      [[ ! -f locks/$name.lock ]] || printf '%s\n' "$name"
    done
  } | sort -u
}

# The mark includes the path, because .venv points to it: to the constraints and this project.
mark_of() { # NAME
  cat -- "locks/$1.lock" && printf '# of %s\n' "$project"
}

# Empties .venv except for what does not depend on its Python.
clear_venv() {
  find .venv -mindepth 1 -maxdepth 1 ! -name .setup-lock ! -name '.lock-*' ! -name daemontools \
    ! -name stunnel4 -exec rm -rf {} +
}

make_python() {
  local python="" why=""
  if find_python; then
    say "making .venv with $python $(version_of "$python")"
    clear_venv
    touch .venv/.unfinished
    quietly "$python" -I -m venv .venv ||
      die "making .venv with $python failed; its last lines are above"
  else
    clear_venv
    touch .venv/.unfinished
    make_venv_with_uv || { clear_venv && die "$why"; }
  fi
}

# Installs packages and shows the progress.
pip_install() {
  .venv/bin/python -I -m pip install --progress-bar off --disable-pip-version-check --no-input \
    --no-user --no-deps "$@" 2>&1 </dev/null | show_pip && return 0
  tail -n 15 .venv/.pip-log >&2
  rm -f .venv/.unfinished .venv/.updating # pip has put back what it had changed
  die "pip failed; its last lines are above. It needs the network (behind a proxy: https_proxy)" \
    "and 3 GB of free disk space ($(df -Ph . | awk 'NR == 2 {print $4}') are free here)." \
    "Repair that and start again."
}

# Writes pip's output to .venv/.pip-log, and reports large downloads and, every ten seconds, what pip
# does.
show_pip() {
  local line status began=$SECONDS period=10 doing="looking for the packages" before=""
  ((BASH_VERSINFO[0] > 3)) || period=100000 # macOS's bash takes a timeout for the end
  : >.venv/.pip-log
  while true; do
    status=0
    IFS= read -r -t "$period" line || status=$?
    if ((status > 128)); then # nothing for ten seconds
      say "$doing${before:+: $(($(count_packages) - before)) done}, $((SECONDS - began)) s so far"
      continue
    fi
    ((status == 0)) || return 0
    printf '%s\n' "$line" >>.venv/.pip-log
    if [[ $line =~ ^' '*(Downloading|Using cached)' '([^ ]*/)?([^ /-]+)-.*\(([0-9]{2,}[.0-9]*' MB'|.*GB)\) ]]; then
      doing="${BASH_REMATCH[1]} ${BASH_REMATCH[3]} (${BASH_REMATCH[4]})"
      say "$doing"
    elif [[ $line == "Installing collected packages: "*,* ]]; then
      line="${line//[^,]/}"
      doing="unpacking $((${#line} + 1)) packages"
      before="$(count_packages)"
      say "$doing"
    fi
  done
}

count_packages() {
  local found=(.venv/lib/python3.*/site-packages/*.dist-info)
  printf '%s\n' "${#found[@]}"
}

# Lets users install any package with pip, without breaking TensorFlow.
protect_packages() {
  # Spaces separate several constraints, so the path, which may have some, is written as a URL.
  local as_uri='import pathlib, sys; print(pathlib.Path(sys.argv[1]).as_uri())' constraints
  constraints="$(.venv/bin/python -I -c "$as_uri" "$project/locks/constraints.txt" </dev/null)"
  quietly .venv/bin/python -I -m pip config --quiet --site set install.constraint "$constraints"
  # As in tfagents_system/__init__.py, for programs that import TensorFlow but not this project.
  local folder
  for folder in .venv/lib/python3.*/site-packages; do
    printf '%s\n' 'import os; os.environ.setdefault("WRAPT_DISABLE_EXTENSIONS", "1")' \
      >"$folder/tfagents_system_wrapt.pth"
  done
}

make_venv() {
  local locks=() pins=() own="" again=() name
  for name in $(wanted_locks); do
    locks+=("$name.lock")
    pins+=(-r "locks/$name.lock")
  done
  if [[ -e .venv/.unfinished ]] || ! is_right .venv/bin/python ||
    ! .venv/bin/python -I -c 'import pip' 2>/dev/null </dev/null; then
    make_python
    say "a first installation downloads about 0.8 GB, and takes 2.5 GB on disk and some minutes"
  elif [[ -e .venv/.lock-base ]]; then
    own="$(.venv/bin/python -sE -m tfagents_system.launch.checks.own_versions "${locks[@]}")"
  fi
  say "installing the packages of ${locks[*]} into .venv"
  [[ ! -e .venv/.updating ]] || again=(--force-reinstall) # a package may be half replaced
  [[ -e .venv/.unfinished ]] || touch .venv/.updating
  protect_packages
  if [[ -n $own ]]; then
    cat -- "${locks[@]/#/locks/}" | grep -vE "^(${own//$'\n'/|})==" >.venv/.pins
    pins=(-r .venv/.pins)
  fi
  pip_install ${again[@]+"${again[@]}"} "${pins[@]}"
  pip_install --no-build-isolation -e .
  for name in "${locks[@]%.lock}"; do mark_of "$name" >".venv/.lock-$name"; done
  rm -f .venv/.unfinished .venv/.updating
  [[ -z $own ]] ||
    .venv/bin/python -sE -m tfagents_system.launch.checks.own_versions --installed "${locks[@]}"
}

# Builds the compiled ops if they are missing or outdated; only speed depends on them.
build_ops() { # PYTHON
  local message
  [[ -z $is_new ]] || say "building the learner's compiled ops, if there is a C++ compiler"
  message="$("$1" -sE -m tfagents_system.kernels.build 2>&1 </dev/null)" || { say "$message" && return; }
  if [[ -n $is_new || $message == *"was built."* ]]; then say "$message"; fi
}

# Prints the folder to add to PATH, nothing if a tool is on PATH; fails if there is none.
find_tool() { # FOLDER NAME...: the first name is that in FOLDER
  command -v "${@:2}" >/dev/null || { [[ -x $1/$2 ]] && printf '%s\n' "$project/$1"; }
}

unpack_daemontools() { unpack daemontools; }

unpack_stunnel4() {
  unpack stunnel4 libwrap0 || return 1
  local libraries
  libraries="$(dirname -- "$(find "$project/.venv/stunnel4" -name 'libwrap.so.*' -print -quit)")"
  mkdir .venv/stunnel4/bin
  # shellcheck disable=SC2016  # the script that is written expands them
  printf '#!/bin/sh\nLD_LIBRARY_PATH="%s${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" exec "%s" "$@"\n' \
    "$libraries" "$project/.venv/stunnel4/usr/bin/stunnel4" >.venv/stunnel4/bin/stunnel4
  chmod 755 .venv/stunnel4/bin/stunnel4
}

# Adds the folder of a tool to the printed ones; installs its package if it is missing.
provide() { # PACKAGE FOLDER WHAT NAME...: FOLDER has it where it was unpacked, WHAT is for messages
  local package="$1" what="$3" place=("$2" "${@:4}") folder
  if ! folder="$(find_tool "${place[@]}")"; then
    lock_venv
    find_tool "${place[@]}" >/dev/null ||
      { has_apt_as_root && apt_install "$package" && command -v "${@:4}" >/dev/null; } ||
      "unpack_$package" ||
      die "$what is not on PATH and could not be installed. Install the package $package with the" \
        "system's package manager, or ask its administrator to (Debian, Ubuntu: apt-get install" \
        "$package), and start again."
    folder="$(find_tool "${place[@]}")"
  fi
  folders+="${folder:+:$folder}"
}

# Locks .venv, so that a second setup waits here.
lock_venv() {
  if ! { mkdir -p .venv && : >>.venv/.setup-lock; } 2>/dev/null; then
    die "cannot write to $project/.venv: call setup.sh once as the owner of that folder"
  fi
  exec 9>>.venv/.setup-lock
  # macOS has no flock; there the user must avoid two setups at once.
  if command -v flock >/dev/null && ! flock -n 9; then
    say "waiting for another setup of this folder to end"
    flock 9
  fi
}

is_new="" # whether this call has changed .venv
if ! folders="$(active_bin)"; then
  folders="$project/.venv/bin"
  if ! venv_is_complete; then
    lock_venv
    venv_is_complete || { make_venv && is_new=true; }
  fi
fi
build_ops "$folders/python"
if [[ $system != Darwin ]]; then # no Reverb on macOS, so nothing to supervise
  provide daemontools .venv/daemontools/usr/bin "supervise (of daemontools)" supervise
  if [[ ${SAC_PLACEMENT-} == @(slurm|ray) ]]; then
    provide stunnel4 .venv/stunnel4/bin "stunnel, which encrypts what goes from host to host," \
      stunnel4 stunnel
  fi
fi
[[ -z $is_new ]] || say "ready after $SECONDS s"
printf '%s\n' "$folders"
