// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_TRAINER_H_
#define MPSD_CORE_TRAIN_TRAINER_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ckpt/checkpoint.h"
#include "core/data/loader.h"
#include "core/data/prefetch.h"
#include "core/data/source.h"
#include "core/device/device.h"
#include "core/device/memory_watch.h"
#include "core/device/warnings.h"
#include "core/metrics/metrics.h"
#include "core/model/network.h"
#include "core/optim/adamw.h"
#include "core/optim/schedule.h"
#include "core/optim/trainable.h"
#include "core/report/report.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"
#include "core/train/best_model.h"
#include "core/train/evaluate.h"
#include "core/train/fingerprint.h"
#include "core/train/manifest.h"
#include "core/train/micro_batch.h"
#include "core/train/micro_batch_trial.h"
#include "core/train/model_digests.h"
#include "core/train/observer.h"
#include "core/train/relay.h"
#include "core/train/run_folder.h"
#include "core/train/step.h"
#include "core/train/task.h"

namespace mpsd::train {

struct TrainerOptions {
  std::filesystem::path out_dir;
  // For what is worth keeping between runs: model digests, tokenized data,
  // what micro-batches cost.
  std::filesystem::path cache_dir;
  std::string mpsd_version, torch_version;
  // Variables that results may depend on, for run.json.
  std::map<std::string, std::string> environment;
  // Of the thread that runs; null: nobody counts operators on the CPU.
  const device::WarningCapture* warnings = nullptr;
  // For trials of micro-batches; null: one that runs out of memory ends the
  // run.
  Attempt attempt = {};
};

// Of a run that was stopped only `steps` and `seconds` of the outcome are set.
struct RunResult : report::Outcome {
  StopRequest stopped = StopRequest::kNone;  // kNone: it ran to its end
  int64_t checkpoint_step = 0;               // of the last checkpoint, 0: none
};

// One fine-tuning run, from job.json to an adapter or a model. A run whose
// folder holds checkpoints of the same job goes on after the last one, bit for
// bit on the CPU; one that is damaged is set aside for the one before it, or
// for a new start, and said. One call of Run per object.
//
// Errors: InvalidArgument, NotFound, FailedPrecondition and Unimplemented are
// the user's (spec, data, model); DataLoss is a run whose numbers cannot be
// trusted; others are the machine's. torch's exceptions pass through.
class Trainer {
 public:
  // `observer` must outlive it. Paths of `spec` must be absolute.
  Trainer(spec::TrainSpec spec, TrainerOptions options, Observer& observer);
  ~Trainer();

  absl::StatusOr<RunResult> Run();

 private:
  absl::Status OpenDevice();
  absl::Status ReadModelFolder();
  void Warn(const std::vector<std::string>& warnings);
  // The weights beside the data where these do not change the model. What is
  // wrong with the data is said first, and as soon as it is known.
  absl::Status LoadDataAndModel();
  absl::Status LoadBoth();
  absl::Status Take(absl::StatusOr<TaskData> data);
  absl::Status LoadModel(const std::function<void(double)>& progress);
  absl::Status AttachTrainable();
  absl::StatusOr<std::unique_ptr<optim::Trainable>> AttachAdapter();
  absl::StatusOr<std::unique_ptr<optim::Trainable>> AttachWeights();
  absl::Status ChooseMicroBatch();
  void Take(MicroBatchPlan plan);
  absl::StatusOr<MicroBatchPlan> PlanMicroBatches();
  absl::StatusOr<MicroBatchPlan> TryMicroBatches();
  std::string MicroBatchKey() const;
  // Digests of what the run reads, and with them state_.fingerprint: before a
  // checkpoint is compared or written. A run without one learns them beside its
  // first step.
  absl::Status KnowInputs();
  absl::Status Resume();
  absl::Status ResumeFrom(int64_t step);
  absl::Status CheckSameJob(const ckpt::TrainerState& saved) const;
  // Says why, too. One that cannot be renamed stays, and is said as well.
  void SetAside(int64_t step, const std::string& why);
  absl::Status OpenRunFolder();
  absl::StatusOr<RunResult> Loop();
  absl::StatusOr<RunResult> Finish();

  absl::Status TrainStep();
  absl::Status EvaluateNow();
  absl::StatusOr<EvalResult> RunEvaluation();
  absl::Status SaveNow();
  absl::StatusOr<RunResult> Stop(StopRequest request);

  // Of Finish.
  absl::Status TakeBest();
  absl::StatusOr<bool> GoBackToBest();
  absl::Status WritePredictionFiles();
  absl::Status Export();
  std::filesystem::path output_path() const;

  data::Padding padding() const;
  int64_t batch_rows() const;  // of an optimizer step
  int64_t LongestRow() const;  // tokens, with padding, once there are data
  int64_t LongestRowOf(const data::Source& source) const;
  absl::Status CheckDeviceLimits() const;
  // The rows of an evaluation or prediction, as many at a time as the job says:
  // where memory runs out in silence, fewer if they have more tokens than a
  // training micro-batch, or than the device computes rightly. Results are sums
  // of theirs, or in their order.
  data::EvalLoader EvalBatches(const data::Source& source) const;
  data::LoaderOptions LoaderOptionsFor(int64_t rows,
                                       int64_t accumulation) const;
  bool finished() const;
  bool eval_due() const;
  bool save_due() const;
  Trained trained() const { return {*task_, *network_, *trainable_, *device_}; }
  ckpt::LiveState Live();
  absl::Status UpdateManifest(const std::string& state);
  // Operators that ran on the CPU, of the whole job.
  std::map<std::string, int64_t> Fallbacks() const;

  spec::TrainSpec spec_;
  const TrainerOptions options_;
  Observer& observer_;
  Relay relay_;  // to observer_, for the task

  std::unique_ptr<device::Device> device_;
  std::string model_folder_;
  std::unique_ptr<ModelDigests> model_digests_;  // once there is a folder
  std::vector<std::string> weight_files_;        // of it, that the run reads
  RunInputs inputs_;
  spec::ModelConfig config_;
  std::unique_ptr<Task> task_;
  TaskData data_;
  std::unique_ptr<data::Prefetcher> loader_;
  std::unique_ptr<data::EvalLoader> eval_loader_;  // after ChooseMicroBatch
  int64_t micro_batch_rows_ = 1;                   // likewise
  std::optional<BestModel> best_;
  std::unique_ptr<model::Network> network_;
  std::unique_ptr<optim::Trainable> trainable_;  // hangs on network_
  std::unique_ptr<optim::AdamW> optimizer_;
  std::unique_ptr<Stepper> stepper_;
  std::optional<optim::Schedule> schedule_;
  std::unique_ptr<RunFolder> folder_;
  ckpt::TrainerState state_;
  std::optional<EvalResult> last_eval_;  // of this process
  int64_t saved_step_ = 0;               // of the last checkpoint, 0: none
  // Checkpoints that are no longer where they were, not yet reported.
  std::vector<std::filesystem::path> gone_;
  Manifest manifest_;
  device::MemoryWatch memory_;
  std::map<std::string, int64_t> earlier_fallbacks_;  // before a restart
};

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_TRAINER_H_
