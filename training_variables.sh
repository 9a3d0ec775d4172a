# shellcheck shell=bash disable=SC2034
# Template of a variables file: copy it, change it, and run  ./run_script.sh YOUR_COPY.sh
# A value in the caller's environment takes precedence over the one here:
#   SAC_EXP_NAME=second ./run_script.sh training_variables.sh
# Paths are relative to the project folder. Delete a line to get its default.

# Name of the experiment; everything it writes is in logs/$SAC_EXP_NAME. The same name resumes.
: "${SAC_EXP_NAME:=my_experiment}"

# Params file: Python, defines the class TrainParams (environment, networks, hyperparameters).
: "${SAC_PARAMS:=tfagents_system/pendulum_params.py}"

# JSON config given to TrainParams as env_config; "horizon" is the number of env steps per episode.
: "${SAC_CONFIG:=config/pendulum.json}"

# Number of worker programs; each steps its own environment. auto: one per CPU that is left.
: "${SAC_NUM_COLLECT_WORKERS:=auto}"

# CPUs of each worker, of the learner, of the replay server. auto divides the CPUs this job may use;
# if there are fewer CPUs than programs, they share. Numbers that do not fit are an error.
: "${SAC_COLLECT_WORKER_CPUS:=auto}"
: "${SAC_TRAIN_CPUS:=auto}"
: "${SAC_REVERB_CPUS:=auto}"

# TCP port of the replay server. auto: a free one.
: "${SAC_REVERB_PORT:=auto}"

# Network of the run's programs. 1: a private one, in which they reach only each other. 0: the
# machine's, for an environment that needs it; whoever reaches the machine can then connect to the
# replay server. auto: 1 where the kernel allows it.
: "${SAC_PRIVATE_NETWORK:=auto}"

# Longest time in seconds of an env step, reset, constructor or hook: a program that takes longer
# shows its stack and is started again. Importing params and building networks may take ten times as
# long. auto: 600.
: "${SAC_ENV_TIMEOUT_SECS:=auto}"

# Seed of everything random, an integer >= 0. auto draws one; provenance.json records it.
: "${SAC_SEED:=auto}"

# 1: worker and learner take turns, so that two runs with one seed on one machine give the same
# curve, bit for bit; slower, and with one worker. 0 and auto: they work at the same time.
: "${SAC_DETERMINISTIC:=auto}"

# Where the programs run: local, all on this machine; slurm or ray, on the hosts of a cluster, where
# SAC_WORKERS_PER_SHARE workers are placed together (auto: 1). auto: local.
: "${SAC_PLACEMENT:=auto}"
: "${SAC_WORKERS_PER_SHARE:=auto}"

# Ray cluster for SAC_PLACEMENT=ray: host:port or ray://host:port. auto: this machine's cluster.
: "${SAC_RAY_ADDRESS:=auto}"

# Programs that only evaluate, so that the workers only collect. auto: 0, the workers evaluate.
: "${SAC_EVAL_WORKERS:=auto}"

# 1: a program mirrors the run to Weights & Biases (offline, unless WANDB_MODE=online) or to MLflow
# (in the experiment's folder, unless MLFLOW_TRACKING_URI names a server). auto: 0.
: "${SAC_WANDB:=auto}"
: "${SAC_MLFLOW:=auto}"

# 1: TensorBoard has values by the tags of ML-Agents, too, such as Environment/Cumulative Reward.
# auto: 0.
: "${SAC_MLAGENTS_TAGS:=auto}"

# Experiment from whose weights a new one starts, such as logs/first, logs/first:best. Empty: none.
: "${SAC_INITIALIZE_FROM:=}"

# gin bindings override the hyperparameters of the params file; separate several by semicolons:
#   TrainParams.num_iter = 2000; TrainParams.train_batch_size = 512
: "${SAC_GIN_BINDINGS:=}"
