// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_MANIFEST_H_
#define MPSD_CORE_TRAIN_MANIFEST_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/data/source.h"
#include "core/device/memory_watch.h"
#include "core/metrics/metrics.h"
#include "core/model/attention.h"
#include "core/model/load_report.h"
#include "core/spec/train_spec.h"
#include "core/train/micro_batch.h"

namespace mpsd::train {

// The attention kernels that ran, by the names of core/model/attention.h and
// core/fast/attention.h. In run.json {"training": {"forward": "flash",
// "backward": "blocked"}, "evaluation": …}; several joined by " and ", null
// where none ran yet.
struct AttentionNames {
  model::AttentionRan training;
  std::set<std::string> evaluation;
  void Add(const AttentionNames& other);
};

// What it takes to repeat a run, and what came of it: run.json.
struct Manifest {
  std::string mpsd_version, torch_version, operating_system, processor;
  std::string device, device_description;
  std::map<std::string, std::string> environment;  // PYTORCH_* and the like
  AttentionNames attention;                        // that ran so far
  std::string gradients;                           // see GradientPath::name
  std::string dtype;                               // of the frozen base
  spec::TrainSpec spec;                            // every default filled in
  std::string model_folder;
  spec::BaseModel base_model;  // as results name it
  // File name → digest; empty until a first step has ended.
  std::map<std::string, std::string> model_sha256;
  std::string train_sha256, eval_sha256;  // over the files' bytes
  data::DatasetStats train_stats, eval_stats;
  std::optional<MicroBatchPlan> micro_batch;  // of auto_find_batch_size
  std::vector<std::string> label_names;    // by id; empty for language models
  std::string problem_type;                // likewise
  std::vector<std::string> fresh_modules;  // drawn: the file had them not
  model::LoadReport load_report;           // of the model's weights
  int64_t trainable_parameters = 0;
  int64_t total_steps = 0;
  std::vector<int64_t> resumed_at_steps;  // one a restart
  // Filled in as the run goes.
  std::string state;  // "RUNNING", "STOPPED", "SUCCEEDED"
  int64_t steps = 0;
  std::optional<double> train_loss, eval_loss_before, eval_loss_after;
  metrics::Values eval_metrics;       // of the latest evaluation
  std::optional<double> best_metric;  // of metric_for_best_model
  int64_t best_step = 0;              // where that was
  int64_t result_step = 0;  // whose weights the result has; 0: none yet
  int64_t tokens = 0;
  double seconds = 0;
  device::MemoryWatch::Summary memory;              // since the last restart
  std::map<std::string, int64_t> cpu_fallback_ops;  // that MPS lacks → runs
  std::vector<std::string> warnings;                // since the last restart
};

// Writes folder/run.json, replacing it as a whole.
absl::Status WriteManifest(const std::filesystem::path& folder,
                           const Manifest& manifest);

// "resumed_at_steps" of the manifest already there; empty without one.
std::vector<int64_t> ReadResumedSteps(const std::filesystem::path& folder);

// The operators that ran on the CPU before a restart: those of the run.json in
// `folder`; none without one.
std::map<std::string, int64_t> ReadFallbacks(
    const std::filesystem::path& folder);

// "attention" of the run.json in `folder`: before a restart.
AttentionNames ReadAttention(const std::filesystem::path& folder);

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_MANIFEST_H_
