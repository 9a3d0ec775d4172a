# shellcheck shell=bash disable=SC2034
# sac train zoo/half_cheetah.sh --seed 1 2 3
: "${SAC_EXP_NAME:=half_cheetah}"
: "${SAC_PARAMS:=zoo/xqc_params.py}"
: "${SAC_CONFIG:=zoo/half_cheetah.json}"
