// SPDX-License-Identifier: Apache-2.0
#include "core/study/batch_sweep.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/data/batch_shapes.h"
#include "core/data/loader.h"
#include "core/host/machine.h"
#include "core/report/runbook.h"
#include "core/study/measured_run.h"

namespace mpsd::study {
namespace {

// The smallest batch that does not fit.
std::optional<int64_t> SmallestMiss(const std::vector<BatchTrial>& trials) {
  std::optional<int64_t> miss;
  for (const BatchTrial& trial : trials) {
    if (trial.fits) continue;
    miss = std::min(miss.value_or(trial.batch), trial.batch);
  }
  return miss;
}

int64_t Doublings(int64_t from, int64_t to) {
  int64_t count = 0;
  for (; from < to; from *= 2) ++count;
  return count;
}

}  // namespace

std::optional<int64_t> NextBatch(const std::vector<BatchTrial>& trials,
                                 int64_t first, int64_t most) {
  if (trials.empty()) return std::min(first, most);
  const int64_t largest = LargestBatch(trials);
  if (const auto miss = SmallestMiss(trials)) {
    if (*miss - largest <= 1) return std::nullopt;
    return largest + (*miss - largest) / 2;
  }
  if (largest >= most) return std::nullopt;
  return std::min(2 * largest, most);
}

int64_t TrialsLeft(const std::vector<BatchTrial>& trials, int64_t first,
                   int64_t most) {
  if (trials.empty()) return 1 + Doublings(first, most);
  const int64_t largest = LargestBatch(trials);
  if (const auto miss = SmallestMiss(trials)) {
    return Doublings(1, *miss - largest);
  }
  return Doublings(largest, most);
}

std::optional<int64_t> PredictedBytes(const std::vector<BatchTrial>& trials,
                                      int64_t resident_bytes, int64_t batch) {
  const BatchTrial* last = nullptr;
  const BatchTrial* before = nullptr;
  for (const BatchTrial& trial : trials) {
    if (!trial.fits || trial.held_bytes <= 0 || trial.batch >= batch) continue;
    if (last == nullptr || trial.batch > last->batch) {
      before = last;
      last = &trial;
    } else if (before == nullptr || trial.batch > before->batch) {
      before = &trial;
    }
  }
  if (last == nullptr) return std::nullopt;
  const double from =
      before == nullptr ? 0 : static_cast<double>(before->batch);
  const auto base = static_cast<double>(before == nullptr ? resident_bytes
                                                          : before->held_bytes);
  // Memory that shrinks with the batch is noise.
  const double slope =
      std::max(0.0, (static_cast<double>(last->held_bytes) - base) /
                        (static_cast<double>(last->batch) - from));
  return last->held_bytes +
         static_cast<int64_t>(slope * static_cast<double>(batch - last->batch));
}

int64_t LargestBatch(const std::vector<BatchTrial>& trials) {
  const int64_t below =
      SmallestMiss(trials).value_or(std::numeric_limits<int64_t>::max());
  int64_t largest = 0;
  for (const BatchTrial& trial : trials) {
    if (trial.fits && trial.batch < below) {
      largest = std::max(largest, trial.batch);
    }
  }
  return largest;
}

int64_t KneeOf(const std::vector<BatchTrial>& trials, double part) {
  double best = 0;
  for (const BatchTrial& trial : trials) {
    if (trial.fits) best = std::max(best, trial.throughput);
  }
  int64_t knee = 0;
  for (const BatchTrial& trial : trials) {
    if (!trial.fits || trial.throughput < (1 - part) * best) continue;
    if (knee == 0 || trial.batch < knee) knee = trial.batch;
  }
  return knee;
}

namespace {

using nlohmann::json;

constexpr size_t kLargestFile = 8 << 20;

int64_t NumberIn(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer()
             ? found->get<int64_t>()
             : 0;
}

}  // namespace

KeptPoints KeptPoints::Read(std::filesystem::path file, std::string key) {
  KeptPoints kept(std::move(file), std::move(key));
  const auto text = base::ReadSmallFile(kept.file_, kLargestFile);
  if (!text.ok()) return kept;
  std::vector<json> lines;
  for (const auto& line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
    json object = base::ParseTree<json>(std::string(line));
    if (!object.is_object()) return kept;
    lines.push_back(std::move(object));
  }
  if (lines.empty() || !lines.front().contains("key") ||
      lines.front()["key"] != kept.key_) {
    return kept;
  }
  kept.begun_ = NumberIn(lines.front(), "begun");
  kept.ends_ = NumberIn(lines.front(), "ends") + (kept.begun_ > 0 ? 1 : 0);
  kept.points_.assign(lines.begin() + 1, lines.end());
  return kept;
}

int64_t KeptPoints::Ends(int64_t number) const {
  return number == begun_ ? ends_ : 0;
}

absl::Status KeptPoints::Begin(int64_t number) {
  ends_ = Ends(number);
  begun_ = number;
  return Write();
}

absl::Status KeptPoints::Abandon() {
  // Reading counts an open point as ended once more.
  if (ends_ > 0) {
    --ends_;
  } else {
    begun_ = 0;
  }
  return Write();
}

absl::Status KeptPoints::Add(json point) {
  points_.push_back(std::move(point));
  begun_ = ends_ = 0;
  return Write();
}

absl::Status KeptPoints::Write() const {
  json head = {{"key", key_}};
  if (begun_ > 0) {
    head["begun"] = begun_;
    head["ends"] = ends_;
  }
  std::string text = head.dump() + "\n";
  for (const json& point : points_) absl::StrAppend(&text, point.dump(), "\n");
  return base::WriteFileAtomic(file_, text);
}

namespace {

using runbook::BatchSweepOptions;
using runbook::Finding;
using runbook::Verdict;

// Memory needs few steps: each has the longest rows.
constexpr int64_t kMemoryWarmup = 1;
constexpr int64_t kMemorySteps = 2;
// A worker that ended this often while measuring a batch was ended by it.
constexpr int64_t kMostEnds = 2;

// The job with one micro-batch of one row per step, for any device.
spec::TrainSpec Smallest(spec::TrainSpec spec) {
  spec.training.per_device_train_batch_size = 1;
  spec.training.gradient_accumulation_steps = 1;
  spec.training.auto_find_batch_size = false;
  return spec;
}

// Rows of an epoch, packed if the job packs.
int64_t RowsOf(const train::Loaded& loaded) {
  const data::Source& train = *loaded.data.train;
  if (!loaded.spec->training.packing) return train.size();
  return data::Loader(train, loaded.shapes().TrainOptions(1)).steps_per_epoch();
}

// InvalidArgument if the device computes a batch of this size incorrectly.
absl::Status DeviceLimit(const train::Loaded& loaded, int64_t batch) {
  spec::TrainSpec spec = *loaded.spec;
  spec.training.per_device_train_batch_size = batch;
  return data::BatchShapes(spec, loaded.config, loaded.device->traits(),
                           loaded.device->name())
      .CheckDeviceLimits(*loaded.data.train, {});
}

BatchTrial TrialOf(const json& point) {
  return {point.value("batch", int64_t{0}), point.value("fits", false),
          point.value("predicted", false)
              ? 0
              : point.value("peak_bytes", int64_t{0}),
          point.value("tokens_per_second", 0.0)};
}

class Sweep {
 public:
  Sweep(const Study& study, const BatchSweepOptions& options)
      : study_(study),
        options_(options),
        progress_(study.observer, 0),
        run_(Smallest(study.spec), study.context, progress_),
        kept_(KeptPoints::Read(study.context.out_dir / "points.jsonl",
                               absl::StrCat(study.context.mpsd_version, " ",
                                            study.context.torch_version, " ",
                                            study.options.dump()))) {}

