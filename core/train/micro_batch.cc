// SPDX-License-Identifier: Apache-2.0
#include "core/train/micro_batch.h"

#include <algorithm>
#include <utility>

#include "core/base/file.h"
#include "nlohmann/json.hpp"

namespace mpsd::train {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr size_t kMaxCandidates = 8;
constexpr double kNoFaster = 0.97;  // of the time before

json PlanJson(const MicroBatchPlan& plan, int64_t batch) {
  json trials = json::array();
  for (const MicroBatchTrial& t : plan.trials) {
    trials.push_back({{"rows", t.choice.rows},
                      {"gradient_checkpointing", t.choice.checkpointing},
                      {"step_seconds", t.step_seconds},
                      {"peak_bytes", t.peak_bytes},
                      {"tried", t.tried}});
  }
  return {{"rows", plan.chosen.rows},
          {"accumulation", batch / plan.chosen.rows},
          {"gradient_checkpointing", plan.chosen.checkpointing},
          {"from", plan.from},
          {"trials", trials}};
}

std::optional<MicroBatch> ChoiceOf(const json& j) {
  if (!j.is_object() || !j.value("rows", json()).is_number_integer() ||
      !j.value("gradient_checkpointing", json()).is_boolean()) {
    return std::nullopt;
  }
  return MicroBatch{j["rows"].get<int64_t>(),
                    j["gradient_checkpointing"].get<bool>()};
}

std::optional<MicroBatchPlan> PlanOf(const json& j, int64_t batch) {
  const auto chosen = ChoiceOf(j);
  if (!chosen || chosen->rows < 1 || batch % chosen->rows != 0) {
    return std::nullopt;
  }
  MicroBatchPlan plan{*chosen, "job", {}};
  if (j.value("from", json()).is_string()) plan.from = j["from"];
  for (const json& t : j.value("trials", json::array())) {
    const auto choice = ChoiceOf(t);
    if (!choice || !t.value("step_seconds", json()).is_number() ||
        !t.value("peak_bytes", json()).is_number_integer() ||
        !t.value("tried", json()).is_boolean()) {
      continue;
    }
    plan.trials.push_back({*choice, t["step_seconds"].get<double>(),
                           t["peak_bytes"].get<int64_t>(),
                           t["tried"].get<bool>()});
  }
  return plan;
}

json ReadObject(const fs::path& file) {
  auto text = base::ReadFile(file);
  if (!text.ok()) return json::object();
  json object = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  return object.is_object() ? object : json::object();
}

// One pass over the candidates, with or without checkpointing.
class Pass {
 public:
  Pass(const MicroBatchSearch& search, bool checkpointing)
      : search_(search), checkpointing_(checkpointing) {}

  // Whether `rows` can be tried, going by the trial before.
  bool Fits(int64_t rows) {
    if (before_.peak_bytes == 0) return true;
    const double of_a_batch = std::max<double>(
        0, static_cast<double>(before_.peak_bytes - search_.resident_bytes));
    expected_ = search_.resident_bytes +
                static_cast<int64_t>(of_a_batch * static_cast<double>(rows) /
                                     static_cast<double>(before_.choice.rows));
    return expected_ <= search_.limit_bytes;
  }
  MicroBatchTrial Untried(int64_t rows) const {
    return {{rows, checkpointing_}, 0, expected_, false};
  }
  // Whether to go on to more rows.
  bool Faster(const MicroBatchTrial& trial) {
    const bool faster = before_.peak_bytes == 0 ||
                        trial.step_seconds < kNoFaster * before_.step_seconds;
    before_ = trial;
    no_gain_ = faster ? 0 : no_gain_ + 1;
    return no_gain_ < 2;
  }

 private:
  const MicroBatchSearch& search_;
  const bool checkpointing_;
  MicroBatchTrial before_;
  int64_t expected_ = 0;
  int no_gain_ = 0;
};

// The fastest that fits; where none does, the smallest.
MicroBatch Choose(const std::vector<MicroBatchTrial>& trials, int64_t limit) {
  const MicroBatchTrial* best = nullptr;
  for (const MicroBatchTrial& t : trials) {
    if (!t.tried || t.peak_bytes > limit) continue;
    if (best == nullptr || t.step_seconds < kNoFaster * best->step_seconds ||
        (t.step_seconds <= best->step_seconds / kNoFaster &&
         t.peak_bytes < best->peak_bytes)) {
      best = &t;
    }
  }
  if (best != nullptr) return best->choice;
  return {trials.front().choice.rows, true};
}

}  // namespace

std::vector<int64_t> CandidateRows(int64_t batch, int64_t max_rows) {
  std::vector<int64_t> rows;
  for (int64_t n = 1; n <= std::min(batch, std::max<int64_t>(max_rows, 1));
       ++n) {
    if (batch % n == 0) rows.push_back(n);
  }
  // Every second one goes, the largest stays.
  while (rows.size() > kMaxCandidates) {
    std::vector<int64_t> fewer;
    for (size_t i = (rows.size() + 1) % 2; i < rows.size(); i += 2) {
      fewer.push_back(rows[i]);
    }
    rows = std::move(fewer);
  }
  return rows;
}

absl::StatusOr<MicroBatchPlan> FindMicroBatch(
    const MicroBatchSearch& search,
    const std::function<absl::StatusOr<MicroBatchTrial>(const MicroBatch&)>&
        measure) {
  MicroBatchPlan plan;
  plan.from = "trial";
  const auto candidates = CandidateRows(search.batch, search.max_rows);
  bool short_of_memory = search.always_checkpointing;
  for (const bool checkpointing : {false, true}) {
    if (checkpointing ? !short_of_memory : search.always_checkpointing) {
      continue;
    }
    Pass pass(search, checkpointing);
    for (const int64_t rows : candidates) {
      if (!pass.Fits(rows)) {
        plan.trials.push_back(pass.Untried(rows));
        short_of_memory = true;
        break;
      }
      auto trial = measure({rows, checkpointing});
      if (!trial.ok()) return trial.status();
      plan.trials.push_back(*trial);
      if (trial->peak_bytes > search.limit_bytes) {
        short_of_memory = true;
        break;
      }
      if (!pass.Faster(*trial)) break;
    }
  }
  plan.chosen = Choose(plan.trials, search.limit_bytes);
  return plan;
}

std::string ToJson(const MicroBatchPlan& plan, int64_t batch) {
  return PlanJson(plan, batch).dump();
}

std::optional<MicroBatchPlan> ParseMicroBatchPlan(const std::string& text,
                                                  int64_t batch) {
  return PlanOf(json::parse(text, nullptr, /*allow_exceptions=*/false), batch);
}

std::optional<MicroBatchPlan> ReadPlanOfRun(const fs::path& folder,
                                            int64_t batch) {
  return PlanOf(ReadObject(folder / "run.json").value("micro_batch", json()),
                batch);
}

std::optional<MicroBatchPlan> FindCachedPlan(const fs::path& file,
                                             const std::string& key,
                                             int64_t batch) {
  return PlanOf(ReadObject(file).value(key, json()), batch);
}

absl::Status CachePlan(const fs::path& file, const std::string& key,
                       const MicroBatchPlan& plan, int64_t batch) {
  json plans = ReadObject(file);
  plans[key] = PlanJson(plan, batch);
  return base::WriteFileAtomic(file, plans.dump(1) + "\n");
}

}  // namespace mpsd::train
