// SPDX-License-Identifier: Apache-2.0
#include "core/plan/needs.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/data/batch_shapes.h"
#include "core/spec/job_layers.h"
#include "core/spec/train_spec.h"

namespace mpsd::plan {
namespace {

// The estimate with rows of at most `length` tokens.
spec::MemoryEstimate EstimateAt(spec::TrainSpec spec,
                                const spec::ModelConfig& model,
                                const backend::Traits& traits, int64_t length,
                                bool evaluates) {
  spec.training.max_length = std::min(spec.training.max_length, length);
  if (!evaluates) {
    spec.dataset.eval.clear();
    spec.dataset.validation_split = 0;
  }
  return spec::EstimateMemory(spec, model, traits);
}

}  // namespace

MemoryNeed MemoryOf(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                    const backend::Traits& traits, const JobRows& rows) {
  const data::BatchShapes shapes(spec, model, traits, "");
  MemoryNeed need;
  need.longest_row = shapes.LongestRow(*rows.train);
  const bool evaluates = rows.eval != nullptr;
  need.bytes_at_max_length =
      EstimateAt(spec, model, traits, spec.training.max_length, evaluates)
          .total_bytes;
  need.parts = EstimateAt(spec, model, traits, need.longest_row, false);
  if (!evaluates) return need;
  // Training and evaluation have separate longest rows.
  const int64_t longest = shapes.LongestRow(*rows.eval);
  need.parts.evaluation_bytes =
      EstimateAt(spec, model, traits, longest, true).evaluation_bytes;
  need.parts.Add();
  return need;
}

spec::TrainSpec WithMicroBatch(spec::TrainSpec spec,
                               const spec::ModelConfig& model,
                               const backend::Traits& traits,
                               const JobRows& rows, int64_t limit_bytes) {
  spec::TrainingSpec& t = spec.training;
  if (!t.auto_find_batch_size) return spec;
  const int64_t batch =
      t.per_device_train_batch_size * t.gradient_accumulation_steps;
  const spec::Recompute demanded = t.recompute();
  for (const spec::Recompute recompute :
       {spec::Recompute::kNone, spec::Recompute::kSelective,
        spec::Recompute::kFull}) {
    if (recompute < demanded) continue;
    t.set_recompute(recompute);
    for (int64_t size = batch; size > 0; --size) {
      if (batch % size != 0) continue;
      t.per_device_train_batch_size = size;
      t.gradient_accumulation_steps = batch / size;
      const data::BatchShapes shapes(spec, model, traits, "");
      const int64_t row =
          shapes.LongestRow(*rows.train) * rows.train->sequences();
      if (traits.max_sum && size > 1 && size * row > *traits.max_sum) continue;
      const int64_t needed =
          MemoryOf(spec, model, traits, rows).parts.total_bytes;
      if (limit_bytes == 0 || needed <= limit_bytes) return spec;
    }
  }
  return spec;
}

CheckpointCount CountCheckpoints(const spec::TrainingSpec& training,
                                 int64_t total_steps, int64_t eval_steps) {
  // The steps before the last that are multiples.
  const auto before_end = [&](int64_t every) {
    return every > 0 ? (total_steps - 1) / every : 0;
  };
  const int64_t every = training.save_steps;
  CheckpointCount count{.saved = before_end(every) + 1};
  if (training.load_best_model_at_end && eval_steps > 0) {
    count.bests = before_end(eval_steps) -
                  (every > 0 ? before_end(std::lcm(every, eval_steps)) : 0);
  }
  return count;
}

DiskNeed DiskOf(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                const CheckpointCount& checkpoints) {
  constexpr int64_t kFloat = 4;
  constexpr int64_t kCopies = 3;  // the value and both moments of AdamW
  const int64_t trained = spec::TrainableParameterCount(spec, model);
  DiskNeed need;
  need.checkpoint_bytes = trained * kFloat * kCopies;
  // A new best is complete before the best so far goes.
  need.checkpoints_kept =
      checkpoints.saved + std::min<int64_t>(checkpoints.bests, 1);
  if (const auto limit = spec.training.save_total_limit) {
    // A new checkpoint is complete before an old one goes; the best stays too.
    const int64_t best = spec.training.load_best_model_at_end ? 1 : 0;
    need.checkpoints_kept = std::min(need.checkpoints_kept, *limit + 1 + best);
  }
  // An adapter is saved in fp32, a model in the dtype of its frozen weights.
  const bool whole = spec.fine_tune_type != spec::FineTuneType::kLora;
  need.result_bytes = whole ? spec::ParameterCount(model) *
                                  (spec.training.bf16 ? kFloat / 2 : kFloat)
                            : trained * kFloat;
  return need;
}

namespace {

using nlohmann::json;

// Rows shorter than this have too few tokens to learn from.
constexpr int64_t kShortestLength = 32;

// One combination of changes, as a spec.
struct Candidate {
  spec::TrainSpec spec;
  int weight = 0;  // see FindAlternatives
};

std::vector<int64_t> SmallerRows(const spec::TrainingSpec& t) {
  const int64_t batch =
      t.per_device_train_batch_size * t.gradient_accumulation_steps;
  std::vector<int64_t> all;
  for (int64_t rows = t.per_device_train_batch_size - 1; rows > 0; --rows) {
    if (batch % rows == 0) all.push_back(rows);
  }
  return all;
}

std::vector<int64_t> ShorterLengths(int64_t longest) {
  std::vector<int64_t> all = data::LengthBuckets(longest);
  all.pop_back();
  std::reverse(all.begin(), all.end());
  std::erase_if(all, [](int64_t length) { return length < kShortestLength; });
  return all;
}

class Search {
 public:
  Search(const UnfitJob& job, int64_t limit_bytes)
      : job_(job), limit_(limit_bytes) {}

