// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_TASK_H_
#define MPSD_CORE_TRAIN_TASK_H_

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
#include "core/data/labels.h"
#include "core/data/source.h"
#include "core/metrics/metrics.h"
#include "core/model/network.h"
#include "core/model/weight_reader.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"
#include "core/train/gradient.h"
#include "core/train/inputs.h"
#include "core/train/observer.h"

namespace mpsd::train {

struct TaskData {
  std::unique_ptr<data::Source> train, eval, predict;  // null: none
};

// Of one micro-batch.
struct BatchLoss {
  at::Tensor sum;     // fp32 scalar on the device; undefined: no target
  at::Tensor logits;  // fp32 [rows, outputs]; undefined for language models
};

// What a job's task makes of its data and its model: the part of a run that
// differs between tasks.
class Task {
 public:
  virtual ~Task() = default;

  // Of spec.task. `spec` and `observer` must outlive it.
  static std::unique_ptr<Task> Make(const spec::TrainSpec& spec,
                                    Observer& observer);

  // Where tokenized data may be kept between runs; none without.
  void set_cache_folder(std::filesystem::path folder) {
    cache_folder_ = std::move(folder);
  }

  // Whether LoadData must come before LoadModel. Where not, it leaves `config`
  // as it is, calls nothing of torch and may run on another thread beside it.
  virtual bool data_change_model() const { return true; }

  // Reads what the job's dataset names; `config`, read from `model_folder`,
  // gets what the data decide (num_labels). Errors are the user's.
  virtual absl::StatusOr<TaskData> LoadData(const std::string& model_folder,
                                            spec::ModelConfig& config) = 0;

  // The network, kept by the caller beyond this object's last use.
  virtual absl::StatusOr<std::unique_ptr<model::Network>> LoadModel(
      const model::WeightSource& source, const spec::ModelConfig& config,
      const std::function<void(double)>& progress) = 0;

  // What Loss takes, on `device`.
  virtual StepInputs Inputs(std::span<const data::Batch> batches,
                            const device::Device& device) const = 0;

  // With the network that LoadModel gave.
  virtual BatchLoss Loss(const BatchInputs& inputs) const = 0;

  // How a step gets the gradients of what `trainable` trains of LoadModel's
  // network; both must outlive it.
  virtual std::unique_ptr<GradientPath> MakeGradientPath(
      optim::Trainable& trainable, device::Device&) const {
    return MakeAutogradPath(*this, trainable);
  }

  // What an evaluation says beyond its mean loss; `predictions` has no rows for
  // language models.
  virtual metrics::Values Metrics(
      double loss, const metrics::Predictions& predictions) const = 0;
  virtual std::vector<std::string> MetricNames() const = 0;

  // Null for language models; known after LoadData.
  virtual const data::Labels* labels() const { return nullptr; }

  // Puts into `folder`, which has the adapter or the model, what else the task
  // makes of the files of `model_folder`: a language model's tokenizer with the
  // job's own chat template and end token.
  virtual absl::Status CompleteResult(
      const std::string& /*model_folder*/,
      const std::filesystem::path& /*folder*/) const {
    return absl::OkStatus();
  }

  // Files that a whole model's folder needs where the base model's has them
  // not: name → contents.
  virtual std::map<std::string, std::string> ResultFiles() const { return {}; }

 protected:
  std::filesystem::path cache_folder_;
};

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_TASK_H_
