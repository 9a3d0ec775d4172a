import re

import hypothesis
import pytest
from hypothesis import strategies as st

from tfagents_system.core.errors import ConfigError
from tfagents_system.launch.checks.params_check import (
    PUBLISHED,
    check_gin_bindings,
    check_params_file,
    notes_on_config,
)

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
        (f"{CLASS}return\n", "my_params.py:4: not valid Python: 'return' outside function"),
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
            "my_params.py:4: train_batch_size is 0; expected an integer >= 1 and",
        ),
        (
            f"{CLASS}    def __init__(self, c):\n        self.recurrent = 'yes'\n",
            "my_params.py:5: recurrent is 'yes'; expected True or False.",
        ),
        (
            f"{CLASS}    callbacks = []\n",
            "my_params.py:4: TrainParams.callbacks is []; expected a method, def callbacks(self, "
            "...).",
        ),
        (f"import no_such_robot.arm\n{CLASS}", "my_params.py:1: imports no_such_robot, which is"),
        (f"from . import arm\n{CLASS}", "my_params.py:1: from . import arm: a params file is not"),
    ],
)
def test_mistakes_name_file_line_and_remedy(tmp_path, text, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        check(tmp_path, text)


def test_keys_of_the_config_that_look_like_settings_are_noted(tmp_path):
    params = tmp_path / "my_params.py"
    params.write_text(f"{CLASS}    def __init__(self, c): self.frame_stack = c['frame_stack']\n")
    config = {
        "horizon": 200, "curriculum": {}, "link_lengths": [0.3], "frame_stack": 4,
        "curriculm": {}, "train_batch_size": 512, "max_episode_steps": 100, "Gamma": 0.9,
        "num_workers": 4,
    }  # fmt: skip
    notes = notes_on_config(config, "my.json", params)
    own = "counts as your own, and sets nothing else. If it is to be a setting: here it is"
    assert notes == [
        "my.json: the key curriculm counts as your own. Did you mean curriculum?",
        f"my.json: the key train_batch_size {own} train_batch_size, in the params file or by "
        "--set.",
        f"my.json: the key max_episode_steps {own} horizon in the experiment's JSON config, the "
        "file that SAC_CONFIG names.",
        f"my.json: the key Gamma {own} discount.",
        f"my.json: the key num_workers {own} the variable SAC_NUM_COLLECT_WORKERS.",
    ]


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
        ("TrainParams.num_itr = 3", "num_itr is not a training parameter. Did you mean num_iter?"),
        ("TrainParams.gamma = 3", "gamma is not a training parameter. Here it is discount."),
        ("TrainParams.num_iter = 0", "num_iter is 0; expected an integer >= 1"),
        ("TrainParams.num_iter = 5x", "'TrainParams.num_iter = 5x' is not a gin binding: Expected"),
        ("num_iter 5", "'num_iter 5' is not a gin binding: "),
        (
            "num_iter = 5",
            "'num_iter = 5' defines a macro of gin, which no binding uses; write "
            "TrainParams.num_iter = 5.",
        ),
        (
            "arm/TrainParams.num_iter = 5",
            "has the scope 'arm', in which nothing makes TrainParams; write "
            "TrainParams.num_iter = 5.",
        ),
        (
            "TrainParams.algorithm = td3",
            "'TrainParams.algorithm = td3' is not a gin binding: the value is not a "
            "Python literal; texts are in quotes, as 'td3' is",
        ),
        ("TrainParams.num_iter = +5", "'TrainParams.num_iter = +5' is not a gin binding: Unable"),
        ("Other.x = [", "'Other.x = [' is not a gin binding: "),
        ("Other.x = 'a", "\"Other.x = 'a\" is not a gin binding: "),
        ("import os  # = 3", "'import os  # = 3' is not a gin binding; write TrainParams."),
        ("include 'a=b'", "\"include 'a=b'\" is not a gin binding; write TrainParams."),
        ("# a = 3", "'# a = 3' is not a gin binding; write TrainParams."),
        ("TrainParams.num_iter = " + "(" * 9_999, "is not a gin binding: "),
        ("Other.x = " + "[" * 9_999, "is not a gin binding: "),
        ("TrainParams.num_iter = 1\0", "is not a gin binding: "),
        ("TrainParams.sac_log_alpha = " + "9" * 400 + "+1j", "is not a gin binding: "),
        ("TrainParams.num_iter = 0x" + "f" * 9_999, "num_iter is an integer of thousands of dig"),
    ],
)  # fmt: skip
def test_gin_bindings_mistakes_name_where_and_remedy(binding, message):
    with pytest.raises(ConfigError, match=re.escape(message)) as raised:
        check_gin_bindings([binding], "SAC_GIN_BINDINGS")
    assert str(raised.value).startswith("SAC_GIN_BINDINGS: ")


def test_a_macro_may_have_the_name_of_a_hyperparameter_that_is_bound_to_it():
    bindings = ["num_iter = 5", "TrainParams.num_iter = %num_iter", "other = 3"]
    assert check_gin_bindings(bindings, "SAC_GIN_BINDINGS") == {}  # only running tells its value


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("params") / "my_params.py"


def assert_is_answered(file, content: bytes) -> None:
    """The content passes, or the message begins with the file's name."""
    file.write_bytes(content)
    try:
        check_params_file(file, [file.parent])
    except ConfigError as error:
        assert str(error).startswith(f"{file}:")


