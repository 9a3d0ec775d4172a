# shellcheck shell=bash disable=SC2034
# sac train zoo/point_maze_rlpd.sh --seed 1 2 3
: "${SAC_EXP_NAME:=point_maze_rlpd}"
: "${SAC_PARAMS:=zoo/demonstrations_params.py}"
: "${SAC_CONFIG:=zoo/point_maze_rlpd.json}"
