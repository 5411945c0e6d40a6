"""What ELMo is compared with, and itself, behind one interface: layers of vectors of tokens."""

from elmo.encoders.encoder import Encoder, EncoderRecord, LayersModule, check_same, record
from elmo.encoders.layer_cache import CachedLayers, cached_layers
from elmo.encoders.specification import open_encoders, read_specification

__all__ = [
    "CachedLayers",
    "Encoder",
    "EncoderRecord",
    "LayersModule",
    "cached_layers",
    "check_same",
    "open_encoders",
    "read_specification",
    "record",
]
