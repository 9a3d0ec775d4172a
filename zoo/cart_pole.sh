# shellcheck shell=bash disable=SC2034
# sac train zoo/cart_pole.sh --seed 1 2 3
: "${SAC_EXP_NAME:=cart_pole}"
: "${SAC_PARAMS:=zoo/classic_params.py}"
: "${SAC_CONFIG:=zoo/cart_pole.json}"
