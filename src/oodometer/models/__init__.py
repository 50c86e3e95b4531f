"""Models: `as_model` opens whatever classifies; one adapter a file, for those who need its settings."""

from oodometer.models._open import as_model
from oodometer.models.function import FunctionModel
from oodometer.models.http_endpoint import HttpModel
from oodometer.models.huggingface import HuggingFaceModel
from oodometer.models.onnx import OnnxModel
from oodometer.models.sklearn import SklearnModel
from oodometer.models.torch import TorchModel

__all__ = [
    "FunctionModel",
    "HttpModel",
    "HuggingFaceModel",
    "OnnxModel",
    "SklearnModel",
    "TorchModel",
    "as_model",
]
