import contextlib
import math
import sys

import numpy as np
import pytest
import tensorflow as tf
from small_disk import small_disk

from tfagents_system.core.process import reporting
from tfagents_system.records.event_log import NUM_BINS, EventLog, _histogram


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


HUGE, TINY = sys.float_info.max, sys.float_info.min


@pytest.mark.parametrize(
    "values",
    [
        [1e-3, 1e13, *(1.0 + k for k in range(20))],
        [0.0],
        [5.0] * 7,
        [1.0, math.nextafter(1.0, 2.0), 1.0],
        [math.nan, -math.inf, 3.0, 4.0],
        [HUGE, -HUGE, TINY, -TINY, 0.0],
        [1e300, math.nextafter(1e300, 0.0)],
        [*range(10_000)],
    ],
)
def test_a_histogram_is_small_whatever_the_values(tmp_path, values):
    log = EventLog(tmp_path)
    log.write(1, {"mean": values[0]}, {"returns": values})
    (file,) = tmp_path.glob("events*")
    (histo,) = [
        value.histo
        for event in tf.compat.v1.train.summary_iterator(str(file))
        for value in event.summary.value
        if value.tag == "returns"
    ]
    assert reporting.num_failed() == 0
    finite = [value for value in values if math.isfinite(value)]
    assert histo.num == sum(histo.bucket) == len(finite)
    assert len(histo.bucket) == len(histo.bucket_limit) <= NUM_BINS
    assert list(histo.bucket_limit) == sorted(set(histo.bucket_limit))
    for value in (histo.min, histo.max, histo.sum, histo.sum_squares):
        assert math.isfinite(value)
    if max(map(abs, finite)) < 1e100:
        assert (histo.min, histo.max) == (min(finite), max(finite)) and histo.sum == sum(finite)


def test_a_histogram_counts_each_value_up_to_its_limit(tmp_path):
    histo = _histogram(np.float64([0.0, 0.5, 1.0, 29.5, 30.0]))
    assert list(histo.bucket_limit) == [*range(1, 31)]
    assert list(histo.bucket) == [3, *[0] * 28, 2]


def test_values_of_which_none_is_a_number_are_left_out_alone(tmp_path):
    EventLog(tmp_path).write(1, {"mean": math.nan, "loss": 0.5}, {"returns": [math.nan]})
    assert [tag for _, tag, _ in events(tmp_path)] == ["mean", "loss"]


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
