# shellcheck shell=bash disable=SC2034
# sac train zoo/cartpole_balance.sh --seed 1 2 3
: "${SAC_EXP_NAME:=cartpole_balance}"
: "${SAC_PARAMS:=zoo/dm_control_params.py}"
: "${SAC_CONFIG:=zoo/cartpole_balance.json}"
: "${SAC_GIN_BINDINGS:=TrainParams.num_iter = 50}"