  std::vector<Alternative> Find() {
    for (const bool bits : {false, true}) {
      const std::optional<Candidate> begin = Bits(bits);
      if (!begin) continue;
      for (const spec::Recompute recompute : Recomputations()) {
        Candidate changed = *begin;
        if (recompute != job_.spec.training.recompute()) {
          changed.spec.training.set_recompute(recompute);
          ++changed.weight;
        }
        AddFitting(changed);
      }
    }
    return Best();
  }

 private:
  bool Fits(const spec::TrainSpec& spec) const {
    const data::BatchShapes shapes(spec, job_.model, job_.traits, "");
    return shapes.CheckDeviceLimits(*job_.rows.train, {}).ok() &&
           Bytes(spec) <= limit_;
  }
  int64_t Bytes(const spec::TrainSpec& spec) const {
    return MemoryOf(spec, job_.model, job_.traits, job_.rows).parts.total_bytes;
  }

  // The job with its base in four bits, if possible.
  std::optional<Candidate> Bits(bool four) const {
    Candidate candidate{job_.spec, 0};
    if (!four) return candidate;
    if (job_.spec.quantization_config.load_in_4bit ||
        job_.model.quantization.has_value()) {
      return std::nullopt;
    }
    candidate.spec.quantization_config.load_in_8bit = false;
    candidate.spec.quantization_config.load_in_4bit = true;
    candidate.spec.quantization_config.bnb_4bit_use_double_quant = true;
    candidate.weight = 2;
    if (!spec::CheckTask(candidate.spec, job_.model).ok()) return std::nullopt;
    return candidate;
  }

  std::vector<spec::Recompute> Recomputations() const {
    const spec::Recompute own = job_.spec.training.recompute();
    std::vector<spec::Recompute> all = {own};
    if (job_.spec.fine_tune_type == spec::FineTuneType::kHead) return all;
    const bool selective =
        spec::ChooseGradients(job_.spec, job_.model).explicit_step;
    if (own < spec::Recompute::kSelective && selective) {
      all.push_back(spec::Recompute::kSelective);
    }
    if (own < spec::Recompute::kFull) all.push_back(spec::Recompute::kFull);
    return all;
  }

  // Adds `begin` itself, or the first fitting variants with smaller
  // micro-batches, with shorter rows and with both.
  void AddFitting(const Candidate& begin) {
    if (Add(begin)) return;
    const spec::TrainingSpec& t = begin.spec.training;
    const int64_t batch =
        t.per_device_train_batch_size * t.gradient_accumulation_steps;
    Candidate rows = begin;
    ++rows.weight;
    bool found = false;
    for (const int64_t size : SmallerRows(t)) {
      rows.spec.training.per_device_train_batch_size = size;
      rows.spec.training.gradient_accumulation_steps = batch / size;
      // An evaluation's batch would use the memory that training saves.
      rows.spec.training.per_device_eval_batch_size =
          std::min(t.per_device_eval_batch_size, size);
      found = Add(rows);
      if (found) break;
    }
    if (job_.spec.task == spec::Task::kImageCls) return;
    const data::BatchShapes shapes(begin.spec, job_.model, job_.traits, "");
    const std::vector<int64_t> lengths = ShorterLengths(std::min(
        shapes.LongestRow(*job_.rows.train), job_.spec.training.max_length));
    Shorten(begin, lengths);
    // `rows` now has single rows, unless larger ones fit.
    if (!found && rows.spec.training.per_device_train_batch_size <
                      t.per_device_train_batch_size) {
      Shorten(rows, lengths);
    }
  }

