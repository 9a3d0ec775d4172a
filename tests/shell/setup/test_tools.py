"""What setup.sh gets besides packages: compiled ops, supervise, stunnel."""

import subprocess


def test_compiled_ops_are_built_and_said_once(ready):
    nothing = "not built, because there is no C++ compiler (c++)."
    assert f"setup: Compiled ops: {nothing}\n" in ready.run(STUB_OPS=nothing)[2]
    assert ready.run(STUB_OPS=nothing)[2] == ""
    assert ready.run(STUB_OPS="b.so was built.")[2] == "setup: Compiled ops: b.so was built.\n"


def test_a_failing_build_of_the_compiled_ops_is_said_and_fails_nothing(ready):
    ready.run()
    assert ready.run(STUB_OPS="the build failed: x", STUB_BUILD_FAILS="1") == (
        0,
        f"{ready.venv_bin}\n",
        "setup: Compiled ops: the build failed: x\n",
    )


def test_no_supervise_and_no_apt_says_what_to_install(ready):
    (ready.bin / "supervise").unlink()
    status, stdout, stderr = ready.run()
    assert (status, stdout) == (78, "")
    assert "supervise (of daemontools) is not on PATH" in stderr
    assert "apt-get install daemontools" in stderr


def test_supervise_is_unpacked_without_root(ready):
    (ready.bin / "supervise").unlink()
    ready.stub("apt-get", 'echo "apt-get $*" >>"$TAPE"; touch daemontools_0.76_amd64.deb')
    ready.stub(
        "dpkg",
        'echo "dpkg $1" >>"$TAPE"; mkdir -p usr/bin; cp "$(command -v id)" usr/bin/supervise',
    )
    expected = f"{ready.venv_bin}:{ready.project}/.venv/daemontools/usr/bin\n"
    status, stdout, _ = ready.run()
    assert (status, stdout) == (0, expected)
    assert ready.tape() == [*ready.fresh, "apt-get download -qq daemontools", "dpkg -x"]
    assert ready.run() == (0, expected, "")
    assert ready.tape() == []


def test_a_cluster_gets_stunnel_with_its_library_without_root(ready):
    ready.stub("apt-get", 'echo "apt-get $*" >>"$TAPE"; touch stunnel4.deb libwrap0.deb')
    unpacked = """
    [[ $2 == ./libwrap0.deb ]] && mkdir -p usr/lib/x86_64-linux-gnu &&
      touch usr/lib/x86_64-linux-gnu/libwrap.so.0 && exit
    mkdir -p usr/bin
    printf '#!/bin/sh\\necho "$LD_LIBRARY_PATH $*"\\n' >usr/bin/stunnel4
    chmod 755 usr/bin/stunnel4
    """
    ready.stub("dpkg", unpacked)
    folder = f"{ready.project}/.venv/stunnel4"
    expected = f"{ready.venv_bin}:{folder}/bin\n"
    assert ready.run(SAC_PLACEMENT="ray")[:2] == (0, expected)
    assert ready.tape() == [*ready.fresh, "apt-get download -qq stunnel4 libwrap0"]
    assert ready.run(SAC_PLACEMENT="slurm") == (0, expected, "")
    assert ready.tape() == []
    called = subprocess.run([f"{folder}/bin/stunnel4", "a.conf"], capture_output=True, text=True)
    assert called.stdout == f"{folder}/usr/lib/x86_64-linux-gnu a.conf\n"
    assert ready.run() == (0, f"{ready.venv_bin}\n", "")  # on one host nobody needs it


def test_a_cluster_without_stunnel_and_apt_says_what_to_install(ready):
    status, stdout, stderr = ready.run(SAC_PLACEMENT="slurm")
    assert (status, stdout) == (78, "")
    assert "stunnel, which encrypts what goes from host to host, is not on PATH" in stderr
    assert "apt-get install stunnel4" in stderr


def test_root_installs_daemontools_with_apt(ready):
    (ready.bin / "supervise").unlink()
    ready.stub("id", "echo 0")
    ready.stub(
        "apt-get",
        'echo "apt-get $1" >>"$TAPE"; [[ $1 != install ]] || cp "$0" "$(dirname "$0")/supervise"',
    )
    assert ready.run()[:2] == (0, f"{ready.venv_bin}\n")
    assert ready.tape() == [*ready.fresh, "apt-get update", "apt-get install"]


def test_macos_needs_no_supervise(ready):
    (ready.bin / "supervise").unlink()
    ready.stub("uname", "echo Darwin")
    assert ready.run()[:2] == (0, f"{ready.venv_bin}\n")
