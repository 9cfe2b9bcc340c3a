# SPDX-License-Identifier: Apache-2.0
"""The common parts of dashboards: variables, links, annotations."""

import json

import panels
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model
from promql import of_mac

OVERVIEW, JOB, FLEET = "mpsd-overview", "mpsd-job", "mpsd-fleet"
# A page's address in Grafana, with the current time range.
OVERVIEW_OF_ROW = (f"/d/{OVERVIEW}?var-instance=${{__data.fields.Mac}}"
                   "&${__url_time_range}")
JOB_OF_ROW = (f"/d/{JOB}?var-instance=${{__data.fields.instance}}"
              "&var-job_id=${__data.fields.job_id}&${__url_time_range}")

# Every job of the time range, ordered by the last step, with its name and the
# end of its id: several jobs may share a name.
_JOBS = """query_result(sort_desc(label_join(label_replace(
  (max by (instance, job_id) (last_over_time({step}[$__range]))
   or max by (instance, job_id) (last_over_time({info}[$__range])))
  * on (instance, job_id) group_left (name)
  max by (instance, job_id, name) (last_over_time({info}[$__range])),
  "short", "$1", "job_id", ".*(.{{6}})"), "title", " · ", "name", "short")))"""


class Annotation(build.AnnotationQuery):
    """With the fields of Prometheus' annotations, which the SDK lacks."""

    def __init__(self, **fields):
        super().__init__()
        self._fields = fields

    def build(self):
        annotation, fields = super().build(), self._fields
        plain = annotation.to_json
        annotation.to_json = lambda: {**plain(), **fields}
        return annotation


def mark(name, expression, color, text, at_value=False, on=True):
    """A line or a region at each time that the expression is above 0; with
    `at_value`, at the times given by its values, in milliseconds."""
    return (Annotation(titleFormat=name, textFormat=text, step="15s",
                       useValueForTime=at_value)
            .name(name).datasource(panels.SOURCE).enable(on).hide(False)
            .icon_color(color).expr(expression))


def marks():
    return [
        mark("mpsd started",
             "1000 * (" + of_mac("process_start_time_seconds")
             + " and on (instance) mpsd_build_info)", "purple",
             "{{instance}}", at_value=True),
        mark("paused", f"max by (instance, reason) ({of_mac('mpsd_paused')})",
             "orange", "{{reason}}"),
        mark("held", f"max by (instance, reason) ({of_mac('mpsd_held')})",
             "red", "{{reason}}"),
    ]


def _variable(name, label):
    return (build.QueryVariable(name).label(label).datasource(panels.SOURCE)
            .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED))


def data_source():
    return (build.DatasourceVariable("datasource").label("Data source")
            .type("prometheus"))


def macs(several):
    variable = (_variable("instance", "Mac")
                .query(_query("label_values(mpsd_build_info, instance)"))
                .sort(model.VariableSort.ALPHABETICAL_ASC).multi(several))
    if several:
        variable.include_all(True).current(model.VariableOption(
            text=["All"], value=["$__all"], selected=True))
    return variable


def jobs():
    query = _JOBS.format(step=of_mac("mpsd_job_last_step_timestamp_seconds"),
                         info=of_mac("mpsd_job_info"))
    return (_variable("job_id", "Job").query(_query(" ".join(query.split())))
            .regex('/job_id="(?<value>[^"]+)".*,title="(?<text>.*)"}/')
            .sort(model.VariableSort.DISABLED).multi(False))


def _query(query):
    return {"query": query, "refId": "StandardVariableQuery"}


def _link(title, uid, variables):
    return (build.DashboardLink(title).type(model.DashboardLinkType.LINK)
            .url(f"/d/{uid}").icon("dashboard").keep_time(True)
            .include_vars(variables))


def dashboard(uid, title, about, variables, links, annotations):
    """Links are pairs of a dashboard and whether to pass the variables."""
    titles = {OVERVIEW: "Machine and queue", JOB: "One job", FLEET: "All Macs"}
    made = (build.Dashboard(title).uid(uid).description(about).tags(["mpsd"])
            .refresh("30s").time("now-6h", "now").timezone("browser")
            .tooltip(model.DashboardCursorSync.CROSSHAIR))
    for variable in (data_source(), *variables):
        made.with_variable(variable)
    for other, carried in links:
        made.link(_link(titles[other], other, carried))
    for annotation in annotations:
        made.annotation(annotation)
    return made


def text(made):
    """The JSON that Grafana loads, without what the SDK writes and no Grafana
    from 12 on has. Rows and panels are numbered in their order."""
    tree = json.loads(json.dumps(made.build(), cls=JSONEncoder))
    number = 0
    for panel in tree["panels"]:
        for each in (panel, *panel.get("panels", [])):
            number += 1
            each["id"] = number
            each.get("options", {}).pop("footer", None)
    for variable in tree["templating"]["list"]:
        for name in ("auto", "auto_min", "auto_count"):
            variable.pop(name, None)
    return json.dumps(tree, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
