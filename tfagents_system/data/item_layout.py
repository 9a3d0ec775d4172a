"""How env steps lie in the items of the experience table."""

import dataclasses
import math

from tfagents_system.core.training_settings import TrainingSettings, num_fresh_samples

LARGEST_BLOCK = 8  # transitions


@dataclasses.dataclass(frozen=True)
class ItemLayout:
    """What an item of the experience table joins.

    A block joins `length` transitions that a worker made after one another, whatever episodes they
    are of; each transition is in one block. A sequence joins `length` transitions of one episode;
    there is one for each step of the episode from the `length`th on.
    """

    length: int  # transitions per item, >= 1
    is_sequence: bool = False

    @classmethod
    def from_settings(cls, settings: TrainingSettings) -> "ItemLayout":
        """Derives the layout.

        An item costs the server, the network and the learner about as much whether it joins one
        transition or some. Blocks are mixed by the learner's pool; without a pool, transitions of
        one minibatch must be drawn independently of each other.
        """
        if settings.recurrent:
            return cls(settings.recurrent_sequence_length, is_sequence=True)
        num_fresh = num_fresh_samples(settings)
        has_pool = num_fresh < settings.train_batch_size
        return cls(math.gcd(num_fresh, LARGEST_BLOCK) if has_pool else 1)

    @property
    def stride(self) -> int:
        """Env steps from the end of one item to that of the next."""
        return 1 if self.is_sequence else self.length

    @property
    def lead(self) -> list[int]:
        """Shape of an item in front of that of one transition: [] or [length]."""
        return [self.length] if self.is_sequence or self.length > 1 else []

    def __str__(self) -> str:
        """Returns it in the words of checkpoints, where sequences and single ones are numbers."""
        is_block = self.length > 1 and not self.is_sequence
        return f"blocks of {self.length}" if is_block else f"{self.length}"


SINGLE = ItemLayout(1)
