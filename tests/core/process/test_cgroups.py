"""Limits of groups on machines that are folders here: `root` in the place of /."""

import math
import os
import pathlib
import subprocess
import sys

import pytest

from tfagents_system.core.process import cgroups, memory
from tfagents_system.core.process.cpus import available_cpus, cpu_count

GB = 10**9
V2 = "30 24 0:26 {top} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
V1 = "3{n} 24 0:2{n} {top} /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}"
NO_LIMIT = 9223372036854771712  # of version 1


class Machine:
    """The files of a machine that say what a process may have."""

    def __init__(self, root):
        self.root = root
        self.write("proc/self/mountinfo", "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n")

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def mount(self, *lines):
        self.write("proc/self/mountinfo", "\n".join(lines))

    def group(self, folder, **values):
        """Writes files; `memory_max` is memory.max."""
        for name, value in values.items():
            self.write(f"sys/fs/cgroup/{folder}/{name.replace('_', '.', 1)}", value)


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path)


def v2(machine, path, top="/"):
    machine.write("proc/self/cgroup", f"0::{path}")
    machine.mount("22 1 254:0 / / rw - ext4 /dev/vda rw", V2.format(top=top))


def v1(machine, path, top="/"):
    names = ("memory", "cpu", "pids")
    machine.write(
        "proc/self/cgroup", "\n".join(f"{n}:{name}:{path}" for n, name in enumerate(names))
    )
    machine.mount(*(V1.format(n=n, name=name, top=top) for n, name in enumerate(names)))


def test_a_machine_without_groups_or_limits_has_none(machine):
    functions = (cgroups.memory_limit, cgroups.memory_left, cgroups.cpu_quota, cgroups.tasks_left)
    assert [f(machine.root) for f in functions] == [math.inf] * 4
    assert [f(machine.root / "nowhere") for f in functions] == [math.inf] * 4
    v2(machine, "/a")
    machine.group("a", memory_max="max", memory_current=5, cpu_max="max 100000", pids_max="max")
    assert [f(machine.root) for f in functions] == [math.inf] * 4
    v1(machine, "/a")
    machine.group("memory/a", memory_limit_in_bytes=NO_LIMIT, memory_usage_in_bytes=5)
    machine.group("cpu/a", cpu_cfs_quota_us=-1, cpu_cfs_period_us=100000)
    assert [f(machine.root) for f in functions] == [math.inf] * 4


def test_version_2_the_smallest_limit_up_to_the_root_counts(machine):
    v2(machine, "/job/step/task")
    machine.group("job", memory_max=3 * GB, memory_current=GB, cpu_max="400000 100000",
                  pids_max=300, pids_current=100)  # fmt: skip
    machine.group("job/step", memory_max="max", memory_high=2 * GB, memory_current=GB,
                  cpu_max="150000 100000", pids_max="max", pids_current=90)  # fmt: skip
    machine.group("job/step/task", memory_max=8 * GB, memory_current=GB, cpu_max="max 100000",
                  pids_max=250, pids_current=10)  # fmt: skip
    assert cgroups.memory_limit(machine.root) == 2 * GB
    assert cgroups.memory_left(machine.root) == 2 * GB - GB
    assert cgroups.cpu_quota(machine.root) == 1.5
    assert cgroups.tasks_left(machine.root) == 300 - 100


