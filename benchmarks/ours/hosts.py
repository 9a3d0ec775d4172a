"""Measures env steps/s of workers on several hosts, and the CPU time of server and link.

Example: python -m benchmarks.ours.hosts --num_workers 8 --num_hosts 2
Hosts are network namespaces of this machine with 1 Gbit/s each. One has the replay server and a
stand-in for the learner (core_host.py). The others share the workers: NUM_REAL are sac_collect.py;
the rest, too many for these cores, are stand-ins that make the same traffic (paced_workers.py). The
simulator takes 10 ms per step, so a worker makes at most 100 steps/s.
"""

import contextlib
import pathlib
import subprocess
import tempfile
import time
from collections.abc import Iterator
from typing import Annotated, NamedTuple

import psutil

from benchmarks import program
from benchmarks.environments import SleepingEnv
from benchmarks.harness import adopt_orphans
from benchmarks.network import Host, network
from benchmarks.ours.programs import PEERS_NETWORKS, make_experiment, program_specs, running
from benchmarks.process_stats import cpu_secs
from tfagents_system.core.programs.command_line import AtLeast
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.reports import Phase, WorkerReport, read_report
from tfagents_system.core.waiting import wait_until

START_TIMEOUT_SECS = 300.0
WARMUP_SECS = 5.0
MBIT_PER_SEC = 1000
NUM_REAL = 2  # one on each of the first hosts


class Programs(NamedTuple):
    """The programs to measure on running hosts."""

    core: Host
    replay: int  # process id of the replay server
    core_relays: list[int]  # of stunnel; none without a link
    worker_relays: list[int]


class Sample(NamedTuple):
    """Counters at one moment."""

    at: float  # by the monotonic clock
    reports: dict[str, WorkerReport]
    traffic: tuple[int, int]  # bytes received and sent by the core's host
    cpu_secs: tuple[float, float, float]  # of the process ids in Programs


@contextlib.contextmanager
def running_hosts(
    folder: pathlib.Path, paths: ExperimentPaths, num_workers: int, num_hosts: int, linked: bool
) -> Iterator[Programs]:
    """Runs a core and workers on separate hosts until the end of the block, which kills them.

    Args:
      folder: Needs a short path, because Unix sockets do.
      paths: Paths of the experiment, visible to all hosts.
      num_workers: On all hosts together.
      num_hosts: Hosts with workers, without the core's.
      linked: Whether to use the link; otherwise unencrypted.
    """
    with contextlib.ExitStack() as stack:
        core_host, *worker_hosts = stack.enter_context(network(num_hosts + 1, MBIT_PER_SEC))
        stack.callback(_end_children)
        core_folder = _private_folder(folder / "core")
        flags = [] if linked else ["--nolinked"]
        core = stack.enter_context(
            running(core_host.python("benchmarks.ours.core_host", paths.root, core_folder, *flags))
        )
        port = core.stdout.readline().strip()
        relays = []
        for index, host in enumerate(worker_hosts):
            address = f"{core_host.address}:{port}"
            if linked:
                relay_folder = _private_folder(folder / f"host_{index}")
                address = f"unix:{relay_folder}/replay"
                relay = host.python("tfagents_system.launch.link.relay", paths.root, relay_folder)
                relays.append(stack.enter_context(running(relay, log=folder / f"relay_{index}")))
            first = index * num_workers // num_hosts
            count = (index + 1) * num_workers // num_hosts - first
            if index < NUM_REAL:
                name = f"worker_{first}"
                real = program_specs(paths, address, num_workers)[name]
                stack.enter_context(running(host.command(*real.argv), real.env, paths.stdout(name)))
                first, count = first + 1, count - 1
            if count:
                paced = host.python(
                    "benchmarks.ours.paced_workers", paths.root, address, first, count
                )
                stack.enter_context(running(paced, log=paths.stdout(f"worker_{first}")))
        wait_until(lambda: _all_collect(paths, num_workers), START_TIMEOUT_SECS, "all workers", 0.5)
        (replay,) = _descendants(core, "sac_replay_buffer.py")
        yield Programs(
            core_host,
            replay,
            _descendants(core, "stunnel.conf"),
            [pid for relay in relays for pid in _descendants(relay, "stunnel.conf")],
        )


