import pathlib
import re

import pytest

from tfagents_system import sac_replay_buffer
from tfagents_system.commands import mirror
from tfagents_system.core.checkout import PROJECT
from tfagents_system.launch.link import relay
from tfagents_system.launch.local import stop_times
from tfagents_system.learning import last_save

SCRIPTS = [*(PROJECT / "slurm").glob("*.sbatch")]


@pytest.mark.parametrize("script", SCRIPTS, ids=[script.name for script in SCRIPTS])
def test_a_stop_fits_into_the_lead_that_slurm_gives(script):
    assert stop_times.STOP_SECS == 2 + 20 + 120 + 45 + 3 * 5 + 10
    (lead,) = re.findall(r"^#SBATCH --signal=B:TERM@(\d+)$", script.read_text(), re.MULTILINE)
    assert stop_times.STOP_SECS <= int(lead)


def test_what_a_program_takes_at_most_fits_into_its_part_of_a_stop():
    assert 2 * last_save.STOP_TIMEOUT_SECS < stop_times.LEARNER_SECS
    assert sac_replay_buffer.LEARNER_TIMEOUT_SECS < stop_times.LEARNER_SECS
    assert mirror.LAST_SECS < stop_times.REST_SECS
    assert relay.PERIOD_SECS + relay.STOP_SECS < stop_times.REST_SECS


def test_the_script_of_a_share_has_no_times_of_its_own():
    script = pathlib.Path(stop_times.__file__).with_name("train_script.sh").read_text()
    (body,) = re.findall(r"^stop_all\(\) \{\n(.*?)^\}", script, re.MULTILINE | re.DOTALL)
    assert re.findall(r"^  stop (\S+)", body, re.MULTILINE) == [
        '"$STOP_WORKERS_SECS"', '"$save_secs"', '"$STOP_REST_SECS"'
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("program", "secs"),
    [("worker_3", 20), ("evaluator_0", 20), ("learner", 120), ("replay", 120 + 45),
     ("relay_worker_0", 120 + 45), ("mirror-wandb", 120 + 45)],
)  # fmt: skip
def test_programs_that_wait_for_the_learner_have_its_time_as_well(program, secs):
    assert stop_times.secs_of(program) == secs
