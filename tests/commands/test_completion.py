"""The completion that `sac completion` prints, in a real bash."""

import subprocess

import pytest

from tfagents_system.commands.completion import completion
from tfagents_system.commands.table import COMMANDS
from tfagents_system.core.errors import ConfigError


def completed(script: str, *words: str) -> list[str]:
    """Returns what bash offers for the last of `words`."""
    quoted = " ".join(f"'{word}'" for word in words)
    done = subprocess.run(
        ["bash", "-c", f"{script}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}\n"
         "_sac; printf '%s\\n' \"${COMPREPLY[@]}\""],
        capture_output=True, text=True, timeout=30, check=True,
    )  # fmt: skip
    return done.stdout.split()


def test_commands_and_flags_are_completed(capsys):
    completion("bash")
    script = capsys.readouterr().out
    assert completed(script, "sac", "") == list(COMMANDS)
    assert completed(script, "sac", "tr") == ["train"]
    assert completed(script, "sac", "train", "--f") == ["--force_new"]
    assert completed(script, "sac", "train", "--env=Pendulum-v1", "--ext") == ["--extend"]
    assert completed(script, "sac", "no-command", "--") == []
    assert completed(script, "sac", "train", "my_var") == []  # bash offers files then


def test_another_shell_is_refused():
    with pytest.raises(ConfigError, match="no completion for 'fish'; expected bash or zsh"):
        completion("fish")
