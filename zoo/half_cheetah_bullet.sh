# shellcheck shell=bash disable=SC2034
# sac train zoo/half_cheetah_bullet.sh --seed 1 2 3
# A train step for every second env step; with one for every fourth it returns 2,625 to 2,641.
: "${SAC_EXP_NAME:=half_cheetah_bullet}"
: "${SAC_PARAMS:=zoo/pybullet_params.py}"
: "${SAC_CONFIG:=zoo/half_cheetah_bullet.json}"
: "${SAC_GIN_BINDINGS:=TrainParams.num_steps_per_iter = 500}"
