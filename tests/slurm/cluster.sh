#!/usr/bin/env bash
# Runs a throw-away SLURM as process 1 of namespaces that cluster.py makes. When it or its parent
# ends, every process of the cluster ends.
#
# Usage: cluster.sh DIR SECS NODE... -- [FOLDER...]   DIR holds slurm.conf and hosts; ends after SECS
#
# 1. Makes each FOLDER reachable for every user, even if the folders above it are not.
# 2. Starts munged and slurmctld.
# 3. Joins the nodes by a bridge and starts their slurmd. A node has its own host name, address,
#    processes and /dev/shm; files are shared, as on a cluster.
set -euo pipefail

network=10.222.0

# Prints the topmost folder on the way to FOLDER that not everybody may enter.
closed_folder() { # FOLDER
  local folder='' part parts
  IFS=/ read -ra parts <<<"${1#/}"
  for part in "${parts[@]}"; do
    folder+=/$part
    [[ $(stat -Lc %A "$folder") == *[xt] ]] || { printf '%s\n' "$folder" && return; }
  done
}

reveal() { # FOLDER...
  local folder number=0 closed=()
  for folder; do
    mkdir -p "$dir/revealed/$((++number))"
    mount --rbind "$folder" "$dir/revealed/$number"
    closed+=("$(closed_folder "$folder")")
  done
  while read -r folder; do
    [[ -z $folder ]] || mount -t tmpfs -o mode=755 tmpfs "$folder"
  done < <(printf '%s\n' "${closed[@]}" | sort -u)
  for ((; number > 0; number--)); do
    mkdir -p "${!number}"
    mount --rbind "$dir/revealed/$number" "${!number}"
  done
}

await() { # SHELL_CONDITION: for 10 s at most
  local tries
  for ((tries = 0; tries < 200; tries++)); do
    if eval "$1"; then return; fi
    sleep 0.05
  done
  echo "cluster.sh: not within 10 s: $1" >&2
  return 1
}

start_node() { # NUMBER NAME
  local holder
  unshare --net --uts --ipc --mount --pid --fork --kill-child --mount-proc \
    bash "$0" --node "$2" >"$dir/$2.out" 2>&1 &
  holder=$!
  echo $holder >"$dir/$2.pid"
  await "[[ ! /proc/$holder/ns/net -ef /proc/self/ns/net ]]"
  ip link add "node$1" type veth peer name eth0 netns $holder
  ip link set "node$1" master bridge up
  nsenter -t $holder -n sh -ec \
    "ip link set lo up; ip addr add $network.$1/24 dev eth0; ip link set eth0 up"
}

node_main() { # NAME: process 1 of the node, which therefore reaps
  hostname "$1"
  mount -t tmpfs -o mode=1777 tmpfs /dev/shm
  await 'ip -4 addr show up dev eth0 2>/dev/null | grep -q inet'
  slurmd -D -N "$1" &
  wait $!
}

main() { # SECS NODE... -- [FOLDER...]
  local secs=$1 nodes=() number
  while [[ $2 != -- ]]; do
    nodes+=("$2")
    shift
  done
  hostname login
  mount --bind "$dir/hosts" /etc/hosts
  ip link set lo up
  ip link add bridge type bridge
  ip addr add "$network.254/24" dev bridge
  ip link set bridge up
  reveal "${@:3}"
  munged -F --force --key-file="$dir/munge.key" --socket="$dir/munge.sock" \
    --pid-file="$dir/munged.pid" --log-file="$dir/munged.log" --seed-file="$dir/munge.seed" &
  await "munge -n -S '$dir/munge.sock' >/dev/null 2>&1"
  slurmctld -D -c &
  # The retries of a slurmd that finds no slurmctld are seconds apart.
  await 'timeout 5 scontrol ping 2>/dev/null | grep -q "is UP"'
  for ((number = 1; number <= ${#nodes[@]}; number++)); do
    start_node "$number" "${nodes[number - 1]}"
  done
  sleep "$secs"
}

export PATH="$PATH:/usr/sbin:/sbin"
if [[ $1 == --node ]]; then
  node_main "$2"
else
  dir=$1
  export SLURM_CONF=$dir/slurm.conf
  main "${@:2}"
fi
