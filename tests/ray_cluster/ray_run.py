"""A small run over the nodes of a Ray cluster."""

import os
import pathlib
import subprocess

from ray_cluster.cluster import RayCluster, RayHost
from system.tiny_run import TinyRun

# A whole node for each share, so that one dies at a time.
WHOLE_NODES = {"SAC_TRAIN_CPUS": "1", "SAC_REVERB_CPUS": "1", "SAC_COLLECT_WORKER_CPUS": "2"}
CORE = "sac:tiny:replay_buffer+parameter_server+learner"
OF_A_SHARE = "\0RAY_RESTART_COUNT="  # in the environment of all that an actor starts


class RayRun(TinyRun):
    """A TinyRun whose driver is on a host of `cluster`."""

    def __init__(self, folder: pathlib.Path, cluster: RayCluster, more_params: str = ""):
        super().__init__(folder, more_params)
        self.cluster = cluster

    def drive(
        self, num_workers: int = 1, on: RayHost | None = None, **environ: str
    ) -> subprocess.Popen:
        """Starts the driver, on the head if nothing else is said."""
        return self.start(
            num_workers,
            prefix=(on or self.cluster.head).enter(folder=self.project),
            **{"SAC_PLACEMENT": "ray", "SAC_RAY_ADDRESS": "auto"},
            **WHOLE_NODES | self.cluster.environ | environ,
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
        """Asserts that a run that has ended left no process and no folder on any host."""
        hosts = self.cluster.hosts.values()
        folders = [str(path) for host in hosts for path in host.temporary.glob("sac_*")]
        processes = self.share_processes()
        assert (processes, folders) == ({}, []), f"{processes} {folders}"
