"""A throw-away SLURM of several nodes on this machine: real daemons, real jobs, real failures."""

import contextlib
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from tfagents_system.core.waiting import wait_until

PROJECT = pathlib.Path(__file__).parents[2]
INSIDE = pathlib.Path(__file__).with_name("cluster.sh")
TOOLS = {"slurmctld": "slurm-wlm", "munged": "munge", "ip": "iproute2", "nsenter": "util-linux"}
NAMESPACES = ("--net", "--uts", "--ipc", "--mount", "--pid")
NOBODY = 65534
LIFETIME_SECS = 1200
CPUS = 2  # of each node
CGROUPS = pathlib.Path("/sys/fs/cgroup")
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"

CONFIGURATION = """\
ClusterName=tests
SlurmctldHost=login(10.222.0.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# A requeued job may start after cred_expire + 1 seconds: by default 121, here the least.
AuthInfo=socket={folder}/munge.sock,cred_expire=5
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
ProctrackType=proctrack/{track}
TaskPlugin={task}
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=1,sched_interval=1
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MinJobAge=86400
ReturnToService=2
# A node that is silent for so long is taken for dead.
SlurmdTimeout=10
# Believe CPUs= even where the machine has fewer.
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
# A preemption with a grace period begins with the signal that the job asks for.
SlurmctldParameters=preempt_send_user_signal
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1
PartitionName=graceful Nodes=ALL MaxTime=INFINITE PriorityTier=1 GraceTime=60
PartitionName=urgent Nodes=ALL MaxTime=INFINITE PriorityTier=2
"""


class Cluster:
    """A running SLURM; `nodes` are the names of its nodes, whose processes and networks are apart.

    Commands and jobs are of the user `nobody`, and begin in `project`.
    """

    def __init__(self, folder: pathlib.Path, nodes: Sequence[str]):
        self.folder = folder  # which every user may enter
        self.project = folder / "project"
        self.temporary = folder / "tmp"  # of all jobs, whatever their node
        self.nodes = nodes
        self.first_process = 0  # of the cluster, seen from outside

    def give(self, folder: pathlib.Path) -> None:
        """Makes a folder and all that is in it the property of `nobody`."""
        for path in (folder, *folder.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)

    def run(
        self,
        *command: str,
        user: int = NOBODY,
        env: Mapping[str, str] | None = None,
        timeout_secs: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command on the login node."""
        enter = ["nsenter", "-t", str(self.first_process), "-n", "-u", "-i", "-m", "-p"]
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        environ = {"PATH": PATH, "SLURM_CONF": f"{self.folder}/slurm.conf", "LANG": "C.UTF-8",
                   "TMPDIR": str(self.temporary)}  # fmt: skip
        variables = [f"{name}={value}" for name, value in (environ | dict(env or {})).items()]
        return subprocess.run(
            [*enter, *become, "env", "-i", f"--chdir={self.project}", *variables, *command],
            env={"PATH": PATH}, capture_output=True, text=True, timeout=timeout_secs, check=False,
        )  # fmt: skip

    def ask(self, *command: str, **kwargs: Any) -> str:
        """Runs a command that must succeed; returns what it prints."""
        result = self.run(*command, **kwargs)
        assert result.returncode == 0, f"{command}: {result.stdout}{result.stderr}"
        return result.stdout.strip()

    def job(self, job_id: str) -> dict[str, str]:
        """Returns what `scontrol show job` says: JobState, ExitCode, Restarts, NodeList..."""
        fields = self.ask("scontrol", "show", "job", "--oneliner", job_id).splitlines()[0].split()
        return dict(field.split("=", 1) for field in fields if "=" in field)

    def await_state(self, job_id: str, *states: str, timeout_secs: float = 60) -> dict[str, str]:
        """Waits until the job has one of the states; returns what `job` does."""
        job: dict[str, str] = {}

        def has_state() -> bool:
            job.update(self.job(job_id))
            return job["JobState"] in states

        try:
            wait_until(has_state, timeout_secs, f"{' or '.join(states)}", poll_secs=0.3)
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {job}\n{self.logs()}") from None
        return job

    def await_empty_queue(self) -> None:
        """Waits until no job waits, runs or is about to end."""
        try:
            wait_until(lambda: not self.ask("squeue", "--noheader"), 120, "an empty queue", 0.3)
        except TimeoutError as error:
            raise TimeoutError(f"{error}:\n{self.ask('squeue')}\n{self.logs()}") from None

    def processes(self, node: str = "") -> dict[int, str]:
        """Returns {pid: command line} of all that jobs have started: on a node, or on any."""
        ours = {f"SLURM_CONF={self.folder}/slurm.conf"}
        if node:
            ours.add(f"SLURMD_NODENAME={node}")
        found = {}
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            environ = _read(process / "environ")
            if "\0SLURM_JOB_ID=" in f"\0{environ}" and ours <= set(environ.split("\0")):
                found[int(process.name)] = _read(process / "cmdline").replace("\0", " ")
        return found

    def kill_node(self, node: str) -> None:
        """Ends all of its processes at once, as a loss of power does."""
        self.ask("kill", "-KILL", (self.folder / f"{node}.pid").read_text().strip(), user=0)

    def freeze(self, node: str) -> Callable[[], None]:
        """Stops the node's slurmd, so that SLURM takes it for dead; its jobs live on.

        Returns what has it go on.
        """
        command = f"slurmd\0-D\0-N\0{node}\0"
        pid = min(int(path.parent.name) for path in pathlib.Path("/proc").glob("[0-9]*/cmdline")
                  if _read(path) == command)  # fmt: skip
        os.kill(pid, signal.SIGSTOP)
        return lambda: os.kill(pid, signal.SIGCONT)

    def logs(self) -> str:
        """Returns the ends of the daemons' logs."""
        files = sorted(self.folder.glob("*.log"))
        return "\n".join(f"--- {file.name}\n{file.read_text()[-2000:]}" for file in files)


@contextlib.contextmanager
def slurm_cluster(num_nodes: int) -> Iterator[Cluster]:
    """Starts a SLURM for the time of the block; skips the test where that is impossible."""
    _install()
    _needs_namespaces()
    # Not in pytest's folders, which no other user may enter; short, as it holds unix sockets.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="slurm."))
    folder.chmod(0o755)
    prefix = f"t{os.getpid()}n"  # cgroups are named by the node
    cluster = Cluster(folder, [f"{prefix}{number + 1}" for number in range(num_nodes)])
    for own in (cluster.project, cluster.temporary):
        own.mkdir()
        cluster.give(own)
    _configure(cluster)
    inside = [str(folder), str(LIFETIME_SECS), *cluster.nodes, "--", sys.prefix, sys.base_prefix]
    with (folder / "cluster.log").open("w") as log:
        holder = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", *NAMESPACES,
             "--fork", "--kill-child", "--mount-proc", "bash", str(INSIDE), *inside],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | {"PATH": PATH},
        )  # fmt: skip
    try:
        _await_nodes(cluster, holder)
        yield cluster
    finally:
        holder.kill()
        holder.wait()
        _remove_cgroups(prefix)
        shutil.rmtree(folder)


