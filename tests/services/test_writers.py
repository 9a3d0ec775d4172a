"""While the replay server is away, no writer of Reverb is made: some of them end the program."""

import pathlib
import subprocess
import sys

import pytest
import reverb
from replay_fakes import serving

from tfagents_system.core.process.ports import free_port
from tfagents_system.services.replay import VARIABLES_TABLE
from tfagents_system.services.table_info import table_stats
from tfagents_system.services.writers import open_writer

WITHOUT_SERVER = """
import pathlib
import reverb
import tensorflow as tf
from tfagents_system.core.process.ports import free_port
from tfagents_system.services.tickets import TicketOffice, TicketTaker
from tfagents_system.services.variables import VariablePublisher
from tfagents_system.services.versions import PolicyVersion

address, variables = f"localhost:{free_port()}", [tf.Variable([1.0])]
client = reverb.Client(address)
for _ in range(500):
    publisher = VariablePublisher(client, variables)
    TicketOffice(client, variables, None, pathlib.Path("evaluation.json"), None)
print(publisher.publish(1, timeout_secs=1.0))
TicketTaker(address, variables).give_back(PolicyVersion(1, [[1.0]]))
print("alive")
"""


def test_the_programs_live_on_without_a_server(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SERVER],
        env={"PYTHONPATH": str(pathlib.Path(__file__).parents[2])},
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.split() == ["False", "alive"], done.stderr
    assert done.returncode == 0


def test_a_writer_is_opened_when_the_server_answers(tmp_path):
    with pytest.raises(TimeoutError, match="no answer from the replay server"):
        open_writer(reverb.Client(f"localhost:{free_port()}"), VARIABLES_TABLE, timeout_secs=1.0)
    with serving(tmp_path) as replay:
        writer = open_writer(replay.client(), VARIABLES_TABLE, timeout_secs=5.0)
        writer.append([7.0])
        writer.create_item(VARIABLES_TABLE, 1.0, [column[-1] for column in writer.history])
        writer.flush(timeout_ms=5000)
        assert table_stats(replay.client(), VARIABLES_TABLE, timeout_secs=60) == (1, 1)
