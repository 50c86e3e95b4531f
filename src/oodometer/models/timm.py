"""Networks of the package timm, by name, with weights from a local file or from timm's download.

A network of timm becomes a classifier that takes pixel values from 0 to 1: resizing (only where the
architecture has a fixed input size), normalization by the mean and standard deviation of the
architecture's own data configuration, the body, and one linear head. Nothing is downloaded unless
the user asks for it, and no pickle is opened that the user has not called trusted.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from oodometer.core.errors import (
    InputError,
    MissingExtra,
    OodometerError,
    UnknownName,
    format_error,
    not_a_file,
)
from oodometer.core.optional_imports import require, torch_package
from oodometer.models.torch import TorchModel

# Prefix of the name of a timm network where architectures or models are named.
TIMM_PREFIX = "timm:"
# Values of `weights` that are not the path of a file or folder.
RANDOM_WEIGHTS = "none"
DOWNLOADED_WEIGHTS = "download"
WEIGHTS_SUFFIX = ".safetensors"
# Name of the file of weights in a folder that was copied from timm's collection of weights.
WEIGHTS_FILE = f"model{WEIGHTS_SUFFIX}"
ALLOWED_WEIGHTS = (
    f"a {WEIGHTS_SUFFIX} file, a folder with NAME{WEIGHTS_SUFFIX}, {DOWNLOADED_WEIGHTS!r} (weights "
    f"that timm downloads) or {RANDOM_WEIGHTS!r} (random weights)"
)
# Names of the head's weights in files that are older than timm's present names.
OLD_HEAD_NAMES = ("head", "head.fc", "fc", "classifier", "last_linear")
N_COLOR_CHANNELS = 3
# Environment variable with the folder that relative paths of weights are relative to.
WEIGHTS_FOLDER_VARIABLE = "OODOMETER_WEIGHTS"
# Separator between the name of a network and its weights in the location of a model.
LOCATION_SEPARATOR = "@"


@dataclass(frozen=True, kw_only=True)
class TimmSpec:
    """Network of timm to build.

    model      name in timm, with or without a tag of pretrained weights ("resnet50.a1_in1k")
    weights    path of a file, a folder with one file per network, "download" or "none"
    classes    number of classes; None takes that of the weights
    size       channels, height and width of the inputs; None takes those of the architecture
    image_size side to which images are resized in the network; None keeps the size of the inputs
               unless the architecture has a fixed size and the weights were trained with it
    dropout    dropout rate before the head
    new_head   whether the head of pretrained weights is replaced by random weights
    """

    model: str
    weights: str = RANDOM_WEIGHTS
    classes: int | None = None
    size: tuple[int, ...] | None = None
    image_size: int | None = None
    dropout: float = 0.0
    new_head: bool = False
    trust_pickle: bool = False

    @property
    def is_pretrained(self) -> bool:
        return self.weights != RANDOM_WEIGHTS

    @property
    def name(self) -> str:
        """Name of the network in messages and tables."""
        return TIMM_PREFIX + self.model


def timm_package() -> Any:
    """Import timm; raise an error that says what to install if it cannot be imported."""
    torch_package()
    try:
        return require("timm", extra="timm", purpose="A network of timm")
    except MissingExtra:
        raise
    except Exception as error:  # a torchvision for another version of torch raises RuntimeError
        raise MissingExtra(
            f"timm cannot be imported: {format_error(error, first_line=True)}. Install the "
            f"torchvision that belongs to torch {torch_package().__version__}: pip install "
            "--force-reinstall torch torchvision"
        ) from error


def check_model_name(model: str) -> None:
    """Raise if timm has no network, or no pretrained weights, with this name."""
    timm = timm_package()
    architecture = model.partition(".")[0]
    names = timm.list_models()
    if architecture not in names and not timm.is_model(architecture):
        # timm has more than a thousand networks, so only similar names are listed.
        similar = difflib.get_close_matches(architecture, names, n=10)
        raise InputError(
            f"No network of timm is called {architecture!r}. Similar names: "
            f"{', '.join(similar) or 'none'}. timm.list_models() returns all names."
        )
    if "." in model and model not in timm.list_pretrained(f"{architecture}.*"):
        tagged = timm.list_pretrained(f"{architecture}.*")
        raise UnknownName(f"set of weights of {TIMM_PREFIX}{architecture}", model, tagged)


# Model ------------------------------------------------------------------------------------------


def join_location(location: str, weights: str | Path | None) -> str:
    """Return "timm:NAME@WEIGHTS" with the absolute path of the weights.

    `location` is "timm:NAME", or "timm:NAME@WEIGHTS" if `weights` is None.

    >>> join_location("timm:resnet18", "none")
    'timm:resnet18@none'
    """
    name, separator, own = location.partition(LOCATION_SEPARATOR)
    if separator and weights is not None:
        raise InputError(
            f"The weights of {name} are given twice: {own!r} and {str(weights)!r}. Give them once."
        )
    chosen = own if weights is None else str(weights)
    if not chosen:
        raise InputError(
            f"{name} needs weights. Pass weights=… (--weights), or write "
            f"{name}{LOCATION_SEPARATOR}WEIGHTS, where the weights are {ALLOWED_WEIGHTS}."
        )
    if chosen not in (RANDOM_WEIGHTS, DOWNLOADED_WEIGHTS):
        chosen = str(_weights_path(chosen).absolute())
    return f"{name}{LOCATION_SEPARATOR}{chosen}"


def split_location(location: str) -> TimmSpec:
    """Return the network at a location "timm:NAME@WEIGHTS"."""
    model, _, weights = location.removeprefix(TIMM_PREFIX).partition(LOCATION_SEPARATOR)
    return TimmSpec(model=model, weights=weights)


def open_timm_model(
    location: str, settings: Mapping[str, Any], *, trust_pickle: bool
) -> TorchModel:
    """Return the model at a location "timm:NAME@WEIGHTS".

    `settings` are the settings of an adapter. If there is no name among them, the model is named
    after the network, and after the file of weights if the file is not named after the network.
    """
    spec = replace(split_location(location), trust_pickle=trust_pickle)
    module = build_network(spec)
    n_outputs = getattr(module.head, "out_features", None)
    names = settings["class_names"]
    if names is not None and not isinstance(names, str) and n_outputs not in (None, len(names)):
        raise InputError(
            f"{spec.name} has {n_outputs} classes, and class_names has {len(names)}. Pass one name "
            "per class."
        )
    return TorchModel(module, **{**settings, "name": settings["name"] or _default_name(spec)})


def _default_name(spec: TimmSpec) -> str:
    path = find_weights(spec)
    if path is None or spec.model in (path.stem, path.parent.name):
        return spec.model
    return f"{spec.model}{LOCATION_SEPARATOR}{path.stem}"


def imagenet_classes() -> tuple[str, ...]:
    """Return the WordNet ids of the 1000 classes of ImageNet in the order of timm's outputs."""
    timm_package()
    data = require("timm.data", extra="timm", purpose="A network of timm")
    return tuple(map(str, data.ImageNetInfo("imagenet-1k").label_names()))


