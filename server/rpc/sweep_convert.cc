// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/sweep_convert.h"

#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "server/rpc/check.h"
#include "server/rpc/convert.h"
#include "server/rpc/status.h"
#include "server/sweeps/halving.h"

namespace mpsd::rpc {
namespace {

using sweeps::Parameter;

absl::StatusOr<Parameter> ParameterFrom(const v1::SweepParameter& in) {
  Parameter out;
  out.field = in.field();
  switch (in.values_case()) {
    case v1::SweepParameter::kChoices:
      out.values = sweeps::Choices{
          {in.choices().values().begin(), in.choices().values().end()}};
      return out;
    case v1::SweepParameter::kUniform:
      out.values = sweeps::Uniform{in.uniform().low(), in.uniform().high()};
      return out;
    case v1::SweepParameter::kLogUniform:
      out.values =
          sweeps::LogUniform{in.log_uniform().low(), in.log_uniform().high()};
      return out;
    case v1::SweepParameter::kIntegers:
      out.values = sweeps::Integers{in.integers().low(), in.integers().high()};
      return out;
    case v1::SweepParameter::VALUES_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("parameters: ", base::Quotable(in.field()),
                   ": has no values, or a kind that this mpsd does not know"));
}

void Fill(const sweeps::Choices& values, v1::SweepParameter& out) {
  for (const std::string& value : values.values) {
    out.mutable_choices()->add_values(ValidUtf8(value));
  }
}
void Fill(const sweeps::Uniform& range, v1::SweepParameter& out) {
  out.mutable_uniform()->set_low(range.low);
  out.mutable_uniform()->set_high(range.high);
}
void Fill(const sweeps::LogUniform& range, v1::SweepParameter& out) {
  out.mutable_log_uniform()->set_low(range.low);
  out.mutable_log_uniform()->set_high(range.high);
}
void Fill(const sweeps::Integers& range, v1::SweepParameter& out) {
  out.mutable_integers()->set_low(range.low);
  out.mutable_integers()->set_high(range.high);
}

void FillPlan(const sweeps::Plan& plan, v1::Sweep& out) {
  // The numbers are the same in both.
  out.set_strategy(static_cast<v1::SweepStrategy>(plan.strategy));
  for (const Parameter& parameter : plan.parameters) {
    v1::SweepParameter& one = *out.add_parameters();
    one.set_field(ValidUtf8(parameter.field));
    std::visit([&](const auto& values) { Fill(values, one); },
               parameter.values);
  }
  out.set_seed(plan.seed);
  out.set_eta(static_cast<int32_t>(plan.eta));
  out.mutable_rungs()->Add(plan.rungs.begin(), plan.rungs.end());
  out.set_metric(ValidUtf8(plan.metric));
  out.set_greater_is_better(plan.greater_is_better);
}

void FillChild(const sweeps::Sweep& sweep, const sweeps::Place& place,
               const sweeps::JobsById& jobs, v1::SweepChild& out) {
  const sweeps::Child& child = sweep.children[place.child];
  out.set_job_id(child.job_id);
  out.set_position(static_cast<int32_t>(place.child));
  for (const std::string& value : child.values) {
    out.add_values(ValidUtf8(value));
  }
  out.set_rungs_passed(static_cast<int32_t>(child.rung));
  out.set_rank(static_cast<int32_t>(place.rank));
  if (place.metric) out.set_metric(*place.metric);
  out.set_message(ValidUtf8(child.out));
  const auto job = jobs.find(child.job_id);
  if (job == jobs.end()) return;
  out.set_name(ValidUtf8(job->second.name));
  out.set_state(ToProto(job->second.state));
  if (job->second.progress) out.set_step(job->second.progress->step);
  if (child.out.empty()) out.set_message(ValidUtf8(job->second.message));
}

void CountStates(const sweeps::JobsById& jobs, v1::Sweep& out) {
  for (const auto& [id, job] : jobs) {
    switch (job.state) {
      case jobs::State::kQueued:
        out.set_queued(out.queued() + 1);
        break;
      case jobs::State::kRunning:
        out.set_running(out.running() + 1);
        break;
      case jobs::State::kSucceeded:
        out.set_succeeded(out.succeeded() + 1);
        break;
      case jobs::State::kFailed:
        out.set_failed(out.failed() + 1);
        break;
      case jobs::State::kCancelled:
        out.set_cancelled(out.cancelled() + 1);
        break;
    }
  }
}

absl::Status CheckCounts(const v1::CreateSweepRequest& request) {
  // What is far beyond any bound is refused before it is copied.
  if (request.parameters_size() > limits::kSweepFields) {
    return absl::InvalidArgumentError(absl::StrCat(
        "parameters: has ", request.parameters_size(), " entries, at most ",
        limits::kSweepFields, " are allowed"));
  }
  if (request.rungs_size() > static_cast<int>(sweeps::kMostRungs)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rungs: has ", request.rungs_size(), " entries, at most ",
                     sweeps::kMostRungs, " are allowed"));
  }
  return CheckText("metric", request.metric(), limits::kMetricNameBytes);
}

}  // namespace

absl::StatusOr<sweeps::Plan> PlanFrom(const v1::CreateSweepRequest& request) {
  absl::Status checked = CheckCounts(request);
  if (!checked.ok()) return checked;
  sweeps::Plan plan;
  switch (request.strategy()) {
    case v1::SWEEP_STRATEGY_UNSPECIFIED:
    case v1::SWEEP_STRATEGY_GRID:
      plan.strategy = sweeps::Strategy::kGrid;
      break;
    case v1::SWEEP_STRATEGY_RANDOM:
      plan.strategy = sweeps::Strategy::kRandom;
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("strategy: this mpsd has none with the number ",
                       static_cast<int>(request.strategy())));
  }
  for (const v1::SweepParameter& in : request.parameters()) {
    absl::StatusOr<Parameter> parameter = ParameterFrom(in);
    if (!parameter.ok()) return parameter.status();
    plan.parameters.push_back(*std::move(parameter));
  }
  plan.count = request.count();
  plan.seed = request.seed();
  plan.eta = request.eta();
  plan.rungs.assign(request.rungs().begin(), request.rungs().end());
  plan.metric = request.metric();
  return plan;
}

void ToProto(const sweeps::Sweep& sweep, const sweeps::JobsById& jobs,
             bool with_children, v1::Sweep& out) {
  out.set_id(sweep.id);
  out.set_name(ValidUtf8(sweep.name));
  out.set_owner(ValidUtf8(sweep.owner));
  ToProto(sweep.create_time, *out.mutable_create_time());
  FillPlan(sweep.plan, out);
  out.set_rungs_decided(static_cast<int32_t>(sweep.rung));
  out.set_total(static_cast<int32_t>(sweep.children.size()));
  CountStates(jobs, out);
  for (const sweeps::Place& place : sweeps::Rank(sweep, jobs)) {
    if (place.rank == 1) {
      out.set_best_job_id(sweep.children[place.child].job_id);
      out.set_best_metric(*place.metric);
    }
    if (with_children) FillChild(sweep, place, jobs, *out.add_children());
  }
}

}  // namespace mpsd::rpc
