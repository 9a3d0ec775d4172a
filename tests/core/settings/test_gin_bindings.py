import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.gin_bindings import (
    last_of_each_name,
    parse_assignment,
    parse_binding,
)
from tfagents_system.core.settings.variables import join_bindings, split_bindings


@pytest.mark.parametrize(
    "binding",
    [
        "A.b = 3",
        "pkg.module.A.b = (1, [2.5, 'x'], {'y': None})",
        "scope/A.b = @other/NoSuchThing()",
        "A.b = %no_such_macro",
        "macro = -1e-3  # used below",
    ],
)
def test_bindings_pass_whatever_they_name(binding):
    assert parse_binding(binding, "SAC_GIN_BINDINGS").text == binding


@pytest.mark.parametrize(
    "binding",
    ["", "A.b", "A.b =", "A.b = 3 4", "A.b = 3\nA.c = 4", "A.b:\n  c = 3", "import os", "= 3",
     "A b = 3", "A.b = 2 * 3", "A.b = [1", "A.b = \"x", "A.b = {[]: 1}", "\0", "A.b = \udcff"],
)  # fmt: skip
def test_anything_else_is_an_error_that_says_where(binding):
    with pytest.raises(ConfigError) as error:
        parse_binding(binding, "SAC_GIN_BINDINGS")
    assert str(error.value).startswith(f"SAC_GIN_BINDINGS: {binding!r} is not a gin binding")


@pytest.mark.parametrize(
    ("binding", "expected"),
    [
        ("TrainParams.num_iter = 5", ("num_iter", True, 5, False)),
        ("sac.TrainParams.num_iter = (5, 'x')", ("num_iter", True, (5, "x"), False)),
        ("TrainParams.combiner = @Sum()", ("combiner", True, "@Sum()", True)),
        ("TrainParams.combiner = [1, %sum]", ("combiner", True, [1, "%sum"], True)),
        ("A.b = 5", ("A.b", False, 5, False)),
        ("scope/TrainParams.num_iter = 5", ("scope/TrainParams.num_iter", False, 5, False)),
        ("macro = 5", ("macro", False, 5, False)),
    ],
)
def test_a_binding_has_a_name_and_a_value(binding, expected):
    parsed = parse_binding(binding, "SAC_GIN_BINDINGS")
    assert (parsed.name, parsed.is_hyperparameter, parsed.value, parsed.is_reference) == expected


def test_of_each_name_the_last_binding_holds():
    texts = ["TrainParams.num_iter = 1", "A.b = 2", "sac.TrainParams.num_iter = 3", "A.c = 4"]
    assert last_of_each_name(texts, "here") == ["A.b = 2", *texts[2:]]


@pytest.mark.parametrize(
    ("assignment", "binding", "value"),
    [
        ("num_iter=5", "TrainParams.num_iter = 5", 5),
        ("layers=64,32", "TrainParams.layers = (64,32)", (64, 32)),
        ("TrainParams.layers = (64, 32)", "TrainParams.layers = (64, 32)", (64, 32)),
        ("algorithm=td3", "TrainParams.algorithm = 'td3'", "td3"),
        ("path=a;b = 'c'", "TrainParams.path = \"a;b = 'c'\"", "a;b = 'c'"),
        ("layers=(64,\n  64)", "TrainParams.layers = (64, 64)", (64, 64)),  # as lines separate
        ("path=a\nb", "TrainParams.path = 'a\\nb'", "a\nb"),
        ("num_iter=+5", "TrainParams.num_iter = '+5'", "+5"),  # gin has no such number
        ("combiner=@Sum()", "TrainParams.combiner = @Sum()", "@Sum()"),
    ],
)
def test_an_assignment_is_the_binding_of_a_literal_or_a_text(assignment, binding, value):
    parsed = parse_assignment(assignment, "--set")
    assert (parsed.text, parsed.value) == (binding, value)
    assert split_bindings(join_bindings(["A.b = 1", parsed.text])) == ("A.b = 1", binding)


@pytest.mark.parametrize("assignment", ["num_iter", "num_iter=", "=5", "A.b=5", "a b=5", ""])
def test_what_is_no_assignment_is_refused(assignment):
    message = "^--set is .*; expected NAME=VALUE, without spaces around =.$"
    with pytest.raises(ConfigError, match=message):
        parse_assignment(assignment, "--set")