  absl::StatusOr<Found> Run() {
    const auto loaded = run_.Load();
    if (absl::IsResourceExhausted(loaded.status())) {
      return NotEvenLoaded(std::string(loaded.status().message()));
    }
    if (!loaded.ok()) return loaded.status();
    Describe(**loaded);
    for (const json& point : kept_.points()) trials_.push_back(TrialOf(point));
    progress_.Skip(StepsOf(static_cast<int64_t>(trials_.size())));
    while (const auto batch = NextBatch(trials_, options_.first_batch, most_)) {
      progress_.set_total_steps(
          progress_.done() +
          StepsOf(TrialsLeft(trials_, options_.first_batch, most_)));
      ASSIGN_OR_RETURN(auto point, Look(*batch));
      trials_.push_back(TrialOf(point));
      RETURN_IF_ERROR(kept_.Add(std::move(point)));
    }
    return Conclude();
  }

 private:
  int64_t StepsOf(int64_t trials) const {
    return trials * (kMemoryWarmup + kMemorySteps + options_.warmup_steps +
                     options_.steps);
  }

  void Describe(const train::Loaded& loaded) {
    const device::Memory memory = loaded.device->GetMemory();
    resident_ = {memory.current_allocated, memory.driver_allocated,
                 host::ProcessFootprintBytes(), memory.recommended_max};
    limit_ = options_.memory_limit_bytes > 0
                 ? static_cast<int64_t>(options_.memory_limit_bytes)
                 : MemoryLimit(resident_,
                               study_.thresholds.Get("sweep.memory_share"));
    rows_ = std::min(RowsOf(loaded), runbook::kMostStudyBatch);
    most_ =
        options_.max_batch > 0 ? std::min(options_.max_batch, rows_) : rows_;
    result_ = {{"device", loaded.device->name()},
               {"device_description", loaded.device->description()},
               {"longest_row_tokens",
                loaded.shapes().LongestSample(*loaded.data.train)}};
  }

