"""Kills a host in the middle of a run, and measures the time until training is complete again.

Example: python -m benchmarks.ours.host_loss --victim workers
Hosts are network namespaces of this machine with their own process ids. The real programs train on
Pendulum: the core on one host, a worker on each of two others. Once there is a checkpoint, the
victim loses its network and all processes at the same time. Its share is then placed on a spare
host, as a cluster would do; the time that a cluster takes to notice is not included.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any

from benchmarks import program
from benchmarks.harness import adopt_orphans
from benchmarks.network import Host, network
from benchmarks.ours.programs import EXAMPLES, PROJECT, next_report, running
from tfagents_system.core.programs.command_line import OneOf
from tfagents_system.core.state.generations import read_manifests
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.reports import Phase, read_report
from tfagents_system.core.waiting import wait_until

WORKERS, CORE = "workers", "core"
START_TIMEOUT_SECS = 240.0
WATCH_SECS = 10.0  # before a loss, and after it until a replacement collects
BINDINGS = (
    "TrainParams.num_iter = 1000000",
    "TrainParams.n_eval_episodes = 0",
    "TrainParams.checkpoint_period_itrs = 5",
    "TrainParams.actor_fc_layer_params = (32, 32)",
    "TrainParams.critic_joint_fc_layer_params = (32, 32)",
)


class Cluster:
    """Runs shares of one experiment on hosts, and removes hosts."""

    def __init__(self, paths: ExperimentPaths, folder: pathlib.Path, stack: contextlib.ExitStack):
        """`folder` has the hosts' own disks; `stack` ends running programs."""
        self._paths, self._folder, self._stack = paths, folder, stack
        self._hosts: dict[str, tuple[Host, subprocess.Popen]] = {}  # by share
        self._num_starts: dict[str, int] = {}

    def start(self, share: str, host: Host) -> None:
        """Places a share on a host, as the next start of the same job."""
        params, config = EXAMPLES["Pendulum-v1"]
        count = self._num_starts.get(share, 0)
        self._num_starts[share] = count + 1
        disk = self._folder / host.name
        disk.mkdir(mode=0o700)
        environ = {
            "SAC_EXP_NAME": self._paths.root.name, "SAC_PARAMS": params, "SAC_CONFIG": config,
            "SAC_SEED": "1", "SAC_GIN_BINDINGS": "; ".join(BINDINGS), "TMPDIR": str(disk),
            "SLURM_JOB_ID": share, "SLURM_RESTART_COUNT": str(count),
        }  # fmt: skip
        # The shell is the host's first process; all others end with it.
        boot = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
                "sh", "-c", '"$@"; exit', "sh")  # fmt: skip
        module = "tfagents_system.launch.local.run_share"
        command = [*boot, *host.python(module, *share.split())]
        log = self._folder / f"{share.replace(' ', '_')}_{count}.log"
        process = self._stack.enter_context(running(command, environ, log))
        self._hosts[share] = host, process

    def lose(self, share: str) -> None:
        """Removes the host of a share: its network, then all of its processes at once."""
        host, process = self._hosts.pop(share)
        host.unplug()
        process.kill()
        process.wait()

    def check(self) -> None:
        """Raises RuntimeError if a share has ended by itself."""
        for share, (_, process) in self._hosts.items():
            if process.poll() is not None:
                log = self._folder / f"{share.replace(' ', '_')}_{self._num_starts[share] - 1}.log"
                raise RuntimeError(f"{share} ended: {log.read_text()[-2000:]}")


