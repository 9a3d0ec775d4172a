# shellcheck shell=bash disable=SC2034
# sac train zoo/humanoid_flagrun_bullet_xqc.sh --seed 1
: "${SAC_EXP_NAME:=humanoid_flagrun_bullet_xqc}"
: "${SAC_PARAMS:=zoo/humanoid_bullet_params.py}"
: "${SAC_CONFIG:=zoo/humanoid_flagrun_bullet_xqc.json}"
