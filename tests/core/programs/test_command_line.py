"""One way to define command lines, and every program and tool that uses it."""

import importlib
import importlib.util
import inspect
import pathlib
import re
import shlex
import signal
import subprocess
import sys
from typing import Annotated

import pytest

from tfagents_system.commands.table import COMMANDS, function_of
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.command_line import AtLeast, OneOf, run_tool, with_arguments

REPO = pathlib.Path(__file__).parents[3]
# Parts of each run that load little, and what they are given; a command's flags are its own.
SMALL = {
    "tfagents_system.launch.local.restart_budget": "SERVICE_DIR LOG COMMAND [ARGUMENT...]",
    "tfagents_system.launch.local.private_network": "COMMAND [ARGUMENT...]",
    "tfagents_system.launch.local.subreaper": "COMMAND [ARGUMENT...]",
    "tfagents_system.launch.local.guardian": "SERVICES",
}


def film(
    exp_dir: pathlib.Path,
    secs: float = 10.0,
    /,
    num_episodes: Annotated[int, AtLeast(1, 10**9)] = 5,
    quality: Annotated[str, OneOf(("low", "high"))] = "low",
    names: tuple[str, ...] = (),
    checkpoint: str | None = None,
    video: bool = True,
    *,
    stop: object = None,
):
    """Films episodes.

    Args:
      exp_dir: Folder of the experiment.
      secs: Length; 50 % of it
        is the start.
      num_episodes: Episodes to film.
      stop: Never on the command line.

    Raises:
      ConfigError: Never.
    """


def parse(*argv):
    call = with_arguments(film, ["film.py", *argv])
    return call.args, call.keywords


DEFAULTS = {"num_episodes": 5, "quality": "low", "names": (), "checkpoint": None, "video": True}


def test_places_flags_and_defaults():
    assert parse("logs/x") == ((pathlib.Path("logs/x"), 10.0), DEFAULTS)
    flags = ["--names=a", "--names", "b", "--quality=high", "--novideo", "--checkpoint=c"]
    assert parse("--num_episodes", "3", "logs/x", "-2.5", *flags) == (
        (pathlib.Path("logs/x"), -2.5),
        {"num_episodes": 3, "quality": "high", "names": ("a", "b"), "checkpoint": "c",
         "video": False},
    )  # fmt: skip


def test_a_flag_takes_several_values_and_hyphens():
    expected = DEFAULTS | {"names": ("a", "b", "c"), "num_episodes": 2}
    flags = ["--names", "a", "b", "--num-episodes=2", "--names=c"]
    assert parse("logs/x", *flags)[1] == expected