def select_classes(module: Any, classes: Sequence[str], name: str) -> None:
    """Reduce the head of a network to the given classes, in their order.

    The classes are WordNet ids of ImageNet, or as many names as the head has outputs.
    """
    n_outputs = getattr(module.head, "out_features", None)
    known = {wnid: row for row, wnid in enumerate(imagenet_classes())}
    if n_outputs == len(known) and all(wnid in known for wnid in classes):
        rows = [known[wnid] for wnid in classes]
    elif n_outputs in (None, len(classes)):
        return
    else:
        raise InputError(
            f"The weights of {name} have {n_outputs} classes, and there are {len(classes)} in the "
            "group, which are not WordNet ids of ImageNet. Name the classes by WordNet id, or train "
            "a new head (part = 'head')."
        )
    nn = torch_package().nn
    for parameter in ("weight", "bias"):
        values = getattr(module.head, parameter)
        if values is not None:
            setattr(module.head, parameter, nn.Parameter(values.detach()[rows].clone()))
    module.head.out_features = len(rows)


# Files of weights -------------------------------------------------------------------------------


def find_weights(spec: TimmSpec) -> Path | None:
    """Return the path of the file of weights; None if the weights do not come from a file.

    In a folder, the file is NAME.safetensors or NAME/model.safetensors. Relative paths are relative
    to $OODOMETER_WEIGHTS if it is set, else to the current directory.
    """
    if spec.weights in (RANDOM_WEIGHTS, DOWNLOADED_WEIGHTS):
        return None
    path = _weights_path(spec.weights)
    if not path.is_dir():
        if not path.is_file():
            raise not_a_file(path, expected=f"weights of {spec.name} ({ALLOWED_WEIGHTS})")
        _check_suffix(path, spec)
        return path
    files = (path / f"{spec.model}{WEIGHTS_SUFFIX}", path / spec.model / WEIGHTS_FILE)
    found = next((file for file in files if file.is_file()), None)
    if found is None:
        raise InputError(
            f"The folder {str(path)!r} has no weights of {spec.name}; expected the file "
            f"{files[0].name} in it. Copy the file there, or set weights to {ALLOWED_WEIGHTS}."
        )
    return found


