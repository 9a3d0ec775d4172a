"""The paths of an experiment's files."""

import dataclasses
import errno
import os
import pathlib
import re
import shlex

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.names import nearest_name

POLICY_CHECKPOINT_PREFIX = "policy_checkpoint_"


@dataclasses.dataclass(frozen=True)
class ExperimentPaths:
    """The folder layout of one experiment, relative to `root` (`logs/<experiment>`)."""

    root: pathlib.Path

    @property
    def config(self) -> pathlib.Path:
        """The experiment's JSON config; each start of the run copies it to `running`."""
        return self.root / "config.json"

    @property
    def params(self) -> pathlib.Path:
        """The experiment's params file; each start of the run copies it to `running`."""
        return self.root / "params.py"

    @property
    def running(self) -> pathlib.Path:
        """The files that all programs of the newest start share; see core/state/running.py."""
        return self.root / "running"

    @property
    def running_config(self) -> pathlib.Path:
        """The JSON config that the programs use."""
        return self.running / "config.json"

    @property
    def running_params(self) -> pathlib.Path:
        """The params file that the programs use."""
        return self.running / "params.py"

    @property
    def running_bindings(self) -> pathlib.Path:
        """The gin bindings that the programs use."""
        return self.running / "gin_bindings.json"

    @property
    def running_provenance(self) -> pathlib.Path:
        """The provenance of a resumed run's newest start, until the run has accepted it."""
        return self.running / "provenance.json"

    @property
    def running_git_diff(self) -> pathlib.Path:
        """The `git_diff` of that start."""
        return self.running / "git.diff"

    @property
    def extends(self) -> pathlib.Path:
        """Exists if the newest start goes beyond `finished`, and has not been accepted yet."""
        return self.running / "extends"

    @property
    def end_request(self) -> pathlib.Path:
        """Exists if a program has asked to end training early; see core/state/end_request.py."""
        return self.running / "end_request.json"

    @property
    def first_episode(self) -> pathlib.Path:
        """Exists once a program of the newest start has completed an episode."""
        return self.running / "first_episode"

    @property
    def run_spec(self) -> pathlib.Path:
        """The specification of the newest start; the learner writes it."""
        return self.running / "run_spec.json"

    @property
    def gin(self) -> pathlib.Path:
        """All hyperparameters that the learner uses, in gin syntax."""
        return self.root / "gin.txt"

    @property
    def provenance(self) -> pathlib.Path:
        """Seed, gin bindings trained with, versions, commits, host and CPUs of this run."""
        return self.root / "provenance.json"

    @property
    def git_diff(self) -> pathlib.Path:
        """Uncommitted changes at the newest accepted start; missing if there were none."""
        return self.root / "git.diff"

    @property
    def finished(self) -> pathlib.Path:
        """Exists once training has reached its last train step; the learner writes it."""
        return self.root / "finished.json"

    @property
    def pause(self) -> pathlib.Path:
        """Exists while the experiment is paused; see core/state/pause.py."""
        return self.root / "pause.json"

    @property
    def lock(self) -> pathlib.Path:
        """Held (flock) by every process of a running experiment."""
        return self.root / "lock"

    @property
    def incarnations(self) -> pathlib.Path:
        """A file for each start of the replay server and learner; see core/state/incarnation.py."""
        return self.root / "incarnations"

    @property
    def streams(self) -> pathlib.Path:
        """A file for each start of a worker; next to the items, which contain its number."""
        return self.checkpoints / "streams"

    @property
    def policies(self) -> pathlib.Path:
        """SavedModels `collect_policy` and `greedy_policy`, and `checkpoints`."""
        return self.root / "policies"

    @property
    def checkpoints(self) -> pathlib.Path:
        """Checkpoint generations, one folder per train step."""
        return self.root / "checkpoints"

    @property
    def initial_weights(self) -> pathlib.Path:
        """The checkpoint of another experiment from which this one started, if any."""
        return self.root / "initial_weights"

    @property
    def demonstrations(self) -> pathlib.Path:
        """The run's copies of its demonstrations, if it has any."""
        return self.root / "demonstrations"

    @property
    def interventions(self) -> pathlib.Path:
        """The env steps with interventions, if they are kept: a file for each start of a worker."""
        return self.root / "interventions"

    @property
    def clone(self) -> pathlib.Path:
        """Exists if `sac clone` has made this folder: its demonstrations and losses."""
        return self.root / "clone.json"

    @property
    def evaluation(self) -> pathlib.Path:
        """The number of the evaluation that the learner has handed out last."""
        return self.checkpoints / "evaluation.json"

    @property
    def evaluations(self) -> pathlib.Path:
        """A file for each evaluation that is summed up; see core/state/evaluation_claims.py."""
        return self.checkpoints / "evaluations"

    @property
    def lessons(self) -> pathlib.Path:
        """The lessons of the curriculum that have begun; the learner writes it at each change."""
        return self.checkpoints / "lessons.json"

    @property
    def journals(self) -> pathlib.Path:
        """The journals of workers: what each has sent since the last checkpoint but one."""
        return self.checkpoints / "journals"

    def diverged(self, train_step: int) -> pathlib.Path:
        """The minibatch of the train step at which training diverged, as NumPy arrays."""
        return self.root / f"diverged_{train_step:010d}.npz"

    @property
    def episodes(self) -> pathlib.Path:
        """CSV files, one for each worker and kind of episode."""
        return self.root / "episodes"

    @property
    def videos(self) -> pathlib.Path:
        """Videos of evaluated episodes, one folder per policy checkpoint."""
        return self.root / "videos"

    @property
    def training_videos(self) -> pathlib.Path:
        """Videos that workers make, one per policy; see `video_period_itrs`."""
        return self.videos / "training"

    @property
    def mirrors(self) -> pathlib.Path:
        """Data and progress of the mirrors, one folder per tracker; see mirror/."""
        return self.root / "mirror"

    @property
    def exports(self) -> pathlib.Path:
        """Exported policies, one folder per policy checkpoint and format."""
        return self.root / "exports"

    @property
    def train_summaries(self) -> pathlib.Path:
        """TensorBoard files of the learner and of collection."""
        return self.root / "train"

    @property
    def eval_summaries(self) -> pathlib.Path:
        """TensorBoard files of greedy evaluation."""
        return self.root / "eval"

    @property
    def slurm(self) -> pathlib.Path:
        """Files of SLURM jobs (`environment.sh`, `jobs`), and their output."""
        return self.root / "slurm"

    @property
    def ray(self) -> pathlib.Path:
        """Output of the shares on Ray."""
        return self.root / "ray"

    @property
    def services(self) -> pathlib.Path:
        """Daemontools service folders, one per program, of a run on one host."""
        return self.root / "service"

    @property
    def link(self) -> pathlib.Path:
        """The replay server's address for other hosts, and the key; only its user may read it."""
        return self.root / "link.json"

    def stdout(self, program: str) -> pathlib.Path:
        """Log of one program's standard output and error."""
        return self.root / "stdout" / f"{program}.log"

    @property
    def statuses(self) -> pathlib.Path:
        """The last reports of the programs, one JSON file each."""
        return self.root / "status"

    def status(self, program: str) -> pathlib.Path:
        """The last report of one program."""
        return self.statuses / f"{program}.json"

    @property
    def best_policies(self) -> pathlib.Path:
        """The best policy by evaluation; see core/state/best_policies.py."""
        return self.policies / "best"

    def policy_checkpoint(self, train_step: int) -> pathlib.Path:
        """Folder of the policy's variables at `train_step`."""
        return self.policies / "checkpoints" / f"{POLICY_CHECKPOINT_PREFIX}{train_step:010d}"

    def policy_checkpoints(self) -> list[pathlib.Path]:
        """Complete policy checkpoints, oldest first."""
        return sorted(
            path
            for path in (self.policies / "checkpoints").glob(f"{POLICY_CHECKPOINT_PREFIX}*")
            if re.fullmatch("[0-9]+", path.name.removeprefix(POLICY_CHECKPOINT_PREFIX))
            and path.is_dir()
        )