@contextlib.contextmanager
def training_cluster() -> Iterator[tuple[ExperimentPaths, Cluster, Host]]:
    """Trains on three hosts until the end of the block; also yields a spare host.

    When the block begins, a checkpoint has been written, and both workers collect.
    """
    paths = ExperimentPaths(PROJECT / "logs" / f"bench_{os.getpid()}_{time.time_ns()}")
    with contextlib.ExitStack() as stack:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="sac_", dir="/tmp"))
        stack.callback(shutil.rmtree, paths.root, ignore_errors=True)
        core_host, *worker_hosts, spare = stack.enter_context(network(4))
        cluster = Cluster(paths, pathlib.Path(name), stack)
        cluster.start(CORE, core_host)
        for number, host in enumerate(worker_hosts):
            cluster.start(f"{WORKERS} {number} 1", host)
        for number in range(len(worker_hosts)):
            next_report(paths, f"worker_{number}", is_collecting, cluster.check, START_TIMEOUT_SECS)
        wait_until(lambda: read_manifests(paths.checkpoints), START_TIMEOUT_SECS, "a checkpoint")
        yield paths, cluster, spare


def is_collecting(report: Any) -> bool:
    """Returns whether a worker collects with the learner's policy."""
    return report.phase == Phase.COLLECTING and report.env_steps > 0


class TrainingWatch:
    """Measures the longest time without a new train step in the learner's reports."""

    def __init__(self, paths: ExperimentPaths):
        """Begins with the first check."""
        self._paths = paths
        self._train_step, self._seen_at = -1, 0.0
        self.longest_gap_secs = 0.0

    def look(self) -> None:
        """Checks the report; call it often."""
        report = read_report(self._paths, "learner")
        now = time.monotonic()
        if report is not None and report.train_step > self._train_step:
            if self._train_step >= 0:
                self.longest_gap_secs = max(self.longest_gap_secs, now - self._seen_at)
            self._train_step, self._seen_at = report.train_step, now

    def look_for(self, secs: float) -> None:
        """Checks repeatedly for this time."""
        deadline = time.monotonic() + secs
        while time.monotonic() < deadline:
            self.look()
            time.sleep(0.02)


def secs_until_moving(
    paths: ExperimentPaths, name: str, field: str, check: Callable[[], None]
) -> float:
    """Returns the time until a program that was just started has advanced.

    It has advanced when a report exceeds its first report.
    """
    began = time.monotonic()
    first = next_report(paths, name, check=check)
    next_report(paths, name, lambda r: getattr(r, field) > getattr(first, field), check)
    return time.monotonic() - began


def lose_workers() -> None:
    """Measures the loss of a host of workers; prints the results."""
    with training_cluster() as (paths, cluster, spare):
        before, watch = TrainingWatch(paths), TrainingWatch(paths)
        before.look_for(WATCH_SECS)
        lost = f"{WORKERS} 1 1"
        cluster.lose(lost)
        watch.look_for(WATCH_SECS)
        cluster.start(lost, spare)
        collecting = secs_until_moving(paths, "worker_1", "env_steps", watch.look)
    gaps = {"before_secs": before.longest_gap_secs}
    program.print_result("longest_training_gap_secs", watch.longest_gap_secs, "s", **gaps)
    program.print_result("collecting_after_secs", collecting, "s")


def lose_core() -> None:
    """Measures the loss of the host of replay server and learner; prints the results."""
    with training_cluster() as (paths, cluster, spare):
        cluster.lose(CORE)
        placed_at = time.monotonic()
        cluster.start(CORE, spare)
        training = secs_until_moving(paths, "learner", "train_step", cluster.check)
        for number in range(2):
            next_report(paths, f"worker_{number}", is_collecting, cluster.check)
        all_secs = time.monotonic() - placed_at
    program.print_result("training_after_secs", training, "s")
    program.print_result("all_collecting_after_secs", all_secs, "s")


def main(victim: Annotated[str, OneOf((WORKERS, CORE))]) -> None:
    """Measures and prints the results.

    Args:
      victim: The share of the lost host: workers or core.
    """
    adopt_orphans()  # orphans of killed programs, so that they end, too
    lose_workers() if victim == WORKERS else lose_core()


if __name__ == "__main__":
    program.run(main)
