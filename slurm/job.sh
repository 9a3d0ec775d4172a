# shellcheck shell=bash
# Shared by the batch scripts, which source it in the project's folder.
#
# SLURM signals only the batch script, which passes TERM on and waits, because everything it has
# started is killed when it ends. TERM comes when
# - the job was cancelled, or SLURM is about to put it back into the queue: it only has to end;
# - the time limit is near (--signal), or a preemption has a grace period: the job is still running,
#   and puts itself back into the queue, to resume from what its programs have saved.

say() { printf '%s %s\n' "$(date '+%F %T')" "$*"; }

die() {
  say "$*" >&2
  exit 78 # EX_CONFIG: trying again cannot help
}

# Starts COMMAND, calls CHECK every second until it has ended, then ends with its exit code.
run() { # CHECK COMMAND...
  local code
  exec {never}<> <(:) # nothing ever arrives here: `read` sleeps without a process, and traps work
  "${@:2}" &
  program=$!
  trap 'stop_and_requeue "got TERM"' TERM
  while kill -0 "$program" 2>/dev/null; do
    read -rt 1 -u "$never"
    "$1"
  done
  wait "$program"
  code=$?
  # 74: stopped, but not saved; the next start resumes from the checkpoint before
  if [[ ($code == 143 || $code == 74) && $is_to_requeue ]]; then requeue; fi
  exit "$code"
}

stop() { # REASON
  say "$1: stopping"
  kill -TERM "$program"
}

stop_and_requeue() { # REASON
  is_to_requeue=yes
  stop "$1"
}

# Asks for a while, because the controller may be busy or about to start again.
requeue() {
  local state end=$((SECONDS + REQUEUE_SECS))
  while true; do
    if state=$(job_state); then
      [[ $state == "RUNNING ${SLURMD_NODENAME-}" ]] || return # cancelled, or SLURM requeues it
      say "putting job $job into the queue again"
      ! scontrol requeue "$job" || return
    fi
    ((SECONDS < end)) || break
    sleep 2
  done
  say "job $job is not in the queue again, because SLURM did not answer: submit the run once more."
}

# With the host, because SLURM may have taken this one for dead and started the job elsewhere.
job_state() { squeue --noheader --jobs="$job" --format='%T %B'; }

readonly REQUEUE_SECS=25
# The id of an array's element; SLURM's tools take the last one's SLURM_JOB_ID for the whole array.
job=$SLURM_JOB_ID
if [[ ${SLURM_ARRAY_JOB_ID-} ]]; then job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID; fi
is_to_requeue=
say "job $job on ${SLURMD_NODENAME-}, restart ${SLURM_RESTART_COUNT:-0}"