def _private_folder(folder: pathlib.Path) -> pathlib.Path:
    folder.mkdir(mode=0o700)
    return folder


def _descendants(process: subprocess.Popen, word: str) -> list[int]:
    """Returns the ids of descendants whose command line has `word`."""
    children = psutil.Process(process.pid).children(recursive=True)
    return [child.pid for child in children if any(word in part for part in child.cmdline())]


def _end_children() -> None:
    """Kills remaining processes of the programs."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


def _reports(paths: ExperimentPaths, num_workers: int) -> dict[str, WorkerReport]:
    names = [f"worker_{number}" for number in range(num_workers)]
    found = {name: read_report(paths, name) for name in names}
    return {name: report for name, report in found.items() if report is not None}


def _all_collect(paths: ExperimentPaths, num_workers: int) -> bool:
    reports = _reports(paths, num_workers).values()
    return len(reports) == num_workers and {r.phase for r in reports} == {Phase.COLLECTING}


def take_sample(programs: Programs, paths: ExperimentPaths, num_workers: int) -> Sample:
    """Returns the current counters; a worker's report is at most a second old."""
    pids = [programs.replay], programs.core_relays, programs.worker_relays
    return Sample(
        time.monotonic(),
        _reports(paths, num_workers),
        programs.core.traffic(),
        tuple(sum(map(cpu_secs, group)) for group in pids),
    )


def main(
    num_workers: Annotated[int, AtLeast(NUM_REAL)],
    num_hosts: Annotated[int, AtLeast(NUM_REAL)],
    linked: bool = True,
    secs: Annotated[float, AtLeast(1)] = 20.0,
) -> None:
    """Measures and prints the results.

    Args:
      num_workers: On all hosts together.
      num_hosts: Hosts with workers, without the core's.
      linked: Whether to use the link; otherwise unencrypted.
      secs: How long to measure.
    """
    adopt_orphans()  # of programs that are killed, so that they end, too
    with tempfile.TemporaryDirectory(prefix="sac_", dir="/tmp") as name:
        folder = pathlib.Path(name)
        paths = make_experiment(folder / "experiment", "SleepingEnv", PEERS_NETWORKS)
        with running_hosts(folder, paths, num_workers, num_hosts, linked) as programs:
            time.sleep(WARMUP_SECS)
            first = take_sample(programs, paths, num_workers)
            time.sleep(secs)
            last = take_sample(programs, paths, num_workers)
    print_results(first, last, num_hosts, linked)


def print_results(first: Sample, last: Sample, num_hosts: int, linked: bool) -> None:
    """Prints the results between two samples."""
    rates = {
        name: (report.env_steps - first.reports[name].env_steps)
        / (report.written_at - first.reports[name].written_at)
        for name, report in last.reports.items()
    }
    count, took = len(rates), last.at - first.at
    fields = {"num_workers": count, "num_hosts": num_hosts, "num_real_workers": NUM_REAL}
    total = sum(rates.values())
    share = 100 * total * SleepingEnv.step_secs / count
    program.print_result("env_steps_per_sec", total, "1/s", **fields)
    program.print_result("share_of_full_rate", share, "%", **fields)
    for index, direction in enumerate(("from", "to")):
        num_bytes = last.traffic[index] - first.traffic[index]
        metric = f"kb_per_sec_{direction}_each_worker"
        program.print_result(metric, num_bytes / 1e3 / took / count, "kB per s", **fields)
    used = [(b - a) / took for a, b in zip(first.cpu_secs, last.cpu_secs, strict=True)]
    program.print_result("replay_server_cpus", used[0], "CPUs", **fields)
    if linked:
        program.print_result("core_relay_cpus", used[1], "CPUs", **fields)
        program.print_result("relay_cpus_of_a_host", used[2] / num_hosts, "CPUs", **fields)


if __name__ == "__main__":
    program.run(main)
