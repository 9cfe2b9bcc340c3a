// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/data/batch.h"
#include "core/data/class_labels.h"
#include "core/data/source.h"
#include "core/device/device.h"
#include "core/explicit_step/explicit_step.h"
#include "core/model/classifier.h"
#include "core/model/decoder.h"
#include "core/model/losses.h"
#include "core/model/network.h"
#include "core/model/weight_reader.h"
#include "core/optim/parameters.h"
#include "core/report/metrics.h"
#include "core/spec/memory_estimate.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"
#include "core/train/observer.h"

namespace mpsd::train {

// One micro-batch in the model's form: views of StepInputs' buffers.
struct BatchInputs {
  // Language models. A batch without a label has only labels.count filled in.
  model::DecoderInputs decoder;
  model::LabelSelection labels;
  at::Tensor reference;  // fp32 [rows], data::Batch's; undefined: none
  // Classifiers.
  model::ClassifierInputs classifier;
  at::Tensor targets;  // in SumClassLoss's form; undefined: none
};

// Micro-batches on the device. One copy transfers all integers, one all floats
// and one a batch's pixels, and the host does not wait for them: on MPS the
// device would run out of work meanwhile.
struct StepInputs {
  std::vector<BatchInputs> batches;
  // The host memory that the device copies from. It must exist until the host
  // has waited for the device (torch itself keeps it only since 2.14).
  std::vector<at::Tensor> host;
};

// For language models. Rounds up the number of selected labels, so that few
// shapes occur. If the device compiles and keeps a graph per shape, to 16, 32,
// 64, 128, 192, 256, 384 … (powers of two and the midpoints between them);
// otherwise to 16, 32, then multiples of 64.
StepInputs LanguageInputs(std::span<const data::Batch> batches,
                          const device::Device& device);

// For classifiers; `outputs` is the number of values in a row's target.
StepInputs ClassInputs(std::span<const data::Batch> batches, int64_t outputs,
                       const device::Device& device);

// The first of `batches` for one upload: as many as have at most kUploadBytes
// of inputs together, and at least one.
inline constexpr int64_t kUploadBytes = spec::kStepInputBytes;
std::span<const data::Batch> FirstUpload(std::span<const data::Batch> batches);

class TaskPipeline;
struct BatchInputs;

inline constexpr char kExplicitStep[] = "explicit";
// Of a cache folder: tokenized data, and what is computed from them.
inline constexpr char kTokenFolder[] = "tokens";

// Computes the gradients of one optimizer step into the parameters' .grad. The
// calls of a step are Begin, then Add for each micro-batch, then End.
class GradientPath {
 public:
  virtual ~GradientPath() = default;

  virtual void Begin() = 0;
  // Adds `scale` times the gradient of the batch's summed loss. Returns `scale`
  // times that sum, an fp32 scalar on the device, or an undefined tensor for a
  // batch without a target. `inputs` come from TaskPipeline::Inputs.
  virtual at::Tensor Add(const BatchInputs& inputs, double scale) = 0;
  virtual void End() = 0;

  // kExplicitStep or "autograd", for run.json. If the task has both ways,
  // "autograd" is followed by the reason against the explicit one: "autograd
  // (some of the model's own weights are trained)".
  virtual std::string name() const = 0;

  // The pipeline's metrics since Begin, as fp32 sums [MetricNames()] times
  // `scale`; undefined for a task whose steps have none.
  virtual at::Tensor metrics() const { return {}; }

  // The attention kernels that ran. Null: the network itself counts them.
  virtual const attention::AttentionRan* attention() const { return nullptr; }
};

// Gradients by autograd over TaskPipeline::Loss: works for every task, and is
// the reference for the explicit step.
std::unique_ptr<GradientPath> MakeAutogradPath(const TaskPipeline& pipeline,
                                               optim::Trainable& trainable,
                                               std::string name = "autograd");

// Gradients by explicit_step::ExplicitStep, if spec::ChooseGradients has chosen
// it. Throws c10::Error if `trainable` trains what that does not cover.
// `preference`: of a job that learns preferences, else null.
std::unique_ptr<GradientPath> MakeExplicitStepPath(
    const model::Decoder& decoder, optim::Trainable& trainable,
    device::Device& device, const spec::PreferenceSpec* preference = nullptr);

struct TaskData {
  std::unique_ptr<data::Source> train, eval, predict;  // may be null
};

// The result of TaskPipeline::Loss for one micro-batch.
struct BatchLoss {
  at::Tensor sum;     // fp32 scalar on the device; undefined: no target
  at::Tensor logits;  // fp32 [rows, outputs]; undefined for language models
  // fp32 [samples, MetricNames()], whose means are the metrics; undefined for
  // tasks that compute metrics otherwise.
  at::Tensor metrics = {};
};

// What differs between tasks: how data become batches, which model is loaded,
// and how batches become a loss and metrics.
class TaskPipeline {
 public:
  virtual ~TaskPipeline() = default;

