import pytest
from system.tiny_run import TinyRun

pytestmark = pytest.mark.system
NESTED = """
import gym

class TwoActions(gym.Wrapper):
    def __init__(self, environment):
        super().__init__(environment)
        arm = gym.spaces.Box(-1, 1, (2, 2))
        self.action_space = gym.spaces.Tuple([environment.action_space, arm])

class TrainParams(TrainParams):
    collect_env_args_kwargs = TrainParamsBase.collect_env_args_kwargs

    def env_ctor(self, *args, seed=None, **kwargs):
        return TwoActions(gym.make("CartPole-v1"))
"""


def test_an_import_of_what_there_is_not_is_answered_once_and_leaves_no_folder(tmp_path):
    run = TinyRun(tmp_path, "import numpy.linalgg\n")
    try:
        assert run.await_end(run.start(), timeout_secs=60) == 78
    finally:
        run.end()
    assert list((run.project / "logs").iterdir()) == []
    line = (tmp_path / "params.py").read_text().splitlines().index("import numpy.linalgg") + 1
    assert run.output.endswith(
        f"{tmp_path}/params.py:{line}: No module named 'numpy.linalgg'. Did you mean linalg?\n"
    )
    assert "Traceback" not in run.output


def test_a_nest_with_a_matrix_is_answered_once_and_leaves_no_folder(tmp_path):
    run = TinyRun(tmp_path, NESTED)
    try:
        assert run.await_end(run.start(), timeout_secs=60) == 78
    finally:
        run.end()
    assert list((run.project / "logs").iterdir()) == []
    assert run.output.count("The built-in agents cannot act") == 1
    assert (
        ".py: The built-in agents cannot act in this environment: its action is float32 [2, 2]"
        in (run.output)
    )
    assert "Expected a Box" in run.output
    assert run.output.endswith("or return another one.\n")
