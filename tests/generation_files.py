"""Generations of checkpoints for tests."""

from fakes import UNRIVALLED

from tfagents_system.core.state import generations as lib


def publish(root, train_step, text="weights"):
    unfinished = root / f".tmp-{train_step}"
    (unfinished / "learner").mkdir(parents=True)
    (unfinished / "learner" / "state").write_text(text)
    (unfinished / "replay").mkdir()
    (unfinished / "replay" / "items").write_bytes(b"\0" * 100)
    lib.publish_generation(unfinished, root, train_step, {"saved_at": 12.5}, UNRIVALLED)
    return lib.generation_dir(root, train_step)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
