#!/usr/bin/env bash
# Runs one host's share of a prepared run. Usage: ./train_script.sh EXP_DIR SERVICES [new]
#   1. Starts each program of the folder SERVICES under its own daemontools supervise.
#   2. Waits. A program's supervise restarts it when it is killed; this script restarts supervise.
#   3. Learner finished: the workers end by themselves, the replay server is stopped; exit code 0.
#      A share without a learner: ends when all of its workers have ended; exit code 0.
#      INT, TERM, HUP: stops workers, learner, replay server, in this order; exit code 143, or 74
#      if the learner could not save.
#      A program gave up (SERVICES/*/failure): the same order; exit code 70, 74, 78 or 1. EXP_DIR is
#      removed if it is `new` and the learner was not built yet: nothing was trained.
#      Learner or replay server superseded by a later start (exit code 75): the same order, 75.
#      A superseded worker ends alone, and so does a mirror, whatever the reason.
#      A program cannot start, or EXP_DIR is renamed or removed: the same order, 1.
# launch/local/run_share.py becomes this script. With the learner's share, it holds the experiment's
# lock, which all its processes inherit. SERVICES is removed at the end if it is not in EXP_DIR.
# If this script is killed, every supervise gets TERM, and then every program (pdeathsig);
# guardian.py kills what does not end. stop_times.sh has the time limits.
set -uo pipefail
shopt -s nullglob

exp_dir=$1
services=$2
is_new=${3-} # not empty at the first start of the experiment
replay=("$services"/replay*) # or nothing
learner=("$services"/learner*)
workers=("$services"/{worker,evaluator}_*)
relays=("$services"/relay*)
mirrors=("$services"/mirror-*) # run_share.py has started their supervises
[[ $services -ef $exp_dir/service ]] || trap 'rm -rf -- "${services%/*}"' EXIT
project=$(realpath -- "${BASH_SOURCE[0]%/*}/../../..")
there=(env -C "$project" "SERVICE_WORKING_DIR=$PWD") # see core/process/process_start.py
# shellcheck source=tfagents_system/launch/local/stop_times.sh
source "$project/tfagents_system/launch/local/stop_times.sh"
declare -A group # process id of each service's supervise; it leads the service's process group

say() { # MESSAGE: gives up on a blocked terminal, as after Ctrl-S; the run continues
  timeout --foreground --signal KILL 2 printf '%s\n' "$1" >&2
}

start() { # SERVICE
  setpriv --pdeathsig TERM setlock -n "$1/lock" \
    pgrphack "${there[@]}" python -m tfagents_system.launch.local.subreaper supervise "$1" &
  group[$1]=$!
  disown # no "Killed" lines of bash
}

# Sets `began` of a living process, not of a zombie, which bash reaps late in a trap.
lives() { # PID
  local fields
  read -r fields 2>/dev/null <"/proc/$1/stat" || return 1 # in a trap, return alone means more
  read -ra fields <<<"${fields##*) }"                      # from the third of proc(5) on
  began=${fields[19]}
  [[ ${fields[0]} != Z ]]
}

# Whether the process that restart_budget.py has recorded lives, not a later one with its id.
is_running() { # SERVICE
  local pid recorded began
  read -r pid recorded 2>/dev/null <"$1/pid" && [[ $pid ]] && lives "$pid" &&
    [[ $began == "$recorded" ]]
}

# Whether neither supervise nor an orphaned program is left, not counting the program's children.
has_ended() { # SERVICE
  [[ -z ${group[$1]-} ]] || { ! kill -0 "${group[$1]}" 2>/dev/null && ! is_running "$1"; }
}

# Sets `now`, in seconds. Bash's SECONDS follows the wall clock, which may be changed.
read_clock() {
  read -r now _ </proc/uptime
  now=${now%.*}
}

