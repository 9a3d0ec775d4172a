"""Submits a run to SLURM: a job with the replay server and the learner, and an array of workers.

Example: python -m tfagents_system.launch.clusters.slurm_placement   (run_script.sh does)

The SAC_* variables say what to run; run_script.sh calls it if SAC_PLACEMENT is slurm.

Checks all input and makes or resumes the experiment's folder, as for a run on this machine. The
jobs are slurm/core.sbatch and slurm/workers.sbatch; their variables and output are in
logs/<exp>/slurm. Ends when SLURM has accepted the jobs, or with 78 and a message if it rejects one.
"""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

from tfagents_system.core.checkout import PROJECT
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.process.process_start import COMMAND_DIR_VARIABLE
from tfagents_system.core.programs.command_line import run_tool
from tfagents_system.core.settings.variables import Settings
from tfagents_system.core.state.files import write_text_atomically
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch.checks.packages import check_packages
from tfagents_system.launch.clusters.demand import Demand
from tfagents_system.launch.experiment import folder as experiment
from tfagents_system.launch.experiment.offline import without_collection
from tfagents_system.launch.local.prepare import explained_os_errors, prepare

SLURM_TIMEOUT_SECS = 120.0  # sbatch itself tries again while SLURM is busy
SCRIPTS = ("slurm/core.sbatch", "slurm/workers.sbatch", "slurm/job.sh")  # prefix of the jobs' names
TOO_LARGE = "CPU count per node"  # sbatch's message for a job that fits on no node
PATHS = (
    "PATH",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    COMMAND_DIR_VARIABLE,
)  # so that the jobs find the same programs and files


def job_options(name: str, kind: str, demand: Demand) -> list[str]:
    """Returns sbatch's options and script for the jobs of a kind of share.

    Args:
      name: Name of the experiment's folder.
      kind: core, workers or evaluators.
      demand: The CPUs of each share.
    """
    log = "core.log" if kind == "core" else f"{kind}_%a.log"
    script = ["slurm/core.sbatch"] if kind == "core" else ["slurm/workers.sbatch"]
    return [
        f"--job-name={name}.{kind}",
        f"--cpus-per-task={demand.cpus(kind)}",
        f"--output=logs/{name}/slurm/{log}",
        *script,
        f"logs/{name}",
        *([kind] if kind == "evaluators" else []),
    ]


def submit(settings: Settings, environ: Mapping[str, str]) -> None:
    """Submits the run to SLURM, and prints how to watch and stop it.

    Raises:
      ConfigError: Outside of a checkout, for wrong input, if the experiment's core job is in the
        queue, or if SLURM rejects a job.
    """
    _check_is_checkout()
    paths = ExperimentPaths(settings.exp_dir)
    name = paths.root.name
    demand = Demand.of(settings)
    if jobs := jobs_in_queue(paths):
        raise ConfigError(
            f"{paths.root} is submitted to SLURM already, as core job {jobs[0]}. Wait for its end, "
            f"stop it (scancel {' '.join(jobs)}), or choose another SAC_EXP_NAME."
        )
    is_new = experiment.is_new(paths)
    _, lock = prepare(settings, lambda: [])
    os.close(lock)  # the core's job takes the lock
    paths.slurm.mkdir(exist_ok=True)
    _write_environment(paths, environ, demand.environ() | {"SAC_EXP_NAME": name})
    submitted: dict[str, str] = {}
    try:
        submitted["core"] = _sbatch("core", job_options(name, "core", demand), demand)
        after = f"--dependency=after:{submitted['core']}"
        _write_jobs(paths, submitted)
        arrays = {"workers": demand.num_shares, "evaluators": demand.num_evaluators}
        for kind, count in arrays.items():
            if count:
                array = f"--array=0-{count - 1}"
                options = [array, after, *job_options(name, kind, demand)]
                submitted[kind] = _sbatch(kind, options, demand)
        _write_jobs(paths, submitted)
    except BaseException:
        if submitted:
            ask_slurm(["scancel", *submitted.values()])
        elif is_new:
            shutil.rmtree(paths.root)
        raise
    print(_how_to(name, submitted, demand), flush=True)


def jobs_in_queue(paths: ExperimentPaths) -> list[str]:
    """Returns the ids of a run's jobs, the core's first; none if the core's is not in the queue.

    Raises:
      ConfigError: If SLURM does not answer.
    """
    jobs = submitted_jobs(paths)
    if not jobs:
        return []
    answer = ask_slurm(["squeue", "--noheader", f"--jobs={jobs[0]}", "--format=%T"])
    if answer.returncode != 0 and "Invalid job id" not in answer.stderr:
        raise ConfigError(f"squeue failed: {answer.stderr.strip()}")
    return jobs if answer.stdout.strip() else []


def submitted_jobs(paths: ExperimentPaths) -> list[str]:
    """Returns the ids of the jobs that were submitted last for a run, the core's first."""
    try:
        return [line.split()[0] for line in (paths.slurm / "jobs").read_text().splitlines()]
    except FileNotFoundError:
        return []


