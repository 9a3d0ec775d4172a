# shellcheck shell=bash disable=SC2034
# sac train zoo/cartpole_long_p.sh --seed 1 2 3
# Step sizes fall to 0: with constant ones a policy that balances for 1,000 steps is lost again. One
# summarizer for all networks makes train steps nearly twice as fast.
: "${SAC_EXP_NAME:=cartpole_long_p}"
: "${SAC_PARAMS:=zoo/partial_params.py}"
: "${SAC_CONFIG:=zoo/cartpole_long_p.json}"
: "${SAC_GIN_BINDINGS:=TrainParams.learning_rate_schedule = 'linear'
TrainParams.share_summarizer = True
TrainParams.num_iter = 100}"
