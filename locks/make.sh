#!/usr/bin/env bash
# Makes the lock files from pyproject.toml: exact versions of all packages, on Python 3.10 and 3.11,
# Linux and macOS. Locked versions stay as long as they fit; for the newest versions:
# locks/make.sh --upgrade. Needs uv on PATH.
#
# 1. Finds versions with which the base and all extras can be installed together.
# 2. Writes base.lock, the packages of a run, and a file of additional packages for each extra.
set -euo pipefail

unset CDPATH
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
all="$(mktemp)"
trap 'rm -f "$all"' EXIT

compile() { # ARGUMENT...: prints the pins, without the parts of markers that hold everywhere
  uv pip compile --quiet --universal --python-version 3.10 --no-annotate --no-header "$@" \
    pyproject.toml | sed -E "
      y/'/\"/
      s/ and platform_python_implementation == \"CPython\"|platform_python_implementation == \"CPython\" and //g
      s/ and implementation_name != \"PyPy\"//
      s/platform_machine == \"x86_64\" and sys_platform == \"linux\"/sys_platform == \"linux\"/g
      s/\(\(sys_platform == \"linux\"\) or \(?sys_platform == \"darwin\"\)?\)/EVERYWHERE/
      s/python_full_version < \"3\.12\" and //
      s/python_full_version == \"3\.11\.\*\"/python_version >= \"3.11\"/
      s/python_full_version (<|>=) \"3\.11\"/python_version \1 \"3.11\"/
      s/ ; EVERYWHERE| and EVERYWHERE//"
}

cat -- locks/*.lock >"$all" # what the output file has, uv keeps
compile --all-extras --output-file "$all" "$@" >/dev/null

{
  echo "# Exact versions of all that a run needs. locks/make.sh makes it anew."
  compile --constraint "$all"
} >locks/base.lock.new
mv locks/base.lock.new locks/base.lock

sed -n '/^\[project.optional-dependencies\]/,/^$/s/^\([a-z0-9_]*\) = .*/\1/p' pyproject.toml | while read -r extra; do
  {
    echo "# What the extra \"$extra\" adds to base.lock. locks/make.sh makes it anew."
    compile --constraint "$all" --extra "$extra" | grep -vxFf locks/base.lock
  } >"locks/$extra.lock.new"
  mv "locks/$extra.lock.new" "locks/$extra.lock"
done
