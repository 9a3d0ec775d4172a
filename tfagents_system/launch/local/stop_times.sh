# shellcheck shell=bash disable=SC2034 # train_script.sh sources it, stop_times.py reads it
# How long the parts of a stop may take, in seconds, in their order. The next part begins as soon as
# one is over. Their sum is less than the lead that slurm/*.sbatch ask for (#SBATCH --signal).
STOP_STATUS_SECS=2     # status line
STOP_WORKERS_SECS=20   # workers and evaluators
STOP_LEARNER_SECS=120  # learner, which saves
STOP_REST_SECS=45      # replay server, relay, mirrors, which hand over what is left
STOP_KILLED_SECS=5     # after each of these three, what was killed because it took longer
STOP_LEFTOVERS_SECS=10 # what environments have started and not ended
