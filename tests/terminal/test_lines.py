import io

from fakes import FakeClock

from tfagents_system.terminal.lines import Terminal


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_a_file_gets_the_lines_only():
    file = io.StringIO()
    terminal = Terminal(file)
    terminal.show(lambda: "step 1")
    terminal.print("done")
    assert file.getvalue() == "done\n"


def test_a_terminal_shows_the_state_at_most_once_a_period_and_lines_replace_it():
    screen, clock = Screen(), FakeClock()
    terminal = Terminal(screen, period_secs=0.5, clock=clock)
    for step in range(4):  # at 0, 0.25, 0.5 and 0.75 s
        terminal.show(lambda step=step: f"step {step}")
        clock.sleep(0.25)
    terminal.print("done")
    terminal.print("more")
    assert screen.getvalue() == "\r\033[Kstep 0\r\033[Kstep 2\r\033[Kdone\nmore\n"


def test_the_state_is_cut_at_the_terminal_s_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "6")
    screen = Screen()
    Terminal(screen).show(lambda: "step 1 of 9")
    assert screen.getvalue() == "\r\033[Kstep "
