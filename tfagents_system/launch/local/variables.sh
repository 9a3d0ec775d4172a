# shellcheck shell=bash
# Reads variables files. run_script.sh and launch/local/variables.py source this.

# Ends the script with 78 if FILE has a Windows encoding or Windows line ends.
check_encoding() { # FILE
  local begin file
  file=$(printf %q "$1")
  begin=$(head -c 3 -- "$1" | od -An -tx1)
  if [[ $begin == ' ff fe'* || $begin == ' fe ff'* ]]; then
    die "${1##*/} is UTF-16, which bash cannot read; as UTF-8 it can: iconv -f UTF-16 -t UTF-8" \
      "$file | tr -d '\\r' >new.sh && mv new.sh $file"
  elif [[ $begin == ' ef bb bf' ]] || LC_ALL=C grep -q $'\r$' -- "$1"; then
    die "${1##*/} has the byte order mark or the line ends (CRLF) of Windows, which bash takes for" \
      "text; this removes them: sed -i -e '1s/^\\xef\\xbb\\xbf//' -e 's/\\r\$//' $file"
  fi
}

# Exports everything that FILE sets; ends the script with 78 if FILE is not a variables file.
read_variables() { # FILE
  local _message _file _folder=$PWD # named unlike what FILE may set
  check_encoding "$1"
  _message=$(bash -n "$1" 2>&1) || die "$_message"
  printf -v _file %q "${1##*/}" # the trap is evaluated, the name never
  trap "die $_file"' ended this script "(exit, or \${NAME:?}); it may only set variables"' EXIT
  set -a +eu # its own unset variables are its own affair
  # shellcheck source=/dev/null
  source "$1"
  set +a -eu
  trap - EXIT
  cd -- "$_folder" # FILE may only set variables
}
