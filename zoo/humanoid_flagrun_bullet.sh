# shellcheck shell=bash disable=SC2034
# sac train zoo/humanoid_flagrun_bullet.sh --seed 1 2 3
: "${SAC_EXP_NAME:=humanoid_flagrun_bullet}"
: "${SAC_PARAMS:=zoo/pybullet_params.py}"
: "${SAC_CONFIG:=zoo/humanoid_flagrun_bullet.json}"
