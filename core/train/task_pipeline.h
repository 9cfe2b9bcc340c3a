// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_TASK_PIPELINE_H_
#define MPSD_CORE_TRAIN_TASK_PIPELINE_H_

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/batch.h"
#include "core/data/class_labels.h"
#include "core/data/source.h"
#include "core/report/metrics.h"
#include "core/model/network.h"
#include "core/model/weight_reader.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"
#include "core/train/gradient.h"
#include "core/train/inputs.h"
#include "core/train/observer.h"

namespace mpsd::train {

struct TaskData {
  std::unique_ptr<data::Source> train, eval, predict;  // may be null
};

// The result of TaskPipeline::Loss for one micro-batch.
struct BatchLoss {
  at::Tensor sum;     // fp32 scalar on the device; undefined: no target
  at::Tensor logits;  // fp32 [rows, outputs]; undefined for language models
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
  // rows for language models.
  virtual metrics::Values Metrics(
      double loss, const metrics::Predictions& predictions) const = 0;
  // The names of Metrics' values, in their order.
  virtual std::vector<std::string> MetricNames() const = 0;

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
};

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_TASK_PIPELINE_H_
