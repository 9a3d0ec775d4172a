"""Which Python setup.sh takes, and where uv gets one."""

import pathlib
import shutil

from shell.setup.sandbox import MADE_BY_UV, OTHER_PYTHON, PYTHON


def test_only_a_wrong_python_names_it_and_what_to_install(sandbox):
    sandbox.stub("supervise", "exit 0")
    sandbox.stub("python3", "echo 3.13")
    status, stdout, stderr = sandbox.run()
    assert (status, stdout) == (78, "")
    assert "needs Python 3.10 or 3.11" in stderr
    assert "python3 is 3.13" in stderr
    assert "apt-get install python3.11" in stderr


def test_no_python_says_so(sandbox):
    status, _, stderr = sandbox.run()
    assert status == 78
    assert "there is no Python on PATH" in stderr


def test_uv_on_path_makes_venv_where_no_python_fits(newer):
    shutil.copy(newer.stubs / "uv", newer.bin)
    status, stdout, stderr = newer.run()
    assert (status, stdout) == (0, f"{newer.venv_bin}\n")
    assert newer.tape() == [MADE_BY_UV, *newer.installed("base")]
    assert "making .venv with uv" in stderr
    assert newer.run() == (0, stdout, "")


def test_uv_is_installed_into_the_folder_where_it_is_not_on_path(newer):
    assert newer.run()[:2] == (0, f"{newer.venv_bin}\n")
    pip, *others = newer.tape()
    assert pip.startswith("python3 -I -m pip install ") and " --target .venv/uv uv==" in pip
    assert others == [MADE_BY_UV, *newer.installed("base")]


def test_uv_is_installed_by_an_unpacked_pip_where_python_has_none(newer):
    newer.stub("apt-get", 'echo "apt-get $*" >>"$TAPE"; touch python3-pip-whl_25_all.deb')
    newer.stub(
        "dpkg",
        "mkdir -p usr/share/python-wheels; echo >usr/share/python-wheels/pip-25.whl",
    )
    newer.stub(
        "find", f'exec {shutil.which("find")} "${{@/#\\/usr\\/*/.venv}}"'
    )  # not the system's
    assert newer.run(STUB_NO_PIP="1")[:2] == (0, f"{newer.venv_bin}\n")
    unpacking, pip, *others = newer.tape()
    assert unpacking == "apt-get download -qq python3-pip-whl"
    wheel = ".venv/python3-pip-whl/usr/share/python-wheels/pip-25.whl"
    assert pip.startswith(f"python3 -I {wheel}/pip install ")
    assert others == [MADE_BY_UV, *newer.installed("base")]


def test_uv_without_its_download_leaves_no_venv_and_gives_advice(newer):
    shutil.copy(newer.stubs / "uv", newer.bin)
    status, stdout, stderr = newer.run(STUB_UV_FAILS="1")
    assert (status, stdout) == (78, "")
    assert "error: Failed to download cpython-3.11" in stderr
    assert "needs Python 3.10 or 3.11" in stderr and "apt-get install python3.11" in stderr
    assert [path.name for path in (newer.project / ".venv").iterdir()] == [".setup-lock"]
    newer.tape()
    assert newer.run()[0] == 0  # the download can be reached now
    assert newer.tape() == [MADE_BY_UV, *newer.installed("base")]


def test_python_in_the_pyenv_folder_is_found(ready):
    (ready.bin / "python3.11").unlink()
    ready.stub("python3", "echo 3.13")
    folder = pathlib.Path(ready.env["HOME"], ".pyenv/versions/3.10.13/bin")
    folder.mkdir(parents=True)
    (folder / "python3").write_text(PYTHON)
    (folder / "python3").chmod(0o755)
    status, _, stderr = ready.run(STUB_VERSION="3.10")
    assert (status, ready.tape()) == (0, ready.fresh)
    assert f"making .venv with {folder}/python3 3.10" in stderr


def test_uv_makes_venv_of_a_python_without_ensurepip(newer):
    """As on Debian without python3-venv: nobody needs to be root."""
    newer.stub("python3.11", PYTHON)
    assert newer.run(STUB_NO_ENSUREPIP="1")[:2] == (0, f"{newer.venv_bin}\n")
    pip, *others = newer.tape()
    assert pip.startswith("python3 -I -m pip install ") and " --target .venv/uv uv==" in pip
    assert others == [MADE_BY_UV, *newer.installed("base")]


def test_python_without_ensurepip_is_named_where_uv_cannot_be_had(ready):
    status, _, stderr = ready.run(STUB_NO_ENSUREPIP="1")
    assert status == 78
    assert "python3.11 cannot make a virtual environment" in stderr
    assert "apt-get install python3.11 python3.11-venv" in stderr


def test_uv_is_installed_by_the_pip_that_a_python_brings_for_virtual_environments(newer):
    bundled = newer.stubs / "ensurepip"
    (bundled / "_bundled").mkdir(parents=True)
    (bundled / "_bundled/pip-25.whl").touch()
    newer.stub(
        "python3",
        OTHER_PYTHON.replace(
            "  *) exit 1",
            f"""  *"import ensurepip"*)
    echo {bundled} ;;
  *) exit 1""",
        ),
    )
    assert newer.run(STUB_NO_PIP="1")[:2] == (0, f"{newer.venv_bin}\n")
    pip, *others = newer.tape()
    assert pip.startswith(f"python3 -I {bundled}/_bundled/pip-25.whl/pip install ")
    assert others == [MADE_BY_UV, *newer.installed("base")]