def _weights_path(weights: str) -> Path:
    """Return the path of a file or folder of weights."""
    return Path(os.environ.get(WEIGHTS_FOLDER_VARIABLE, ""), weights)


def _check_suffix(path: Path, spec: TimmSpec) -> None:
    if path.suffix != WEIGHTS_SUFFIX and not spec.trust_pickle:
        raise InputError(
            f"The weights {str(path)!r} of {spec.name} are not a {WEIGHTS_SUFFIX} file, and opening "
            f"a pickle can run any code. Convert the file to {WEIGHTS_SUFFIX}, or, in as_model, "
            "pass trust_pickle=True if you trust it."
        )


def read_weights(path: Path, spec: TimmSpec) -> dict[str, Any]:
    """Return the tensors of a file by name."""
    helpers = require("timm.models", extra="timm", purpose="A network of timm")
    try:
        tensors: dict[str, Any] = helpers.load_state_dict(str(path), weights_only=True)
    except Exception as error:  # damaged files raise exceptions of many types
        reason = format_error(error, first_line=True)
        raise InputError(
            f"Cannot read the weights {str(path)!r} of {spec.name}: {reason}."
        ) from error
    return tensors


def _head_rows(tensors: Mapping[str, Any], config: Mapping[str, Any]) -> int:
    """Return the number of rows of the head in a file of weights; 0 if the file has no head."""
    declared = config.get("classifier") or ()
    names = (declared,) if isinstance(declared, str) else tuple(declared)
    for name in (*names, *OLD_HEAD_NAMES):
        weight = tensors.get(f"{name}.weight")
        if weight is not None:
            return int(weight.shape[0])
    return 0


def _input_channels(tensors: Mapping[str, Any], config: Mapping[str, Any]) -> int:
    """Return the number of input channels in a file of weights."""
    declared = config.get("first_conv") or ()
    names = (declared,) if isinstance(declared, str) else tuple(declared)
    weights = [tensors[f"{name}.weight"] for name in names if f"{name}.weight" in tensors]
    return int(weights[0].shape[1]) if weights and weights[0].ndim == 4 else N_COLOR_CHANNELS


# Network ----------------------------------------------------------------------------------------


def build_network(spec: TimmSpec, *, load: bool = True) -> Any:
    """Return a torch module from pixel values in [0, 1], of shape (n, c, h, w), to logits (n, k).

    The module has the parts `body` and `head`; the head is one linear layer. If the weights have
    another number of classes than `spec.classes`, or if `spec.new_head` is true, the head is new,
    and `new_head` of the module is true. If `load` is false, the pretrained weights are not read,
    because the caller sets all weights.
    """
    check_model_name(spec.model)
    full, pretrained_classes = _create_network(spec, load=load)
    other_classes = spec.classes not in (None, pretrained_classes)
    new_head = spec.is_pretrained and (spec.new_head or other_classes)
    if spec.classes is not None and (spec.new_head or full.num_classes != spec.classes):
        full.reset_classifier(spec.classes)
    elif full.num_classes == 0:
        raise InputError(
            f"The weights {spec.weights!r} of {spec.name} have no head. A classifier needs one: "
            "train it in a pool with part = 'head' or 'whole'."
        )
    module = _classifier_class()(full, _resized_side(spec, full.pretrained_cfg), new_head)
    _check_input_size(module, spec)
    return module


