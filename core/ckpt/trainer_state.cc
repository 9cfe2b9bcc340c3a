// SPDX-License-Identifier: Apache-2.0
#include "core/ckpt/trainer_state.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace mpsd::ckpt {
namespace {

// Ordered, so that a fingerprint is read back byte for byte.
using json = nlohmann::ordered_json;

void Put(json& object, const char* name, const std::optional<double>& value) {
  object[name] = value ? json(*value) : json();
}

std::optional<double> Take(const json& object, const char* name) {
  const json& value = object.at(name);
  if (value.is_null()) return std::nullopt;
  return value.get<double>();
}

// JSON has no NaN, which a correlation may be: it is stored as null.
double Number(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN()
                         : value.get<double>();
}

TrainerState FromJson(const json& j) {
  TrainerState s;
  j.at("step").get_to(s.step);
  j.at("total_steps").get_to(s.total_steps);
  j.at("epoch").get_to(s.epoch);
  j.at("step_in_epoch").get_to(s.step_in_epoch);
  j.at("loss_sum").get_to(s.loss_sum);
  j.at("tokens_seen").get_to(s.tokens_seen);
  j.at("seconds").get_to(s.seconds);
  s.eval_loss_before = Take(j, "eval_loss_before");
  s.eval_loss = Take(j, "eval_loss");
  j.at("eval_step").get_to(s.eval_step);
  for (const json& metric : j.at("eval_metrics")) {
    s.eval_metrics.emplace_back(metric.at(0), Number(metric.at(1)));
  }
  s.best_metric = Take(j, "best_metric");
  j.at("best_step").get_to(s.best_step);
  j.at("evaluations_without_gain").get_to(s.evaluations_without_gain);
  const json& fingerprint = j.at("fingerprint");
  s.fingerprint = fingerprint.is_object() ? fingerprint.dump()
                                          : fingerprint.get<std::string>();
  return s;
}

}  // namespace

absl::Status WriteTrainerState(const std::filesystem::path& folder,
                               const TrainerState& s) {
  json j = {{"step", s.step},
            {"total_steps", s.total_steps},
            {"epoch", s.epoch},
            {"step_in_epoch", s.step_in_epoch},
            {"loss_sum", s.loss_sum},
            {"tokens_seen", s.tokens_seen},
            {"seconds", s.seconds},
            {"eval_step", s.eval_step},
            {"best_step", s.best_step},
            {"evaluations_without_gain", s.evaluations_without_gain}};
  json fingerprint = json::parse(s.fingerprint, nullptr, false);
  j["fingerprint"] =
      fingerprint.is_object() ? std::move(fingerprint) : json(s.fingerprint);
  Put(j, "eval_loss_before", s.eval_loss_before);
  Put(j, "eval_loss", s.eval_loss);
  Put(j, "best_metric", s.best_metric);
  j["eval_metrics"] = json::array();  // a list keeps the task's order
  for (const auto& [name, value] : s.eval_metrics) {
    j["eval_metrics"].push_back({name, value});
  }
  return base::WriteFileAtomic(folder / kTrainerStateFile, j.dump(2) + "\n");
}

absl::StatusOr<TrainerState> ReadTrainerState(
    const std::filesystem::path& folder) {
  ASSIGN_OR_RETURN(auto text, base::ReadFile(folder / kTrainerStateFile));
  try {
    TrainerState state = FromJson(json::parse(text));
    if (state.step >= 0 && state.epoch >= 0 && state.step_in_epoch >= 0) {
      return state;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        (folder / kTrainerStateFile).string(), ": a count is negative"));
  } catch (const json::exception& e) {
    return absl::InvalidArgumentError(
        absl::StrCat((folder / kTrainerStateFile).string(), ": ", e.what()));
  }
}

}  // namespace mpsd::ckpt
