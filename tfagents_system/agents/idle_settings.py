"""Finds memory and image settings that have no effect because of another setting."""

from tfagents_system.core.settings.hyperparameters import hyperparameters
from tfagents_system.core.settings.params import Params

_OF_MEMORY = ("rnn_type", "rnn_units", "rnn_layers", "recurrent_sequence_length")


def idle_settings(settings: Params) -> dict[str, str]:
    """Returns the names of changed settings that have no effect, each with the reason."""
    idle = {}
    if not settings.recurrent:
        idle = dict.fromkeys(_OF_MEMORY, "recurrent is False")
    elif settings.segment_len:
        idle = {"recurrent_sequence_length": f"segment_len is {settings.segment_len}"}
    if settings.preprocessing_combiner is not None:
        idle["image_encoder"] = "there is a preprocessing_combiner"
    declared = hyperparameters(type(settings))
    return {
        name: reason
        for name, reason in idle.items()
        if getattr(settings, name) != declared[name].default
    }