await_end() { # SECS SERVICE...: returns 1 if one is left after SECS
  read_clock
  local deadline=$((now + $1)) service
  for service in "${@:2}"; do
    until has_ended "$service"; do
      read_clock
      ((now < deadline)) || return 1
      sleep 0.1
    done
  done
}

stop() { # SECS SERVICE...: asks them to end; after SECS kills them with all of their children
  read_clock
  local deadline=$((now + $1)) service
  for service in "${@:2}"; do
    # A supervise that has just been started listens soon.
    until svok "$service" || has_ended "$service" || ((now >= deadline)); do
      sleep 0.05
      read_clock
    done
    if svok "$service"; then svc -dx "$service"; fi
  done
  until await_end $((deadline - now < 5 ? deadline - now : 5)) "${@:2}"; do
    if ((now >= deadline)); then
      say "train_script.sh: not all of ${*:2} ended within $1 s; killing them"
      break
    fi
    # User code may have caught the first signal.
    for service in "${@:2}"; do if svok "$service"; then svc -t "$service"; fi; done
  done
  for service in "${@:2}"; do
    if [[ -n ${group[$service]-} ]]; then kill -KILL -- "-${group[$service]}" 2>/dev/null; fi
  done
  await_end "$STOP_KILLED_SECS" "${@:2}"
}

secs_to_stop() { # SERVICE
  case ${1##*/} in
    learner*) echo "$save_secs" ;;
    worker_* | evaluator_*) echo "$STOP_WORKERS_SECS" ;;
    *) echo "$STOP_REST_SECS" ;;
  esac
}

# Ends processes that user code has left running; see guardian.py.
end_leftovers() {
  local began
  kill -TERM "$guardian" 2>/dev/null
  read_clock
  local deadline=$((now + STOP_LEFTOVERS_SECS))
  while lives "$guardian" && ((now < deadline)); do
    read -rt 0.05 -u "$never" # no process, which would be ended, too
    read_clock
  done
}