  static json Miss(int64_t batch, const std::string& why) {
    return {{"batch", batch}, {"fits", false}, {"why_not", why}};
  }

  // The point of one batch.
  absl::StatusOr<json> Look(int64_t batch) {
    if (kept_.Ends(batch) >= kMostEnds) {
      return Miss(
          batch,
          absl::StrCat("the worker ended ", kMostEnds,
                       " times while measuring this batch, without a report: "
                       "systems end processes this way for their memory use"));
    }
    const auto expected = PredictedBytes(trials_, HeldBytes(resident_), batch);
    if (expected && *expected > limit_) {
      json point = Miss(
          batch, absl::StrCat("would need ",
                              base::BytesText(static_cast<double>(*expected)),
                              ", extrapolated from smaller batches: more than "
                              "the memory limit"));
      point["predicted"] = true;
      point["peak_bytes"] = *expected;
      return point;
    }
    ASSIGN_OR_RETURN(const auto loaded, run_.Load());
    if (absl::Status s = DeviceLimit(*loaded, batch); !s.ok()) {
      json point = Miss(batch, std::string(s.message()));
      point["beyond_device"] = true;
      return point;
    }
    RETURN_IF_ERROR(kept_.Begin(batch));
    auto point = Measure(batch);
    if (absl::IsCancelled(point.status())) {
      RETURN_IF_ERROR(kept_.Abandon());
    }
    return point;
  }

  absl::StatusOr<json> Measure(int64_t batch) {
    MeasureOptions memory;
    memory.warmup_steps = kMemoryWarmup;
    memory.steps = kMemorySteps;
    memory.rows = Rows::kLongest;
    memory.batch_rows = batch;
    ASSIGN_OR_RETURN(auto longest, run_.Measure(memory));
    const int64_t held = HeldBytes(longest.training);
    json point = {{"batch", batch},
                  {"fits", true},
                  {"peak_bytes", held},
                  {"memory", ToJson(longest.training)}};
    if (longest.out_of_memory) return OutOfMemory(point, longest);
    if (held > limit_) {
      point["fits"] = false;
      point["why_not"] =
          absl::StrCat("holds ", base::BytesText(static_cast<double>(held)),
                       ", more than the memory limit");
      return point;
    }
    MeasureOptions time;
    time.warmup_steps = options_.warmup_steps;
    time.steps = options_.steps;
    time.batch_rows = batch;
    ASSIGN_OR_RETURN(const auto usual, run_.Measure(time));
    if (usual.out_of_memory) return OutOfMemory(point, usual);
    point["step_seconds"] = ToJson(usual.Seconds());
    point["tokens_per_second"] = usual.TokensPerSecond();
    point["rows_per_second"] = usual.RowsPerSecond();
    point["steps"] = usual.Counted().size();
    if (const auto share = usual.PaddingShare()) {
      point["padding_share"] = *share;
    }
    return point;
  }

  static json OutOfMemory(json point, const Measurement& found) {
    point["fits"] = false;
    point["out_of_memory"] = true;
    point["why_not"] =
        absl::StrCat("out of memory: ", found.out_of_memory_text);
    return point;
  }

  static Found NotEvenLoaded(const std::string& text) {
    Found found;
    found.result = {{"points", json::array()}, {"ended_by", "memory"}};
    found.findings.push_back(
        {"sweep.largest", Verdict::kFail,
         absl::StrCat("out of memory before the first batch: ", text),
         "the model itself does not fit: load_in_4bit, bf16 or a smaller "
         "model"});
    return found;
  }

  // The point of the smallest batch that does not fit; null if all fit.
  const json* SmallestMiss() const {
    const json* smallest = nullptr;
    for (const json& point : kept_.points()) {
      if (point.value("fits", false)) continue;
      if (smallest == nullptr ||
          TrialOf(point).batch < TrialOf(*smallest).batch) {
        smallest = &point;
      }
    }
    return smallest;
  }

  std::string EndedBy() const {
    if (const json* miss = SmallestMiss()) {
      return miss->contains("beyond_device") ? "device" : "memory";
    }
    return most_ < rows_ ? "max_batch" : "rows";
  }