def ask_slurm(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Runs a SLURM command.

    Raises:
      ConfigError: If the command is missing, or SLURM does not answer.
    """
    # Inside a job, its variables would become options of the new jobs.
    environ = {name: value for name, value in os.environ.items()
               if not name.startswith("SLURM_") or name == "SLURM_CONF"}  # fmt: skip
    environ.pop("SBATCH_ARRAY_INX", None)
    try:
        return subprocess.run(
            command,
            cwd=PROJECT,
            env=environ,
            capture_output=True,
            text=True,
            timeout=SLURM_TIMEOUT_SECS,
            check=False,
        )
    except FileNotFoundError:
        raise ConfigError(
            f"SAC_PLACEMENT is slurm, but there is no {command[0]} on PATH. Start it on a login "
            "node of the cluster, or set SAC_PLACEMENT to local."
        ) from None
    except subprocess.TimeoutExpired:
        raise ConfigError(
            f"SLURM does not answer: {command[0]} took over {SLURM_TIMEOUT_SECS:g} s."
        ) from None


def _check_is_checkout() -> None:
    """Raises ConfigError if jobs would not find their scripts or the experiment."""
    if not all((PROJECT / script).is_file() for script in SCRIPTS):
        raise ConfigError(
            f"SAC_PLACEMENT is slurm, which needs a checkout of the project: {PROJECT} has no "
            "slurm/core.sbatch. Start run_script.sh in a checkout, or set SAC_PLACEMENT to local."
        )
    if not PROJECT.samefile(pathlib.Path()):
        raise ConfigError(
            "SAC_PLACEMENT is slurm, whose jobs look for logs/ in the folder of the project. Start "
            f"it in {PROJECT}, or set SAC_PLACEMENT to local."
        )


def _write_environment(
    paths: ExperimentPaths, environ: Mapping[str, str], changes: Mapping[str, str]
) -> None:
    """Writes the variables of all jobs of the run, also of jobs added by hand later."""
    ours = {name: value for name, value in environ.items() if name.startswith("SAC_")}
    found = {name: environ[name] for name in PATHS if name in environ}
    lines = [f"export {name}={shlex.quote(value)}\n"
             for name, value in {**found, **ours, **changes}.items()]  # fmt: skip
    write_text_atomically(paths.slurm / "environment.sh", "".join(lines))


def _write_jobs(paths: ExperimentPaths, jobs: Mapping[str, str]) -> None:
    text = "".join(f"{job_id} {kind}\n" for kind, job_id in jobs.items())
    write_text_atomically(paths.slurm / "jobs", text)


def _sbatch(kind: str, options: Sequence[str], demand: Demand) -> str:
    """Returns the id of the job for a kind of share."""
    command = ["sbatch", "--parsable", *options]
    answer = ask_slurm(command)
    if answer.returncode != 0:
        advice = f"{demand.advice(kind)}\n" if TOO_LARGE in answer.stderr else ""
        raise ConfigError(f"SLURM does not take a job: {answer.stderr.strip()}\n{advice}"
                          f"The command was: {shlex.join(command)}")  # fmt: skip
    return answer.stdout.strip().partition(";")[0]  # a name of the cluster may follow


def _how_to(name: str, jobs: Mapping[str, str], demand: Demand) -> str:
    """Returns the submitted jobs and the commands for the next steps, as text."""
    python = pathlib.Path(sys.executable)
    if python.is_relative_to(PROJECT):
        python = python.relative_to(PROJECT)
    rows = {"core": f"job {jobs['core']}, {demand.cpus('core')} CPUs"}
    lasts = {"workers": demand.num_shares - 1, "evaluators": demand.num_evaluators - 1}
    for kind, last in lasts.items():
        if kind in jobs:
            rows[kind] = f"jobs {jobs[kind]}_0 to _{last}, {demand.cpus(kind)} CPUs each"
    rows |= {
        "queue": f"squeue --jobs={','.join(jobs.values())}",
        "status": f"{python} -m tfagents_system watch logs/{name}",
        "output": f"tail -F logs/{name}/slurm/*.log",
        "stop": f"scancel {' '.join(jobs.values())}",
    }
    if "workers" in jobs:  # not offline
        last = lasts["workers"]
        more = ["sbatch", f"--array={last + 1}-{last + 1}", *job_options(name, "workers", demand)]
        rows |= {
            "one more": shlex.join(more),
            "one fewer": f"scancel {jobs['workers']}_{last}",
        }
    return "Submitted to SLURM:\n" + "\n".join(f"  {key:<11}{rows[key]}" for key in rows)


def main() -> None:
    """Submits the run of the SAC_* variables."""
    check_packages()
    settings = Settings.from_environ(os.environ)
    with explained_os_errors("run_script.sh", settings):
        submit(without_collection(settings), os.environ)


if __name__ == "__main__":
    run_tool(main, ["run_script.sh", *sys.argv[1:]])
