import json
import os
import pathlib
import subprocess
import sys

from small_disk import small_disk

from tfagents_system.core.state.paths import ExperimentPaths
from tfagents_system.launch.local.places import Service
from tfagents_system.launch.local.service_dirs import write_service_dirs

REPORT = "import json,os,sys; print(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]))"


def make_service(name: str, *arguments: str) -> Service:
    cpu = min(os.sched_getaffinity(0))
    return Service(name, (sys.executable, "-c", REPORT, *arguments), (cpu,), {"TZ": "UTC"})


def write(services: list[Service], paths: ExperimentPaths, project: pathlib.Path) -> None:
    write_service_dirs(services, paths.services, paths, project)


def test_run_script_starts_the_program_from_paths_with_spaces_and_quotes(tmp_path):
    project = tmp_path / "it's my project"
    paths = ExperimentPaths(project / "logs" / "e 1")
    paths.root.mkdir(parents=True)
    write([make_service("worker_0", f"--exp_dir={paths.root}")], paths, project)
    service = paths.services / "worker_0"
    (service / "supervise").mkdir()
    os.mkfifo(service / "supervise" / "ok")  # as if supervise listened
    listener = os.open(service / "supervise" / "ok", os.O_RDWR)
    try:
        environ = os.environ | {"PYTHONPATH": os.getcwd()}
        subprocess.run([service / "run"], check=True, timeout=20, cwd="/", env=environ)
    finally:
        os.close(listener)
    mark, report = paths.stdout("worker_0").read_text().splitlines()
    assert mark.startswith("=== start 1 of worker_0, ")
    arguments, environ, folder = json.loads(report)
    assert arguments == [f"--exp_dir={paths.root}"]
    assert environ["TZ"] == "UTC"
    assert environ["SERVICE_EXIT_CODE_FILE"] == str(service / "exit_code")
    assert folder == str(project)


def test_nothing_in_a_service_folder_is_executed(tmp_path):
    """The disk may not allow it: `run` leads to a file of the package."""
    with small_disk(1 << 20, "noexec") as disk:
        paths = ExperimentPaths(disk.folder / "exp")
        paths.root.mkdir()
        write([make_service("replay")], paths, tmp_path)
        service = paths.services / "replay"
        (service / "program.sh").write_text("echo it is read\n")
        done = subprocess.run([service / "run"], capture_output=True, text=True, timeout=20)
    assert done.stdout == "it is read\n"


def test_each_start_of_a_run_has_its_own_marks(tmp_path):
    paths = ExperimentPaths(tmp_path)
    marks = []
    for _ in range(2):
        write([make_service("replay"), make_service("learner")], paths, tmp_path)
        marks += [(paths.services / name / "mark").read_text() for name in ("replay", "learner")]
    assert len(set(marks)) == 4


def test_folder_whose_name_is_not_utf_8_is_written_as_it_is(tmp_path):
    project = tmp_path / os.fsdecode(b"caf\xe9")
    paths = ExperimentPaths(project / "logs")
    paths.root.mkdir(parents=True)
    write([make_service("replay")], paths, project)
    assert b"caf\xe9" in (paths.services / "replay" / "program.sh").read_bytes()


def test_write_service_dirs_leaves_nothing_of_an_earlier_start(tmp_path):
    paths = ExperimentPaths(tmp_path)
    write([make_service("replay"), make_service("worker_7")], paths, tmp_path)
    (paths.services / "replay" / "exit_code").write_text("1\n")
    write([make_service("replay")], paths, tmp_path)
    found = {str(p.relative_to(paths.services)) for p in paths.services.rglob("*")}
    written = {f"replay/{name}" for name in ("run", "program.sh", "pid", "mark")}
    assert found == {"replay"} | written
