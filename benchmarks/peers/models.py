"""Builds the models of Stable-Baselines3 and SBX, which share one interface."""

import time
from collections.abc import Callable
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger

NETWORKS = {"net_arch": [256, 256]}
DEFAULTS: dict[str, dict[str, Any]] = {  # by algorithm of SBX: class and arguments
    "sac": {"algorithm": "SAC", "policy_kwargs": NETWORKS},
    "tqc": {"algorithm": "TQC", "policy_kwargs": NETWORKS},
    "crossq": {"algorithm": "CrossQ", "policy_kwargs": NETWORKS},
    "droq": {  # SAC with these settings, as in SBX's documentation
        "algorithm": "SAC",
        "policy_kwargs": NETWORKS | {"dropout_rate": 0.01, "layer_norm": True},
        "gradient_steps": 20,
        "policy_delay": 20,
    },
    "simba": {  # as in SBX's documentation; each number is a residual block
        "algorithm": "SAC",
        "policy": "SimbaPolicy",
        "policy_kwargs": {"net_arch": {"pi": [128], "qf": [256, 256]}},
        "learning_starts": 10_000,
    },
}


def make_model(
    peer: str,
    environment: Any,
    algorithm: str = "SAC",
    policy: str | None = None,
    **settings: Any,
) -> Any:
    """Returns a model without logging: by default with convolutions for images, else a perceptron.

    Imports only the requested peer, and torch, which SBX needs, too.
    """
    if peer == "sb3":
        import stable_baselines3 as package

        settings = {"device": "cpu"} | settings
    else:
        import sbx as package
    is_image = len(environment.observation_space.shape) == 3
    policy = policy or ("CnnPolicy" if is_image else "MlpPolicy")
    model = getattr(package, algorithm)(policy, environment, **settings)
    model.set_logger(Logger(folder=None, output_formats=[]))
    return model


def wait_until_ready(peer: str, model: Any) -> None:
    """Waits for all updates so far, because JAX returns before it has computed."""
    if peer == "sbx":
        import jax

        jax.block_until_ready((model.policy.qf_state.params, model.policy.actor_state.params))


class RateMeter(BaseCallback):
    """Measures env steps per second after a warm-up, then ends `learn`."""

    def __init__(self, num_warmup_steps: int, secs: float, finish: Callable[[], None]):
        """`finish` is called before each measurement of the time."""
        super().__init__()
        self._num_warmup_steps, self._secs, self._finish = num_warmup_steps, secs, finish
        self._started: float | None = None
        self._first = 0
        self.rate = 0.0

    def _on_step(self) -> bool:
        if self._started is None:
            if self.num_timesteps >= self._num_warmup_steps:
                self._finish()
                self._started, self._first = time.monotonic(), self.num_timesteps
            return True
        if time.monotonic() - self._started < self._secs:
            return True
        self._finish()
        num_steps = self.num_timesteps - self._first
        self.rate = num_steps / (time.monotonic() - self._started)
        return False