def _create_network(spec: TimmSpec, *, load: bool) -> tuple[Any, int]:
    """Return timm's network and the number of classes of its weights."""
    config = _data_config(spec.model)
    path = find_weights(spec) if load else None
    if path is not None:
        return _create_from_file(path, spec, config)
    if spec.weights == DOWNLOADED_WEIGHTS and load:
        classes = int(config["num_classes"])
        return _create(spec, classes, N_COLOR_CHANNELS, pretrained=True), classes
    classes = config["num_classes"] if spec.classes is None else spec.classes
    channels = N_COLOR_CHANNELS if spec.is_pretrained or spec.size is None else spec.size[0]
    return _create(spec, classes, channels), classes


def _create_from_file(path: Path, spec: TimmSpec, config: Mapping[str, Any]) -> tuple[Any, int]:
    """Return timm's network with all weights of a file, and the number of classes of the file."""
    tensors = read_weights(path, spec)
    classes = _head_rows(tensors, config)
    channels = _input_channels(tensors, config)
    overlay = {"state_dict": tensors, "custom_load": False, "num_classes": classes}
    if channels != N_COLOR_CHANNELS:
        # Otherwise timm would treat the file as weights for color images and sum their channels.
        overlay["first_conv"] = None
    options = {"pretrained": True, "pretrained_cfg_overlay": overlay}
    return _create(spec, classes, channels, **options), classes


def _data_config(model: str) -> dict[str, Any]:
    """Return timm's configuration of a network: input size, mean, standard deviation, head, …"""
    timm_package()
    models = require("timm.models", extra="timm", purpose="A network of timm")
    config: dict[str, Any] = models.get_pretrained_cfg(model, allow_unregistered=False).to_dict()
    return config


def _create(spec: TimmSpec, classes: int, channels: int, **options: Any) -> Any:
    """Call timm.create_model, and convert its exceptions to one-line errors."""
    config = _data_config(spec.model)
    sides = _network_sides(spec, config)
    if sides is not None:
        options["img_size"] = sides
    try:
        return timm_package().create_model(
            spec.model, num_classes=classes, in_chans=channels, drop_rate=spec.dropout, **options
        )
    except OodometerError:
        raise
    except Exception as error:  # timm and the classes of its networks raise many types
        raise _creation_error(spec, sides, error) from error


def _creation_error(spec: TimmSpec, sides: tuple[int, int] | None, error: Exception) -> InputError:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    if "state_dict" in reason:
        reason = reason.partition(":")[2].strip()
        return InputError(
            f"The weights {spec.weights!r} do not fit {spec.name}: {reason}. Name the network that "
            "the file was written for."
        )
    if spec.weights == DOWNLOADED_WEIGHTS:
        return InputError(
            f"timm cannot download the weights of {spec.name}: {reason}. Check the connection, or "
            f"set weights to a {WEIGHTS_SUFFIX} file."
        )
    size = "" if sides is None else f" for images of {sides[0]} × {sides[1]} pixels"
    return InputError(
        f"timm cannot create {spec.name}{size}: {reason}. Set image_size to a size that the "
        "network supports, or choose another network."
    )


