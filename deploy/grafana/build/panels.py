# SPDX-License-Identifier: Apache-2.0
"""The kinds of panels of the dashboards. The grid has 24 columns;
a panel is right of the one before, if there is room."""

import looks
from grafana_foundation_sdk.builders import (
    common, prometheus, stat as stats, statetimeline, table as tables,
    timeseries)
from grafana_foundation_sdk.models import common as words
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import prometheus as prometheus_model

SOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
NOTHING = "–"


def _query(letter, expression, legend=""):
    query = (prometheus.Dataquery().datasource(SOURCE).ref_id(letter)
             .expr(expression)
             .editor_mode(prometheus_model.QueryEditorMode.CODE))
    return query.legend_format(legend) if legend else query


def _add_queries(panel, queries):
    for letter, (expression, legend) in zip(LETTERS, queries):
        panel.with_target(_query(letter, expression, legend).range())
    return panel


def _common(panel, title, about, width, height):
    panel.title(title).datasource(SOURCE).span(width).height(height)
    return panel.description(about) if about else panel


def _legend():
    return (common.VizLegendOptions().show_legend(True)
            .display_mode(words.LegendDisplayMode.LIST)
            .placement(words.LegendPlacement.BOTTOM).calcs([]))


def _tooltip():
    return (common.VizTooltipOptions()
            .mode(words.TooltipDisplayMode.MULTI)
            .sort(words.SortOrder.DESCENDING))


def stat(title, *queries, width=3, height=4, unit="short", steps=looks.PLAIN,
         mapping=None, names=False, empty=NOTHING, about="", decimals=None):
    """The last value of each query; with `names`, the legend instead."""
    mode = (words.BigValueTextMode.NAME if names else
            words.BigValueTextMode.VALUE_AND_NAME if len(queries) > 1 else
            words.BigValueTextMode.VALUE)
    panel = (_common(stats.Panel(), title, about, width, height)
             .reduce_options(common.ReduceDataOptions().values(False)
                             .calcs(["lastNotNull"]).fields(""))
             .text_mode(mode).graph_mode(words.BigValueGraphMode.NONE)
             .color_mode(words.BigValueColorMode.VALUE)
             .justify_mode(words.BigValueJustifyMode.CENTER)
             .orientation(words.VizOrientation.AUTO)
             .show_percent_change(False).wide_layout(True)
             .percent_change_color_mode(
                 words.PercentChangeColorMode.STANDARD)
             .unit(unit).no_value(empty).thresholds(looks.thresholds(steps))
             .color_scheme(looks.by_threshold()))
    if mapping:
        panel.mappings(looks.mapping(mapping))
    if decimals is not None:
        panel.decimals(decimals)
    for letter, (expression, legend) in zip(LETTERS, queries):
        panel.with_target(_query(letter, expression, legend).instant())
    return panel


def lines(title, *queries, width=12, height=8, unit="short", least=0, most=None,
          logarithmic=False, about=""):
    panel = (_common(timeseries.Panel(), title, about, width, height)
             .unit(unit).legend(_legend()).tooltip(_tooltip())
             .color_scheme(looks.by_order())
             .thresholds(looks.thresholds(looks.PLAIN))
             .line_width(1).fill_opacity(8)
             .show_points(words.VisibilityMode.AUTO))
    if least is not None:
        panel.min(least)
    if most is not None:
        panel.max(most)
    if logarithmic:
        panel.scale_distribution(
            common.ScaleDistributionConfig()
            .type(words.ScaleDistribution.LOG).log(10))
    return _add_queries(panel, queries)


def areas(title, *queries, **more):
    """Lines that add up."""
    return (lines(title, *queries, **more).fill_opacity(40)
            .stacking(common.StackingConfig().group("A")
                      .mode(words.StackingMode.NORMAL)))


