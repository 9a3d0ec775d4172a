"""The demand on a cluster: the shares of a run, and the CPUs of each. Pure."""

import dataclasses

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.variables import AUTO, Settings


@dataclasses.dataclass(frozen=True)
class Demand:
    """The settings with numbers in place of `auto`: the hosts of the shares are not known yet."""

    num_workers: int
    workers_per_share: int
    num_evaluators: int
    reverb_cpus: int
    train_cpus: int
    worker_cpus: int

    @classmethod
    def of(cls, settings: Settings) -> "Demand":
        """Completes the settings.

        Raises:
          ConfigError: If the number of workers is missing.
        """
        if settings.num_collect_workers is None:
            raise ConfigError(
                f"SAC_NUM_COLLECT_WORKERS is auto and SAC_PLACEMENT is {settings.placement}; "
                "set a number, which is then requested from the cluster."
            )
        return cls(
            num_workers=settings.num_collect_workers,
            workers_per_share=settings.workers_per_share,
            num_evaluators=settings.eval_workers,
            reverb_cpus=settings.reverb_cpus or 1,
            # The learner's critics, target critics and actor are a few independent branches.
            train_cpus=settings.train_cpus or 2,
            worker_cpus=settings.collect_worker_cpus or 1,
        )

    @property
    def num_shares(self) -> int:
        """Number of shares with workers."""
        return -(-self.num_workers // self.workers_per_share)

    def cpus(self, kind: str) -> int:
        """Returns the CPUs of one share: of the core, of workers or of an evaluator."""
        return {
            "core": self.reverb_cpus + self.train_cpus,
            "workers": self.workers_per_share * self.worker_cpus,
            "evaluators": self.worker_cpus,
        }[kind]

    def advice(self, kind: str) -> str:
        """Returns advice for the case that no node has the CPUs of a share."""
        reverb, train = (
            f"SAC_REVERB_CPUS = {self.reverb_cpus}",
            f"SAC_TRAIN_CPUS = {self.train_cpus}",
        )
        worker = f"SAC_COLLECT_WORKER_CPUS = {self.worker_cpus}"
        parts = {
            "core": f"{reverb} + {train}",
            "workers": f"SAC_WORKERS_PER_SHARE = {self.workers_per_share} x {worker}",
            "evaluators": worker,
        }[kind]
        return (f"No node of the partition has the {self.cpus(kind)} CPUs of the {kind} ({parts}): "
                "set lower numbers, or choose another partition (SBATCH_PARTITION).")  # fmt: skip

    def environ(self) -> dict[str, str]:
        """Returns the variables with these numbers."""
        return {
            "SAC_NUM_COLLECT_WORKERS": str(self.num_workers or AUTO),  # AUTO: offline
            "SAC_WORKERS_PER_SHARE": str(self.workers_per_share),
            "SAC_EVAL_WORKERS": str(self.num_evaluators),
            "SAC_REVERB_CPUS": str(self.reverb_cpus),
            "SAC_TRAIN_CPUS": str(self.train_cpus),
            "SAC_COLLECT_WORKER_CPUS": str(self.worker_cpus),
        }
