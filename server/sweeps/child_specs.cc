// SPDX-License-Identifier: Apache-2.0
#include "server/sweeps/child_specs.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/json_depth.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "core/metrics/metrics.h"
#include "core/spec/field_edit.h"
#include "core/spec/train_spec.h"
#include "server/sweeps/expand.h"
#include "server/sweeps/halving.h"

namespace mpsd::sweeps {
namespace {

using Json = nlohmann::ordered_json;

struct Fixed {
  const char* field;
  const char* why;
};
// What no two children may differ in: their values would not compare.
constexpr Fixed kFixed[] = {
    {"name", "mpsd names the children"},
    {"dataset", "children share their data: make a sweep for each data set"},
    {"training.metric_for_best_model", "children are ranked by one metric"},
    {"training.greater_is_better", "children are ranked by one metric"},
};
// The same with rungs.
constexpr Fixed kFixedWithRungs[] = {
    {"training.max_steps", "rungs are steps of one schedule"},
    {"training.num_train_epochs", "rungs are steps of one schedule"},
    {"training.eval_steps", "the rungs decide when a child is evaluated"},
    {"training.save_steps", "the rungs decide when a child is saved"},
};

absl::Status Invalid(const std::string& what) {
  return absl::InvalidArgumentError(what);
}

template <size_t N>
absl::Status CheckNotFixed(const Plan& plan, const Fixed (&fixed)[N]) {
  for (const Parameter& parameter : plan.parameters) {
    for (const Fixed& one : fixed) {
      if (Overlap(parameter.field, one.field)) {
        return Invalid(
            absl::StrCat("parameters: ", base::Quotable(parameter.field),
                         ": cannot vary: ", one.why));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRungs(const std::vector<int64_t>& rungs, int64_t max_steps) {
  if (rungs.size() > kMostRungs) {
    return Invalid(absl::StrCat("rungs: has ", rungs.size(),
                                " entries, at most ", kMostRungs,
                                " are allowed"));
  }
  for (size_t i = 0; i < rungs.size(); ++i) {
    if (rungs[i] < 1 || (i > 0 && rungs[i] <= rungs[i - 1])) {
      return Invalid(
          "rungs: expected steps from 1 on, each beyond the one "
          "before");
    }
  }
  if (max_steps > 0 && rungs.back() >= max_steps) {
    return Invalid(absl::StrCat("rungs: step ", rungs.back(),
                                " does not come before the last one, ",
                                max_steps, " (training.max_steps)"));
  }
  return absl::OkStatus();
}

// Sets the rungs of a plan with `eta`.
absl::Status SetRungs(const spec::TrainSpec& spec, int64_t children,
                      Plan& plan) {
  if (plan.eta < kLeastEta || plan.eta > kMostEta) {
    return Invalid(absl::StrCat("eta: must be ", kLeastEta, " to ", kMostEta,
                                ", or 0 for no early end, is ", plan.eta));
  }
  if (spec.dataset.eval.empty()) {
    return Invalid(
        "eta: children are ranked by evaluations at the rungs, and job.json "
        "has no dataset.eval: name one, or leave eta out");
  }
  absl::Status fixed = CheckNotFixed(plan, kFixedWithRungs);
  if (!fixed.ok()) return fixed;
  const int64_t steps = spec.training.max_steps;
  if (!plan.rungs.empty()) return CheckRungs(plan.rungs, steps);
  if (steps <= 0) {
    return Invalid(
        "rungs: the number of steps is known only once the data are read: set "
        "training.max_steps in job.json, or name the steps of the rungs");
  }
  plan.rungs = RungsFor(children, plan.eta, steps);
  if (!plan.rungs.empty()) return absl::OkStatus();
  return Invalid(absl::StrCat("eta: ", children, " children of ", steps,
                              " steps leave nothing to thin out by ", plan.eta,
                              ": leave eta out"));
}

// Sets what the plan ranks by.
absl::Status SetMetric(const spec::TrainSpec& spec,
                       std::optional<bool> greater_is_better, Plan& plan) {
  std::string& metric = plan.metric;
  const bool evaluates = !spec.dataset.eval.empty();
  if (!metric.empty() && !evaluates && metric != "train_loss") {
    return Invalid(absl::StrCat("metric: there is no ", base::Quotable(metric),
                                " without dataset.eval"));
  }
  if (metric.empty() && evaluates) metric = spec.training.metric_for_best_model;
  if (metric.starts_with("eval_")) metric = metric.substr(5);
  if (metric.empty()) metric = evaluates ? "loss" : "train_loss";
  if (metric.size() > limits::kMetricNameBytes || !base::IsPrintable(metric)) {
    return Invalid("metric: is no name of a metric");
  }
  if (metric == "train_loss" && plan.eta > 0) {
    return Invalid(
        "metric: the loss of training is known at the end alone, "
        "and eta ranks before: take the evaluation's, loss");
  }
  std::optional<bool> greater = greater_is_better;
  if (!greater && spec.training.metric_for_best_model.ends_with(metric)) {
    greater = spec.training.greater_is_better;
  }
  plan.greater_is_better = greater.value_or(metric != "train_loss" &&
                                            metrics::GreaterIsBetter(metric));
  return absl::OkStatus();
}

// Has an evaluation or a checkpoint fall on each rung.
void Align(const Plan& plan, int64_t steps, const char* field, Json& spec) {
  const auto fits = [&](int64_t rung) { return rung % steps == 0; };
  if (steps > 0 && std::all_of(plan.rungs.begin(), plan.rungs.end(), fits)) {
    return;
  }
  const int64_t divisor =
      std::accumulate(plan.rungs.begin(), plan.rungs.end(), int64_t{0},
                      [](int64_t a, int64_t b) { return std::gcd(a, b); });
  // The spec was parsed, so that its `training` is an object or absent.
  spec::SetField(spec, field, divisor).IgnoreError();
}

std::string LastPart(const std::string& field) {
  const size_t point = field.rfind('.');
  return point == std::string::npos ? field : field.substr(point + 1);
}

// The fields as a child's name has them: their last parts, where these differ.
std::vector<std::string> ShortNames(const Plan& plan) {
  std::map<std::string, int> uses;
  for (const Parameter& p : plan.parameters) ++uses[LastPart(p.field)];
  std::vector<std::string> names;
  for (const Parameter& p : plan.parameters) {
    const std::string last = LastPart(p.field);
    names.push_back(uses[last] == 1 ? last : p.field);
  }
  return names;
}

// A value for people: a text without its quotes.
std::string Shown(const std::string& json) {
  const Json value = base::ParseTree<Json>(json);
  return base::Printable(value.is_string() ? value.get<std::string>() : json);
}

absl::Status CheckBase(const jobs::SubmitRequest& request, const Plan& plan) {
  if (request.kind != jobs::JobKind::kTraining) {
    return Invalid(
        "submission: a sweep is of training jobs: leave `study` out");
  }
  if (request.labels.size() + plan.parameters.size() > limits::kJobLabels) {
    return Invalid(absl::StrCat("labels: a child has ", request.labels.size(),
                                " of them and ", plan.parameters.size(),
                                " for its values, at most ", limits::kJobLabels,
                                " are allowed"));
  }
  return absl::OkStatus();
}

absl::Status CheckInputs(size_t inputs, size_t children) {
  if (inputs * children <= kSweepInputs) return absl::OkStatus();
  return Invalid(absl::StrCat(
      "inputs: ", children, " children with ", inputs,
      " uploaded files each have ", inputs * children, " together, at most ",
      kSweepInputs, " are allowed: name fewer values, or name files of the ",
      "daemon's machine (--data-root)"));
}

absl::Status CheckSpecBytes(size_t bytes) {
  if (bytes <= kSweepSpecBytes) return absl::OkStatus();
  return Invalid(absl::StrCat(
      "submission: the children's job.json have more than ", kSweepSpecBytes,
      " bytes together: name fewer values, or a folder in place of its files"));
}

// The child with the values of `combination`. Its name lacks its number.
absl::StatusOr<jobs::ChildRequest> MakeChild(
    const jobs::SubmitRequest& request, const Plan& plan,
    const std::vector<std::string>& names, Json spec,
    const std::string& spec_name, const std::vector<std::string>& combination) {
  jobs::ChildRequest child{request, ""};
  child.request.idempotency_key.clear();
  std::string words;
  for (size_t i = 0; i < combination.size(); ++i) {
    const std::string& field = plan.parameters[i].field;
    const absl::Status set =
        spec::SetField(spec, field, base::ParseTree<Json>(combination[i]));
    if (!set.ok()) {
      return Invalid(absl::StrCat("parameters: ", base::Quotable(field), ": ",
                                  set.message()));
    }
    const std::string shown = Shown(combination[i]);
    absl::StrAppend(&words, words.empty() ? "" : " ", names[i], "=", shown);
    child.request.labels[field] =
        base::Shortened(shown, limits::kJobLabelValueBytes);
  }
  spec["name"] = base::Shortened(
      spec_name.empty() ? words : absl::StrCat(spec_name, " ", words),
      limits::kNameBytes);
  child.name =
      absl::StrCat("(", base::Shortened(words, limits::kQuotedBytes), ")");
  child.request.spec_json =
      spec.dump(2, ' ', false, Json::error_handler_t::replace);
  return child;
}

}  // namespace

absl::StatusOr<Children> MakeChildren(const jobs::SubmitRequest& request,
                                      Plan plan,
                                      std::optional<bool> greater_is_better) {
  absl::Status status = CheckBase(request, plan);
  if (!status.ok()) return status;
  const auto spec = spec::ParseTrainSpec(request.spec_json, "job.json");
  if (!spec.ok()) return spec.status();
  Children children;
  children.name = spec->name;
  auto values = Expand(plan);
  if (!values.ok()) return values.status();
  children.values = *std::move(values);
  status = CheckInputs(request.inputs.size(), children.values.size());
  if (status.ok()) status = CheckNotFixed(plan, kFixed);
  if (status.ok() && plan.eta == 0 && !plan.rungs.empty()) {
    status = Invalid("rungs: say with eta how many go on past them");
  }
  if (status.ok() && plan.eta != 0) {
    status =
        SetRungs(*spec, static_cast<int64_t>(children.values.size()), plan);
  }
  if (status.ok()) status = SetMetric(*spec, greater_is_better, plan);
  if (!status.ok()) return status;

  Json tree = base::ParseTree<Json>(request.spec_json);
  if (!plan.rungs.empty()) {
    Align(plan, spec->training.eval_steps, "training.eval_steps", tree);
    Align(plan, spec->training.save_steps, "training.save_steps", tree);
  }
  const std::vector<std::string> names = ShortNames(plan);
  size_t spec_bytes = 0;
  for (const std::vector<std::string>& combination : children.values) {
    auto child = MakeChild(request, plan, names, tree, spec->name, combination);
    if (!child.ok()) return child.status();
    child->name =
        absl::StrCat("child ", children.requests.size() + 1, " ", child->name);
    spec_bytes += child->request.spec_json.size();
    status = CheckSpecBytes(spec_bytes);
    if (!status.ok()) return status;
    children.requests.push_back(*std::move(child));
  }
  children.plan = std::move(plan);
  return children;
}

}  // namespace mpsd::sweeps
