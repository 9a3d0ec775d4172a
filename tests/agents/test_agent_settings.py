import pathlib
import subprocess
import sys

from tfagents_system.agents.table import ALGORITHMS, OwnSettings
from tfagents_system.core.settings.hyperparameters import hyperparameters

PROJECT = pathlib.Path(__file__).parents[2]
# As TrainParamsBase, which imports TensorFlow and its untyped friends.
TYPED_USE = """
from tfagents_system.agents.agent_settings import AgentSettings
from tfagents_system.core.settings.training_settings import TrainingSettings

class TrainParams(TrainingSettings, AgentSettings):
    num_iter = 10
    discount = 1
    actor_fc_layer_params = [64, 64]
    matmul_precision = "float32"

    def __init__(self) -> None:
        self.train_batch_size = 32
        self.gradient_clipping = 1.0

params = TrainParams()
reveal_type(params.num_iter)
reveal_type(params.target_update_tau)
reveal_type(params.fresh_samples_per_step)
params.train_batch_size = "many"  # line 19
params.num_itr  # line 20
class Wrong(TrainingSettings):
    matmul_precision = "float64"  # line 22
TrainingSettings(num_iter=3)
"""


def test_the_settings_of_all_rows_are_attributes_of_train_params():
    of_rows = [own for row in ALGORITHMS.values() for own in row.settings]
    assert set(hyperparameters(OwnSettings)) == set(hyperparameters(*of_rows))


def test_importing_the_settings_brings_in_no_tensorflow():
    script = (
        "import sys; import tfagents_system.agents.agent_settings; "
        "print(sorted({'tensorflow', 'numpy', 'keras', 'tf_agents'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=PROJECT, capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_type_checkers_see_hyperparameters_as_attributes_of_train_params(tmp_path):
    file = tmp_path / "use.py"
    file.write_text(TYPED_USE)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--follow-imports=silent", "--hide-error-context",
         "--no-error-summary", "--cache-dir", str(tmp_path / "cache"), str(file)],
        cwd=PROJECT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    lines = [line.partition("use.py:")[2] for line in done.stdout.splitlines()]
    types = [line.partition("Revealed type is ")[2] for line in lines if "Revealed" in line]
    errors = [line.partition(":")[0] for line in lines if "error:" in line]
    assert types == ['"builtins.int"', '"builtins.float"', '"Union[builtins.int, None]"'], lines
    assert errors == ["19", "20", "22"], lines