  // Makes the TaskPipeline for spec.task. `spec` must outlive it.
  static std::unique_ptr<TaskPipeline> Make(const spec::TrainSpec& spec);

  // The folder that keeps tokenized data between runs; by default nothing is
  // kept.
  void set_cache_folder(std::filesystem::path folder) {
    cache_folder_ = std::move(folder);
  }

  // The time that chat templates show: when the job's first attempt began, so
  // that a resumed run trains the same tokens on another day.
  void set_started_at(absl::Time time) { started_at_ = time; }
  absl::Time started_at() const { return started_at_; }

  // Whether LoadData may change the model's config, so that it runs before
  // LoadModel. If not, LoadData calls nothing of torch and may run on another
  // thread concurrently with LoadModel.
  virtual bool data_change_model() const { return true; }

  // Reads the job's data sets, and reports its progress to `observer`. Writes
  // what the data determine (num_labels) into `config`, which was read from
  // `model_folder`. Its errors are the user's.
  virtual absl::StatusOr<TaskData> LoadData(const std::string& model_folder,
                                            spec::ModelConfig& config,
                                            Observer& observer) = 0;

  // Loads the network. The caller owns it, and it must outlive the last use of
  // this object.
  virtual absl::StatusOr<std::unique_ptr<model::Network>> LoadModel(
      const model::WeightSource& source, const spec::ModelConfig& config,
      const std::function<void(double)>& progress) = 0;

  // Copies micro-batches to `device`, in Loss's form.
  virtual StepInputs Inputs(std::span<const data::Batch> batches,
                            const device::Device& device) const = 0;

  // The loss of one micro-batch by LoadModel's network.
  virtual BatchLoss Loss(const BatchInputs& inputs) const = 0;

  // How a step computes the gradients of what `trainable` trains in LoadModel's
  // network; both must outlive the result.
  virtual std::unique_ptr<GradientPath> MakeGradientPath(
      optim::Trainable& trainable, device::Device&) const {
    return MakeAutogradPath(*this, trainable);
  }

  // The metrics of an evaluation other than its mean loss. `predictions` has no
  // rows for language models; if Loss has metrics, these are its logits.
  virtual metrics::Values Metrics(
      double loss, const metrics::Predictions& predictions) const = 0;
  // The names of Metrics' values, in their order.
  virtual std::vector<std::string> MetricNames() const = 0;

  // Answers training.sample_prompts, which LoadData has read, by LoadModel's
  // network, outside training. Asks `go_on` before each token with the share
  // done; Cancelled if it returns false. Empty without prompts.
  virtual absl::StatusOr<std::vector<std::string>> AnswerSamplePrompts(
      device::Device&, const std::function<bool(double)>& /*go_on*/) const {
    return std::vector<std::string>();
  }

  // The class labels that LoadData decided; null for language models.
  virtual const data::ClassLabels* class_labels() const { return nullptr; }

  // Adds to `folder`, which already has the adapter or the model, what else the
  // task derives from the files of `model_folder`: for a language model the
  // tokenizer with the job's own chat template and end token.
  virtual absl::Status CompleteResult(
      const std::string& /*model_folder*/,
      const std::filesystem::path& /*folder*/) const {
    return absl::OkStatus();
  }

  // Files that a whole model's folder needs and the base model's folder lacks:
  // file name → contents.
  virtual std::map<std::string, std::string> ResultFiles() const { return {}; }

 protected:
  std::filesystem::path cache_folder_;
  absl::Time started_at_ = base::Clock::Real().Now();
};

}  // namespace mpsd::train