def is_experiment(folder: pathlib.Path) -> bool:
    """Returns whether `folder` is an experiment's, or has only its policies or episodes."""
    paths = ExperimentPaths(folder)
    return any(map(os.path.exists, (paths.provenance, paths.policies, paths.episodes)))


def existing_experiment(exp_dir: pathlib.Path) -> ExperimentPaths:
    """Returns the paths of the experiment in the folder `exp_dir`.

    Raises:
      ConfigError: If there is no such folder, or it is not an experiment's.
    """
    if not os.path.isdir(exp_dir):  # also handles names that no file can have
        others = [str(path) for path in exp_dir.parent.glob("*") if path.is_dir()]
        nearest = nearest_name(str(exp_dir), others)
        hint = f" Did you mean {nearest}?" if nearest else ""
        raise ConfigError(f"{exp_dir}: no such experiment folder.{hint}")
    if not is_experiment(exp_dir):
        if not os.access(exp_dir, os.R_OK | os.X_OK):
            raise ConfigError(f"{exp_dir} cannot be read: {os.strerror(errno.EACCES)}.")
        inside = sorted(str(path) for path in exp_dir.glob("[!.]*") if is_experiment(path))
        hint = f" It holds {inside[0]}" if inside else ""
        if inside[1:]:
            hint += f" and {len(inside) - 1} more: sac list {shlex.quote(str(exp_dir))}"
        raise ConfigError(f"{exp_dir} is not the folder of an experiment.{hint}")
    return ExperimentPaths(exp_dir.absolute())  # user code may change the working directory
