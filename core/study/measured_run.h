// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/data/source.h"
#include "core/host/footprint.h"
#include "core/report/report.h"
#include "core/spec/train_spec.h"
#include "core/train/observer.h"
#include "core/train/run.h"
#include "core/train/stages.h"

namespace mpsd::study {

// A distribution of values: the message Spread of measurement.proto.
struct Spread {
  double median = 0;
  double p10 = 0, p90 = 0;  // a tenth of the values are below, above
  double min = 0, max = 0;
};

// All 0 if there are no values. Interpolates between two values.
Spread SpreadOf(std::vector<double> values);

// The message's JSON.
nlohmann::json ToJson(const Spread& spread);

// How a sequence of values changes.

// The last relative to the first, 0.26 for 26 % more; 0 if there are fewer than
// two or the first is not positive.
double GrowthOf(const std::vector<double>& values);

// The change per value, by least squares; 0 if there are fewer than two.
double SlopeOf(const std::vector<double>& values);

// Shows a study, which may be many short runs, as one: step 12 of 60.
class StudyProgress {
 public:
  // `observer` must outlive this object. `total_steps`: of the whole study, as
  // far as known.
  StudyProgress(train::Observer& observer, int64_t total_steps)
      : observer_(observer), total_steps_(total_steps) {}

  // Reports one more step; its number and total are replaced by the study's.
  void Add(report::Progress step);
  // Counts steps made by an earlier attempt.
  void Skip(int64_t steps) { done_ += steps; }
  void set_total_steps(int64_t steps) { total_steps_ = steps; }

  int64_t done() const { return done_; }
  train::Observer& observer() const { return observer_; }

 private:
  train::Observer& observer_;
  int64_t total_steps_;
  int64_t done_ = 0;
};

// The rows used by a measured run.
enum class Rows {
  kAsTrained,  // all, in training order
  kLongest,    // every step has the longest rows of the data; packed rows,
               // which are all full, are as trained
};

// One optimizer step of a measured run.
struct MeasuredStep {
  report::Progress progress;
  bool warmup = false;
  bool held = false;     // a pause occurred during the step or right before it
  bool partial = false;  // the last of an epoch, with fewer rows
};

struct MeasureOptions {
  int64_t warmup_steps = 2;
  // Measured steps, in addition to the warm-up. Steps interrupted by a pause,
  // and an epoch's partial ones, are replaced by as many further ones.
  int64_t steps = 8;
  // > 0: overrides `steps`: the steps of this many epochs, and no warm-up.
  int64_t epochs = 0;
  Rows rows = Rows::kAsTrained;
  // > 0: overrides the spec: rows of a step, in one micro-batch.
  int64_t batch_rows = 0;
  // Called before the first step, with everything that the run has; an error
  // ends the measurement.
  std::function<absl::Status(const train::Prepared&)> prepared = {};
  // Called after each step; false: enough.
  std::function<bool(const MeasuredStep&)> after_step = {};
};

// What a run omits from the job, or does in addition to its steps.
struct RunOptions {
  bool dropout = true;       // false: none, including the adapter's
  int64_t eval_samples = 0;  // at most, of the evaluation data; 0: not read
};

// Peak memory in a part of a run, bytes; absent if the device has no such
// counter.
struct MemoryPeaks {
  std::optional<int64_t> allocated_bytes;  // by live tensors on the device
  std::optional<int64_t> driver_bytes;     // at the end of a step, with caches
  int64_t footprint_bytes = 0;  // of the process; see host::FootprintPeak
  std::optional<int64_t> recommended_max_bytes;
};
// The message MemoryPeaks of measurement.proto.
nlohmann::json ToJson(const MemoryPeaks& peaks);

// What one measured run found.
struct Measurement {
  std::string device;              // "cpu", "cuda", "mps"
  std::string device_description;  // the chip or card and its memory
  std::vector<MeasuredStep> steps;
  int64_t step_rows = 0;         // of a step that is not partial
  int64_t micro_batch_rows = 0;  // computed at a time
  int64_t steps_per_epoch = 0;
  // Memory of the process before the device was opened, and of the run without
  // a batch.
  int64_t idle_footprint_bytes = 0;
  MemoryPeaks loaded;
  MemoryPeaks training;     // during the steps
  double load_seconds = 0;  // 0: the model was already loaded
  // The device or the host ran out of memory; `steps` are those before.
  bool out_of_memory = false;
  std::string out_of_memory_text;  // the device's error text

