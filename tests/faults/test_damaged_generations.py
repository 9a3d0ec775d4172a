"""A real run whose checkpoints are damaged between a stop and the next start."""

import os
import pathlib
import shutil
import signal
import subprocess

import pytest
from system.tiny_run import TinyRun

from tfagents_system.core.state.generations import generation_dir, newest_intact_generation

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]


def await_end(run, process):
    try:
        return run.await_end(process, timeout_secs=180)  # a stop may take 120 s to save
    except subprocess.TimeoutExpired:
        print(run.alive(), run.logs())
        raise


def stop(run, process):
    os.kill(process.pid, signal.SIGTERM)
    assert await_end(run, process) == 143
    assert run.alive() == {}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """(a run that has been stopped with two generations, a copy of them)."""
    folder = tmp_path_factory.mktemp("damage")
    run = TinyRun(folder, "\n    num_iter = 100_000\n    checkpoint_period_itrs = 5\n")
    try:
        run.set_pace(0.05)
        process = run.start()
        run.wait_for(lambda: len(run.generations()) == 2, 120, "two generations")
        stop(run, process)
        saved = folder / "saved"
        shutil.copytree(run.paths.checkpoints, saved)
        yield run, saved
    finally:
        run.end()


def restore(run, saved):
    """Puts the two generations back; returns their train steps, newest first."""
    shutil.rmtree(run.paths.checkpoints)
    shutil.copytree(saved, run.paths.checkpoints)
    newest, older = run.generations()
    return newest, older


def only_file(folder: pathlib.Path, pattern: str) -> pathlib.Path:
    (path,) = folder.glob(pattern)
    return path


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip_a_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def empty(path):
    assert path.stat().st_size > 0
    path.write_bytes(b"")


def remove(path):
    path.unlink()


def replace_by_folder(path):
    path.unlink()
    path.mkdir()


DAMAGE = [
    ("replay/items*", truncate),
    ("replay/items*", empty),
    ("replay/items*", remove),
    ("replay/chunks*", flip_a_bit),
    ("replay/chunks*", empty),
    ("replay/tables*", flip_a_bit),
    ("replay/tables*", replace_by_folder),
    ("replay/DONE", remove),
    ("learner/state.index", truncate),
    ("learner/state.data*", flip_a_bit),
    ("learner/state.data*", remove),
    ("manifest.json", truncate),
    ("manifest.json", flip_a_bit),
    ("manifest.json", remove),
]


def log_sizes(run):
    return {name: run.paths.stdout(name).stat().st_size for name in ("learner", "replay")}


def logs_since(run, sizes):
    logs = {name: run.paths.stdout(name).read_bytes() for name in sizes}
    return {name: log[sizes[name] :].decode() for name, log in logs.items()}


def resume(run):
    """Runs the same command until it trains, then stops it; returns what the programs logged."""
    sizes, num_before = log_sizes(run), len(run.restored_steps())
    process = run.start()
    run.wait_for(lambda: len(run.restored_steps()) > num_before, 90, "the restored learner")
    restored = run.restored_steps()[-1]
    run.await_train_step(restored + 1, timeout_secs=90)
    stop(run, process)
    assert len(run.restored_steps()) == num_before + 1
    return restored, logs_since(run, sizes)


@pytest.mark.parametrize(
    ("pattern", "damage"), DAMAGE, ids=lambda value: getattr(value, "__name__", value)
)
def test_a_run_goes_on_from_the_generation_before_a_damaged_one(stopped, pattern, damage):
    run, saved = stopped
    newest, older = restore(run, saved)
    path = only_file(generation_dir(run.paths.checkpoints, newest), pattern)
    damage(path)
    restored, logs = resume(run)
    assert restored == older
    name = str(path.relative_to(run.paths.root))
    for log in logs.values():
        assert f"{name} " in log and "trying the one before it" in log
    assert f"from {generation_dir(run.paths.checkpoints, older) / 'replay'}" in logs["replay"]
    saved_last = generation_dir(run.paths.checkpoints, run.generations()[0])
    assert newest_intact_generation(run.paths.checkpoints) == saved_last


def test_files_and_folders_of_others_are_left_alone(stopped):
    run, saved = stopped
    newest, _ = restore(run, saved)
    strays = [run.paths.checkpoints / name for name in ("notes.txt", "2099", ".reverb/9999.txt")]
    strays += [generation_dir(run.paths.checkpoints, newest) / name for name in ("a", "replay/zz")]
    for path in strays:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    restored, logs = resume(run)
    assert restored == newest
    assert "damaged" not in logs["learner"] + logs["replay"]
    assert [path.exists() for path in strays[:2]] == [True, True]


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_whose_generations_are_all_damaged_ends_and_starts_anew_as_it_says(stopped):
    run, saved = stopped
    newest, older = restore(run, saved)
    items = only_file(generation_dir(run.paths.checkpoints, newest), "replay/items*")
    flip_a_bit(items)
    manifest = generation_dir(run.paths.checkpoints, older) / "manifest.json"
    remove(manifest)
    before = contents(run.paths.checkpoints)

    assert await_end(run, run.start()) == 78
    assert "Every checkpoint in " in run.output
    for path in (items, manifest):
        assert f"{path.relative_to(run.paths.root)} " in run.output
    after = contents(run.paths.checkpoints)
    assert before.items() <= after.items()
    # A worker may have begun meanwhile: its number, and a journal without a step.
    new = {pathlib.Path(path).parent: len(after[path]) for path in after.keys() - before.keys()}
    assert new.keys() <= {run.paths.streams, run.paths.journals}
    assert not new.get(run.paths.journals)

    assert "To start the run again from nothing, choose" in run.output
    shutil.rmtree(run.paths.checkpoints)
    num_restored, sizes = len(run.restored_steps()), log_sizes(run)
    process = run.start()
    run.await_train_step(1, timeout_secs=90)
    stop(run, process)
    assert len(run.restored_steps()) == num_restored
    assert "from an empty table" in logs_since(run, sizes)["replay"]
    assert run.generations()[0] >= 1
