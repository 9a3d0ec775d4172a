# shellcheck shell=bash disable=SC2034 # train_script.sh sources it, stop_times.py reads it
# Time limits of the parts of a stop, in seconds, in order. Each part begins when the one before is
# over. Their sum is less than the warning time in slurm/*.sbatch (#SBATCH --signal).
STOP_STATUS_SECS=2     # status line
STOP_WORKERS_SECS=20   # workers and evaluators
STOP_LEARNER_SECS=120  # learner, which saves
STOP_REST_SECS=45      # replay server, relay, and mirrors, which upload the rest
STOP_KILLED_SECS=5     # after each of these three, programs killed because they took longer
STOP_LEFTOVERS_SECS=10 # what environments have started and not ended
