"""Checks the disk after the power was cut at any system call of a save."""

import json
import os
import pathlib
import random

import pytest
from cut_disk import cut_disk

from tfagents_system.core.state import generations as lib
from tfagents_system.core.state.files import write_json_durably
from tfagents_system.core.state.incarnation import CORE, Claims, Fence
from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.state.running import begin_run

CALLS = ("replace", "rename", "mkdir", "rmdir", "unlink", "open", "fsync", "link", "stat")
NUM_CUTS = 20
MOST_CALLS = 400  # of a run that is cut


class PowerCut(BaseException):
    """Nothing catches it."""


@pytest.fixture(scope="module")
def disk():
    with cut_disk() as mounted:
        yield mounted


def run(paths, announce):
    """Writes all that a resume needs, and one generation after the other."""
    paths.root.mkdir()
    for path in (paths.config, paths.params):
        path.write_text("the user's")
    os.sync()
    begin_run(paths)
    claims = Claims(paths.incarnations)
    fence = Fence(claims, CORE, claims.claim(CORE))
    announce("claims", fence.number)
    for name in ("run_spec", "provenance"):
        write_json_durably(getattr(paths, name), {"written": name})
        announce(name, True)
    for train_step in range(100, 100_000, 100):
        unfinished = lib.unfinished_dir(paths.checkpoints, train_step, fence)
        for half in ("learner", "replay"):
            (unfinished / half).mkdir(parents=True)
            (unfinished / half / "data").write_bytes(os.urandom(30_000))
        lib.publish_generation(unfinished, paths.checkpoints, train_step, {}, fence)
        announce("train_step", train_step)


def run_until_cut(disk, paths, monkeypatch, number, others_sync):
    """Cuts the power at the system call `number`; returns what had been announced."""
    announced, count = {}, 0

    def counted(call):
        def wrapped(*arguments, **options):
            nonlocal count
            count += 1
            if count == number:
                if others_sync:  # which makes names last, but not the content of files
                    with (disk.folder / "other").open("w") as other:
                        fsync(other.fileno())
                disk.cut()
                raise PowerCut
            return call(*arguments, **options)

        return wrapped

    fsync = os.fsync
    with monkeypatch.context() as patch, pytest.raises((PowerCut, OSError)):
        for name in CALLS:
            patch.setattr(os, name, counted(getattr(os, name)))
        run(paths, announced.__setitem__)
    return announced


@pytest.mark.parametrize("others_sync", [False, True])
def test_what_was_announced_is_whole_after_a_power_cut_at_any_moment(
    disk, monkeypatch, others_sync
):
    numbers = random.Random(27).sample(range(1, MOST_CALLS), NUM_CUTS)
    steps = set()
    for number in numbers:
        paths = ExperimentPaths(disk.folder / f"cut_{others_sync}_{number}")
        announced = run_until_cut(disk, paths, monkeypatch, number, others_sync)
        disk.power_on()
        newest = lib.newest_intact_generation(paths.checkpoints)
        steps.add(announced.get("train_step", 0))
        if "train_step" in announced:
            assert int(newest.name) >= announced["train_step"], number
        if "claims" in announced:
            assert Claims(paths.incarnations).newest(CORE) == announced["claims"], number
        for name in announced.keys() & {"run_spec", "provenance"}:
            assert json.loads(getattr(paths, name).read_text()) == {"written": name}, number
        begin_run(paths)  # the next start
        assert pathlib.Path(paths.running_params).read_text() == "the user's"
    assert len(steps) > 5  # cuts before the first generation, and after several
