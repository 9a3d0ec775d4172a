"""A small run over the nodes of a Ray cluster."""

import json
import os
import pathlib
import subprocess

from ray_cluster.cluster import RayCluster, RayHost
from system.tiny_run import STEPS_PER_ITER, TinyRun

NUM_TRAIN_STEPS = 60 * STEPS_PER_ITER  # of tiny_run.PARAMS

# A whole node for each share, so that one dies at a time.
WHOLE_NODES = {"SAC_TRAIN_CPUS": "1", "SAC_REVERB_CPUS": "1", "SAC_COLLECT_WORKER_CPUS": "2"}
CORE = "sac:tiny:replay_buffer+parameter_server+learner"
OF_A_SHARE = "\0RAY_RESTART_COUNT="  # in the environment of all that an actor starts


class RayRun(TinyRun):
    """A TinyRun whose driver is on a host of `cluster`."""

    PLACEMENT = "Ray"

    def __init__(self, folder: pathlib.Path, cluster: RayCluster, more_params: str = ""):
        super().__init__(folder, more_params)
        self.cluster = cluster

    def drive(
        self, num_workers: int = 1, on: RayHost | None = None, **environ: str
    ) -> subprocess.Popen:
        """Starts the driver, on the head if nothing else is said."""
        variables = {"SAC_PLACEMENT": "ray", "SAC_RAY_ADDRESS": "auto"} | WHOLE_NODES
        return self.start(
            num_workers,
            prefix=(on or self.cluster.head).enter(folder=self.project),
            **variables | self.cluster.environ | environ,
        )

    def signal(self, driver: subprocess.Popen, number: int) -> None:
        """Sends a signal to the driver itself, which `nsenter` waits for."""
        children = pathlib.Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text()
        os.kill(int(children), number)

    def host(self, program: str) -> str:
        """Returns the host that the program last reported from."""
        return self.status(program).get("host", "")

    def share_processes(self) -> dict[int, str]:
        """Returns {pid: command line} of all that the actors have started, on any host."""
        return {
            pid: command
            for host in self.cluster.hosts.values()
            for pid, command in host.processes(OF_A_SHARE).items()
        }

    def logs(self) -> str:
        """Returns the ends of what the shares and their programs have printed."""
        files = [*self.paths.ray.glob("*.log"), *self.folder.glob("output_*.txt")]
        shown = (f"--- {file.name}\n{file.read_text()[-3000:]}" for file in files)
        return "\n".join([*shown, super().logs()])

    def check_nothing_is_left(self) -> None:
        """Asserts that a run that has ended left no process and no folder on any living host."""
        hosts = [host for host in self.cluster.hosts.values() if host.processes()]
        folders = [str(path) for host in hosts for path in host.temporary.glob("sac_*")]
        processes = self.share_processes()
        assert (processes, folders) == ({}, []), f"{processes} {folders}"

    def check_end(self, driver: subprocess.Popen) -> None:
        """Asserts that it ends by itself, with all it should have, and that nothing is left."""
        self.set_pace(0)
        assert self.await_end(driver, 180) == 0
        finished = json.loads(self.paths.finished.read_text())
        assert finished["train_step"] == self.generations()[0] == NUM_TRAIN_STEPS
        assert self.paths.policies.joinpath("greedy_policy").is_dir()
        self.check_nothing_is_left()
        known = self.cluster.ask()
        assert (known["actors"], known["groups"]) == ({}, [])
        assert known["free_cpus"] == known["cpus"] > 0
