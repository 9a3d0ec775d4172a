"""`tfagents_system.train`: arguments that it refuses, and the command that it starts."""

import pathlib

import numpy as np
import pytest

import tfagents_system as sac
from tfagents_system.interactive import _assignments


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "arguments, text",
    [
        # An environment would have got the text "array([1., 2.])".
        ({"env_kwargs": {"goal": np.array([1.0, 2.0])}},
         r"env_kwargs goal is array\(\[1., 2.\]\), of the type ndarray; expected None, numbers"),
        ({"env_kwargs": {"task": pathlib.Path("reach.xml")}}, "env_kwargs task is PosixPath"),
        ({"env_kwargs": {"gain": float("nan")}}, "env_kwargs gain is nan"),
        ({"preprocessing_combiner": print}, "hyperparameter preprocessing_combiner is <built-in"),
        ({"wrap": "gymnasium.wrappers.FlattenObservation"}, "wrap is '.*'; expected a list"),
        ({"env": object()}, "env is <object .*; expected an id, such as 'Pendulum-v1'"),
    ],
)  # fmt: skip
def test_an_argument_that_has_no_text_is_refused(arguments, text, folder):
    with pytest.raises(sac.ConfigError, match=text):
        sac.train(**({"env": "Pendulum-v1"} | arguments))
    assert list(folder.iterdir()) == []


def test_each_literal_is_read_back_as_it_was():
    values = {"a": float("inf"), "b": "x y=1", "c": (1,), "d": {"k": [None, True]}, "e": set()}
    numpys = {"f": np.int64(3), "g": np.float32(0.5)}
    assert _assignments("env_kwargs", values | numpys) == [
        "a=1e309", "b='x y=1'", "c=(1,)", "d={'k': [None, True]}", "e=set()", "f=3", "g=0.5"
    ]  # fmt: skip


def test_another_package_of_our_name_in_the_folder_is_not_started(folder):
    (folder / "tfagents_system").mkdir()
    (folder / "tfagents_system" / "__init__.py").write_text("raise SystemExit('another one')")
    with pytest.raises(sac.ConfigError, match="There is no environment 'Pendulm-v1' in .* Did you"):
        sac.train("Pendulm-v1").wait()