  Finding LargestFinding(int64_t largest) const {
    const json* miss = SmallestMiss();
    const std::string why =
        miss == nullptr ? "" : miss->value("why_not", std::string());
    if (largest == 0) {
      return {"sweep.largest", Verdict::kFail,
              absl::StrCat("no batch fits: ", why),
              "gradient_checkpointing, a smaller max_length or load_in_4bit "
              "take less memory"};
    }
    Finding finding = {"sweep.largest", Verdict::kPass, ""};
    finding.value = static_cast<double>(largest);
    finding.unit = "rows";
    finding.found = absl::StrCat(
        largest, " rows are the most that fit; ",
        miss != nullptr       ? absl::StrCat(TrialOf(*miss).batch, ": ", why)
        : EndedBy() == "rows" ? "the data have no more"
                              : "no more were asked for");
    return finding;
  }

  Finding KneeFinding(int64_t knee, double best, double part) const {
    double there = 0;
    for (const BatchTrial& trial : trials_) {
      if (trial.batch == knee) there = trial.throughput;
    }
    Finding finding = {
        "sweep.knee", Verdict::kPass,
        absl::StrFormat("%d rows reach %.0f tok/s, the best is %.0f; more "
                        "rows cost memory and gain little",
                        knee, there, best)};
    finding.value = static_cast<double>(knee);
    finding.threshold = part;
    finding.unit = "rows";
    return finding;
  }

  // Compares the job's own micro-batch with the result.
  Finding JobFinding(int64_t largest, int64_t knee) const {
    const spec::TrainingSpec& training = study_.spec.training;
    const int64_t batch = training.per_device_train_batch_size;
    const int64_t step = batch * training.gradient_accumulation_steps;
    Finding finding = {"sweep.job", Verdict::kPass, ""};
    finding.value = static_cast<double>(batch);
    finding.threshold = static_cast<double>(knee);
    finding.unit = "rows";
    const std::string set = absl::StrCat("per_device_train_batch_size ", knee);
    const std::string advice =
        knee > step
            ? absl::StrCat(set, " makes steps of more rows than the job's ",
                           step, ", which needs another learning_rate")
            : absl::StrCat(set, " with gradient_accumulation_steps ",
                           (step + knee - 1) / knee,
                           " makes steps of about the job's ", step, " rows");
    if (training.auto_find_batch_size) {
      finding.found = "the job lets the trainer choose its micro-batch";
    } else if (batch > largest && SmallestMiss() == nullptr) {
      finding.verdict = Verdict::kUnknown;
      finding.found = absl::StrCat("the job's ", batch, " rows were not tried");
    } else if (batch > largest) {
      finding.verdict = Verdict::kFail;
      finding.found = absl::StrCat("the job's ", batch, " rows do not fit");
      finding.advice = advice;
    } else if (batch < knee) {
      finding.verdict = Verdict::kWarn;
      finding.found =
          absl::StrCat("the job's ", batch, " rows leave speed unused");
      finding.advice = advice;
    } else {
      finding.found =
          absl::StrCat("the job's ", batch, " rows are as fast as it gets");
    }
    return finding;
  }

  Found Conclude() {
    std::vector<json> points = kept_.points();
    std::sort(points.begin(), points.end(), [](const json& a, const json& b) {
      return TrialOf(a).batch < TrialOf(b).batch;
    });
    const double part = study_.thresholds.Get("sweep.knee");
    const int64_t largest = LargestBatch(trials_);
    const int64_t knee = KneeOf(trials_, part);
    double best = 0;
    for (const BatchTrial& trial : trials_) {
      best = std::max(best, trial.throughput);
    }
    for (json& point : points) point.erase("beyond_device");
    result_["points"] = std::move(points);
    result_["largest_batch"] = largest;
    result_["knee_batch"] = knee;
    result_["best_tokens_per_second"] = best;
    result_["memory_limit_bytes"] = limit_;
    result_["peak_from"] = HeldBy(resident_);
    result_["ended_by"] = EndedBy();
    result_["job_batch"] = study_.spec.training.per_device_train_batch_size;
    Found found;
    found.result = std::move(result_);
    found.findings.push_back(LargestFinding(largest));
    if (largest > 0) {
      found.findings.push_back(KneeFinding(knee, best, part));
      found.findings.push_back(JobFinding(largest, knee));
    }
    return found;
  }

  const Study& study_;
  const BatchSweepOptions options_;
  StudyProgress progress_;
  MeasuredRun run_;
  KeptPoints kept_;
  std::vector<BatchTrial> trials_;
  MemoryPeaks resident_;  // without a batch
  int64_t limit_ = 0, rows_ = 0, most_ = 0;
  json result_;
};

}  // namespace

absl::StatusOr<Found> BatchSweep(const Study& study) {
  ASSIGN_OR_RETURN(const auto options,
                   runbook::BatchSweepOptionsFromJson(study.options));
  return Sweep(study, options).Run();
}

}  // namespace mpsd::study
