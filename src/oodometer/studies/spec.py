"""TOML specification of a study: models, test domains and the values to compute.

name = "digits"
about = "a sentence"                    # optional
pools = ["digits.toml", "toy-mlp"]      # pool specs: a TOML file, a built-in name, or a table such
                                        # as { spec = "digits.toml", folder = "…" }
group = "numbers"                       # group of the test domains; default: groups of the pools
severities = "published"                # severities of corrupted groups, such as pacs-c: those of
                                        # CIFAR-10-C and ImageNet-C, or "relative" to the image size
domains = "all"                         # or a list of domain names
split = "test"                          # or "all": also test on the training split of a domain
                                        # that the model was not trained on
rows = 1000                             # maximum number of rows per test domain
source_rows = 1000                      # maximum number of rows per source domain
measure_rows = 300                      # maximum number of test rows that measures use; accuracy and
                                        # estimates still use all test rows
measure_domains = "all"                 # or "unseen": compute measures only on domains that the
                                        # model was not trained on
converged = true                        # skip (and count) models that did not converge
estimators = "all"                      # or a list of names, or "none"
temperature = "fit"                     # temperature scaling before estimation; "none" turns it off
                                        # (names then end in " (pre-T)"), "both" computes both
invariance = ["randaugment", { transform = "translate", magnitude = 0.2, draws = 20 }]
measures = ["mmd-gaussian"]             # or "all"
metrics = ["nll", { metric = "adversarial_error_0.02", steps = 10 }]    # or "all"
draws = 10                              # number of random draws per row and transform
invariance_rows = 500                   # maximum number of test rows that are transformed; accuracy
                                        # and estimates still use all test rows
invariance_domains = ["sketch"]         # test domains with neighborhoods; default: all
intervals = true                        # false: estimates without confidence intervals, which is
                                        # several times faster
seed = 0

[[models]]                              # a model of your own, in addition to the pools
name = "mine"
path = "mine.onnx"                      # anything that as_model opens; in Python also an object
weights = "mine.safetensors"            # weights of a network of timm (path = "timm:NAME")
architecture = "resnet"
trained_on = ["mnist"]

`group` can also be a list of groups. If two groups have a domain of the same name, the domain of
the later group is called `group/domain`. Paths are relative to the TOML file, and the default
folder of a pool is pools/<name> in the current directory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from oodometer.core.errors import InputError, UnknownName
from oodometer.models.timm import TIMM_PREFIX, find_weights, join_location, split_location
from oodometer.studies._toml import (
    BeforeValidator,
    Field,
    NonEmpty,
    PositiveInt,
    StrictModel,
    prefix_errors,
    read_toml,
    validate,
)
from oodometer.studies.domains.group import DomainGroup
from oodometer.studies.requested_values import (
    ALL,
    RequestedValue,
    TemperatureMode,
    build_requests,
    import_named_code,
    parse_transforms,
    select_estimators,
    select_measures,
    select_metrics,
)
from oodometer.studies.splits import Domain
from oodometer.studies.study_models import Pool, StudyModel, StudyModels, UserModel, collect_models
from oodometer.studies.training.spec import PoolSpec, resolve_group
from oodometer.transforms.corruptions import SeverityScale

_TEMPERATURES: dict[str, tuple[TemperatureMode, ...]] = {
    "fit": ("fit",),
    "none": ("none",),
    "both": ("fit", "none"),
}
# Architecture shown for the user's models whose entry does not name an architecture.
UNNAMED_ARCHITECTURE = "unnamed"
NonEmptyText = Annotated[str, Field(min_length=1)]


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str | Path | PoolSpec) else value


def _as_temperature(value: Any) -> Any:
    both = isinstance(value, tuple) and set(value) == {"fit", "none"}
    return "both" if both else value


Listed = Annotated[tuple[Any, ...], BeforeValidator(_as_tuple)]


class StudyKeys(StrictModel):
    """Keys of a study's TOML file."""

    name: NonEmptyText | None = None
    about: str = ""
    pools: Listed = ()
    models: Listed = ()
    group: Any = None
    severities: SeverityScale = "published"
    domains: Literal["all"] | NonEmpty[str] = Field(
        default="all", description="'all' or a list of names"
    )
    split: Literal["test", "all"] = "test"
    rows: PositiveInt | None = None
    source_rows: PositiveInt | None = None
    measure_rows: PositiveInt | None = None
    measure_domains: Literal["all", "unseen"] = "all"
    converged: bool = True
    estimators: Any = ALL
    temperature: Annotated[Literal["fit", "none", "both"], BeforeValidator(_as_temperature)] = "fit"
    invariance: Any = ()
    measures: Any = None
    metrics: Any = None
    draws: PositiveInt = 10
    invariance_rows: PositiveInt | None = None
    invariance_domains: Literal["all"] | NonEmpty[str] = Field(
        default="all", description="'all' or a list of names"
    )
    intervals: bool = True
    seed: int = 0


