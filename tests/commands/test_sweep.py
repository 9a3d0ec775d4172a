"""`sac sweep`: wrong arguments, and what earlier starts have left."""

import pytest
from commands.test_train import sac
from run_files import write_finished_run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Nothing varies: give --grid or --search, seeds, or several variables files."),
        (["--grid", "num_iter=2", "--search", "num_iter=2:3"], "Give either --grid or --search."),
        (["--grid", "train_batch_siz=1,2"], "--grid: train_batch_siz is not a training parameter"),
        (["--grid", "train_batch_size=1,-2"], "--grid: 'TrainParams.train_batch_size = -2'"),
        (["--search", "train_batch_size=-2:8"], "--search: 'TrainParams.train_batch_size = -2'"),
        (["--grid", "num_iter=1,2", "--set", "num_iter=3"], "--set and --grid both have num_iter."),
        (["--grid", "num_iter=1,2", "--set", "num_itr=3"], "--set: "),
        (["--grid", "num_iter=1,2", "--prune"], "--prune is for --search"),
        (["cart_variables.sh", "--grid", "num_iter=2"], "have the same SAC_EXP_NAME, cart."),
        (
            ["cart_variables.sh", "--grid", "num_iter=2", "--name=a"],
            "--name is 'a': allowed for one",
        ),
        (["--grid", "num_iter=2", "--parallel=9999"], "--parallel is 9999, but there are "),
        (["--search", "num_iter=5:2"], "--search is 'num_iter=5:2'; expected "),
        (["--grid", "discount=0.9,0.99", "--seed", "1", "-1"], "SAC_SEED is '-1'; expected "),
        (["--grid", "num_iter=1,2", f"--name={'a' * 195}"], "'; expected letters, digits"),
    ],
)
def test_wrong_arguments_are_answered_and_write_nothing(tmp_path, arguments, message):
    assert sac(tmp_path, "new", "cart")[0] == 0
    before = sorted(tmp_path.iterdir())
    code, out, err = sac(tmp_path, "sweep", "cart_variables.sh", *arguments)
    assert (code, out) == (78, "") and message in err and len(err.splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("edit", "environ", "message"),
    [
        ("    num_itr = 3\n", {}, "TrainParams.num_itr is not a training parameter. Did you mean"),
        ("", {"SAC_CONFIG": "no.json"}, "no.json: cannot read the JSON config"),
        ("", {"SAC_GIN_BINDINGS": "num_iter = 3"}, "write TrainParams.num_iter = 3."),
    ],
)
def test_what_would_end_every_trial_is_refused_before_the_first(tmp_path, edit, environ, message):
    assert sac(tmp_path, "new", "cart")[0] == 0
    params = tmp_path / "cart_params.py"
    head, body = params.read_text().split("(TrainParamsBase):\n", 1)
    params.write_text(f"{head}(TrainParamsBase):\n{edit}{body}")
    arguments = ("sweep", "cart_variables.sh", "--grid", "discount=0.9,0.95")
    code, out, err = sac(tmp_path, *arguments, **environ)
    assert (code, out) == (78, "") and message in err
    assert not (tmp_path / "logs").exists()


def finished_trials(folder, values):
    """A project and the trials of a sweep of `--grid discount=...`, as training leaves them."""
    assert sac(folder, "new", "cart")[0] == 0
    files = folder / "cart_params.py", folder / "cart_config.json"
    for number, value in enumerate(values):
        root = folder / "logs" / f"cart_trial_{number}_seed_1"
        write_finished_run(root, *files, [f"TrainParams.discount = {value}"])


@pytest.mark.parametrize(
    ("arguments", "edit", "message"),
    [
        (["--grid", "discount=0.9,0.95"], "",
         "trial_1_seed_1 was trained with other settings: discount was 0.99 and is 0.95 now."),
        (["--grid", "num_iter=2,3"], "",
         "trial_0_seed_1 was trained with other settings: discount was 0.9 and is not set now; "
         "num_iter was not set and is 2 now."),
        (["--grid", "discount=0.9,0.99"], "\n# edited\n", "cart_params.py differs from "),
        (["--search", "discount=0.9:0.95"], "", "discount was 0.9 and is not set now."),
    ],
)  # fmt: skip
def test_results_of_other_settings_are_not_taken_for_those_of_a_sweep(
    tmp_path, arguments, edit, message
):
    if "--search" in arguments:
        pytest.importorskip("optuna", reason="the packages of locks/test.lock are missing")
    finished_trials(tmp_path, [0.9, 0.99])
    with (tmp_path / "cart_params.py").open("a") as params:
        params.write(edit)
    code, out, err = sac(tmp_path, "sweep", "cart_variables.sh", *arguments)
    assert (code, out) == (78, "") and len(err.splitlines()) == 1
    assert message in err and "Choose another --name, or give the settings it has." in err


def test_a_syntax_error_in_the_config_of_an_earlier_trial_is_named(tmp_path):
    finished_trials(tmp_path, [0.9])
    (tmp_path / "logs" / "cart_trial_0_seed_1" / "config.json").write_text('{\n  "horizon": 5,}')
    code, out, err = sac(tmp_path, "sweep", "cart_variables.sh", "--grid", "discount=0.9,0.95")
    assert (code, out) == (78, "") and len(err.splitlines()) == 1
    assert "cart_trial_0_seed_1/config.json: not valid JSON: " in err and ": line 2 column " in err


def test_a_sweep_of_the_same_settings_goes_on(tmp_path):
    finished_trials(tmp_path, [0.9, 0.99])
    sweep = ["sweep", "cart_variables.sh", "--grid", "discount=0.9,0.990"]
    code, out, err = sac(tmp_path, *sweep)  # all are finished; none was evaluated
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        "trial  discount  return  95 % interval   seeds     state",
        "    0       0.9       -              -  0 of 1  finished",
        "    1      0.99       -              -  0 of 1  finished",
        "No trial has an evaluation: its return is that of the last one.",
    ]
