"""Named, sized, fingerprinted rows of arrays, files, folders and data frames."""

from oodometer.datasets.folder import ImageFolder
from oodometer.datasets.opening import as_dataset
from oodometer.datasets.rows import InMemory

__all__ = ["ImageFolder", "InMemory", "as_dataset"]