class PoolEntry(StrictModel):
    """Keys of one entry in the list `pools` of a study."""

    spec: PoolSpec | str | Path | Mapping[str, Any] = Field(
        description="the name of a pool or the path of a TOML file"
    )
    folder: str | Path | None = None


class ModelEntry(StrictModel):
    """Keys of one table [[models]] of a study, which describes a model of the user."""

    name: NonEmptyText
    path: Any
    trained_on: str | NonEmpty[str] = Field(description="a domain or a list of domains")
    architecture: str = UNNAMED_ARCHITECTURE
    weights: NonEmptyText | None = None


@dataclass(frozen=True, kw_only=True)
class Study:
    """Study that computes a list of values for every model on every test domain.

    Parameters
    ----------
    name, about : str
        Name of the study, and its description in one sentence.
    pools : tuple of Pool
        Pools of trained models.
    models : tuple of UserModel
        The user's own models.
    groups : tuple of DomainGroup
        Groups of the test domains.
    domains : mapping of str to Domain
        Test domains by their names in tables.
    split : {"test", "all"}
        Rows to test on: only the test split of a domain, or, for domains that a model was not
        trained on, also the training split.
    rows, source_rows : int or None
        Maximum number of rows per test domain and per source domain; None for all rows.
    measure_domains : {"all", "unseen"}
        Test domains on which measures are computed: all, or only those that a model was not trained
        on.
    converged : bool
        Whether models that did not converge are skipped.
    requests : tuple of RequestedValue
        Values to compute for each model on each test domain.
    invariance_domains : tuple of str
        Names of the test domains on which neighborhoods are computed.
    seed : int
        Random seed.

    Examples
    --------
    >>> study = Study.open({"pools": ["toy-mlp"], "domains": ["0", "30"], "estimators": ["ac"]})
    >>> list(study.domains), [name for request in study.requests for name in request.names]
    (['0', '30'], ['accuracy', 'ac'])
    """

    name: str
    about: str
    pools: tuple[Pool, ...]
    models: tuple[UserModel, ...]
    groups: tuple[DomainGroup, ...]
    domains: Mapping[str, Domain]
    split: Literal["test", "all"]
    rows: int | None
    source_rows: int | None
    measure_domains: Literal["all", "unseen"]
    converged: bool
    requests: tuple[RequestedValue, ...]
    invariance_domains: tuple[str, ...]
    seed: int

    @classmethod
    def open(
        cls,
        path_or_table: str | Path | Mapping[str, Any],
        *,
        data: str | Path | None = None,
        trust_pickle: bool = False,
        trust_code: bool = False,
    ) -> Study:
        """Return the study that a TOML file or a mapping describes.

        Parameters
        ----------
        path_or_table : str, path or mapping
            Path of a TOML file, or its content as a mapping.
        data : str or path, optional
            Folder with the data files of the domains. Default: ``$OODOMETER_DATA``.
        trust_pickle : bool
            Whether the user's models may be loaded from pickle files, which can run any code. A
            TOML file cannot set this.
        trust_code : bool
            Whether estimators, measures, metrics and transforms may be named by ``module:name``,
            which imports the module and can run any code. A TOML file cannot set this.

        Raises
        ------
        InputError
            If the file cannot be read or a value is not allowed.
        UnknownName
            If a name or key does not exist.
        """
        if isinstance(path_or_table, Mapping):
            table = import_named_code(path_or_table, trust_code=trust_code)
            study = _parse_study(table, "study", Path(), data)
        else:
            path = Path(path_or_table)
            table = read_toml(path)
            with prefix_errors(path.name):
                table = import_named_code(table, trust_code=trust_code)
                study = _parse_study(table, path.stem, path.parent, data)
        models = tuple(replace(model, trust_pickle=trust_pickle) for model in study.models)
        return replace(study, models=models)

    def requests_for(self, model: StudyModel, domain: str) -> tuple[RequestedValue, ...]:
        """Return the values to compute for a model on a test domain."""
        omitted = set()
        if domain not in self.invariance_domains:
            omitted.add("invariance")
        if self.measure_domains == "unseen" and domain in model.trained_on:
            omitted.add("measure")
        return tuple(request for request in self.requests if request.family not in omitted)

    def available_models(self) -> StudyModels:
        """Return the models that are trained at the time of the call; raise if there is none."""
        groups = (*self.groups, *(pool.spec.group for pool in self.pools))
        labels = {
            (domain.group.name, domain.name): label
            for label, domain in _label_domains(groups).items()
        }
        models = collect_models(
            self.pools, self.models, only_converged=self.converged, domain_labels=labels
        )
        if models.models:
            return models
        if models.left_out:
            raise InputError(
                f"None of the {models.left_out} models converged. Set converged = false to "
                "evaluate them anyway."
            )
        folders = ", ".join(repr(str(pool.folder)) for pool in self.pools)
        raise InputError(
            f"There is no trained model in {folders}. Train the models first: "
            f"`{self.pools[0].training_command}`."
        )


