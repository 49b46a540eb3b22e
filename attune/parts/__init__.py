"""What is fetched rather than shipped: a table of parts, and a cache that holds only verified files.

>>> from attune.parts import PARTS, locate
>>> PARTS["minilm"].licence
'Apache-2.0'
"""

from attune.parts.store import folder, locate, path, state
from attune.parts.table import PARTS, Part

__all__ = ["PARTS", "Part", "folder", "locate", "path", "state"]
