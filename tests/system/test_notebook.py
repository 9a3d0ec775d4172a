"""Training from a notebook, with a real kernel: the code of docs/python.md."""

import os
import pathlib
import re

import psutil
import pytest
from system.test_interactive import PROJECT, SETTINGS, programs_below

from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.core.waiting import wait_until

nbclient = pytest.importorskip("nbclient", reason="the packages of locks/test.lock are missing")
nbformat = pytest.importorskip("nbformat", reason="the packages of locks/test.lock are missing")
pytest.importorskip("ipykernel", reason="the packages of locks/test.lock are missing")

pytestmark = pytest.mark.system
# What the page leaves to its reader.
OBSERVATION = "import numpy as np\nobservation = np.float32([1, 0, 0])"
CHECKS = """
print(run.is_running, action.dtype, action.shape, abs(action[0]) <= 2)
print(*sac.Experiment(run.folder).curves()["train_step"])
"""
ENDLESS = """
import tfagents_system as sac
run = sac.train(env="Pendulum-v1", name="left", num_iter=100000)
print(run._process.pid)
"""


def cells_of_the_page():
    """Returns the paragraphs of the page's code; its run is made tiny."""
    text = (PROJECT / "docs/python.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert code.count("num_iter=50") == 1
    return code.replace("num_iter=50", f"**{SETTINGS}").split("\n\n")


def make_notebook(folder: pathlib.Path, *cells: str):
    """Returns the client of a notebook in `folder`."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(each) for each in cells])
    return nbclient.NotebookClient(
        notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )


def printed_by(cell):
    return "".join(each.text for each in cell.outputs if each.get("name") == "stdout")


@pytest.fixture
def environ():
    return os.environ | {"PYTHONPATH": str(PROJECT)}


def test_the_code_of_the_page_trains_and_acts_in_a_notebook(tmp_path, environ):
    client = make_notebook(tmp_path, OBSERVATION, *cells_of_the_page(), CHECKS)
    client.execute(env=environ)  # raises what a cell raises
    assert printed_by(client.nb.cells[-1]).splitlines() == [
        "False float32 (1,) True",
        " ".join(str(20 * iteration) for iteration in range(1, SETTINGS["num_iter"] + 1)),
    ]
    assert (tmp_path / "logs/pendulum/finished.json").exists()


def test_a_kernel_that_is_restarted_leaves_no_program_of_its_run(tmp_path, environ):
    client = make_notebook(tmp_path, ENDLESS)
    with client.setup_kernel(env=environ):
        client.execute_cell(client.nb.cells[0], 0)
        report = ExperimentPaths(tmp_path / "logs/left").status("learner")
        wait_until(report.exists, 120, "the learner's report")
        programs = programs_below(int(printed_by(client.nb.cells[0])))
        assert len(programs) > 5
        nbclient.util.run_sync(client.km.restart_kernel)()
        _, alive = psutil.wait_procs(programs, timeout=120)
        assert alive == []
