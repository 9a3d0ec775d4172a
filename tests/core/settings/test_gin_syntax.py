import pytest

from tfagents_system.core.errors import ConfigError
from tfagents_system.core.settings.gin_syntax import check_gin_syntax


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
    check_gin_syntax(binding, "SAC_GIN_BINDINGS")


@pytest.mark.parametrize(
    "binding",
    ["", "A.b", "A.b =", "A.b = 3 4", "A.b = 3\nA.c = 4", "A.b:\n  c = 3", "import os", "= 3",
     "A b = 3", "A.b = 2 * 3", "A.b = [1", "A.b = \"x", "A.b = {[]: 1}", "\0", "A.b = \udcff"],
)  # fmt: skip
def test_anything_else_is_an_error_that_says_where(binding):
    with pytest.raises(ConfigError) as error:
        check_gin_syntax(binding, "SAC_GIN_BINDINGS")
    assert str(error.value).startswith(f"SAC_GIN_BINDINGS: {binding!r} is not a gin binding")