  // The steps that count: neither warm-up nor interrupted by a pause nor,
  // unless there are no others, partial.
  std::vector<const MeasuredStep*> Counted() const;
  Spread Seconds() const;
  Spread DataWaitSeconds() const;
  double TokensPerSecond() const;  // of all counted steps; 0: none
  double RowsPerSecond() const;    // by the median step
  // Tokens divided by tokens with padding, in counted steps; may be unknown.
  std::optional<double> PaddingShare() const;
  // Bytes that the training took in addition to an idle process: by the
  // device's own counter, else by the driver's, else by the footprint; `from`
  // names the counter: "allocated", "driver", "footprint".
  struct Taken {
    int64_t bytes = 0;
    const char* from = "";
  };
  Taken TakenBytes() const;
};

// Runs the first steps of a training, as often as needed, without evaluations,
// checkpoints or a result: the model is loaded once. Everything that the runs
// write is in a scratch folder within the study's, which is removed afterwards.
//
// Steps are reported through `progress`; stages, warnings and the device go to
// its observer, whose stop requests end the run.
class MeasuredRun {
 public:
  // `context` and `progress` must outlive it. `spec` has absolute paths.
  MeasuredRun(spec::TrainSpec spec, const train::RunContext& context,
              StudyProgress& progress, const RunOptions& options = {});
  ~MeasuredRun();
  MeasuredRun(const MeasuredRun&) = delete;
  MeasuredRun& operator=(const MeasuredRun&) = delete;

  // Loads data and model if not loaded yet, and trains. Each call begins at the
  // data's first step, with the weights as the previous call left them and a
  // new optimizer.
  //
  // Cancelled if the observer asks for a stop. Other errors as train::Run, but
  // running out of memory is a result, not an error. InvalidArgument for a
  // batch that the device computes wrongly (data::BatchShapes).
  absl::StatusOr<Measurement> Measure(const MeasureOptions& options);

  // Loads data and model if not loaded yet. Errors as Measure;
  // ResourceExhausted if memory runs out. Valid until the next Measure.
  absl::StatusOr<const train::Loaded*> Load();

  // The job's metric_for_best_model on its evaluation data, with the weights
  // that Measure left; absent without such data, or if the metric is not a
  // number.
  struct Evaluated {
    std::string metric;
    double value = 0;
  };
  absl::StatusOr<std::optional<Evaluated>> Evaluate();

 private:
  class PartObserver;

  // Runs `work`; if memory runs out: OK, with the device's error in `text`.
  absl::Status Attempt(const std::function<absl::Status()>& work,
                       std::optional<std::string>& text) const;
  absl::Status LoadOnce();
  absl::Status MeasureOnce(const MeasureOptions& options, Measurement& found);
  void ChooseRows(const MeasureOptions& options);
  // Takes data and model back from a run that has ended.
  void TakeBack();
  std::filesystem::path Scratch() const;

  const spec::TrainSpec spec_;
  train::RunContext context_;  // the study's, with the scratch folder
  const std::filesystem::path folder_;
  const RunOptions options_;
  StudyProgress& progress_;
  std::unique_ptr<PartObserver> observer_;
  host::FootprintPeak footprint_;
  int64_t idle_footprint_ = 0;
  double load_seconds_ = 0;
  std::unique_ptr<const spec::TrainSpec> loaded_spec_;  // for the pipeline
  std::shared_ptr<const data::Source> rows_;            // all, as read
  std::shared_ptr<const data::Source> eval_;            // null: none
  // At most one of them is set.
  std::optional<train::Loaded> loaded_;
  std::optional<train::Prepared> prepared_;
};

// The `count` longest samples of `source`, from long to short, repeated if
// there are fewer.
std::vector<int64_t> LongestSamples(const data::Source& source, int64_t count);

// The bytes compared with a limit of the device's or the machine's memory:
// those of the driver, else those of live tensors, else the process's
// footprint.
int64_t HeldBytes(const MemoryPeaks& peaks);
// "driver", "allocated", "footprint": the counter that HeldBytes uses.
const char* HeldBy(const MemoryPeaks& peaks);

// `share` of what the device recommends, else of the machine's memory.
int64_t MemoryLimit(const MemoryPeaks& peaks, double share);

}  // namespace mpsd::study
