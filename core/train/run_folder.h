// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/ckpt/checkpoint.h"
#include "core/data/source.h"
#include "core/device/device.h"
#include "core/model/attention.h"
#include "core/model/weight_reader.h"
#include "core/report/report.h"
#include "core/report/tensorboard.h"
#include "core/spec/train_spec.h"
#include "core/train/micro_batch.h"

namespace mpsd::train {

// The names of the attention kernels that ran (core/model/attention.h and
// core/model/attention_plan.h). In run.json {"training": {"forward":
// "flash", "backward": "blocked"}, "evaluation": …}; several names are joined
// by " and ", and null means none yet.
struct AttentionNames {
  attention::AttentionRan training;
  std::set<std::string> evaluation;
  void Add(const AttentionNames& other);
};

// The contents of run.json: the data needed to repeat a run, and its results.
struct Manifest {
  std::string mpsd_version, torch_version;
  absl::Time started_at;  // the first attempt; see TaskPipeline::started_at
  std::string device, device_description;
  // Variables that results may depend on.
  std::map<std::string, std::string> environment;
  AttentionNames attention;  // kernels that ran so far
  std::string gradients;     // see GradientPath::name
  spec::TrainSpec spec;      // with all defaults filled in
  std::string model_folder;
  // File name → SHA-256; empty until the first step has ended.
  std::map<std::string, std::string> model_sha256;
  std::string train_sha256, eval_sha256;  // SHA-256 of the files' bytes
  data::DatasetStats train_stats, eval_stats;
  // Absent without auto_find_batch_size.
  std::optional<MicroBatchPlan> micro_batch;
  std::vector<std::string> label_names;  // by id; empty for language models
  std::string problem_type;              // "" for language models
  // Drawn at random: missing from the file.
  std::vector<std::string> fresh_modules;
  model::LoadReport load_report;  // how the model's weights matched
  int64_t trainable_parameters = 0;
  // Tokens of a row, at most the model's positions; 0: of images.
  int64_t max_length = 0;
  std::vector<int64_t> resumed_at_steps;  // one entry per restart
  // The members below change during the run.
  std::string state;  // "RUNNING", "STOPPED", "SUCCEEDED"
  ckpt::TrainerState progress;
  int64_t result_step = 0;  // step of the result's weights; 0: no result
  device::MemoryWatch::Summary memory;  // since the last restart
  // Operator missing on MPS → runs on the CPU.
  std::map<std::string, int64_t> cpu_fallback_ops;
  std::vector<std::string> warnings;  // since the last restart
};

// Replaces folder/run.json atomically.
absl::Status WriteManifest(const std::filesystem::path& folder,
                           const Manifest& manifest);

// The object in the run.json in `folder`; empty if there is none.
nlohmann::ordered_json ReadRun(const std::filesystem::path& folder);

// What earlier attempts of a job left in its run.json.
struct EarlierAttempts {
  std::vector<int64_t> resumed_at_steps;
  std::map<std::string, int64_t> cpu_fallback_ops;
  AttentionNames attention;
};

// Reads the run.json in `folder` for an attempt that begins after `step`,
// counting its restart too. An attempt that starts over (step 0) counts
// operators and kernels anew. Empty without a run.json.
EarlierAttempts ReadEarlierAttempts(const std::filesystem::path& folder,
                                    int64_t step);

// When the first attempt began whose checkpoints are in `folder`; nullopt
// without a checkpoint, or if run.json does not say.
std::optional<absl::Time> StartOfRun(const std::filesystem::path& folder);

// `labels` of the run.json in `folder`, as JSON; "" if there are none.
std::string LabelsOfRun(const std::filesystem::path& folder);

inline constexpr char kSamplesFile[] = "samples.jsonl";

// A run's output folder:
//   metrics.jsonl     one object per optimizer step
//   eval.jsonl        one object per evaluation
//   samples.jsonl     one object per answer to training.sample_prompts
//   runs/             the same as curves: event files of TensorBoard, one per
//                     attempt
//   checkpoints/step-N/
//   adapter/ or model/    the result: a PEFT folder, or a whole model
//   predictions.jsonl, predictions.tsv, confusion_matrix.json    of classifiers
//   run.json          the manifest
class RunFolder {
 public:
  // Creates `path` if missing. Truncates the first two logs to the steps up to
  // `step` and the evaluations up to that of `eval_step` (-1: none), so that a
  // resumed run leaves one line per step and evaluation. A run that resumes
  // keeps all samples: it repeats none. Errors in runs/ do not stop the run:
  // curves_status() reports them.
  static absl::StatusOr<std::unique_ptr<RunFolder>> Open(
      const std::filesystem::path& path, int64_t step, int64_t eval_step);

  const std::filesystem::path& path() const { return path_; }
  const absl::Status& curves_status() const { return curves_status_; }

  absl::Status Append(const report::Progress& progress);
  absl::Status Append(const report::Evaluated& evaluated);
  absl::Status Append(const report::Sampled& sampled);
  // The last step in samples.jsonl; -1: none.
  int64_t sampled_step() const { return sampled_step_; }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, CloseFile>;
  RunFolder() = default;
  // Returns the step of the log's last line; -1: it has none.
  absl::StatusOr<int64_t> OpenLog(const std::string& name, int64_t step,
                                  File& file);

  std::filesystem::path path_;
  File metrics_, evals_;
  File samples_;  // null until there is a sample
  int64_t sampled_step_ = -1;
  std::unique_ptr<tensorboard::EventFile> curves_;  // null: not written
  absl::Status curves_status_;
};

// A report as one JSON line, without newline. An evaluation's metrics appear as
// "eval_NAME" next to its other members.
std::string ToJsonLine(const report::Progress& progress);
std::string ToJsonLine(const report::Evaluated& evaluated);
std::string ToJsonLine(const report::Sampled& sampled);

}  // namespace mpsd::train
