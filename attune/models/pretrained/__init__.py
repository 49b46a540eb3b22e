"""Systems on pretrained parts: where their encoders and decoders come from, and what such systems share."""

from attune.models.pretrained.bases import PACKAGED, Base, Role, find_base
from attune.models.pretrained.model import BasesConfig, OnBases, OnParts, PartsConfig

__all__ = ["PACKAGED", "Base", "BasesConfig", "OnBases", "OnParts", "PartsConfig", "Role", "find_base"]
