"""Prints a script that completes commands and flags in bash or zsh.

Example: sac completion bash

`source <(sac completion bash)` in ~/.bashrc enables it in every shell.
"""

from tfagents_system.commands.table import COMMANDS, function_of
from tfagents_system.core.errors import ConfigError
from tfagents_system.core.programs.command_line import flags_of


def completion(shell: str = "bash", /) -> None:
    """Prints the script.

    Args:
      shell: bash or zsh.

    Raises:
      ConfigError: For another shell.
    """
    if shell not in ("bash", "zsh"):
        raise ConfigError(f"There is no completion for {shell!r}; expected bash or zsh.")
    cases = "".join(
        f"    {name}) words='{' '.join(flags_of(function_of(name)))}' ;;\n" for name in COMMANDS
    )
    print(
        ("autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else "") + "_sac() {\n"
        "  local words=\n"
        '  case "${COMP_WORDS[1]}" in\n' + cases + "  esac\n"
        f"  ((COMP_CWORD > 1)) || words='{' '.join(COMMANDS)}'\n"
        '  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))\n'
        "}\n"
        "complete -o bashdefault -o default -F _sac sac"
    )
