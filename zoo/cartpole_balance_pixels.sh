# shellcheck shell=bash disable=SC2034
# sac train zoo/cartpole_balance_pixels.sh --seed 1 2 3
: "${SAC_EXP_NAME:=cartpole_balance_pixels}"
: "${SAC_PARAMS:=zoo/pixels_params.py}"
: "${SAC_CONFIG:=zoo/cartpole_balance_pixels.json}"
