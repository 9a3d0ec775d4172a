from tfagents_system.mirror.progress import Progress
from tfagents_system.mirror.records import Batch

FIRST = Batch(3, {"train/a": [0, 30]}, {"videos/x.mp4": 5})
SECOND = Batch(2, {"train/a": [30, 50], "train/b": [0, 7]}, {})


def progress_of(path, destination="here"):
    return Progress(path, destination)


def test_progress_is_read_again(tmp_path):
    progress = progress_of(tmp_path / "p")
    progress.add(FIRST)
    progress.add(SECOND)

    again = progress_of(tmp_path / "p")

    assert again.batches == [FIRST, SECOND]
    assert again.run_id == progress.run_id


def test_a_line_that_a_crash_has_cut_does_not_count(tmp_path):
    progress = progress_of(tmp_path / "p")
    progress.add(FIRST)
    progress.add(SECOND)
    content = (tmp_path / "p").read_bytes()
    (tmp_path / "p").write_bytes(content[:-5])

    progress_of(tmp_path / "p").add(SECOND)

    assert progress_of(tmp_path / "p").batches == [FIRST, SECOND]


def test_a_password_that_an_earlier_version_has_written_goes(tmp_path):
    progress = progress_of(tmp_path / "p", "https://me:secret@host/api")
    progress.add(FIRST)
    assert "secret" in (tmp_path / "p").read_text()

    again = progress_of(tmp_path / "p", "https://host/api")

    assert (again.run_id, again.batches) == (progress.run_id, [FIRST])
    assert "secret" not in (tmp_path / "p").read_text()


def test_another_destination_begins_anew(tmp_path):
    progress = progress_of(tmp_path / "p")
    progress.add(FIRST)

    other = progress_of(tmp_path / "p", "there")

    assert other.batches == []
    assert other.run_id != progress.run_id


def test_batches_that_have_arrived_become_one(tmp_path):
    progress = progress_of(tmp_path / "p")
    progress.add(FIRST)
    progress.add(SECOND)
    progress.all_arrived()
    progress.add(FIRST)

    again = progress_of(tmp_path / "p")

    assert again.batches == [
        Batch(3 + 2, {"train/a": [0, 50], "train/b": [0, 7]}, {"videos/x.mp4": 5}), FIRST
    ]  # fmt: skip
    assert again.num_arrived == 3 + 2
