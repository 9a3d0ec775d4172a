"""Reports of programs, as tests need them."""

import dataclasses
import json

from tfagents_system.core.state.reports import (
    LearnerReport,
    MirrorReport,
    Phase,
    ReplayReport,
    WorkerReport,
)

COMMON = {
    "host": "here", "pid": 7, "written_at": 1_000_000.0, "sequence": 0, "phase_secs": {},
    "cpus": "0-1", "memory_mb": 250.0,
}  # fmt: skip


def learner_report(**changes):
    fields = {
        "phase": Phase.TRAINING, "train_step": 6_000, "total_train_steps": 50_000,
        "iteration": 120, "num_iter": 1_000, "train_steps_per_sec": 200.0, "secs_left": 220.0,
        "graph_traces": 1, "arithmetic": "int16",
    }  # fmt: skip
    return LearnerReport(**(COMMON | {"program": "learner"} | fields | changes))


def worker_report(worker_id=0, **changes):
    fields = {
        "phase": Phase.COLLECTING, "env_steps": 12_000, "env_steps_per_sec": 150.0,
        "last_return": -800.0, "eval": None, "curriculum": {},
    }  # fmt: skip
    return WorkerReport(**(COMMON | {"program": f"worker_{worker_id}"} | fields | changes))


def replay_report(**changes):
    fields = {
        "phase": Phase.SERVING, "transitions": 3_400, "capacity": 70_000, "fill_target": 6_000,
    }  # fmt: skip
    return ReplayReport(**(COMMON | {"program": "replay"} | fields | changes))


def mirror_report(**changes):
    fields = {"program": "mirror-mlflow", "phase": Phase.MIRRORING, "records": 1_200}
    return MirrorReport(**(COMMON | fields | changes))


def write_report(paths, report):
    """Writes it as the program does."""
    path = paths.status(report.program)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(dataclasses.asdict(report)))