def _parse_study(
    table: Mapping[str, Any], name: str, folder: Path, data: str | Path | None
) -> Study:
    checked = validate(StudyKeys, table, "the study")
    pools = tuple(_parse_pool(entry, folder, data) for entry in checked.pools)
    groups = _parse_groups(checked.group, checked.severities, pools, folder, data)
    domains = _label_domains(groups)
    models = tuple(_parse_user_model(entry, domains, folder) for entry in checked.models)
    if not pools and not models:
        raise InputError("pools and models are both missing. Name a pool or a model to evaluate.")
    _check_compatible(groups, [pool.spec.group for pool in pools])
    selected = _select_domains(checked.domains, domains)
    return Study(
        name=checked.name or name,
        about=checked.about,
        pools=pools,
        models=models,
        groups=groups,
        domains=selected,
        split=checked.split,
        rows=checked.rows,
        source_rows=checked.source_rows,
        measure_domains=checked.measure_domains,
        converged=checked.converged,
        requests=_parse_requests(checked, groups[0], folder),
        invariance_domains=tuple(_select_domains(checked.invariance_domains, selected)),
        seed=checked.seed,
    )


def _parse_requests(
    table: StudyKeys, group: DomainGroup, folder: Path
) -> tuple[RequestedValue, ...]:
    return build_requests(
        metrics=select_metrics(table.metrics),
        estimators=select_estimators(table.estimators),
        temperatures=_TEMPERATURES[table.temperature],
        invariance=parse_transforms(
            table.invariance,
            draws=table.draws,
            kind=group.kind,
            folder=folder,
            rows=table.invariance_rows,
        ),
        measures=select_measures(table.measures),
        measure_rows=table.measure_rows,
        seed=table.seed,
        intervals=table.intervals,
    )


