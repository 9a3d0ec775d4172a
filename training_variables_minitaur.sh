# shellcheck shell=bash disable=SC2034
# Variables of the Minitaur example; training_variables.sh explains each. All CPU numbers are auto.
: "${SAC_EXP_NAME:=minitaur}"
: "${SAC_PARAMS:=tfagents_system/minitaur_params.py}"
: "${SAC_CONFIG:=config/minitaur.json}"
