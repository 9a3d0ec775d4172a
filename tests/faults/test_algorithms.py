"""Runs of every algorithm and kind of network come back after a kill, and resume, as SAC's do."""

import os
import signal

import pytest
from faults.recovery import (
    ENDLESS,
    WORKERS,
    has_all_moving,
    has_all_moving_after,
    kill_program,
    stop_and_account,
)
from system.tiny_run import TinyRun

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

RECURRENT = """
    recurrent = True
    recurrent_sequence_length = 5
    rnn_units = 4
"""
IMAGES = """
    image_encoder = "simple"

    def env_ctor(self, *args, seed=None, worker_id=None, **kwargs):
        from tf_agents.environments import wrappers

        class Seen(wrappers.PyEnvironmentBaseWrapper):
            def observation_spec(self):
                return array_spec.BoundedArraySpec([36, 36, 1], np.uint8, 0, 255)

            def _seen(self, time_step):
                shade = 1e5 * time_step.observation[1] % 256
                return time_step._replace(observation=np.full([36, 36, 1], shade, np.uint8))

            def _reset(self):
                return self._seen(self._env.reset())

            def _step(self, action):
                return self._seen(self._env.step(action))

        return Seen(TinyEnv(self.env_config["folder"], worker_id))
"""
KINDS = {
    "td3": "    algorithm = 'td3'\n",
    "ddpg": "    algorithm = 'ddpg'\n",
    "tqc": "    algorithm = 'tqc'\n",
    "crossq": "    algorithm = 'crossq'\n",
    "droq": "    critic_layer_norm = True\n    critic_dropout_rate = 0.01\n    policy_delay = 20\n",
    "n-step": "    n_step_returns = 3\n    state_value_network = True\n",
    "recurrent": RECURRENT,
    "recurrent td3": RECURRENT
    + "    algorithm = 'td3'\n    rnn_type = 'gru'\n    segment_len = 10\n"
    "    burn_in_len = 4\n    stored_state = True\n"
    "    share_summarizer = True\n",
    "images": IMAGES + "    image_augmentation = 2\n",
}
OF_VECTORS = ("td3", "ddpg", "tqc", "crossq", "droq")  # whose items are transitions of SAC's layout
PROGRAMS = {
    "worker": "sac_collect.py 1", "learner": "sac_train.py",
    "replay server": "sac_replay_buffer.py",
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_kills_resume_and_malformed_data(kind, tmp_path, ledger):
    run = TinyRun(tmp_path, ENDLESS + KINDS[kind])
    try:
        _break_and_account(run, kind, ledger)
    finally:
        run.end()


def _break_and_account(run, kind, ledger):
    run.set_pace(0.02)
    process = run.start(num_workers=2)
    run.wait_for(run.generations, 180, "the first generation")
    for name, program in PROGRAMS.items():
        run.wait_for(has_all_moving(run), 60, "movement")
        kill, is_back = kill_program(run, program)
        kill()
        run.wait_for(has_all_moving_after(run, is_back), 120, f"the recovery of the {name}")
        ledger.add(kind, f"{name} killed", passed=True)
    if kind != "images":  # whose pixels are numbers in any case
        run.set_fault(0, "nan")
        run.wait_for(lambda: run.status(WORKERS[0])["rejected_steps"] > 0, 60, "a rejected step")
        run.wait_for(has_all_moving(run), 60, "movement after it")
        ledger.add(kind, "an observation that is not a number", passed=True)

    run.kill_everything()
    process.wait(timeout=60)
    saved, num_restored = run.generations()[0], len(run.restored_steps())
    process = run.start(num_workers=2)
    run.wait_for(lambda: len(run.restored_steps()) > num_restored, 180, "the restored generation")
    run.wait_for(has_all_moving(run), 60, "going on")
    assert run.restored_steps()[-1] == saved
    ledger.add(kind, "all killed, started again", passed=True)
    if kind in OF_VECTORS:
        stop_and_account(run, process, ledger, kind, num_rejected=1)
    else:
        os.kill(process.pid, signal.SIGTERM)
        assert run.await_end(process, timeout_secs=120) == 143
    log = run.paths.stdout("learner").read_text()
    assert "Traceback" not in log, log