def _parse_pool(entry: Any, folder: Path, data: str | Path | None) -> Pool:
    table = entry if isinstance(entry, Mapping) else {"spec": entry}
    pool = validate(PoolEntry, table, "a pool of the study")
    spec = pool.spec
    location = None
    if not isinstance(spec, PoolSpec):
        if isinstance(spec, str | Path):
            is_file = str(spec).endswith(".toml")
            spec = location = str(folder / str(spec)) if is_file else str(spec)
        with prefix_errors("pools"):
            spec = PoolSpec.open(spec, data=data)
    models = Path("pools") / spec.name if pool.folder is None else folder / pool.folder
    return Pool(spec, models, location)


def _parse_groups(
    names: Any,
    severities: SeverityScale,
    pools: Sequence[Pool],
    folder: Path,
    data: str | Path | None,
) -> tuple[DomainGroup, ...]:
    if names is None:
        groups = [pool.spec.group for pool in pools]
        if not groups:
            raise InputError("group is missing: your models are evaluated on its domains.")
    else:
        listed = names if isinstance(names, tuple) and names else [names]
        groups = [resolve_group(name, folder, data, severities) for name in listed]
    return tuple({group.name: group for group in groups}.values())


def _label_domains(groups: Sequence[DomainGroup]) -> dict[str, Domain]:
    """Return all domains, keyed by the names that are used for them in tables."""
    domains: dict[str, Domain] = {}
    for group in {group.name: group for group in groups}.values():
        for name in group.domains:
            domains[f"{group.name}/{name}" if name in domains else name] = Domain(group, name)
    return domains


def _select_domains(
    names: str | tuple[str, ...], domains: Mapping[str, Domain]
) -> dict[str, Domain]:
    if isinstance(names, str):
        return dict(domains)
    for name in names:
        if name not in domains:
            raise UnknownName("test domain", name, domains)
    return {name: domains[name] for name in names}


def _parse_user_model(entry: Any, domains: Mapping[str, Domain], folder: Path) -> UserModel:
    name = entry.get("name") if isinstance(entry, Mapping) else None
    model = validate(ModelEntry, entry, f"the model {name!r}" if name else "a model of the study")
    names = (model.trained_on,) if isinstance(model.trained_on, str) else model.trained_on
    for name in names:
        if name not in domains:
            raise UnknownName("domain (trained_on)", name, domains)
    path = model.path
    if isinstance(path, str) and path.startswith(TIMM_PREFIX):
        with prefix_errors(f"the model {model.name!r}"):
            path = _timm_location(path, model.weights, folder)
    elif model.weights is not None:
        raise InputError(
            f'weights of the model {model.name!r} applies to path = "{TIMM_PREFIX}NAME" only; got '
            f"path = {path!r:.60}. Leave it out."
        )
    if isinstance(path, str | Path) and (folder / path).exists():
        path = (folder / path).absolute()
    trained_on = tuple(domain for name, domain in domains.items() if name in names)
    return UserModel(model.name, path, model.architecture, trained_on)


def _timm_location(path: str, weights: str | None, folder: Path) -> str:
    """Return the location of a network of timm; weights are looked up in `folder` first."""
    if weights is not None and (folder / weights).exists():
        weights = str((folder / weights).absolute())
    location = join_location(path, weights)
    with prefix_errors("weights"):
        # Whether a pickle is trusted is checked when the model is loaded.
        find_weights(replace(split_location(location), trust_pickle=True))
    return location


def _check_compatible(groups: Sequence[DomainGroup], trained: Sequence[DomainGroup]) -> None:
    """Raise if groups differ in the kind of inputs or in their classes (if these are known)."""
    first = groups[0]
    for group in (*groups, *trained):
        if group.kind != first.kind:
            raise InputError(
                f"group: {group.name!r} holds {group.kind}, and {first.name!r} holds {first.kind}. "
                "All groups must be of one kind."
            )
        if group.classes and first.classes and set(group.classes) != set(first.classes):
            raise InputError(
                f"group: {group.name!r} has the classes {', '.join(group.classes)}, and "
                f"{first.name!r} has {', '.join(first.classes)}. All groups must have the same "
                "classes."
            )
