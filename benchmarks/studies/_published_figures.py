"""Published figures for comparison. NI: Ng et al. 2023, Table 2; ATC: Garg et al. 2022."""

from __future__ import annotations

# By task and measure: R2, MAE in points, Macro, Micro, ID and Arch τ; None if not published.
NI_COLUMNS = ("r2_pearson", "mae", "macro_tau", "micro_tau", "id_tau", "arch_tau")
Row = tuple[float | None, ...]
NI: dict[str, dict[str, Row]] = {
    "CI10": {
        "ni-randaugment": (0.899, 3.11, 0.768, None, 0.793, 0.837),
        "ni-translate": (0.732, 3.56, 0.607, None, 0.661, 0.786),
        "ni-erase": (0.518, 4.41, 0.411, None, 0.406, 0.299),
        "ni-flip_crop": (0.417, 4.47, 0.371, None, 0.344, 0.683),
        "atc-ne": (0.655, 3.61, 0.548, None, 0.693, 0.689),
        "atc-mc": (0.640, 3.65, 0.544, None, 0.682, 0.685),
    },
    "Numbers": {
        "ni-randaugment": (0.764, 5.33, 0.642, None, 0.733, None),
        "ni-translate": (0.685, 6.12, 0.667, None, 0.881, None),
        "ni-erase": (0.153, 10.17, -0.135, None, 0.324, None),
        "ni-flip_crop": (0.208, 10.42, -0.316, None, -0.033, None),
        "atc-ne": (0.616, 6.74, 0.637, None, 0.859, None),
        "atc-mc": (0.692, 6.19, 0.682, None, 0.844, None),
    },
    "SA, CNN": {
        "ni-ssmba": (0.662, 1.93, 0.677, 0.689, 0.629, 0.588),
        "ni-eda": (0.641, 2.04, 0.664, 0.649, 0.611, 0.512),
        "ni-backtranslate": (0.550, 2.99, 0.592, 0.501, 0.538, 0.523),
        "ni-random_replace": (0.409, 2.64, 0.544, 0.554, 0.439, 0.537),
        "atc-ne": (0.760, 2.47, 0.514, 0.633, 0.467, 0.660),
        "atc-mc": (0.761, 2.46, 0.517, 0.634, 0.467, 0.663),
    },
    # NE: Table 8.
    "SA, RoBERTa": {
        "ni-ssmba": (0.972, 1.29, 0.832, 0.829, 0.838, 0.588),
        "ni-eda": (0.968, 1.45, 0.830, 0.810, 0.830, 0.512),
        "ni-backtranslate": (0.961, 1.47, 0.813, 0.801, 0.801, 0.523),
        "ni-random_replace": (0.967, 1.27, 0.821, 0.816, 0.822, 0.537),
        "ne-ssmba": (0.971, 1.32, 0.830, 0.824, None, None),
        "ne-eda": (0.965, 1.55, 0.825, 0.801, None, None),
        "ne-backtranslate": (0.961, 1.46, 0.813, 0.799, None, None),
        "ne-random_replace": (0.964, 1.34, 0.818, 0.809, None, None),
        "atc-ne": (0.852, 2.38, 0.707, 0.691, 0.749, 0.660),
        "atc-mc": (0.869, 2.26, 0.722, 0.705, 0.749, 0.663),
    },
    "NLI, CNN": {
        "ni-eda": (0.577, 2.04, 0.581, 0.511, 0.709, 0.572),
        "atc-mc": (0.576, 2.52, 0.568, 0.446, 0.706, 0.636),
    },
    "NLI, RoBERTa": {
        "ni-ssmba": (0.933, 1.19, 0.750, 0.730, 0.771, 0.301),
        "ni-eda": (0.941, 1.26, 0.789, 0.757, 0.799, 0.572),
        "ni-backtranslate-aligned draws=3": (0.944, 1.07, 0.759, 0.740, 0.778, 0.563),
        "ni-random_replace": (0.890, 1.70, 0.688, 0.647, 0.710, 0.401),
        "atc-ne": (0.737, 2.22, 0.557, 0.541, 0.739, 0.635),
        "atc-mc": (0.769, 2.10, 0.581, 0.567, 0.748, 0.636),
    },
}
# τ of one model across its test domains: NI Table 7.
NI_CROSS_DOMAIN: dict[str, dict[str, float]] = {
    "SA, RoBERTa": {
        "ni-ssmba": 0.010,
        "ni-eda": 0.266,
        "ni-backtranslate": 0.245,
        "ni-random_replace": 0.150,
        "atc-ne": 0.228,
        "atc-mc": 0.224,
    },
}
# Standard deviations over domains of R2, Macro, Micro and ID τ: NI Table 28.
NI_DEVIATIONS: dict[str, dict[str, tuple[float, ...]]] = {
    "SA, RoBERTa": {
        "ni-ssmba": (0.012, 0.063, 0.064, 0.065),
        "ni-eda": (0.016, 0.058, 0.040, 0.055),
        "ni-backtranslate": (0.021, 0.060, 0.061, 0.063),
        "ni-random_replace": (0.015, 0.060, 0.055, 0.055),
        "atc-ne": (0.168, 0.135, 0.044, 0.051),
        "atc-mc": (0.139, 0.112, 0.048, 0.050),
    },
}
# Mean absolute errors in points after calibration, by data: ATC Table 1.
ATC: dict[str, dict[str, float]] = {
    "CIFAR-10 natural": {"im": 5.74, "ac": 6.89, "doc": 6.07, "gde": 4.77, "atc-mc": 3.02, "atc-ne": 2.85},
    "CIFAR-10 synthetic": {"im": 10.20, "ac": 11.91, "doc": 11.08, "gde": 6.55, "atc-mc": 4.25, "atc-ne": 3.87},
    "MNIST natural": {"im": 15.99, "ac": 14.81, "doc": 14.56, "gde": 24.42, "atc-mc": 2.40, "atc-ne": 3.50},
}  # fmt: skip
# The same before calibration; GDE does not depend on it.
ATC_UNCALIBRATED: dict[str, dict[str, float]] = {
    "CIFAR-10 natural": {"im": 6.60, "ac": 9.88, "doc": 7.25, "gde": 4.77, "atc-mc": 3.21, "atc-ne": 2.99},
    "CIFAR-10 synthetic": {"im": 12.33, "ac": 16.50, "doc": 13.87, "gde": 6.55, "atc-mc": 4.65, "atc-ne": 4.21},
}  # fmt: skip
# Averaged rank correlation with OOD error: AO, Appendix A.
AO = {
    "ID error": 0.49,
    "ID corrupted error": 0.44,
    "ID nll": 0.41,
    "ID adversarial_error": 0.41,
    "ID ece": -0.05,
    "ID demographic_disparity": -0.10,
}
AO_ADJUSTED = {"ID corrupted error": 0.01}
AO_FACTORS = 4
# Patterns that AO sees in its scatter plots, by task: App. D, Figure S9.
AO_PATTERNS = {"PACS": "functional or vertical"}
# Measures of DG Table 2 in its order, with Spearman's ρ with target error. The text
# of the table gives names and values apart, and one row is illegible; the values are assigned by rank
# as far as this row.
DG_TABLE_2: dict[str, float | None] = {
    "entropy-target": 0.420, "source-error": 0.397, "entropy-source": 0.390, "fisher-align": 0.298,
    "jacobian": 0.283, "jacobian-ratio": 0.279, "l2-path-norm": 0.154, "fisher-eigval-ratio": 0.152,
    "mmd-gaussian": 0.151, "mixup": 0.137, "hdh-divergence-train+source-error": 0.124,
    "hdh-divergence+source-error": 0.118, "hdh-divergence-ms+source-error": None,
    "hplusdhplus-divergence+source-error": None, "sharpness": None, "hplus-divergence-ms": None,
    "h-divergence-train": None, "h-divergence-ms": None, "mmd-mean-cov": None,
    "hplusdhplus-divergence-ms": None, "fisher-eigval-diff": None, "jacobian-log-diff": None,
    "hplus-divergence": None, "hplusdhplus-divergence-ms+source-error": None, "mixup-diff": None,
    "hdh-divergence-ms": None, "h-divergence-train+source-error": None,
    "hplusdhplus-divergence": None, "h-divergence": None, "hdh-divergence-train": None,
    "hplus-divergence-ms+source-error": None, "hdh-divergence": None,
    "h-divergence-ms+source-error": None, "h-divergence+source-error": None, "jacobian-diff": None,
    "mixup-ratio": None, "mixup-log-diff": None, "hplus-divergence+source-error": None,
}  # fmt: skip
# Signal-to-noise ratios on Rotated MNIST: DG Table 1.
DG_NOISE = {"h-divergence": 22.20, "hdh-divergence": 1.95, "hdh-divergence-ms": 3.10}
# Measures of the joint regression, and its pooled ρ: DG Appendix 3.
DG_JOINT = ("entropy-source", "entropy-target", "mmd-gaussian", "mmd-mean-cov", "sharpness", "source-error")  # fmt: skip
DG_JOINT_RHO = 0.804
