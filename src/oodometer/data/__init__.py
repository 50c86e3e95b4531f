"""Named, sized, fingerprinted rows of arrays, files, folders and data frames."""

from oodometer.data._open import as_dataset
from oodometer.data.dataset import InMemory
from oodometer.data.image_folder import ImageFolder

__all__ = ["ImageFolder", "InMemory", "as_dataset"]
