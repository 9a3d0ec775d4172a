import pytest
from mirror_fakes import COMMIT, SEED, make_run, write_values
from run_files import write_run

from tfagents_system.core.errors import ConfigError
from tfagents_system.mirror import records
from tfagents_system.mirror.records import Source, Values, Video, describe


@pytest.fixture
def paths(tmp_path):
    return make_run(tmp_path)


def shown(record):
    if isinstance(record, Video):
        return record.name, record.step
    return record.axis, record.step, dict(record.scalars)


def everything(source):
    batches = list(iter(source.next_batch, None))
    return [record for batch in batches for record in source.read(batch)]


def test_records_have_the_names_and_steps_of_tensorboard(paths):
    found = everything(Source(paths, []))

    assert [shown(record) for record in found] == [
        *[("train_step", step, {"learner/loss": step / 4, "learner/alpha": 1.0})
          for step in range(0, 50, 10)],
        *[("worker_0/env_step", step, {"worker_0/collect/episode_return": -step})
          for step in (5, 10, 15)],
        ("train_step", 40, {"eval/mean_return": 12.5}),
        ("videos/policy_checkpoint_0000000040/episode_0", 40),
    ]  # fmt: skip


def test_each_record_is_read_once_while_the_run_writes(paths):
    source = Source(paths, [])
    first = source.next_batch()
    assert (first.num_records, source.next_batch()) == (10, None)

    write_values(paths, [50])
    second = source.next_batch()

    assert [record.step for record in source.read(second)] == [50]
    assert Source(paths, [first, second]).next_batch() is None
    assert [record.step for record in source.read(first)][:5] == [0, 10, 20, 30, 40]


def test_a_record_that_is_being_written_is_read_when_it_is_whole(paths):
    (file,) = (paths.train_summaries / "learner").iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-3])
    source = Source(paths, [])
    assert [r.step for r in everything(source) if isinstance(r, Values)][:4] == [0, 10, 20, 30]

    file.write_bytes(whole)

    assert [record.step for record in everything(source)] == [40]


def test_batches_are_small(paths, monkeypatch):
    monkeypatch.setattr(records, "MOST_RECORDS", 3)
    source = Source(paths, [])

    sizes = [batch.num_records for batch in iter(source.next_batch, None)]

    assert sizes == [3 + 1, 3, 3]  # the film goes with the first


def test_an_unfinished_film_is_left_out_and_one_filmed_anew_comes_again(paths):
    source = Source(paths, [])
    everything(source)
    (film,) = paths.videos.glob("*/*.mp4")
    (film.parent / ".episode_1.77.mp4").write_bytes(b"half")
    assert everything(source) == []

    film.unlink()
    film.write_bytes(b"another film")

    assert [record.path for record in everything(source)] == [film]


def test_the_step_of_a_film_of_training_is_in_its_own_name(paths):
    film = paths.training_videos / "policy_checkpoint_0000050000.mp4"
    film.parent.mkdir()
    film.write_bytes(b"a film")

    *_, last = everything(Source(paths, []))

    assert shown(last) == ("videos/training/policy_checkpoint_0000050000", 50_000)


def test_a_deleted_film_is_named_and_the_other_records_keep_their_numbers(paths, capsys):
    (film,) = paths.videos.glob("*/*.mp4")
    other = film.with_name("episode_1.mp4")
    other.write_bytes(b"another film")
    source = Source(paths, [])
    batch = source.next_batch()
    film.unlink()

    found = source.read(batch)

    assert len(found) == batch.num_records == 10 + 1
    assert shown(found[-2]) == ("train_step", 40, {})
    assert found[-1].path == other
    assert capsys.readouterr().out == f"WARNING: {film} is gone, so it is not mirrored.\n"


def test_description_has_settings_and_origin(paths):
    description = describe(paths)

    assert description.settings == {
        "train_batch_size": 64, "actor_fc_layer_params": [8, 8], "config.horizon": 5,
        "git_hash": COMMIT, "seed": SEED, "gin_bindings": ["a.b = 1"],
    }  # fmt: skip
    assert description.tags == {"seed": "7", "git_commit": COMMIT}
    assert set(description.files) == {paths.config, paths.params, paths.provenance}


@pytest.mark.parametrize("text", ["[1, 2]", '{"seed": '])
def test_a_damaged_record_is_named(tmp_path, text):
    paths = write_run(tmp_path / "arm", [1])
    paths.provenance.write_text(text)
    with pytest.raises(ConfigError, match="arm.* damaged"):
        describe(paths)
