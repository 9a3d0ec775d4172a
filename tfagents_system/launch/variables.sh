# shellcheck shell=bash
# Reads a variables file. run_script.sh and launch/variables.py source this.

# Exports everything that the file FILE sets; ends the script with 78 if it is no such file.
read_variables() { # FILE
  local message
  message=$(bash -n "$1" 2>&1) || die "$message"
  trap 'die "'"${1##*/}"' ended this script (exit, or \${NAME:?}); it may only set variables"' EXIT
  set -a +eu # its own unset variables are its own affair
  # shellcheck source=/dev/null
  source "$1"
  set +a -eu
  trap - EXIT
}
