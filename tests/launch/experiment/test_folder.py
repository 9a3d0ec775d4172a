from tfagents_system.core.seeds import SeedPurpose, derive_seed
from tfagents_system.core.settings.variables import Settings
from tfagents_system.launch.experiment.folder import seed_of_run

REQUIRED = {"SAC_EXP_NAME": "e", "SAC_PARAMS": "p.py", "SAC_CONFIG": "c.json"}


def seed(**environ: str) -> int | None:
    return seed_of_run(Settings.from_environ(REQUIRED | environ))


def test_each_task_of_an_array_derives_a_seed_of_its_own():
    seeds = [seed(SAC_SEED="7", SLURM_ARRAY_TASK_ID=str(task_id)) for task_id in range(100)]
    assert len({7, *seeds}) == 1 + 100
    assert seeds[3] == derive_seed(7, SeedPurpose.TASK, 3)


def test_a_run_of_its_own_has_the_seed_that_is_given():
    assert seed(SAC_SEED="7") == 7


def test_without_a_seed_any_will_do():
    assert seed() is None
    assert seed(SLURM_ARRAY_TASK_ID="3") is None