stop_all() {
  trap '' INT TERM HUP # the order of a stop holds, however often it is asked for
  if [[ -n $awaiting ]]; then kill "$awaiting" 2>/dev/null; fi
  if [[ -n $reporter ]]; then # else it was started just now, and ends with this script
    kill "$reporter" 2>/dev/null
    local tries=$((10 * STOP_STATUS_SECS))
    while kill -0 "$reporter" 2>/dev/null; do
      if ((--tries == 0)); then
        kill -KILL "$reporter" # its terminal takes no more
        break
      fi
      sleep 0.1
    done
  fi
  if ((${#learner[@]})); then
    say 'Ending the workers, then the learner (which saves), then the replay server.'
  fi
  stop "$STOP_WORKERS_SECS" "${workers[@]}"
  stop "$save_secs" "${learner[@]}"
  stop "$STOP_REST_SECS" "${replay[@]}" "${relays[@]}" "${mirrors[@]}"
  end_leftovers
}

end_run() { # EXIT_CODE MESSAGE
  stop_all
  if [[ $1 == 143 && ${learner[*]} && $(cat "${learner[0]}/exit_code" 2>/dev/null) == 74 ]]; then
    local reason
    reason=$(grep -a '^sac_train\.py: .* not saved: ' "$exp_dir/stdout/learner.log" | tail -n 1)
    say "Stopped, but not saved: ${reason:-"the disk has no space for the reason, either. What had
been saved is in $exp_dir; the same command resumes from there."}"
    exit 74
  elif [[ $1 == 143 && ${learner[*]} && $(cat "${learner[0]}/exit_code" 2>/dev/null) != 143 ]]; then
    local loss
    loss=$("${there[@]}" python -m tfagents_system.launch.local.lost_steps "$exp_dir" 2>/dev/null)
    if [[ $? == 74 ]]; then
      say "$loss"
      exit 74
    fi
  fi
  say "$2"
  exit "$1"
}

# Waits for workers and evaluators, also those of other hosts: they evaluate once more, which a pause
# may hold, then end by themselves.
await_last_workers() {
  local left said
  exec {said}< <(exec setpriv --pdeathsig TERM "${there[@]}" \
    python -m tfagents_system.launch.link.last_workers "$exp_dir" 2>&1)
  awaiting=$!
  while kill -0 "$awaiting" 2>/dev/null; do
    if ((${#workers[@]})) && await_end 0 "${workers[@]}"; then # other hosts have none
      kill "$awaiting" 2>/dev/null
      break
    fi
    read -rt 0.1 -u "$never" # traps work meanwhile
  done
  left=$(cat <&"$said")
  if [[ $left ]]; then say "train_script.sh: $left"; fi
  await_end "$LAST_CLOSE_SECS" "${workers[@]}"
}

finish() {
  await_last_workers
  end_run 0 "$("${there[@]}" python -m tfagents_system.launch.show.ending "$exp_dir")"
}

discard() { # EXIT_CODE SERVICE MESSAGE: in one step, as the folder was made
  local removed="${exp_dir%/*}/.${exp_dir##*/}.$$.tmp"
  stop_all
  mv -- "$exp_dir" "$removed" && rm -rf -- "$removed"
  say "run_script.sh: ${2##*/} failed before anything was trained; $exp_dir was not kept:
$3"
  exit "$1"
}

fail() { # SERVICE
  local code failure without=
  code=$(cat "$1/exit_code" 2>/dev/null)
  failure=$(cat "$1/failure")
  [[ $code == 70 || $code == 74 || $code == 78 ]] || code=1 # diverged, disk, wrong input
  if [[ $is_new && $failure && ! -e $exp_dir/running/run_spec.json ]]; then
    discard "$code" "$1" "${failure#*$'\n'}" # without its first line, which names the log
  fi
  if [[ $code == 78 ]]; then without='without the mistake, '; fi
  end_run "$code" "train_script.sh: the run was stopped because ${failure:-"${1##*/}
failed (exit code ${code:-unknown}) and the disk is too full for its error message."}
What had been saved is in $exp_dir; ${without}the same command resumes from there."
}

look_after() { # SERVICE, whose supervise has ended
  local code
  code=$(cat "$1/exit_code" 2>/dev/null)
  if [[ ${1##*/} == mirror-* ]]; then # not started again: this script may be in a private network
    group[$1]= # `unset` would evaluate the path
    say "train_script.sh: ${1##*/} has ended; training goes on. $(cat "$1/failure" 2>/dev/null)
The next start, or sac mirror, goes on where it was."
  elif [[ -e $1/failure ]]; then
    fail "$1"
  elif [[ $code == 75 && ($1 == "${replay[*]}" || $1 == "${learner[*]}") ]]; then
    save_secs=5 # the learner has nothing to save any more
    end_run 75 "train_script.sh: a later start of the run has taken over; this one has ended."
  elif [[ $code != 0 && $code != 75 ]]; then
    read_clock
    if ((now - first_lost > 600)); then first_lost=$now lost_supervises=0; fi
    ((++lost_supervises <= 20)) ||
      end_run 1 "train_script.sh: the run was stopped because supervise of ${1##*/} keeps ending."
    say "train_script.sh: supervise of ${1##*/} was killed; starting it again"
    stop "$(secs_to_stop "$1")" "$1" # its program got TERM
    start "$1"
  elif [[ $1 == "${learner[*]}" ]]; then
    finish
  elif [[ -z ${learner[*]} ]] && await_end 0 "${workers[@]}"; then
    end_run 0 "The workers of this share on ${HOSTNAME} have ended."
  fi
}

# Ends the run if a program fails before restart_budget.py can count its failures.
look_for_start() { # SERVICE, whose supervise lives
  # On a full disk the file `pid` may be missing; then this is unknown.
  if is_running "$1" || [[ ! -e $1/pid ]]; then
    idle[$1]=0
    return
  fi
  idle[$1]=$((${idle[$1]-0} + 1))
  if ((${idle[$1]} > MAX_IDLE_LOOKS)); then
    end_run 1 "train_script.sh: the run was stopped because ${1##*/} could not be started for \
$MAX_IDLE_LOOKS s: see $1/program.sh, which supervise runs, for what is in the way."
  fi
}

# Whether the folder of the experiment, or one above it, was renamed or removed.
has_moved() {
  [[ ! $named -ef /proc/$$/fd/$home && $(readlink "/proc/$$/fd/$home") != "$place" ]]
}

# Programs know the folder by its old name, so a link leads to the new place while they end.
leave_moved_folder() {
  local moved_to made=$place
  moved_to=$(readlink "/proc/$$/fd/$home")
  while [[ ! -e ${made%/*} && $made == */*/* ]]; do made=${made%/*}; done
  if [[ -d $moved_to && ! -e $place && ! -L $place ]] && mkdir -p -- "${place%/*}" &&
    ln -s -- "$moved_to" "$place"; then
    stop_all
    rm -f -- "$place"
    [[ ! -d $made ]] || find "$made" -depth -type d -empty -delete
    say "train_script.sh: the run was stopped because $exp_dir was renamed, or a folder above it: its \
state is saved in $moved_to. To go on, give the folder its old name, or start from the new one; set \
SAC_EXP_NAME to its last part if that has changed."
    exit 1
  fi
  local service
  trap '' INT TERM HUP
  for service in "${!group[@]}"; do kill -KILL -- "-${group[$service]}" 2>/dev/null; done
  if [[ $reporter ]]; then kill -KILL "$reporter" 2>/dev/null; fi
  end_leftovers
  if [[ -d $moved_to ]]; then
    say "train_script.sh: the run was stopped because $exp_dir was renamed and something else has \
its name: what had been saved is in $moved_to. To go on, set SAC_EXP_NAME to its name."
  else
    say "train_script.sh: the run was stopped because its folder $exp_dir was removed while it ran."
  fi
  exit 1
}

readonly MAX_IDLE_LOOKS=60 # one a second
readonly LAST_CLOSE_SECS=60 # for workers that have reported their end to close their environments
reporter=
awaiting= # last_workers.py
save_secs=$STOP_LEARNER_SECS # for the learner at a stop
declare -A idle # looks since each service was seen to run
exec {home}<"$exp_dir" {never}<> <(:) # of `never`, `read` gets nothing: it sleeps without a process
place=$(readlink "/proc/$$/fd/$home")
named=$(realpath --no-symlinks -- "$exp_dir") # a relative path follows this script's folder
# In a session of its own, so that it outlives this script, however that ends.
pgrphack "${there[@]}" python -m tfagents_system.launch.local.guardian "$services" \
  </dev/null >/dev/null 2>&1 &
guardian=$!
disown
lost_supervises=0 # since $first_lost: 20 in ten minutes are too many
first_lost=0
trap 'end_run 143 "Stopped. The same command resumes from the last checkpoint in $exp_dir."' \
  INT TERM HUP
for service in "${relays[@]}" "${replay[@]}" "${learner[@]}" "${workers[@]}"; do start "$service"; done
for service in "${mirrors[@]}"; do group[$service]=$(<"$service/supervise.pid"); done
if ((${#learner[@]})); then
  setpriv --pdeathsig TERM "${there[@]}" python -m tfagents_system.launch.show.status "$exp_dir" &
  reporter=$!
  disown
fi
while true; do
  read -rt 1 -u "$never" # traps work meanwhile
  if has_moved; then leave_moved_folder; fi
  for service in "${!group[@]}"; do
    if [[ -z ${group[$service]} ]]; then
      continue # it has ended for good
    elif kill -0 "${group[$service]}" 2>/dev/null; then
      look_for_start "$service"
    else
      look_after "$service"
    fi
  done
done