@pytest.mark.parametrize(
    "content",
    [
        b"\0",
        b"x = 1\0\n",
        b"\xff\xfe\0x\0",
        b"# -*- coding: klingon -*-\n",
        b"# -*- coding: utf-8 -*-\nx = '\xff'\n",
        b"# -*- coding: utf-16 -*-\nx = 1\n",
        b"# -*- coding: rot13 -*-\nk = 1\n",
        b"\xef\xbb\xbf# -*- coding: latin-1 -*-\n",
        b"if x:\nprint(1)\n",
        b"x = " + b"9" * 5000,
    ],
)
def test_bytes_that_are_no_python_are_an_error_that_names_the_file(file, content):
    file.write_bytes(content)
    with pytest.raises(ConfigError) as error:
        check_params_file(file, [])
    assert str(error.value).startswith(f"{file}:")


def test_byte_order_marks_and_encodings_that_python_knows_pass(file):
    file.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    check_params_file(file, [])
    file.write_bytes(b"# -*- coding: latin-1 -*-\n" + f"{CLASS}    name = 'é'\n".encode("latin-1"))
    check_params_file(file, [])


@pytest.mark.parametrize(
    ("before", "core", "after"),
    [
        ("(", "1", ")"), ("[", "", "]"), ("{0: ", "1", "}"), ("-", "1", ""), ("not ", "x", ""),
        ("", "x", ".y"), ("", "1", "+1"), ("", "x", "()"), ("lambda: ", "1", ""), ("f(", "x", ")"),
    ],
)  # fmt: skip
def test_nesting_of_any_depth_is_answered(file, before, core, after):
    for depth in (40, 90, 900, 9_999):
        nested = before * depth + core + after * depth
        for text in (
            f"x = {nested}\n",
            f"{CLASS}    discount = {nested}\n",
            f"class TrainParams({nested}): pass\n",
            f"class TrainParams(Base[{nested}]):\n    def __init__(s):\n        {nested}\n",
        ):
            assert_is_answered(file, text.encode())


NAMES = st.sampled_from([*PUBLISHED, "discout", "env_ctor", "self.num_iter", "mine", "é", "_"])
EXPRESSIONS = st.recursive(
    st.sampled_from([
        "1", "-1", "0.5", "1e400", "10**400", "9" * 400, "0x" + "f" * 4000, "None", "True", "'x'",
        "b'x'", "f'{x}'", "x", "...", "1j", "9" * 400 + "+1j", "self.x", "[]", "{}", "lambda: 0",
        "np.log(2)", "(yield)", "x := 1", "*x", "{*x}", "{**x}",
    ]),
    lambda inner: st.one_of(
        inner.map("({})".format), inner.map("[{}]".format), inner.map("{{{}}}".format),
        inner.map("-({})".format), inner.map("f({})".format), inner.map("({},)".format),
        st.tuples(inner, inner).map(lambda pair: "{{{}: {}}}".format(*pair)),
        st.tuples(inner, inner).map(lambda pair: "({}) + ({})".format(*pair)),
        st.tuples(inner, inner).map(lambda pair: "({})[{}]".format(*pair)),
    ),
    max_leaves=6,
)  # fmt: skip
STATEMENTS = st.one_of(
    st.tuples(NAMES, EXPRESSIONS).map(lambda pair: "{} = {}".format(*pair)),
    st.tuples(NAMES, EXPRESSIONS).map(lambda pair: "{}: int = {}".format(*pair)),
    st.tuples(NAMES, EXPRESSIONS).map(lambda pair: "a, {} = {}".format(*pair)),
    NAMES.map("def {}(self): self.num_iter = 0".format),
    NAMES.map("class {}: num_iter = 0".format),
    st.sampled_from([
        "pass", "import os", "import __main__", "import no_such.thing", "from .. import a",
        "from . import *", "from os import *", "from __future__ import braces", "del x", "return",
        "async def env_ctor(self): pass", "import tests", "import é",
    ]),
)  # fmt: skip
BASES = st.lists(
    st.sampled_from(["TrainParamsBase", "TrainParams", "abc.ABC", "x.y.Base"]) | EXPRESSIONS,
    max_size=2,
)


@pytest.mark.fault_row("malformed input")
@hypothesis.given(st.lists(STATEMENTS, max_size=3), BASES, st.lists(STATEMENTS, max_size=4))
@hypothesis.settings(max_examples=200)
def test_any_python_is_answered(file, before, bases, body):
    lines = [*before, f"class TrainParams({', '.join(bases)}):", "    pass"]
    assert_is_answered(file, "\n".join([*lines, *(f"    {line}" for line in body)]).encode())


@pytest.mark.fault_row("malformed input")
@hypothesis.given(st.binary() | st.text().map(lambda text: text.encode(errors="surrogatepass")))
@hypothesis.settings(max_examples=200)
def test_any_bytes_are_answered(file, content):
    assert_is_answered(file, content)


BINDINGS = st.one_of(
    st.text(),
    st.text().map("TrainParams.num_iter = {}".format),
    st.tuples(NAMES, EXPRESSIONS).map(lambda pair: "TrainParams.{} = {}".format(*pair)),
    st.tuples(NAMES, EXPRESSIONS).map(lambda pair: "a/b.{} = {}".format(*pair)),
    st.tuples(NAMES, st.sampled_from(["@f()", "@", "%m", "%", "@f(", "%m + 1", "\udcff"])).map(
        lambda pair: "TrainParams.{} = {}".format(*pair)
    ),
)


@pytest.mark.fault_row("malformed input")
@hypothesis.given(BINDINGS)
@hypothesis.settings(max_examples=200)
def test_any_gin_binding_is_read_or_an_error_that_says_where(binding):
    try:
        values = check_gin_bindings([binding], "SAC_GIN_BINDINGS")
    except ConfigError as error:
        assert str(error).startswith("SAC_GIN_BINDINGS: ")
    else:
        assert values.keys() <= PUBLISHED.keys()
