import re

import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.launch.params_check import check_gin_bindings, check_params_file

GOOD = """
import os, json
import numpy as np
from collections.abc import Sequence
from tfagents_system.train_params_base import TrainParamsBase
try:
    import optional_simulator
except ImportError:
    optional_simulator = None

class TrainParams(TrainParamsBase):
    discount: float = 0.95
    num_iter = 1_000
    sac_log_alpha = np.log(0.1)
    joint_names = ("hip", "knee")  # the user's own
    _train_batch_siz = 3

    def __init__(self, env_config):
        super().__init__(env_config)
        self.train_batch_size = 128
        self.gains = [1.0] * 3

    def env_ctor(self, *args, seed=None, **kwargs):
        import imported_later
        return None
"""
HEAD = "from tfagents_system.train_params_base import TrainParamsBase\n"
CLASS = f"{HEAD}class TrainParams(TrainParamsBase):\n    def env_ctor(self): pass\n"


def check(tmp_path, text: str) -> None:
    path = tmp_path / "my_params.py"
    path.write_text(text)
    check_params_file(path, [tmp_path])


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"{HEAD}class TrainParams(TrainParamsBase):\n    env_ctor = staticmethod(print)\n",
        f"{CLASS.replace('TrainParams(', 'Common(')}class TrainParams(Common): pass\n",
        "from tfagents_system.minitaur_params import TrainParams\n",
        "import neighbour\nclass TrainParams(neighbour.Base): num_iter = 5\n",
        "import neighbour\nTrainParams = neighbour.make()\n",
    ],
)
def test_good_params_files_pass(tmp_path, text):
    (tmp_path / "neighbour.py").touch()
    check(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "my_params.py: does not define the class TrainParams."),
        (
            CLASS.replace("class TrainParams", "class TrainParam"),
            "my_params.py: does not define the class TrainParams. Did you mean TrainParam?",
        ),
        (
            f"{HEAD}class TrainParams(TrainParamsBase): pass\n",
            "my_params.py:2: TrainParams does not define env_ctor",
        ),
        ("class TrainParams: pass\n", "my_params.py:1: TrainParams has no base class"),
        ("x = (\n", "my_params.py:1: not valid Python: '(' was never closed"),
        (
            f"{CLASS}    actor_learning_rte = 1e-4\n",
            "my_params.py:4: TrainParams.actor_learning_rte is not a training parameter. "
            "Did you mean actor_learning_rate?",
        ),
        (
            f"{CLASS}    def __init__(self, c):\n        self.num_iters = 3\n",
            "my_params.py:5: TrainParams.num_iters is not a training parameter. "
            "Did you mean num_iter?",
        ),
        (
            f"{CLASS}    def eval_env_arg_kwargs(self): pass\n",
            "my_params.py:4: TrainParams.eval_env_arg_kwargs is not a training parameter. "
            "Did you mean eval_env_args_kwargs?",
        ),
        (
            f"{CLASS}    train_batch_size = 0\n",
            "my_params.py:4: train_batch_size is 0; allowed is an integer >= 1.",
        ),
        (
            f"{CLASS}    def __init__(self, c):\n        self.recurrent = 'yes'\n",
            "my_params.py:5: recurrent is 'yes'; allowed is True or False.",
        ),
        (f"import no_such_robot.arm\n{CLASS}", "my_params.py:1: imports no_such_robot, which is"),
        (f"from . import arm\n{CLASS}", "my_params.py:1: from . import arm: a params file is not"),
    ],
)
def test_mistakes_name_file_line_and_remedy(tmp_path, text, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        check(tmp_path, text)


def test_missing_params_file_names_the_variable(tmp_path):
    with pytest.raises(ConfigError, match="nowhere.py: cannot read .* Set SAC_PARAMS to"):
        check_params_file(tmp_path / "nowhere.py", [])


def test_params_file_is_not_executed(tmp_path):
    check(tmp_path, f"{CLASS}raise SystemExit('executed')\n")


def test_gin_bindings_returns_the_last_literal_of_each_name():
    bindings = [
        "TrainParams.num_iter = 10",
        "pkg.train_params_base.TrainParams.num_iter=20",
        "TrainParams.actor_fc_layer_params = (64, 64)",
        "TrainParams.preprocessing_combiner = @Concatenate()",
        "OtherClass.anything = 3",
    ]
    values = check_gin_bindings(bindings, "SAC_GIN_BINDINGS")
    assert values == {"num_iter": 20, "actor_fc_layer_params": (64, 64)}


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        ("TrainParams.num_itr = 3", "TrainParams.num_itr is not a training parameter. "
         "Did you mean num_iter?"),
        ("TrainParams.num_iter = 0", "num_iter is 0; allowed is an integer >= 1"),
        ("TrainParams.num_iter = 5x", "'5x' is not a Python literal or a gin reference"),
        ("num_iter 5", "'num_iter 5' is not a gin binding; write TrainParams.num_iter = 500"),
    ],
)  # fmt: skip
def test_gin_bindings_mistakes_name_where_and_remedy(binding, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as raised:
        check_gin_bindings([binding], "SAC_GIN_BINDINGS")
    assert str(raised.value).startswith("SAC_GIN_BINDINGS: ")