def test_the_first_required_flag_may_be_given_by_its_place(capsys):
    def draw(exp_dir: str, output: str, width: int = 3):
        """Draws."""

    call = with_arguments(draw, ["draw.py", "logs/x", "--output=x.png"])
    assert call.keywords == {"exp_dir": "logs/x", "output": "x.png", "width": 3}
    for other in (["--output", "x.png", "logs/x"], ["--exp_dir=logs/x", "--output=x.png"]):
        assert with_arguments(draw, ["draw.py", *other]).keywords == call.keywords
    with pytest.raises(ConfigError, match="the following arguments are required: EXP_DIR"):
        with_arguments(draw, ["draw.py", "--output=x.png"])
    with pytest.raises(ConfigError, match="unrecognized arguments: logs/y"):
        with_arguments(draw, ["draw.py", "--exp_dir=logs/x", "--output=x.png", "logs/y"])
    with pytest.raises(SystemExit):
        with_arguments(draw, ["draw.py", "--help"])
    assert capsys.readouterr().out.endswith("--exp_dir EXP_DIR is the same.\n")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--num_episode=3"], "--num_episode is not a flag. Did you mean --num_episodes?"),
        (["--stop=1"], "--stop is not a flag. Allowed: --checkpoint, --help, --names"),
        (["--num_episodes=0"], "--num_episodes is '0'; expected an integer >= 1 and"),
        (
            ["--num_episodes=many"],
            "--num_episodes is 'many'; expected an integer >= 1 and <= 1000000000.",
        ),
        (["--num_episodes=1000000001"], "--num_episodes is '1000000001'; expected an integer >="),
        (["--quality=best"], "--quality is 'best'; expected one of low, high."),
        (["soon"], "SECS is 'soon'; expected a number."),
        (["nan"], "SECS is 'nan'; expected a number."),
        (["1", "2"], "unrecognized arguments: 2. See --help."),
        (["--num_episodes"], "argument --num_episodes: expected one argument. See --help."),
    ],
)
def test_wrong_input_is_answered_with_what_is_allowed(argv, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse("logs/x", *argv)


def test_missing_argument_is_named():
    with pytest.raises(ConfigError, match="the following arguments are required: EXP_DIR"):
        parse()


def test_of_places_that_take_several_values_the_required_one_needs_one():
    def draw(names: tuple[str, ...], /):
        """Draws."""

    assert with_arguments(draw, ["draw.py", "a", "b"]).args == (("a", "b"),)
    with pytest.raises(ConfigError, match="the following arguments are required: NAMES"):
        with_arguments(draw, ["draw.py"])


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_without_arguments_lacks_none_or_says_which(command):
    try:
        call = with_arguments(function_of(command), [f"sac {command}"])
    except ConfigError as error:
        assert "the following arguments are required: " in str(error)
    else:
        assert inspect.Parameter.empty not in (*call.args, *call.keywords.values())


def test_unknown_flag_is_named_rather_than_the_missing_one():
    def draw(exp_dir: str):
        """Draws."""

    with pytest.raises(ConfigError, match="--exp_dri is not a flag. Did you mean --exp_dir?"):
        with_arguments(draw, ["draw.py", "--exp_dri=x"])


def test_help_says_what_each_parameter_is(capsys):
    with pytest.raises(SystemExit) as end:
        parse("--help")
    assert end.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("usage: film.py ")
    assert __doc__ in text
    for part in (
        "EXP_DIR Folder of the experiment. SECS Length; 50 % of it is the start. (default: 10.0)",
        "--num_episodes NUM_EPISODES Episodes to film. (default: 5)",
        "--novideo",
    ):
        assert part in text
    assert "Never" not in text


@pytest.mark.parametrize(("result", "code"), [(None, 0), (3, 3)])
def test_a_tool_exits_with_what_its_function_returns(result, code):
    with pytest.raises(SystemExit) as end:
        run_tool(lambda: result, ["tool.py"])
    assert end.value.code == code


def test_wrong_input_of_a_tool_is_one_line_and_exit_code_78(capsys):
    with pytest.raises(SystemExit) as end:
        run_tool(film, ["folder/film.py"])
    assert end.value.code == 78
    assert capsys.readouterr().err.startswith("film.py: the following arguments are required")


def read_missing():
    """Reads a file that is not there."""
    pathlib.Path("no/such.csv").read_text()


def fill_disk():
    """Writes to a full disk, of which the error names no file."""
    with open("/dev/full", "wb", buffering=0) as file:
        file.write(b"1")


@pytest.mark.parametrize(
    ("function", "text"),
    [(read_missing, "no/such.csv: No such file or directory."),
     (fill_disk, "No space left on device.")],
)  # fmt: skip
def test_a_file_that_cannot_be_read_or_written_is_one_line(capsys, function, text):
    with pytest.raises(SystemExit) as end:
        run_tool(function, ["folder/film.py"])
    assert (end.value.code, capsys.readouterr().err) == (78, f"film.py: {text}\n")


WAITING = """
import pathlib, sys, tempfile, time
from tfagents_system.core.programs.command_line import run_tool

def wait() -> None:
    with tempfile.TemporaryDirectory() as folder:
        print(folder, flush=True)
        time.sleep(60)

run_tool(wait, ["wait"])
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_tool_after_its_cleanup(number):
    with subprocess.Popen(
        [sys.executable, "-c", WAITING], cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    ) as tool:  # fmt: skip
        folder = pathlib.Path(tool.stdout.readline().strip())
        assert folder.is_dir()
        tool.send_signal(number)
        assert tool.wait(30) == 128 + number
        assert tool.stderr.read() == ""
    assert not folder.exists()


def programs():
    """Names of the modules that are run with a command line of their own."""
    pattern = r'^if __name__ == "__main__":\n    (?:run_tool|run_program|program\.run)\((\w+)'
    return {
        ".".join(path.relative_to(REPO).with_suffix("").parts): match[1]
        for folder in ("tfagents_system", "benchmarks")
        for path in sorted((REPO / folder).rglob("*.py"))
        if ".venv" not in str(path)
        and (match := re.search(pattern, path.read_text(), re.MULTILINE))
    }


def test_no_program_reads_its_command_line_in_another_way():
    sources = {
        ".".join(path.relative_to(REPO).with_suffix("").parts): path.read_text()
        for folder in ("tfagents_system", "benchmarks")
        for path in (REPO / folder).rglob("*.py")
        if ".venv" not in str(path)
    }
    assert {name for name, text in sources.items() if "absl" in text and "import flags" in text
            or "import argparse" in text
            } == {"tfagents_system.core.programs.command_line"}  # fmt: skip
    mains = {name for name, text in sources.items() if '__name__ == "__main__"' in text}
    assert mains - {*SMALL, "tfagents_system.__main__"} == programs().keys()


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_a_small_program_says_what_it_is_given(name, arguments):
    argv = [sys.executable, "-m", name, *arguments]
    result = subprocess.run(argv, cwd=REPO, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (78, "")
    assert result.stderr == f"Usage: python -m {name} {SMALL[name]}\n"


def example_of(module):
    example = re.search(r"^Example: (.*?)(?:   \(.*\))?$", module.__doc__, re.MULTILINE)
    return shlex.split(example[1])


def refusals(command_lines):
    """Returns {name: message} of those that are refused of {name: (function, words)}."""
    refused = {}
    for name, (function, words) in command_lines.items():
        try:
            with_arguments(function, words)
        except ConfigError as error:
            refused[name] = str(error)
    return refused


def test_examples_of_programs_are_command_lines_that_they_take():
    command_lines = {}
    for name, function in programs().items():
        if ".peers." in name:  # needs the peers' packages
            continue
        module = importlib.import_module(name)
        words = example_of(module)
        start = next(i for i, word in enumerate(words) if word.endswith((".py", ".sh", name)))
        command_lines[name] = getattr(module, function), words[start:]
    assert len(command_lines) > 20
    assert refusals(command_lines) == {}


def test_examples_of_commands_are_command_lines_that_they_take():
    command_lines = {}
    for command in COMMANDS:
        function = function_of(command)
        words = example_of(sys.modules[function.__module__])
        if words[0] == "sac":  # run.py has its published name there
            assert function_of(words[1]).__module__ == function.__module__
            command_lines[words[1]] = function_of(words[1]), words[1:]
    assert len(command_lines) > 10
    assert refusals(command_lines) == {}


def test_peers_run_where_our_packages_are_missing():
    """The peers have a virtual environment of their own, which has none of our packages."""
    code = "import sys; sys.path.append(sys.argv[1]); import benchmarks.program"
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-c", code, str(REPO)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
