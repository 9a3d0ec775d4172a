"""Shows a progress bar during steps that take longer than a moment."""

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


@contextlib.contextmanager
def progress_bar(*steps: str) -> Iterator[Callable[[str], None]]:
    """Shows the current one of `steps`, beginning with the first.

    The bar is on standard error, if that is a terminal, and disappears at the end; nothing else may
    be printed meanwhile. Yields a function that begins the step with a given name.
    """
    console = Console(stderr=True)
    step = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), BarColumn(), step, TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal,
        redirect_stdout=False, redirect_stderr=False,
    ) as progress:  # fmt: skip
        is_one = len(steps) == 1
        task = progress.add_task(steps[0], total=None if is_one else len(steps))

        def begin(step: str) -> None:
            progress.update(task, description=step, completed=steps.index(step))

        yield begin
