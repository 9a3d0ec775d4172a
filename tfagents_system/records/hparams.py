"""Writes a run's entry in TensorBoard's HPARAMS tab, without TensorFlow."""

import pathlib
import time
from collections.abc import Mapping
from typing import Any

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.plugins.hparams import metadata, plugin_data_pb2
from tensorboard.summary.writer.record_writer import RecordWriter


def write_hparams(
    folder: pathlib.Path, settings: Mapping[str, Any], numbers: Mapping[str, float], step: int
) -> None:
    """Writes an event file in `folder`, which TensorBoard shows as one run.

    Args:
      folder: Made here.
      settings: Hyperparameters by name; TensorBoard supports bool, numbers and text.
      numbers: Results by tag.
      step: Train step of the results.
    """
    folder.mkdir(parents=True)
    now = time.time()
    start = plugin_data_pb2.SessionStartInfo(start_time_secs=now)
    for name, value in settings.items():
        kind = "bool_value" if isinstance(value, bool) else "number_value"
        is_plain = isinstance(value, (bool, int, float))
        setattr(start.hparams[name], kind if is_plain else "string_value",
                value if is_plain else str(value))  # fmt: skip
    end = plugin_data_pb2.SessionEndInfo(end_time_secs=now)
    summary = summary_pb2.Summary()
    for tag, data in (
        (metadata.SESSION_START_INFO_TAG, {"session_start_info": start}),
        (metadata.SESSION_END_INFO_TAG, {"session_end_info": end}),
    ):
        described = metadata.create_summary_metadata(plugin_data_pb2.HParamsPluginData(**data))
        summary.value.add(tag=tag, metadata=described, tensor=metadata.NULL_TENSOR)
    for tag, number in numbers.items():
        summary.value.add(tag=tag, simple_value=number)
    with (folder / f"events.out.tfevents.{int(now)}.hparams").open("wb") as file:
        records = RecordWriter(file)
        for event in (
            event_pb2.Event(wall_time=now, file_version="brain.Event:2"),
            event_pb2.Event(wall_time=now, step=step, summary=summary),
        ):
            records.write(event.SerializeToString())
