"""A journal in the folder of the test."""

import pytest
from fakes import UNRIVALLED
from journal_fakes import COLUMNS

from tfagents_system.services.journal import Journal, Stream


@pytest.fixture
def open_journal(tmp_path):
    def open_it(rows_per_item=1, max_bytes=10**6, stream=(0, 1), fence=UNRIVALLED, **arguments):
        return Journal(tmp_path / "journals", Stream(*stream), COLUMNS, rows_per_item, max_bytes,
                       fence, **arguments)  # fmt: skip

    return open_it
