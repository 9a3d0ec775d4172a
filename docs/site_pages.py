"""Generates the pages of the site that are not files in docs/, such as reference/*.md.

mkdocs.yml names this module as a hook of mkdocs, which calls the functions `on_*`.
"""

import ast
import contextlib
import html
import io
import os
import pathlib
from collections.abc import Sequence

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from tfagents_system import __main__ as front_door
from tfagents_system.agents.agent_settings import AgentSettings
from tfagents_system.core.programs.command_line import with_arguments
from tfagents_system.core.settings.attribute_names import HOOKS
from tfagents_system.core.settings.hyperparameters import hyperparameters
from tfagents_system.core.settings.training_settings import TrainingSettings
from tfagents_system.core.settings.variables import VARIABLES

PROJECT = pathlib.Path(__file__).parents[1]
AT_THE_TOP = {
    "README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"
}  # fmt: skip


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages."""
    pages = {
        **{page: top_page(name) for name, page in AT_THE_TOP.items()},
        "reference/hooks.md": hooks_page(),
        "reference/hyperparameters.md": hyperparameters_page(),
        "reference/variables.md": variables_page(),
        "reference/commands.md": commands_page(),
    }
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_) -> str:
    """Returns a page whose links to the README lead to the site's index."""
    return markdown.replace("](../README.md", "](index.md")


def top_page(name: str) -> str:
    """Returns a page from outside docs/, with the links of the site."""
    text = (PROJECT / name).read_text().replace("](docs/", "](")
    for other, page in AT_THE_TOP.items():
        text = text.replace(f"]({other}", f"]({page}")
    return text


def hooks_page() -> str:
    """Returns signature and docstring of each hook, read from source without TensorFlow."""
    source = (PROJECT / "tfagents_system/train_params_base.py").read_text()
    (base,) = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    methods = {node.name: node for node in base.body if isinstance(node, ast.FunctionDef)}
    link = "[Environments](../environments.md#hooks-of-trainparams) shows their use."
    parts = ["# Hooks of `TrainParams`", ast.get_docstring(base) or "", link]
    for name in HOOKS:
        method = methods[name]
        signature = f"def {name}({ast.unparse(method.args)}) -> {ast.unparse(method.returns)}"
        doc = ast.get_docstring(method) or ""
        parts += [f"## {name}", f"```python\n{signature}\n```", doc]
    return "\n\n".join(parts)


def hyperparameters_page() -> str:
    """Returns a table of the system's hyperparameters, and one of the built-in agents'."""
    parts = ["# Hyperparameters", "[Settings](../settings.md) says where they are set."]
    for title, settings in (("System", TrainingSettings), ("Built-in agents", AgentSettings)):
        rows = [
            (f"`{name}`", f"`{h.default!r}`", html.escape(h.allowed), html.escape(h.meaning))
            for name, h in hyperparameters(settings).items()
        ]
        parts += [f"## {title}", _table(("name", "default", "allowed", "meaning"), rows)]
    return "\n\n".join(parts)


def variables_page() -> str:
    """Returns a table of the variables of a run."""
    rows = [(f"`{name}`", html.escape(meaning)) for name, meaning in VARIABLES.items()]
    link = "[Settings](../settings.md#variables) has their defaults."
    return "\n\n".join(("# Variables", link, _table(("variable", "meaning"), rows)))


def commands_page() -> str:
    """Returns the output of `sac COMMAND --help` for each command."""
    os.environ["COLUMNS"] = "100"
    parts = ["# Commands", "`sac COMMAND [ARGUMENT...]`; `sac COMMAND --help` prints the same."]
    for name, (summary, _) in front_door.COMMANDS.items():
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
            with_arguments(front_door.function_of(name), [f"sac {name}", "--help"])
        parts += [f"## sac {name}", f"To {summary}.", f"```text\n{text.getvalue()}```"]
    return "\n\n".join(parts)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = (header, ["---"] * len(header), *rows)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
