// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_TRAINER_H_
#define MPSD_CORE_TRAIN_TRAINER_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ckpt/checkpoint.h"
#include "core/data/loader.h"
#include "core/data/source.h"
#include "core/device/device.h"
#include "core/lora/lora.h"
#include "core/model/decoder.h"
#include "core/optim/adamw.h"
#include "core/optim/schedule.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"
#include "core/train/manifest.h"
#include "core/train/observer.h"
#include "core/train/run_folder.h"
#include "core/train/step.h"

namespace mpsd::train {

struct TrainerOptions {
  std::filesystem::path out_dir;
  // For what is worth keeping between runs (model digests).
  std::filesystem::path cache_dir;
  std::string mpsd_version, torch_version;
};

struct RunResult {
  StopRequest stopped = StopRequest::kNone;  // kNone: it ran to its end
  int64_t steps = 0;
  int64_t checkpoint_step = 0;         // of the last checkpoint, 0: none
  std::filesystem::path adapter_path;  // empty when stopped
  std::optional<double> train_loss, eval_loss_before, eval_loss_after;
  double seconds = 0;
};

// One fine-tuning run, from job.json to a PEFT folder. A run whose folder holds
// checkpoints of the same job goes on after the last one, bit for bit on the
// CPU. One call of Run per object.
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
  absl::Status LoadData();
  absl::Status LoadModel();
  absl::Status AttachAdapter();
  absl::Status Resume();
  absl::Status ResumeFrom(int64_t step);
  absl::Status OpenRunFolder();
  absl::StatusOr<RunResult> Loop();
  absl::StatusOr<RunResult> Finish();

  absl::Status TrainStep();
  absl::Status EvaluateNow();
  absl::Status SaveNow();
  absl::StatusOr<RunResult> Stop(StopRequest request);
  absl::Status ExportAdapter();

  bool finished() const;
  bool eval_due() const;
  bool save_due() const;
  std::string Fingerprint() const;
  ckpt::LiveState Live();
  absl::Status UpdateManifest(const std::string& state);

  spec::TrainSpec spec_;
  const TrainerOptions options_;
  Observer& observer_;

  std::unique_ptr<device::Device> device_;
  std::string model_folder_;
  spec::ModelConfig config_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<text::ChatTemplate> template_;
  std::unique_ptr<data::Source> train_data_, eval_data_;
  std::unique_ptr<data::Loader> loader_;
  std::unique_ptr<data::EvalLoader> eval_loader_;
  std::unique_ptr<model::Decoder> model_;
  std::unique_ptr<lora::Adapter> adapter_;  // after model_: taken off first
  std::unique_ptr<optim::AdamW> optimizer_;
  std::unique_ptr<Stepper> stepper_;
  std::optional<optim::Schedule> schedule_;
  std::unique_ptr<RunFolder> folder_;
  ckpt::TrainerState state_;
  int64_t saved_step_ = 0;  // of the last checkpoint, 0: none
  Manifest manifest_;
};

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_TRAINER_H_
