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
  // Keeps between runs: model digests, tokenized data, costs of micro-batches.
  std::filesystem::path cache_dir;
  std::string mpsd_version, torch_version;
  // Environment variables that results may depend on, for run.json.
  std::map<std::string, std::string> environment;
  // Captures torch's warnings on the training thread, which name operators that
  // ran on the CPU; null: nobody counts them.
  const device::WarningCapture* warnings = nullptr;
  // Runs trials of micro-batches. Null: a trial that runs out of memory ends
  // the run.
  Attempt attempt = {};
};

// A run that was stopped sets only `steps` and `seconds` of the outcome.
struct RunResult : report::Outcome {
  StopRequest stopped = StopRequest::kNone;  // kNone: the run is complete
  int64_t checkpoint_step = 0;  // step of the last checkpoint; 0: none
};

// One fine-tuning run, from job.json to an adapter or a model. If the run's
// folder holds checkpoints of the same job, the run continues after the last
// one, bit for bit on the CPU. A damaged checkpoint is set aside with a
// warning, and the one before it is used; without one the run starts over. Run
// is called at most once.
//
// Run goes through the stages in the order of their declarations below; each
// reads members that an earlier stage has set.
//
// Errors: InvalidArgument, NotFound, FailedPrecondition and Unimplemented are
// the user's (spec, data, model). DataLoss means that the run's numbers cannot
// be trusted. Others are the machine's. torch's exceptions pass through.
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
  // Loads data and weights: side by side where the data do not change the
  // model. Errors of the data come first, as soon as they are known.
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
  // Fills in inputs_, the digests of what the run reads, and with them
  // state_.fingerprint. A checkpoint is compared or written only with a
  // fingerprint. A run without checkpoints does this beside its first step.
  absl::Status KnowInputs();
  absl::Status Resume();
  absl::Status ResumeFrom(int64_t step);
  absl::Status CheckSameJob(const ckpt::TrainerState& saved) const;
  // Renames a damaged checkpoint and warns, with the reason. A checkpoint that
  // cannot be renamed stays in place; the warning says that too.
  void SetAside(int64_t step, const std::string& why);
  absl::Status OpenRunFolder();
  absl::StatusOr<RunResult> Loop();
  absl::StatusOr<RunResult> Finish();

  absl::Status TrainStep();
  absl::Status EvaluateNow();
  absl::StatusOr<EvalResult> RunEvaluation();
  absl::Status SaveNow();
  absl::StatusOr<RunResult> Stop(StopRequest request);

  // The parts of Finish.
  absl::Status TakeBest();
  absl::StatusOr<bool> GoBackToBest();
  absl::Status WritePredictionFiles();
  absl::Status Export();
  std::filesystem::path output_path() const;

  data::Padding padding() const;
  int64_t batch_rows() const;  // rows of an optimizer step
  int64_t LongestRow() const;  // in tokens, padding included; reads data_
  int64_t LongestRowOf(const data::Source& source) const;
  absl::Status CheckDeviceLimits() const;
  // The batches of an evaluation or a prediction, of as many rows as the job
  // says. Where the device may run out of memory in silence, a batch has no
  // more tokens than a training micro-batch, or than the device computes
  // rightly. The split does not change results: they are sums over rows, or
  // keep the rows' order.
  data::EvalLoader EvalBatches(const data::Source& source) const;
  data::LoaderOptions LoaderOptionsFor(int64_t rows,
                                       int64_t accumulation) const;
  bool finished() const;
  bool eval_due() const;
  bool save_due() const;
  Trained trained() const { return {*task_, *network_, *trainable_, *device_}; }
  ckpt::LiveState Live();
  absl::Status UpdateManifest(const std::string& state);
  // Operators that ran on the CPU, counted over all attempts of the job.
  std::map<std::string, int64_t> Fallbacks() const;

  spec::TrainSpec spec_;
  const TrainerOptions options_;
  Observer& observer_;
  Relay relay_;  // passes on to observer_; used by task_

  std::unique_ptr<device::Device> device_;
  std::string model_folder_;
  std::unique_ptr<ModelDigests> model_digests_;  // null until ReadModelFolder
  std::vector<std::string> weight_files_;        // files that the run reads
  RunInputs inputs_;
  spec::ModelConfig config_;
  std::unique_ptr<Task> task_;
  TaskData data_;
  std::unique_ptr<data::Prefetcher> loader_;
  // Null until ChooseMicroBatch.
  std::unique_ptr<data::EvalLoader> eval_loader_;
  int64_t micro_batch_rows_ = 1;  // set by ChooseMicroBatch
  std::optional<BestModel> best_;
  std::unique_ptr<model::Network> network_;
  std::unique_ptr<optim::Trainable> trainable_;  // destroyed before network_
  std::unique_ptr<optim::AdamW> optimizer_;
  std::unique_ptr<Stepper> stepper_;
  std::optional<optim::Schedule> schedule_;
  std::unique_ptr<RunFolder> folder_;
  ckpt::TrainerState state_;
  std::optional<EvalResult> last_eval_;  // the latest in this process
  int64_t saved_step_ = 0;               // step of the last checkpoint; 0: none
  // Checkpoints that were set aside, to be reported with the next one saved.
  std::vector<std::filesystem::path> gone_;
  Manifest manifest_;
  device::MemoryWatch memory_;
  // Counted by earlier attempts.
  std::map<std::string, int64_t> earlier_fallbacks_;
};

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_TRAINER_H_
