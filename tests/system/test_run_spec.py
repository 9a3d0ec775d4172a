import pytest
from system.tiny_run import TinyRun

from tfagents_system.core.state.running import edited_files
from tfagents_system.launch.show.status import Watch
from tfagents_system.launch.show.status_line import status_line

pytestmark = pytest.mark.system


@pytest.fixture
def run(tmp_path):
    tiny = TinyRun(tmp_path, "\nimport my_reward\n")
    yield tiny
    tiny.end()


def test_a_worker_that_is_started_again_takes_no_edit_and_the_status_names_all(run):
    """Neither of the params nor of the modules, however they are imported."""
    module = run.folder / "my_reward.py"
    module.write_text("import importlib\n\nSCALE = 1\nimportlib.import_module('my_' + 'task')\n")
    task = run.folder / "my_task.py"
    task.write_text("NAME = 'reach'\n")
    run.set_pace(0.005)
    run.start()
    run.await_train_step(40)
    assert edited_files(run.paths) == []
    params = run.paths.params
    edited = params.read_text().replace("fresh_samples_per_step = 4", "fresh_samples_per_step = 2")
    params.write_text(edited)  # other blocks
    module.write_text("SCALE =\n")
    task.write_text("NAME = 'lift'\n")
    assert edited_files(run.paths) == ["params.py", "my_reward.py", "my_task.py"]
    for program in ("sac_collect.py", "sac_train.py"):
        name = "worker_0" if program == "sac_collect.py" else "learner"
        killed = run.kill(program)
        run.wait_for(
            lambda p=name, k=killed: run.status(p).get("pid") not in (None, k), 60, "a report"
        )
        run.await_train_step(run.train_step() + 40)
    shown = status_line(Watch(run.paths).look())
    assert "params.py and my_reward.py and my_task.py edited: applies at the next start" in shown
