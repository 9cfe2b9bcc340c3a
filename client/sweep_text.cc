// SPDX-License-Identifier: Apache-2.0
#include "client/sweep_text.h"

#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/text/csv.h"
#include "client/text/format.h"
#include "client/text/table.h"
#include "core/base/json_depth.h"

namespace mpsd::client {
namespace {

using Json = nlohmann::ordered_json;

std::string LastPart(const std::string& field) {
  const size_t point = field.rfind('.');
  return point == std::string::npos ? field : field.substr(point + 1);
}

std::string MetricText(const v1::SweepChild& child) {
  return child.has_metric() ? absl::StrCat(child.metric()) : "-";
}

std::string StateText(const v1::SweepChild& child) {
  return child.state() == v1::JOB_STATE_UNSPECIFIED ? "deleted"
                                                    : StateName(child.state());
}

std::string Describe(const v1::Sweep& sweep) {
  std::string text = absl::StrCat(
      "Sweep ", sweep.id(), sweep.name().empty() ? "" : " ",
      Printable(sweep.name()), ": ", sweep.total(), " jobs, ",
      sweep.strategy() == v1::SWEEP_STRATEGY_RANDOM
          ? absl::StrCat("drawn with the seed ", sweep.seed())
          : "a grid",
      "; ranked by ", Printable(sweep.metric()),
      sweep.greater_is_better() ? ", the greatest first" : ", the least first");
  if (!sweep.rungs().empty()) {
    absl::StrAppend(&text, "; the best 1/", sweep.eta(), " go on past step ",
                    absl::StrJoin(sweep.rungs(), ", "), " (",
                    sweep.rungs_decided(), " of ", sweep.rungs_size(),
                    " decided)");
  }
  return text;
}

}  // namespace

int EndedChildren(const v1::Sweep& sweep) {
  return sweep.total() - sweep.queued() - sweep.running();
}

bool HasEnded(const v1::Sweep& sweep) {
  return EndedChildren(sweep) >= sweep.total();
}

std::string SweepProgress(const v1::Sweep& sweep) {
  std::string text =
      absl::StrCat(EndedChildren(sweep), "/", sweep.total(), " done");
  if (sweep.has_best_metric()) {
    absl::StrAppend(&text, ", ", Printable(sweep.metric()), " ",
                    sweep.best_metric());
  }
  return text;
}

std::vector<std::string> ParameterNames(const v1::Sweep& sweep) {
  std::map<std::string, int> uses;
  for (const auto& p : sweep.parameters()) ++uses[LastPart(p.field())];
  std::vector<std::string> names;
  for (const auto& p : sweep.parameters()) {
    const std::string last = LastPart(p.field());
    names.push_back(uses[last] == 1 ? last : p.field());
  }
  return names;
}

std::string ValueText(const std::string& json) {
  const Json value = base::ParseTree<Json>(json);
  return value.is_string() ? value.get<std::string>() : json;
}

void PrintSweep(const v1::Sweep& sweep, int columns, std::ostream& out) {
  out << Describe(sweep) << '\n';
  std::vector<std::string> heading = {"RANK", "ID"};
  for (const std::string& name : ParameterNames(sweep)) {
    heading.push_back(Printable(name));
  }
  heading.insert(heading.end(), {Printable(sweep.metric()), "STATE", "STEP"});
  if (!sweep.rungs().empty()) heading.emplace_back("RUNG");
  heading.emplace_back("MESSAGE");
  Table table(heading);
  for (const v1::SweepChild& child : sweep.children()) {
    std::vector<std::string> cells = {
        child.rank() > 0 ? absl::StrCat(child.rank()) : "-", child.job_id()};
    for (int i = 0; i < sweep.parameters_size(); ++i) {
      cells.push_back(i < child.values_size() ? ValueText(child.values(i))
                                              : "-");
    }
    cells.push_back(MetricText(child));
    cells.push_back(StateText(child));
    cells.push_back(absl::StrCat(child.step()));
    if (!sweep.rungs().empty()) {
      cells.push_back(
          absl::StrCat(child.rungs_passed(), "/", sweep.rungs_size()));
    }
    cells.push_back(child.message());
    table.Add(std::move(cells));
  }
  table.Print(out, columns);
  if (sweep.best_job_id().empty()) return;
  out << (HasEnded(sweep) ? "Best: " : "Best so far: ") << "job "
      << sweep.best_job_id() << ", " << Printable(sweep.metric()) << ' '
      << sweep.best_metric() << '\n';
}

std::string SweepCsv(const v1::Sweep& sweep) {
  std::vector<Json> names = {"rank", "job_id"};
  for (const auto& p : sweep.parameters()) names.push_back(p.field());
  for (const char* name :
       {"metric", "state", "step", "rungs_passed", "name", "message"}) {
    names.emplace_back(name);
  }
  std::string csv = CsvLine(names);
  for (const v1::SweepChild& child : sweep.children()) {
    std::vector<Json> values;
    values.push_back(child.rank() > 0 ? Json(child.rank()) : Json());
    values.emplace_back(child.job_id());
    for (int i = 0; i < sweep.parameters_size(); ++i) {
      values.push_back(i < child.values_size()
                           ? base::ParseTree<Json>(child.values(i))
                           : Json());
      if (values.back().is_discarded()) values.back() = child.values(i);
    }
    values.push_back(child.has_metric() ? Json(child.metric()) : Json());
    values.emplace_back(StateText(child));
    values.emplace_back(child.step());
    values.emplace_back(child.rungs_passed());
    values.emplace_back(child.name());
    values.emplace_back(child.message());
    csv += CsvLine(values);
  }
  return csv;
}

}  // namespace mpsd::client