def test_what_is_left_is_not_that_of_the_smallest_limit(machine):
    v2(machine, "/job/step")
    machine.group("job", memory_max=4 * GB, memory_current=3.9 * GB // 1)
    machine.group("job", memory_current=39 * GB // 10)
    machine.group("job/step", memory_max=2 * GB, memory_current=GB)
    assert cgroups.memory_limit(machine.root) == 2 * GB
    assert cgroups.memory_left(machine.root) == 4 * GB - 39 * GB // 10


def test_files_that_the_kernel_can_drop_are_left(machine):
    v2(machine, "/a")
    machine.group("a", memory_max=2 * GB, memory_current=2 * GB,
                  memory_stat=f"anon 5\ninactive_file {GB}\nactive_file 7")  # fmt: skip
    assert cgroups.memory_left(machine.root) == GB
    v1(machine, "/a")
    machine.group("memory/a", memory_limit_in_bytes=2 * GB, memory_usage_in_bytes=2 * GB,
                  memory_stat=f"inactive_file 1\ntotal_inactive_file {GB}")  # fmt: skip
    assert cgroups.memory_left(machine.root) == GB


def test_version_1(machine):
    v1(machine, "/slurm/job_7/step_0")
    machine.group("memory/slurm", memory_limit_in_bytes=NO_LIMIT)
    machine.group("memory/slurm/job_7", memory_limit_in_bytes=3 * GB, memory_usage_in_bytes=GB)
    machine.group("memory/slurm/job_7/step_0", memory_limit_in_bytes=NO_LIMIT)
    machine.group("cpu/slurm/job_7", cpu_cfs_quota_us=250000, cpu_cfs_period_us=100000)
    machine.group("pids/slurm", pids_max=64, pids_current=60)
    assert cgroups.memory_limit(machine.root) == 3 * GB
    assert cgroups.memory_left(machine.root) == 2 * GB
    assert cgroups.cpu_quota(machine.root) == 2.5
    assert cgroups.tasks_left(machine.root) == 4


@pytest.mark.parametrize(
    ("path", "top"),
    [("/docker/abc", "/docker/abc"), ("/", "/"), ("/../..", "/"), ("/docker/abc", "/other")],
    ids=["mounted at its group", "namespace", "beyond the namespace", "elsewhere"],
)
@pytest.mark.parametrize("version", [v1, v2])
def test_in_a_container_the_limits_are_in_the_mount_itself(machine, version, path, top):
    version(machine, path, top)
    machine.group(".", memory_max=GB, memory_current=0)
    machine.group("memory", memory_limit_in_bytes=GB, memory_usage_in_bytes=0)
    assert cgroups.memory_limit(machine.root) == GB


def test_hybrid_each_controller_is_looked_for_where_it_is(machine):
    machine.write("proc/self/cgroup", "4:memory:/m\n3:cpu,cpuacct:/c\n1:name=systemd:/\n0::/u")
    machine.mount(
        "30 24 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
        "31 24 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct",
        r"32 24 0:32 / /sys/fs/cgroup/the\040unified rw - cgroup2 cgroup2 rw",
    )
    machine.group("memory/m", memory_limit_in_bytes=GB)
    machine.group("cpu,cpuacct/c", cpu_cfs_quota_us=50000, cpu_cfs_period_us=100000)
    machine.group("the unified/u", pids_max=10, pids_current=3)
    assert cgroups.memory_limit(machine.root) == GB
    assert cgroups.cpu_quota(machine.root) == 0.5
    assert cgroups.tasks_left(machine.root) == 7


def test_memory_of_a_container_is_what_it_may_have(monkeypatch):
    monkeypatch.setattr(cgroups, "memory_limit", lambda: 1.2e9)
    monkeypatch.setattr(cgroups, "memory_left", lambda: 0.5e9)
    assert (memory.total_bytes(), memory.available_bytes()) == (1.2e9, 0.5e9)
    monkeypatch.setattr(cgroups, "memory_limit", lambda: math.inf)
    monkeypatch.setattr(cgroups, "memory_left", lambda: 1e15)
    assert 1e8 < memory.available_bytes() < memory.total_bytes() < 1e14


@pytest.mark.parametrize(
    ("quota", "count"), [(math.inf, 64), (100.0, 64), (2.0, 2), (1.5, 2), (0.5, 1)]
)
def test_a_quota_counts_in_cpus(monkeypatch, quota, count):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(64)))
    monkeypatch.setattr(cgroups, "cpu_quota", lambda: quota)
    assert cpu_count() == count
    assert len(available_cpus()) == 64


def test_the_kernel_s_own_files():
    """A group of version 1 or 2 that is really made, with this process's child in it."""
    folders = [pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")]
    parent = next((f for f in folders if (f / "cgroup.procs").exists()), None)
    if os.geteuid() != 0 or parent is None:
        pytest.skip("only root makes groups")
    group = parent / f"sac_{os.getpid()}"
    try:
        (group / "inner").mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"no group can be made here: {error}")
    try:
        limits = [group / name for name in ("memory.max", "memory.limit_in_bytes")]
        limit = next((file for file in limits if file.exists()), None)
        if limit is None:
            pytest.skip("groups here have no memory controller")
        limit.write_text("1200001024")
        code = (
            "import os, pathlib, sys; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); "
            "from tfagents_system.core.process import memory; "
            "print(memory.total_bytes(), memory.available_bytes() < memory.total_bytes())"
        )
        command = [sys.executable, "-c", code, str(group / "inner" / "cgroup.procs")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        page = os.sysconf("SC_PAGE_SIZE")  # the kernel counts whole ones
        assert done.stdout == f"{1200001024 // page * page:.1f} True\n", done.stderr
    finally:
        (group / "inner").rmdir()
        group.rmdir()
