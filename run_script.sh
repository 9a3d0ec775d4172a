#!/usr/bin/env bash
# Trains one experiment to its end, or resumes it. Usage: ./run_script.sh VARIABLES.sh
# The experiment is in the logs/ of this folder, from wherever it is called; user code works where
# it is called, and params and config are looked for there first.
#   1. Reads the SAC_* variables (training_variables.sh explains them).
#   2. Installs python and daemontools if they are missing (setup.sh).
#   3. Checks all input, makes logs/$SAC_EXP_NAME and locks it (tfagents_system.launch.start).
#   4. Becomes train_script.sh. Exit codes: 0 finished, 70 diverged, 74 the disk fails, 75 a later
#      start has taken over, 78 wrong input, 143 stopped, 1 other failures.
# With SAC_PLACEMENT=slurm, step 3 submits jobs and ends; with ray, steps 3 and 4 are Ray actors.
# Works inside any SLURM allocation of one node; slurm/train.sbatch is the batch job for it.
set -euo pipefail

die() {
  printf 'run_script.sh: %s\n' "$*" >&2
  exit 78 # EX_CONFIG: trying again cannot help
}

[[ $(uname -s) == Linux ]] ||
  die 'training needs Linux: Reverb has no build for this system. Evaluation (run.py) works here.'
(($# == 1)) || die 'usage: ./run_script.sh VARIABLES.sh, e.g. training_variables_pendulum.sh'

called_in=$PWD
project=$(dirname -- "$(realpath -- "${BASH_SOURCE[0]}")")
# sbatch runs a copy of this script from a spool folder.
[[ -e $project/train_script.sh ]] || project=${SLURM_SUBMIT_DIR:-$project}
[[ -e $project/train_script.sh ]] || die "no train_script.sh in $project; run it in the project folder"
if [[ -f $1 ]]; then variables=$(realpath -- "$1"); else variables=$project/$1; fi
cd -- "$project"
[[ -f $variables ]] ||
  die "no such variables file: $1. There are: $(printf '%s ' training_variables*.sh)"
[[ -r $variables ]] || die "cannot read the variables file $1"
# shellcheck source=tfagents_system/launch/local/variables.sh
source tfagents_system/launch/local/variables.sh
if [[ ! $called_in -ef $project ]]; then
  export COMMAND_WORKING_DIR=$called_in # see core/process/process_start.py
fi
read_variables "$variables" # which may set variables with the names of those above
if [[ ${TRAIN_HERE-} ]]; then export SAC_PLACEMENT=local; fi # see slurm/train.sbatch
if [[ ${COMMAND_WORKING_DIR-} ]]; then
  for _name in SAC_PARAMS SAC_CONFIG; do
    if [[ -f $COMMAND_WORKING_DIR/${!_name-} ]]; then
      export "$_name=$COMMAND_WORKING_DIR/${!_name}"
    fi
  done
fi

_folders=$(./setup.sh)
export PATH="$_folders:$PATH" PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
exec python -m tfagents_system.launch.start
