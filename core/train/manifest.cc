// SPDX-License-Identifier: Apache-2.0
#include "core/train/manifest.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/file.h"
#include "nlohmann/json.hpp"

namespace mpsd::train {
namespace fs = std::filesystem;
namespace {

using json = nlohmann::ordered_json;

constexpr char kFile[] = "run.json";
constexpr char kFallbacks[] = "cpu_fallback_ops";
constexpr size_t kNames = 100;  // longest list of names

json StatsJson(const data::DatasetStats& stats, const std::string& sha256) {
  return {{"sha256", sha256},
          {"rows", stats.rows},
          {"tokens", stats.tokens},
          {"label_tokens", stats.label_tokens},
          {"truncated_rows", stats.truncated_rows},
          {"dropped_rows", stats.dropped_rows},
          {"prompt_mismatch_rows", stats.prompt_mismatch_rows},
          {"prompt_rows", stats.prompt_rows}};
}

// The number of names, and the first kNames of them.
json Bounded(const std::vector<std::string>& names) {
  const auto shown =
      static_cast<std::ptrdiff_t>(std::min(names.size(), kNames));
  return {{"count", names.size()},
          {"names",
           std::vector<std::string>(names.begin(), names.begin() + shown)}};
}

template <typename T>
json Optional(const std::optional<T>& value) {
  return value ? json(*value) : json();
}

json Joined(const std::set<std::string>& names) {
  return names.empty() ? json() : json(absl::StrJoin(names, " and "));
}

json AttentionJson(const AttentionNames& names) {
  return {{"training",
           {{"forward", Joined(names.training.forward)},
            {"backward", Joined(names.training.backward)}}},
          {"evaluation", Joined(names.evaluation)}};
}

std::set<std::string> Names(const json& joined) {
  if (!joined.is_string()) return {};
  return absl::StrSplit(joined.get<std::string>(), " and ");
}

json ResultJson(const Manifest& m) {
  json result = {{"steps", m.steps},
                 {"train_loss", Optional(m.train_loss)},
                 {"eval_loss_before", Optional(m.eval_loss_before)},
                 {"eval_loss_after", Optional(m.eval_loss_after)},
                 {"tokens", m.tokens},
                 {"seconds", m.seconds}};
  if (m.result_step > 0) result["result_step"] = m.result_step;
  json& metrics = result["eval_metrics"] = json::object();
  for (const auto& [name, value] : m.eval_metrics) metrics[name] = value;
  if (m.best_metric) {
    result["best"] = {{"metric", *m.best_metric}, {"step", m.best_step}};
  }
  return result;
}

}  // namespace

absl::Status WriteManifest(const fs::path& folder, const Manifest& m) {
  json j;
  j["state"] = m.state;
  j["mpsd_version"] = m.mpsd_version;
  j["torch_version"] = m.torch_version;
  j["operating_system"] = m.operating_system;
  j["processor"] = m.processor;
  j["device"] = m.device;
  j["device_description"] = m.device_description;
  j["environment"] = m.environment;
  j["attention"] = AttentionJson(m.attention);
  j["gradients"] = m.gradients;
  j["dtype"] = m.dtype;
  j["seed"] = m.spec.training.seed;
  j["spec"] = json::parse(spec::ToJson(m.spec));
  j["model"] = {{"name", m.base_model.name},
                {"revision", m.base_model.revision},
                {"folder", m.model_folder},
                {"sha256", m.model_sha256}};
  j["train"] = StatsJson(m.train_stats, m.train_sha256);
  if (!m.eval_sha256.empty()) {
    j["eval"] = StatsJson(m.eval_stats, m.eval_sha256);
  }
  if (m.micro_batch) {
    const spec::TrainingSpec& t = m.spec.training;
    j["micro_batch"] =
        json::parse(ToJson(*m.micro_batch, t.per_device_train_batch_size *
                                               t.gradient_accumulation_steps));
  }
  if (!m.label_names.empty()) {
    j["labels"] = {{"problem_type", m.problem_type}, {"names", m.label_names}};
  }
  j["fresh_modules"] = m.fresh_modules;
  j["unused_tensors"] = Bounded(m.load_report.unused);
  j["missing_tensors"] = Bounded(m.load_report.missing);
  j["trainable_parameters"] = m.trainable_parameters;
  j["total_steps"] = m.total_steps;
  j["resumed_at_steps"] = m.resumed_at_steps;
  j["result"] = ResultJson(m);
  j["memory"] = {
      {"peak_allocated_bytes", Optional(m.memory.peak_allocated)},
      {"peak_driver_allocated_bytes", Optional(m.memory.peak_driver)},
      {"driver_overhead_growth_bytes", Optional(m.memory.overhead_growth)}};
  j[kFallbacks] = m.cpu_fallback_ops;
  j["warnings"] = m.warnings;
  // A warning may quote bytes of a user's file that are no UTF-8.
  const std::string text =
      j.dump(2, ' ', false, json::error_handler_t::replace);
  return base::WriteFileAtomic(folder / kFile, text + "\n");
}

std::vector<int64_t> ReadResumedSteps(const fs::path& folder) {
  auto text = base::ReadFile(folder / kFile);
  if (!text.ok()) return {};
  const json j = json::parse(*text, nullptr, false);
  if (!j.is_object() || !j.contains("resumed_at_steps")) return {};
  std::vector<int64_t> steps;
  for (const json& step : j["resumed_at_steps"]) {
    if (step.is_number_integer()) steps.push_back(step.get<int64_t>());
  }
  return steps;
}

std::map<std::string, int64_t> ReadFallbacks(const fs::path& folder) {
  auto text = base::ReadFile(folder / kFile);
  if (!text.ok()) return {};
  const json j = json::parse(*text, nullptr, false);
  if (!j.is_object() || !j.contains(kFallbacks)) return {};
  std::map<std::string, int64_t> counts;
  for (const auto& [op, count] : j[kFallbacks].items()) {
    if (count.is_number_integer()) counts[op] = count.get<int64_t>();
  }
  return counts;
}

void AttentionNames::Add(const AttentionNames& other) {
  training.forward.insert(other.training.forward.begin(),
                          other.training.forward.end());
  training.backward.insert(other.training.backward.begin(),
                           other.training.backward.end());
  evaluation.insert(other.evaluation.begin(), other.evaluation.end());
}

AttentionNames ReadAttention(const fs::path& folder) {
  auto text = base::ReadFile(folder / kFile);
  if (!text.ok()) return {};
  const json run = json::parse(*text, nullptr, false);
  if (!run.is_object() || !run.contains("attention")) return {};
  const json& names = run["attention"];
  if (!names.is_object() || !names.value("training", json()).is_object()) {
    return {};
  }
  const json& training = names["training"];
  return {{Names(training.value("forward", json())),
           Names(training.value("backward", json()))},
          Names(names.value("evaluation", json()))};
}

}  // namespace mpsd::train
