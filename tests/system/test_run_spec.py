import os

import pytest
from system.tiny_run import TinyRun

from tfagents_system.core.running import edited_files

pytestmark = pytest.mark.multiprocess


@pytest.fixture
def run(tmp_path):
    tiny = TinyRun(tmp_path, "\nimport my_reward\n")
    yield tiny
    tiny.end()


def test_a_worker_that_is_started_again_keeps_the_params_and_refuses_an_edited_module(run):
    module = run.folder / "my_reward.py"
    module.write_text("SCALE = 1\n")
    run.set_pace(0.005)
    process = run.start()
    run.await_train_step(40)
    params = run.paths.params
    edited = params.read_text().replace("fresh_samples_per_step = 4", "fresh_samples_per_step = 2")
    params.write_text(edited)  # other blocks
    killed = run.kill("sac_collect.py")
    run.wait_for(lambda: run.pid("sac_collect.py") not in (None, killed), 60, "the next worker")
    run.wait_for(
        lambda: run.status("worker_0").get("pid") not in (None, killed), 60, "its first report"
    )
    run.await_train_step(run.train_step() + 40)
    assert edited_files(run.paths) == ["params.py"]

    module.write_text("SCALE = 2\n")
    os.kill(run.pid("sac_collect.py"), 9)
    assert run.await_end(process, timeout_secs=90) == 78
    assert "params.py edited: applies at the next start" in run.output
    assert "files my_reward has another content now" in run.output
    assert "Start run_script.sh again" in run.output
    assert run.paths.run_spec.exists()  # what had been trained stays