  void Shorten(Candidate candidate, const std::vector<int64_t>& lengths) {
    candidate.weight += 2;
    for (const int64_t length : lengths) {
      candidate.spec.training.max_length = length;
      if (Add(candidate)) return;
    }
  }

  bool Add(const Candidate& candidate) {
    if (!Fits(candidate.spec)) return false;
    found_.push_back(candidate);
    return true;
  }

  std::vector<Alternative> Best() {
    struct Timed {
      int weight;
      double seconds;
      Alternative alternative;
    };
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Candidate& a, const Candidate& b) {
                       return a.weight < b.weight;
                     });
    std::vector<Timed> timed;
    for (const Candidate& candidate : found_) {
      Alternative alternative = Describe(candidate.spec);
      const double seconds = alternative.train_seconds.value_or(0);
      timed.push_back({candidate.weight, seconds, std::move(alternative)});
    }
    std::stable_sort(timed.begin(), timed.end(),
                     [](const Timed& a, const Timed& b) {
                       return std::pair(a.weight, a.seconds) <
                              std::pair(b.weight, b.seconds);
                     });
    std::vector<Alternative> best;
    for (Timed& t : timed) {
      if (best.size() == kMostAlternatives) break;
      best.push_back(std::move(t.alternative));
    }
    return best;
  }

  Alternative Describe(const spec::TrainSpec& spec) const {
    Alternative a;
    a.memory_bytes = Bytes(spec);
    const spec::TrainingSpec &was = job_.spec.training, &is = spec.training;
    const auto change = [&a](const char* name, const json& value) {
      a.patch["training"][name] = value;
      a.changes.push_back(absl::StrCat("training.", name, " ", value.dump()));
    };
    if (is.per_device_train_batch_size != was.per_device_train_batch_size) {
      change("per_device_train_batch_size", is.per_device_train_batch_size);
      change("gradient_accumulation_steps", is.gradient_accumulation_steps);
    }
    if (is.per_device_eval_batch_size != was.per_device_eval_batch_size &&
        job_.rows.eval != nullptr) {
      change("per_device_eval_batch_size", is.per_device_eval_batch_size);
    }
    if (is.recompute() != was.recompute()) {
      change("gradient_checkpointing", true);
      change("recompute_granularity",
             is.recompute() == spec::Recompute::kFull ? "full" : "selective");
    }
    if (was.auto_find_batch_size) change("auto_find_batch_size", false);
    if (spec.quantization_config.load_in_4bit !=
        job_.spec.quantization_config.load_in_4bit) {
      a.patch["quantization_config"] = {{"load_in_4bit", true},
                                        {"load_in_8bit", false},
                                        {"bnb_4bit_quant_type", "nf4"},
                                        {"bnb_4bit_use_double_quant", true}};
      a.changes.emplace_back("quantization_config 4 bits (nf4)");
      a.note = "the frozen weights are rounded to 4 bits";
    }
    if (is.max_length != was.max_length) {
      change("max_length", is.max_length);
      AddNoteOfCut(is.max_length, a);
    }
    AddTimes(spec, a);
    return a;
  }

  void AddNoteOfCut(int64_t length, Alternative& a) const {
    const CountedRows& rows = *job_.rows.train;
    int64_t longer = 0;
    for (int64_t i = 0; i < rows.size(); ++i) longer += rows.length(i) > length;
    absl::StrAppend(&a.note, a.note.empty() ? "" : "; ",
                    absl::StrFormat("%.1f %% of the rows are cut to %d tokens",
                                    100.0 * static_cast<double>(longer) /
                                        static_cast<double>(rows.size()),
                                    length));
  }

  void AddTimes(const spec::TrainSpec& spec, Alternative& a) const {
    if (job_.times.source() == TimeSource::kUnknown) return;
    const data::BatchShapes shapes(spec, job_.model, job_.traits, "");
    const Epoch epoch = CountEpoch(
        *job_.rows.train,
        shapes.TrainOptions(spec.training.per_device_train_batch_size));
    const std::optional<double> seconds = job_.times.Seconds(spec, epoch);
    if (!seconds) return;
    a.seconds_per_step = *seconds / static_cast<double>(epoch.steps);
    a.train_seconds = *seconds * job_.epochs;
  }

  const UnfitJob& job_;
  const int64_t limit_;
  std::vector<Candidate> found_;
};

}  // namespace

std::vector<Alternative> FindAlternatives(const UnfitJob& job,
                                          int64_t limit_bytes) {
  return Search(job, limit_bytes).Find();
}

}  // namespace mpsd::plan
