#!/usr/bin/env bash
# Runs the tests, whatever machine this is.
#
# Usage: ./run_tests.sh [pytest arguments]; the slow ones: ./run_tests.sh -m slow
#
# 1. Installs what is missing (setup.sh).
# 2. Hands over to pytest, with this folder's code first and no proxy between local programs.
set -euo pipefail

unset CDPATH
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"
folders="$(./setup.sh --test)"
export PATH="$folders:$PATH"
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
unset http_proxy https_proxy all_proxy grpc_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY
exec python -m pytest "$@"
