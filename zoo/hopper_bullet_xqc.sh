# shellcheck shell=bash disable=SC2034
# sac train zoo/hopper_bullet_xqc.sh --seed 1
: "${SAC_EXP_NAME:=hopper_bullet_xqc}"
: "${SAC_PARAMS:=zoo/xqc_params.py}"
: "${SAC_CONFIG:=zoo/hopper_bullet_xqc.json}"
: "${SAC_GIN_BINDINGS:=TrainParams.num_iter = 300}"
