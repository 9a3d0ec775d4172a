"""A small run over the nodes of a SLURM cluster."""

from slurm.cluster import Cluster
from system.tiny_run import TinyRun

# A whole node for each share, so that one dies at a time.
WHOLE_NODES = {"SAC_TRAIN_CPUS": "1", "SAC_REVERB_CPUS": "1", "SAC_COLLECT_WORKER_CPUS": "2"}


class SlurmRun(TinyRun):
    """The user nobody's TinyRun in `cluster.project`; `jobs` are the ids by kind of share."""

    PLACEMENT = "SLURM"

    def __init__(self, cluster: Cluster, more_params: str = ""):
        super().__init__(cluster.project, more_params)
        self.cluster = cluster
        self.jobs: dict[str, str] = {}
        cluster.give(self.folder)

    def submit(self, num_workers: int, **environ: str) -> str:
        """Submits it with SAC_PLACEMENT=slurm; returns what that prints."""
        variables = {"SAC_PLACEMENT": "slurm", "SAC_NUM_COLLECT_WORKERS": str(num_workers)}
        output = self.cluster.ask(
            f"{self.project}/run_script.sh", f"{self.folder}/variables.sh",
            env=variables | WHOLE_NODES | environ,
        )  # fmt: skip
        lines = (self.paths.slurm / "jobs").read_text().splitlines()
        self.jobs = {kind: job_id for job_id, kind in map(str.split, lines)}
        return output

    def submit_one_node(self, *options: str, **environ: str) -> str:
        """Submits slurm/train.sbatch, which prints to node_<task>; returns the job's id."""
        return self.cluster.ask(
            "sbatch", "--parsable", f"--chdir={self.project}", f"--output={self.folder}/node_%a",
            *options, f"{self.project}/slurm/train.sbatch", f"{self.folder}/variables.sh",
            env=environ,
        )  # fmt: skip

    def host(self, program: str) -> str:
        """Returns the host that the program last reported from."""
        return self.status(program).get("host", "")

    def logs(self) -> str:
        """Returns what the jobs have printed, and the ends of the programs' logs."""
        files = sorted(self.paths.slurm.glob("*.log"))
        return "\n".join(f"--- {f.name}\n{f.read_text()[-3000:]}" for f in files) + super().logs()

    def check_nothing_is_left(self) -> None:
        """Asserts that jobs that have ended left no process and no folder on any node."""
        processes = self.cluster.processes()
        folders = list(self.cluster.temporary.glob("sac_*"))
        assert (processes, folders) == ({}, []), f"{processes} {folders}"
