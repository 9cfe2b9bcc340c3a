// SPDX-License-Identifier: Apache-2.0
#include "core/train/micro_batch.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace mpsd::train {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;
using spec::Recompute;

constexpr size_t kMaxCandidates = 8;
constexpr double kNoFaster = 0.97;  // share of the previous trial's time
constexpr char kSelective[] = "selective", kFull[] = "full";

void PutChoice(const MicroBatch& choice, json& j) {
  j["rows"] = choice.rows;
  const bool checkpointing = choice.recompute != Recompute::kNone;
  j["gradient_checkpointing"] = checkpointing;
  if (checkpointing) {
    j["recompute_granularity"] =
        choice.recompute == Recompute::kSelective ? kSelective : kFull;
  }
}

json PlanJson(const MicroBatchPlan& plan, int64_t batch) {
  json trials = json::array();
  for (const MicroBatchTrial& t : plan.trials) {
    json& trial = trials.emplace_back();
    PutChoice(t.choice, trial);
    trial["step_seconds"] = t.step_seconds;
    trial["peak_bytes"] = t.peak_bytes;
    trial["tried"] = t.tried;
    if (t.out_of_memory) trial["out_of_memory"] = true;
  }
  json j;
  PutChoice(plan.chosen, j);
  base::CheckLess(0, plan.chosen.rows, "rows of the chosen micro-batch");
  j["accumulation"] = batch / plan.chosen.rows;
  j["from"] = plan.from;
  j["trials"] = trials;
  return j;
}

std::optional<MicroBatch> ChoiceOf(const json& j) {
  if (!j.is_object() || !j.value("rows", json()).is_number_integer() ||
      !j.value("gradient_checkpointing", json()).is_boolean()) {
    return std::nullopt;
  }
  MicroBatch choice{j["rows"].get<int64_t>(), Recompute::kNone};
  if (j["gradient_checkpointing"].get<bool>()) {
    choice.recompute = j.value("recompute_granularity", json()) == kSelective
                           ? Recompute::kSelective
                           : Recompute::kFull;
  }
  return choice;
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
                           t["tried"].get<bool>(),
                           t.value("out_of_memory", json()) == true});
  }
  return plan;
}

json ReadObject(const fs::path& file) {
  auto text = base::ReadFile(file);
  if (!text.ok()) return json::object();
  json object = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  return object.is_object() ? object : json::object();
}

// One pass over the candidates, all with the same recomputation.
class CandidatePass {
 public:
  CandidatePass(const MicroBatchSearch& search, Recompute recompute)
      : search_(search), recompute_(recompute) {}

  MicroBatch With(int64_t rows) const { return {rows, recompute_}; }

  // Whether `rows` should fit. The first trial uses the estimate; later ones
  // the previous trial, whose memory beyond the resident bytes grows with the
  // rows.
  bool Fits(int64_t rows) {
    if (before_.peak_bytes == 0) {
      expected_ = search_.estimate ? search_.estimate(With(rows)) : 0;
      return expected_ <= search_.limit_bytes;
    }
    const double of_a_batch = std::max<double>(
        0, static_cast<double>(before_.peak_bytes - search_.resident_bytes));
    expected_ = search_.resident_bytes +
                static_cast<int64_t>(of_a_batch * static_cast<double>(rows) /
                                     static_cast<double>(before_.choice.rows));
    return expected_ <= search_.limit_bytes;
  }
  MicroBatchTrial Untried(int64_t rows) const {
    return {With(rows), 0, expected_, false};
  }
  // Whether to try more rows: not after two trials in a row without gain.
  bool Faster(const MicroBatchTrial& trial) {
    const bool faster = before_.peak_bytes == 0 ||
                        trial.step_seconds < kNoFaster * before_.step_seconds;
    before_ = trial;
    no_gain_ = faster ? 0 : no_gain_ + 1;
    return no_gain_ < 2;
  }

 private:
  const MicroBatchSearch& search_;
  const Recompute recompute_;
  MicroBatchTrial before_;
  int64_t expected_ = 0;
  int no_gain_ = 0;
};

// The kinds of recomputation to try, from the one that keeps most to the one
// that keeps least; a job's own demand is the only one.
std::vector<Recompute> KindsOf(const MicroBatchSearch& search) {
  if (search.demanded != Recompute::kNone) return {search.demanded};
  if (!search.knows_selective) return {Recompute::kNone, Recompute::kFull};
  return {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
}

// The fastest that fits; if none does, the smallest.
MicroBatch Choose(const std::vector<MicroBatchTrial>& trials, int64_t limit) {
  base::Check(!trials.empty(), "a choice comes after a trial");
  const MicroBatchTrial* best = nullptr;
  for (const MicroBatchTrial& t : trials) {
    if (!t.tried || t.out_of_memory || t.peak_bytes > limit) continue;
    if (best == nullptr || t.step_seconds < kNoFaster * best->step_seconds ||
        (t.step_seconds <= best->step_seconds / kNoFaster &&
         t.peak_bytes < best->peak_bytes)) {
      best = &t;
    }
  }
  if (best != nullptr) return best->choice;
  const Recompute last = trials.back().choice.recompute;
  return {trials.front().choice.rows,
          last == Recompute::kNone ? Recompute::kFull : last};
}

}  // namespace

std::vector<int64_t> CandidateRows(int64_t batch, int64_t max_rows) {
  std::vector<int64_t> rows;
  for (int64_t n = 1; n <= std::min(batch, std::max<int64_t>(max_rows, 1));
       ++n) {
    if (batch % n == 0) rows.push_back(n);
  }
  // Drops every second candidate, never the largest.
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
  const std::vector<Recompute> kinds = KindsOf(search);
  base::Check(!candidates.empty() && !kinds.empty(), "there is a candidate");
  bool tried = false;
  for (const Recompute kind : kinds) {
    CandidatePass pass(search, kind);
    bool short_of_memory = false;
    for (const int64_t rows : candidates) {
      short_of_memory = !pass.Fits(rows);
      if (short_of_memory) {
        plan.trials.push_back(pass.Untried(rows));
        break;
      }
      ASSIGN_OR_RETURN(auto trial, measure(pass.With(rows)));
      tried = true;
      plan.trials.push_back(trial);
      short_of_memory =
          trial.out_of_memory || trial.peak_bytes > search.limit_bytes;
      if (short_of_memory || !pass.Faster(trial)) break;
    }
    // Memory did not end this pass, so recomputing would only be slower.
    if (!short_of_memory) break;
  }
  if (!tried) {
    ASSIGN_OR_RETURN(
        auto trial,
        measure(CandidatePass(search, kinds.back()).With(candidates.front())));
    plan.trials.push_back(trial);
  }
  plan.chosen = Choose(plan.trials, search.limit_bytes);
  return plan;
}

std::string ToJson(const MicroBatchPlan& plan, int64_t batch) {
  return PlanJson(plan, batch).dump();
}

std::optional<MicroBatchPlan> ReadPlanOfRun(const fs::path& folder,
                                            int64_t batch) {
  return PlanOf(ReadObject(folder / "run.json").value("micro_batch", json()),
                batch);
}

}  // namespace mpsd::train
