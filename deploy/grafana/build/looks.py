# SPDX-License-Identifier: Apache-2.0
"""Colours, thresholds and the names of values."""

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

# Nothing is coloured by Grafana's own default, which is red from 80 on.
PLAIN = ((None, "blue"),)
GOOD_ABOVE_ZERO = ((None, "red"), (1, "green"))
BAD_ABOVE_ZERO = ((None, "green"), (1, "red"))

# In all of these, the values are those of server/http/names.h.
UP = {"0": ("down", "red"), "1": ("up", "green")}
BY_REASON = {"0": ("no", "green"), "1": ("yes", "orange")}
PAUSED = {"0": ("trains", "green"), "1": ("paused", "orange")}
HELD = {"0": ("starts", "green"), "1": ("held", "red")}
ON_BATTERY = {"0": ("mains", "green"), "1": ("battery", "orange")}
LOW_POWER = {"0": ("off", "green"), "1": ("on", "orange")}
THERMAL = {"0": ("nominal", "green"), "1": ("moderate", "yellow"),
           "2": ("heavy", "orange"), "3": ("trapping", "red"),
           "4": ("sleeping", "dark-red")}
PRESSURE = {"0": ("normal", "green"), "1": ("warn", "orange"),
            "2": ("critical", "red")}


def thresholds(steps):
    return (build.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE)
            .steps([model.Threshold(value=value, color=color)
                    for value, color in steps]))


def mapping(words):
    return [model.ValueMap({
        value: model.ValueMappingResult(text=text, color=color, index=index)
        for index, (value, (text, color)) in enumerate(words.items())})]


def by_threshold():
    return build.FieldColor().mode(model.FieldColorModeId.THRESHOLDS)


def by_mapping():
    """Coloured by thresholds, a strip of states would show their ranges in
    place of the mapped words."""
    return build.FieldColor().mode(model.FieldColorModeId.FIXED).fixed_color(
        "text")


def by_order():
    return build.FieldColor().mode(model.FieldColorModeId.PALETTE_CLASSIC)
