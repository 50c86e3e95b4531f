"""Models: `as_model` opens classifiers of any supported kind through one adapter per kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oodometer.core.lazy import lazy_exports

if TYPE_CHECKING:
    from oodometer.models._open import as_model
    from oodometer.models.base import ModelAdapter, RawOutputs
    from oodometer.models.bodies import Body, open_body
    from oodometer.models.feature_cache import FeatureCache
    from oodometer.models.function import FunctionModel
    from oodometer.models.heads import HeadModel, features
    from oodometer.models.http_endpoint import HttpModel
    from oodometer.models.huggingface import HuggingFaceModel
    from oodometer.models.onnx import OnnxModel
    from oodometer.models.sklearn import SklearnModel
    from oodometer.models.torch import TorchModel

__all__ = [
    "Body",
    "FeatureCache",
    "FunctionModel",
    "HeadModel",
    "HttpModel",
    "HuggingFaceModel",
    "ModelAdapter",
    "OnnxModel",
    "RawOutputs",
    "SklearnModel",
    "TorchModel",
    "as_model",
    "features",
    "open_body",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "Body": "bodies",
            "FeatureCache": "feature_cache",
            "FunctionModel": "function",
            "HeadModel": "heads",
            "HttpModel": "http_endpoint",
            "HuggingFaceModel": "huggingface",
            "ModelAdapter": "base",
            "OnnxModel": "onnx",
            "RawOutputs": "base",
            "SklearnModel": "sklearn",
            "TorchModel": "torch",
            "as_model": "_open",
            "features": "heads",
            "open_body": "bodies",
        },
    )
