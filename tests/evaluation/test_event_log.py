import contextlib
import sys

import tensorflow as tf
from small_disk import small_disk

from tfagents_system.evaluation.event_log import EventLog


def events(folder):
    """(step, tag, value) of all files; as TensorBoard, it stops at a damaged record of a file."""
    found = []
    # The last number of a name counts the files of the process.
    for file in sorted(folder.glob("events*"), key=lambda file: int(file.name.split(".")[-2])):
        with contextlib.suppress(tf.errors.DataLossError):
            for event in tf.compat.v1.train.summary_iterator(str(file)):
                for value in event.summary.value:
                    found.append((event.step, value.tag, value.simple_value))
    return found


def test_scalars_can_be_read_before_the_log_is_closed(tmp_path):
    log = EventLog(tmp_path / "train" / "learner")
    log.write(10, {"loss": 0.5, "alpha": 2.0})
    log.write(20, {"loss": 0.25})
    assert events(tmp_path / "train" / "learner") == [
        (10, "loss", 0.5), (10, "alpha", 2.0), (20, "loss", 0.25),
    ]  # fmt: skip
    log.close()


def test_what_has_been_written_leaves_the_memory(tmp_path):
    log = EventLog(tmp_path)
    log.write(1, {"loss": 0.0})
    step, loss = int("1234567"), float("0.123")
    before = sys.getrefcount(step), sys.getrefcount(loss)
    log.write(step, {"loss": loss})
    assert (sys.getrefcount(step), sys.getrefcount(loss)) == before
    log.close()


def test_a_full_disk_costs_only_what_did_not_fit(capfd):
    with small_disk(1 << 20) as disk:
        log = EventLog(disk.folder / "train")
        log.write(0, {"loss": 0.0})
        disk.fill()
        lost_from = 0
        while "DISK FULL: TensorBoard events needs 4.1 kB" not in capfd.readouterr().out:
            lost_from += 1
            log.write(lost_from, {"loss": 0.0})
        log.write(lost_from + 1, {"loss": 0.0})
        disk.free()
        log.write(lost_from + 2, {"loss": 0.0})
        steps = [step for step, _, _ in events(disk.folder / "train")]
        assert steps == [*range(lost_from), lost_from + 2]