def _install() -> None:
    if os.geteuid() != 0:
        pytest.skip("a SLURM cluster needs root: namespaces, and jobs of several users")
    packages = {package for tool, package in TOOLS.items() if not shutil.which(tool, path=PATH)}
    if not packages:
        return
    if not shutil.which("apt-get"):
        pytest.skip(f"a SLURM cluster needs {', '.join(sorted(packages))}, and apt-get is missing")
    environ = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "PATH": PATH}
    install = ["apt-get", "install", "-y", "--no-install-recommends", *sorted(packages)]
    for command in (["apt-get", "update"], install):
        result = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            pytest.skip(f"a SLURM cluster needs {' '.join(sorted(packages))}, and {command[1]} of "
                        f"apt-get failed: {result.stderr.strip()[-300:]}")  # fmt: skip


def _needs_namespaces() -> None:
    probe = subprocess.run(
        ["unshare", *NAMESPACES, "--fork", "sh", "-c", "ip link add bridge type bridge"],
        capture_output=True, text=True, check=False, env=os.environ | {"PATH": PATH},
    )  # fmt: skip
    if probe.returncode != 0:
        pytest.skip(f"SLURM's nodes need namespaces and a bridge: {probe.stderr.strip()}")


def _configure(cluster: Cluster) -> None:
    """Writes slurm.conf, cgroup.conf and hosts."""
    track, task = "pgid", "task/none"
    if _has_cgroups(cluster.nodes[0]):
        # As on most clusters: nothing outlives its job, and only the batch script gets signals.
        track = "cgroup"
    if len(os.sched_getaffinity(0)) >= CPUS:  # else binding to CPUs fails
        task = "task/affinity,task/cgroup" if track == "cgroup" else "task/affinity"
    memory_mb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 9 // 10 >> 20
    lines = [CONFIGURATION.format(folder=cluster.folder, track=track, task=task)]
    hosts = ["127.0.0.1 localhost", "10.222.0.254 login"]
    for number, node in enumerate(cluster.nodes, 1):
        address = f"10.222.0.{number}"
        lines.append(f"NodeName={node} NodeAddr={address} CPUs={CPUS} RealMemory={memory_mb}\n")
        hosts.append(f"{address} {node}")
        (cluster.folder / f"spool.{node}").mkdir()
    (cluster.folder / "slurm.conf").write_text("".join(lines))
    (cluster.folder / "hosts").write_text("\n".join(hosts) + "\n")
    (cluster.folder / "cgroup.conf").write_text(
        "CgroupAutomount=no\nCgroupPlugin=cgroup/v1\nConstrainCores=yes\n"
    )
    key = cluster.folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(128))


def _has_cgroups(name: str) -> bool:
    """Whether SLURM's plugin for cgroups of version 1 can work."""
    try:
        for controller in ("freezer", "cpuset"):
            (CGROUPS / controller / name).mkdir()
            (CGROUPS / controller / name).rmdir()
    except OSError:
        return False
    return True


def _remove_cgroups(prefix: str) -> None:
    for top in CGROUPS.glob(f"*/slurm_{prefix}*"):
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):  # those of a namespace end a moment later
                os.rmdir(folder)


def _await_nodes(cluster: Cluster, holder: subprocess.Popen[bytes]) -> None:
    children = pathlib.Path(f"/proc/{holder.pid}/task/{holder.pid}/children")

    def are_idle() -> bool:
        if holder.poll() is not None:
            raise AssertionError(f"the cluster has ended: {cluster.logs()}")
        cluster.first_process = int(_read(children).split()[0] if _read(children) else 0)
        if not cluster.first_process:
            return False
        idle = cluster.run("sinfo", "--noheader", "-N", "-t", "idle", "-o", "%N").stdout.split()
        return set(idle) == set(cluster.nodes)

    try:
        wait_until(are_idle, 60, "the nodes to be idle", poll_secs=0.2)
    except TimeoutError as error:
        raise TimeoutError(f"{error}\n{cluster.logs()}") from None


def _read(path: pathlib.Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # ended meanwhile
        return ""
