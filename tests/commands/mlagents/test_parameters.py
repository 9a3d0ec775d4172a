"""Lessons and samplers of every layout of ML-Agents, and the curriculum that they become."""

import json

import pytest
import yaml

from tfagents_system.commands.mlagents.document import read_document
from tfagents_system.commands.mlagents.parameters import constants_of, curriculum_of
from tfagents_system.core.errors import ConfigError


def curriculum_from(tmp_path, beside="", curriculum=None, sampler=None):
    """Returns the curriculum of behavior Wall, and the notes."""
    path, notes = tmp_path / "trainer.yaml", []
    path.write_text(f"behaviors: {{Wall: {{trainer_type: sac}}}}\n{beside}")
    return curriculum_of(read_document(path), "Wall", curriculum, sampler, notes), notes


def until(threshold, measure="reward", length=0, is_smoothed=True):
    return {"measure": measure, "threshold": threshold, "min_lesson_length": length,
            "signal_smoothing": is_smoothed}  # fmt: skip


NEWEST = """
environment_parameters:
  gravity: 9.81
  mass:
    sampler_type: uniform
    sampler_parameters: {min_value: 0.5, max_value: 10, seed: 3}
  scale: {sampler_type: gaussian, sampler_parameters: {mean: 2, st_dev: 0.3}}
  friction: {sampler_type: multirangeuniform, sampler_parameters: {intervals: [[0, 1], [3, 4]]}}
  length: {sampler_type: gaussian}
  fixed: {sampler_type: constant, sampler_parameters: {value: 3}}
  height:
    curriculum:
      - name: Low
        completion_criteria:
          measure: progress
          behavior: Wall
          signal_smoothing: false
          min_lesson_length: 100
          threshold: 0.1
        value: {sampler_type: uniform, sampler_parameters: {min_value: 0.0, max_value: 4.0}}
      - completion_criteria: {measure: reward, behavior: Big, threshold: 2, require_reset: true}
        value: 6
      - {name: High, value: 8.0, completion_criteria: {threshold: 1}}
"""


def test_environment_parameters_of_the_newest_layout(tmp_path):
    curriculum, notes = curriculum_from(tmp_path, NEWEST)
    assert curriculum == {
        "gravity": {"sampler": "constant", "value": 9.81},
        "mass": {"sampler": "uniform", "low": 0.5, "high": 10.0},
        "scale": {"sampler": "gaussian", "mean": 2.0, "std": 0.3},
        "friction": {"sampler": "multi_range", "intervals": [[0.0, 1.0], [3.0, 4.0]]},
        "length": {"sampler": "gaussian", "mean": 1.0, "std": 1.0},
        "fixed": {"sampler": "constant", "value": 3.0},
        "height": {"lessons": [
            {"name": "Low", "value": {"sampler": "uniform", "low": 0.0, "high": 4.0},
             "until": until(0.1, "progress", 100, False)},
            {"value": 6.0, "until": until(2.0)},
            {"name": "High", "value": 8.0},
        ]},
    }  # fmt: skip
    assert notes == [
        "mass: the seed 3 of its sampler; here it comes from SAC_SEED",
        "height: a lesson ended by Big; here it ends by Wall",
        "height: require_reset; a lesson begins with each worker's next episode",
        "height: the completion_criteria of its last lesson have no effect",
    ]


def test_constants_are_numbers_and_their_samplers(tmp_path):
    curriculum, _ = curriculum_from(tmp_path, NEWEST)
    assert constants_of(curriculum) == {"gravity": 9.81, "fixed": 3.0}


COURSE = {
    "measure": "reward", "thresholds": [0.1, 0.3], "min_lesson_length": 50,
    "signal_smoothing": False, "parameters": {"low": [0, 4, 8], "high": [4.0, 7.0, 8.0]},
}  # fmt: skip
LESSONS = {
    name: {"lessons": [
        {"value": values[0], "until": until(0.1, "reward", 50, False)},
        {"value": values[1], "until": until(0.3, "reward", 50, False)},
        {"value": values[2]},
    ]} for name, values in {"low": [0.0, 4.0, 8.0], "high": [4.0, 7.0, 8.0]}.items()
}  # fmt: skip


@pytest.mark.parametrize("layout", ["json", "folder", "yaml", "beside"])
def test_curricula_of_the_layouts_before(tmp_path, layout):
    if layout == "beside":
        text = yaml.safe_dump({"curriculum": {"Wall": COURSE, "Big": COURSE}})
        curriculum, notes = curriculum_from(tmp_path, text)
    else:
        folder = tmp_path / "curricula"
        folder.mkdir()
        if layout == "yaml":
            path = folder / "wall.yaml"
            path.write_text(yaml.safe_dump({"Wall": COURSE, "Big": COURSE}))
        else:
            path = folder / "Wall.json"
            path.write_text(json.dumps(COURSE))
        curriculum, notes = curriculum_from(
            tmp_path, curriculum=folder if layout == "folder" else path
        )
    assert curriculum == LESSONS
    shared = layout in ("yaml", "beside")
    assert notes == (["curriculum of Big: of another behavior; left out"] if shared else [])


