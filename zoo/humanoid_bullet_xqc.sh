# shellcheck shell=bash disable=SC2034
# sac train zoo/humanoid_bullet_xqc.sh --seed 1
: "${SAC_EXP_NAME:=humanoid_bullet_xqc}"
: "${SAC_PARAMS:=zoo/humanoid_bullet_params.py}"
: "${SAC_CONFIG:=zoo/humanoid_bullet_xqc.json}"
