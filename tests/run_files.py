"""Folders of experiments as training leaves them."""

import json
import shutil

from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.records.episode_rows import COLUMNS


def write_episodes(paths, kind, worker, rows):
    """`rows` are (train_step, env_step, return, wall_time) and, if reported, success: 0 or 1."""
    paths.episodes.mkdir(parents=True, exist_ok=True)
    lines = [",".join(COLUMNS)]
    for train_step, env_step, episode_return, wall_time, *success in rows:
        fields = [
            worker,
            1,
            train_step,
            env_step,
            episode_return,
            20,
            wall_time,
            *(success or [""]),
        ]
        lines.append(",".join(map(str, fields)))
    (paths.episodes / f"{kind}_{worker}.csv").write_text("\r\n".join(lines) + "\r\n")


def write_run(root, last_returns, settings=None, provenance=None, successes=None):
    """An experiment that was evaluated twice, the second time at train step 200.

    `successes` are those of the last evaluation's episodes; before, there was none.
    """
    paths = ExperimentPaths(root)
    write_episodes(paths, "collect", 0, [(0, 20, -9, 1000), (100, 40, -5, 1010)])
    evaluated = [(100, 40, -7, 1011), *((200, 60, r, 1021) for r in last_returns)]
    if successes is not None:
        evaluated = [
            (*row, success) for row, success in zip(evaluated, [0, *successes], strict=True)
        ]
    write_episodes(paths, "eval", 0, evaluated)
    paths.running.mkdir()
    spec = {"seed": 1, "gin_bindings": [], "horizon": 20, "arithmetic": "float32",
            "settings": {"discount": 0.99, **(settings or {})},
            "files": {"config.json": "ab" * 32}}  # fmt: skip
    paths.run_spec.write_text(json.dumps(spec))
    started_at = ["1970-01-01T00:16:30+0000"]  # 990 s
    record = {"seed": 1, "started_at": started_at, "git_hash": "abc", "packages": {"numpy": "1"}}
    paths.provenance.write_text(json.dumps(record | (provenance or {})))
    return paths


def write_finished_run(root, params, config, gin_bindings=(), num_iter=1):
    """What of a finished experiment decides whether its results are those of other settings."""
    paths = ExperimentPaths(root)
    paths.root.mkdir(parents=True)
    shutil.copyfile(params, paths.params)
    shutil.copyfile(config, paths.config)
    record = {"seed": 1, "gin_bindings": list(gin_bindings), "params_dir": str(params.parent),
              "started_at": ["1970-01-01T00:16:30+0000"]}  # fmt: skip
    paths.provenance.write_text(json.dumps(record))
    paths.finished.write_text(json.dumps({"num_iter": num_iter}))
    return paths


def write_numbers(paths, kind, worker, rows):
    """`rows` are (train_step, name, value)."""
    lines = ["worker,iteration,train_step,env_step,wall_time,name,value"]
    lines += [f"{worker},1,{train_step},40,1000,{name},{value}" for train_step, name, value in rows]
    (paths.episodes / f"info_{kind}_{worker}.csv").write_text("\r\n".join(lines) + "\r\n")