SAMPLERS = """
resampling-interval: 5000
mass: {sampler-type: uniform, min_value: 0.5, max_value: 10}
gravity: {sampler-type: multirange_uniform, intervals: [[7, 10], [15, 20]]}
scale: {sampler-type: gaussian, mean: 2, st_dev: .3}
"""


@pytest.mark.parametrize("is_beside", [False, True])
def test_samplers_of_the_layouts_before(tmp_path, is_beside):
    if is_beside:
        beside = yaml.safe_dump({"parameter_randomization": yaml.safe_load(SAMPLERS)})
        curriculum, notes = curriculum_from(tmp_path, beside)
    else:
        (tmp_path / "samplers.yaml").write_text(SAMPLERS)
        curriculum, notes = curriculum_from(tmp_path, sampler=tmp_path / "samplers.yaml")
    assert curriculum == {
        "mass": {"sampler": "uniform", "low": 0.5, "high": 10.0},
        "gravity": {"sampler": "multi_range", "intervals": [[7.0, 10.0], [15.0, 20.0]]},
        "scale": {"sampler": "gaussian", "mean": 2.0, "std": 0.3},
    }
    assert notes == [
        "resampling-interval 5000: values are drawn for each episode of each worker"]  # fmt: skip


def test_a_curriculum_is_stronger_than_a_sampler(tmp_path):
    (tmp_path / "samplers.yaml").write_text("low: {sampler-type: uniform}")
    (tmp_path / "Wall.json").write_text(json.dumps(COURSE))
    curriculum, _ = curriculum_from(
        tmp_path, curriculum=tmp_path / "Wall.json", sampler=tmp_path / "samplers.yaml"
    )
    assert curriculum == LESSONS


def parameters(**entries):
    return yaml.safe_dump({"environment_parameters": entries})


LAST = {"value": 1}


@pytest.mark.parametrize(
    ("beside", "expected"),
    [
        (parameters(a="fast"), "environment_parameters.a is 'fast'; expected a number."),
        (
            parameters(a={"sampler_type": "beta"}),
            "environment_parameters.a.sampler_type is 'beta'.",
        ),
        (
            parameters(a={"sampler_type": "uniform", "sampler_parameters": {"min": 3}}),
            "environment_parameters.a has the unknown key 'min'.",
        ),
        (
            parameters(a={"sampler_type": "uniform", "sampler_parameters": {"min_value": 3}}),
            "environment_parameters.a, here: curriculum.a has low 3.0 above high 1.0",
        ),
        (
            parameters(a={"curriculum": [{"value": 1}, LAST]}),
            "environment_parameters.a.curriculum.0 lacks the key 'completion_criteria'; only the",
        ),
        (
            parameters(a={"curriculum": [{"value": 1, "completion_criteria": {}}, LAST]}),
            "environment_parameters.a.curriculum.0.completion_criteria lacks the key 'threshold'.",
        ),
        (
            parameters(a={"curriculum": [{"vaule": 1}]}),
            "environment_parameters.a.curriculum.0 has the unknown key 'vaule'. Did you mean value",
        ),
        (
            parameters(a={"curriculum": [LAST | {"completion_criteria": {"threshold": 1}}, None]}),
            "environment_parameters.a.curriculum.1 lacks the key 'value'.",
        ),
        (parameters(a={3: 4}), "environment_parameters.a is {3: 4}; expected keys with values."),
        (
            parameters(a={"curriculum": [LAST], 3: 4}),
            "environment_parameters.a is {'curriculum': [{'value': 1}], 3: 4}; expected keys",
        ),
        (
            parameters(a={"curriculum": [{"value": {3: 4}}]}),
            "environment_parameters.a.curriculum.0.value is {3: 4}; expected keys with values.",
        ),
        (
            parameters(a={"sampler_type": "uniform", "sampler_parameters": {3: 4}}),
            "environment_parameters.a.sampler_parameters is {3: 4}; expected keys with values.",
        ),
        (parameters(a={"curriculum": []}), "environment_parameters.a.curriculum is []; expected"),
        (
            yaml.safe_dump({"curriculum": {"Wall": COURSE | {"thresholds": [1]}}}),
            "curriculum.Wall.parameters.high is [4.0, 7.0, 8.0]; expected a list of 2 numbers",
        ),
        (
            yaml.safe_dump({"curriculum": {"Wall": {"measure": "reward"}}}),
            "curriculum.Wall lacks the key 'thresholds'.",
        ),
    ],
)
def test_what_has_no_place_is_refused_by_name(tmp_path, beside, expected):
    with pytest.raises(ConfigError) as error:
        curriculum_from(tmp_path, beside)
    assert str(error.value).startswith(f"{tmp_path / 'trainer.yaml'}: {expected}")


def test_a_folder_without_the_behaviors_curriculum_is_named(tmp_path):
    with pytest.raises(ConfigError, match="has no curriculum of Wall, such as Wall.json"):
        curriculum_from(tmp_path, curriculum=tmp_path)
