"""setup.sh reports what pip downloads and unpacks, and that it is still at work."""

import re

PIP_SAYS = """\
Collecting tensorflow==2.15.1 (from -r locks/base.lock (line 77))
  Downloading tensorflow-2.15.1-cp311-cp311-manylinux_2_17_x86_64.whl.metadata (4.2 kB)
Collecting six==1.17.0 (from -r locks/base.lock (line 72))
  Downloading six-1.17.0-py2.py3-none-any.whl (11 kB)
  Downloading https://index.example/tensorflow-2.15.1-cp311-cp311-manylinux_2_17.whl (475.2 MB)
Using cached libclang-18.1.1-py2.py3-none-manylinux2010_x86_64.whl (24.5 MB)
Installing collected packages: libclang, six, tensorflow
"""


def test_large_downloads_and_the_number_of_packages_are_reported(ready, tmp_path):
    (tmp_path / "said").write_text(PIP_SAYS)
    status, stdout, stderr = ready.run(STUB_PIP_SAYS=str(tmp_path / "said"))
    assert (status, stdout) == (0, f"{ready.venv_bin}\n")
    lines = stderr.splitlines()
    start = lines.index("setup: installing the packages of base.lock into .venv")
    assert "GB" in lines[start - 1]
    assert lines[start + 1 : start + 4] == [
        "setup: Downloading tensorflow (475.2 MB)",
        "setup: Using cached libclang (24.5 MB)",
        "setup: unpacking 3 packages",
    ]
    assert lines[-1].startswith("setup: ready after ")


def test_a_silent_pip_is_reported_with_what_it_does_and_the_time(ready, tmp_path):
    script = ready.project / "setup.sh"
    text = script.read_text()
    assert text.count("period=10 ") == 1
    script.write_text(text.replace("period=10 ", "period=1 "))
    (tmp_path / "said").write_text(PIP_SAYS)
    # It says all of that at its end; before that, it is silent for longer than a period.
    stderr = ready.run(STUB_PIP_SAYS=str(tmp_path / "said"), STUB_PIP_SECS="2.5")[2]
    assert re.search(r"^setup: looking for the packages, \d+ s so far$", stderr, re.MULTILINE)