def _network_sides(spec: TimmSpec, config: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return height and width that an architecture of fixed size is built for; None if not fixed."""
    if not config.get("fixed_input_size"):
        return None
    own = tuple(config["input_size"][1:])
    if spec.image_size is not None:
        return (spec.image_size, spec.image_size)
    return own if spec.is_pretrained or spec.size is None else (spec.size[1], spec.size[2])


def _resized_side(spec: TimmSpec, config: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return height and width to which images are resized in the network; None keeps their size."""
    if spec.image_size is not None:
        return (spec.image_size, spec.image_size)
    return _network_sides(spec, config)


def _check_input_size(module: Any, spec: TimmSpec) -> None:
    """Raise if the network cannot process an image of the size in `spec`."""
    if spec.size is None:
        return
    torch = torch_package()
    try:
        with torch.no_grad():
            logits = module.eval()(torch.zeros(1, *spec.size))
        problem = "" if tuple(logits.shape) == (1, module.head.out_features) else "wrong shape"
    except OodometerError:
        raise
    except Exception as error:  # layers raise exceptions of many types
        problem = format_error(error, first_line=True)
    finally:
        module.train()
    if problem:
        raise InputError(
            f"{spec.name} cannot process images of {spec.size[1]} × {spec.size[2]} pixels "
            f"({problem}). Set image_size, the side to which images are resized in the network, "
            f"for example to {_data_config(spec.model)['input_size'][1]}."
        )


# Module -----------------------------------------------------------------------------------------


@cache
def _classifier_class() -> Any:
    # The class is defined inside a function, so that torch is imported only to build a network.
    torch = torch_package()
    base: Any = torch.nn.Module

    class TimmClassifier(base):  # type: ignore[misc]
        """Preparation of images, the body of a network of timm, and a linear head."""

        def __init__(self, full: Any, sides: tuple[int, int] | None, new_head: bool) -> None:
            super().__init__()
            config = full.pretrained_cfg
            self.new_head = new_head
            self.sides = sides
            self.channels = _first_channels(full)
            self.mode = "bilinear" if config["interpolation"] == "bilinear" else "bicubic"
            self.is_distilled = _is_distilled(full)
            for name in ("mean", "std"):
                values = torch.tensor(_channel_values(config[name], self.channels))
                self.register_buffer(name, values[:, None, None], persistent=False)
            head = _take_head(full)
            self.body = full
            # The head is the last linear layer, so that it is found as such.
            self.head = head

        def forward(self, images: Any) -> Any:
            images = images.expand(-1, self.channels, -1, -1)
            if self.sides is not None:
                images = torch.nn.functional.interpolate(
                    images, self.sides, mode=self.mode, antialias=True
                )
            prepared = (images - self.mean) / self.std
            if not self.is_distilled:
                return self.head(self.body(prepared))
            tokens = self.body.forward_features(prepared)
            return self.head(tokens[:, :2].flatten(1) / 2)

    return TimmClassifier


def _take_head(full: Any) -> Any:
    """Remove the head of a network of timm, and return it as a linear layer.

    A convolution of kernel 1 is a linear layer. The two heads of a distilled network, whose logits
    are averaged, are one linear layer on half of the two tokens. Any other head stays in the
    network, and the identity is returned.
    """
    nn = torch_package().nn
    head = full.get_classifier()
    if _is_distilled(full):
        weight = torch_package().cat([part.weight for part in head], dim=1)
        bias = (head[0].bias + head[1].bias) / 2
    elif isinstance(head, nn.Linear) or (
        isinstance(head, nn.Conv2d) and head.kernel_size == (1, 1) and head.groups == 1
    ):
        weight, bias = head.weight.flatten(1), head.bias
    else:
        return nn.Identity()
    full.reset_classifier(0)
    options = {"bias": bias is not None, "device": weight.device, "dtype": weight.dtype}
    linear = nn.utils.skip_init(nn.Linear, weight.shape[1], weight.shape[0], **options)
    with torch_package().no_grad():
        linear.weight.copy_(weight)
        if bias is not None:
            linear.bias.copy_(bias)
    return linear


def _is_distilled(full: Any) -> bool:
    """Return whether a network averages the logits of a class token and a distillation token."""
    return hasattr(full, "dist_token") and hasattr(full, "head_dist")


def _first_channels(full: Any) -> int:
    """Return the number of channels of the images that a network of timm takes."""
    conv = torch_package().nn.Conv2d
    first = next((layer for layer in full.modules() if isinstance(layer, conv)), None)
    return int(getattr(full, "in_chans", first.in_channels if first else N_COLOR_CHANNELS))


def _channel_values(values: Any, channels: int) -> list[float]:
    """Return one value per channel; for other than three channels, the mean of the values."""
    values = [float(value) for value in values]
    return values if channels == len(values) else [sum(values) / len(values)] * channels