def bars(title, *queries, **more):
    """How often something happened: a bar at least every five minutes."""
    return (areas(title, *queries, **more).interval("5m").fill_opacity(80)
            .draw_style(words.GraphDrawStyle.BARS).decimals(0))


def states(title, *queries, mapping, width=12, height=5, about=""):
    """A strip of colour per series, each value with its name."""
    panel = (_common(statetimeline.Panel(), title, about, width, height)
             .show_value(words.VisibilityMode.AUTO).merge_values(True)
             .row_height(0.8).fill_opacity(70).line_width(0)
             .align_value(words.TimelineValueAlignment.LEFT)
             .legend(_legend().show_legend(False)).tooltip(_tooltip())
             .mappings(looks.mapping(mapping))
             .thresholds(looks.thresholds(looks.PLAIN))
             .color_scheme(looks.by_mapping()))
    return _add_queries(panel, queries)


def dashed(panel, letter):
    """Draws the query as a dashed line without area, for a limit."""
    return panel.override_by_query(letter, [
        model.DynamicConfigValue("custom.lineStyle",
                                 {"fill": "dash", "dash": [8, 8]}),
        model.DynamicConfigValue("custom.fillOpacity", 0)])


class Column:
    """A column of a table: its expression's value, or a label of one."""

    def __init__(self, title, expression=None, label=None, unit="short",
                 mapping=None, steps=None, width=None, link=None, most=None):
        self.title, self.expression, self.label = title, expression, label
        self.unit, self.mapping, self.steps = unit, mapping, steps
        self.width, self.link, self.most = width, link, most

    def properties(self):
        found = [model.DynamicConfigValue("unit", self.unit)]
        if self.mapping:
            found.append(model.DynamicConfigValue(
                "mappings", looks.mapping(self.mapping)))
        if self.mapping or self.steps:
            found.append(model.DynamicConfigValue(
                "custom.cellOptions", {"type": "color-text"}))
        if self.steps:
            found.append(model.DynamicConfigValue(
                "thresholds", looks.thresholds(self.steps).build()))
        if self.most is not None:
            found += [
                model.DynamicConfigValue("min", 0),
                model.DynamicConfigValue("max", self.most),
                model.DynamicConfigValue(
                    "custom.cellOptions",
                    {"type": "gauge", "mode": "basic",
                     "valueDisplayMode": "text"})]
        if self.width:
            found.append(model.DynamicConfigValue("custom.width", self.width))
        if self.link:
            found.append(model.DynamicConfigValue("links", [self.link]))
        return found


def table(title, columns, hidden=(), source=None, width=24, height=8, about=""):
    """A row for each set of the labels that all expressions keep. `source` is an
    expression that only gives labels."""
    panel = (_common(tables.Panel(), title, about, width, height)
             .show_header(True).cell_height(words.TableCellHeight.SM)
             .align(words.FieldTextAlignment.AUTO)
             .cell_options(words.TableAutoCellOptions())
             .inspect(False).no_value(NOTHING)
             .thresholds(looks.thresholds(looks.PLAIN))
             .color_scheme(looks.by_threshold()))
    expressions = [] if source is None else [source]
    expressions += [c.expression for c in columns if c.expression]
    names, order = {}, {}
    for index, column in enumerate(columns):
        field = column.label
        if column.expression:
            field = f"Value #{LETTERS[expressions.index(column.expression)]}"
        names[field], order[field] = column.title, index
        panel.override_by_name(column.title, column.properties())
    dropped = {"Time": True, **{label: True for label in hidden}}
    if source is not None:
        dropped["Value #A"] = True
    for letter, expression in zip(LETTERS, expressions):
        panel.with_target(
            _query(letter, expression).instant()
            .format(prometheus_model.PromQueryFormat.TABLE))
    panel.with_transformation(model.DataTransformerConfig("merge", options={}))
    panel.with_transformation(model.DataTransformerConfig(
        "organize", options={"excludeByName": dropped, "indexByName": order,
                             "renameByName": names}))
    return panel
