// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <algorithm>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include "core/base/status_macros.h"
#include "core/ckpt/safetensors.h"
#include "core/full/full_model.h"
#include "core/lora/lora.h"
#include "core/optim/schedule.h"
#include "core/spec/targets.h"
#include "core/train/classification.h"
#include "core/train/data_reader.h"
#include "core/train/preferences.h"
#include "core/train/stages.h"

namespace mpsd::train {
namespace {

constexpr char kLoading[] = "loading model";  // the stage's name

// Thrown to abandon the loading of weights, like torch's exceptions, if the
// data have already failed.
struct DataFailed {};

struct DataAndModel {
  TaskData data;
  std::optional<BestModel> best;
  std::vector<std::string> weight_files;
  std::unique_ptr<model::Network> network;
};

// Moves the data into `read`, and checks the spec's requirements of them.
absl::Status TakeData(const Opened& opened, const TaskPipeline& pipeline,
                      absl::StatusOr<TaskData> data, DataAndModel& read) {
  if (!data.ok()) return data.status();
  read.data = *std::move(data);
  const device::Device& device = *opened.device;
  const data::BatchShapes shapes(*opened.spec, opened.config, device.traits(),
                                 device.name());
  RETURN_IF_ERROR(shapes.CheckDeviceLimits(
      *read.data.train, {read.data.eval.get(), read.data.predict.get()}));
  const spec::TrainingSpec& training = opened.spec->training;
  ASSIGN_OR_RETURN(read.best,
                   BestModel::Create(training, pipeline.MetricNames()));
  // Only the schedule's name is in question: Prepare knows the steps.
  return optim::Schedule::Create(training, /*total_steps=*/1).status();
}

absl::Status LoadModel(const Opened& opened, TaskPipeline& pipeline,
                       const std::function<void(double)>& progress,
                       DataAndModel& read) {
  const spec::TrainSpec& spec = *opened.spec;
  std::unique_ptr<tensorfile::Weights> weights;
  if (!spec.from_scratch) {
    ASSIGN_OR_RETURN(weights, tensorfile::Weights::Open(opened.model_folder));
    for (const auto& file : weights->files()) {
      read.weight_files.push_back(file.filename().string());
    }
  }
  ASSIGN_OR_RETURN(
      auto network,
      pipeline.LoadModel({weights.get(), opened.device->torch_device(),
                          spec.training.bf16 ? at::kBFloat16 : at::kFloat,
                          spec.classification.ignore_mismatched_sizes,
                          spec.quantization_config},
                         opened.config, progress));
  read.network = std::move(network);
  model::RunOptions options;
  options.attention = attention::KernelFor(opened.device->traits());
  options.recompute = spec.training.recompute();
  read.network->set_options(options);
  return absl::OkStatus();
}

absl::Status LoadDataThenModel(Opened& opened, TaskPipeline& pipeline,
                               DataAndModel& read) {
  Observer& observer = opened.observer;
  RETURN_IF_ERROR(TakeData(
      opened, pipeline,
      pipeline.LoadData(opened.model_folder, opened.config, observer), read));
  const auto on_progress = [&](double part) {
    observer.OnStage(kLoading, part);
  };
  return LoadModel(opened, pipeline, on_progress, read);
}

absl::Status LoadBoth(const Opened& opened, TaskPipeline& pipeline,
                      DataAndModel& read) {
  DataReader reader(pipeline, opened.observer, opened.model_folder,
                    opened.config);
  std::optional<absl::Status> data;
  const auto on_progress = [&](double part) {
    reader.Report();
    if (!data && reader.done()) {
      data = TakeData(opened, pipeline, reader.Get(), read);
    }
    if (!data) return;
    if (!data->ok()) throw DataFailed();
    opened.observer.OnStage(kLoading, part);
  };
  absl::Status model;
  std::exception_ptr error;
  try {
    model = LoadModel(opened, pipeline, on_progress, read);
  } catch (...) {
    error = std::current_exception();
  }
  if (!data) data = TakeData(opened, pipeline, reader.Get(), read);
  if (!data->ok()) return *data;
  if (error) std::rethrow_exception(error);
  if (model.ok()) opened.observer.OnStage(kLoading, 1);
  return model;
}

// Completes spec.lora.
absl::StatusOr<std::unique_ptr<optim::Trainable>> AttachAdapter(
    Opened& opened, const TaskPipeline& pipeline, model::Network& network) {
  spec::TrainSpec& spec = *opened.spec;
  ASSIGN_OR_RETURN(auto saved,
                   spec::MatchModulesToSave(spec.lora, opened.config));
  // Weights drawn at random must be saved with the adapter: no base model has
  // them.
  for (const std::string& module : network.fresh_modules()) {
    const bool kept =
        std::any_of(saved.begin(), saved.end(),
                    [&](const spec::Module& m) { return m.name == module; });
    if (!kept) spec.lora.modules_to_save.push_back(module);
  }
  const char* task_type = spec.task == spec::Task::kCausalLm ? "CAUSAL_LM"
                          : spec.task == spec::Task::kSeqCls ? "SEQ_CLS"
                                                             : "";
  const spec::BaseModel base = spec::BaseModelOf(spec, opened.model_folder);
  lora::PeftIdentity identity{base.name, task_type, base.revision};
  if (pipeline.class_labels() != nullptr) {
    identity.labels = AdapterLabelsOf(*pipeline.class_labels());
  }
  ASSIGN_OR_RETURN(
      auto adapter,
      lora::Adapter::Attach(network, spec.lora, opened.device->torch_device(),
                            std::move(identity)));
  if (!spec.adapter.empty()) {
    RETURN_IF_ERROR(adapter->LoadCheckpoint(spec.adapter));
  }
  return std::unique_ptr<optim::Trainable>(std::move(adapter));
}

absl::StatusOr<std::unique_ptr<optim::Trainable>> AttachWeights(
    const Opened& opened, const TaskPipeline& pipeline,
    model::Network& network) {
  full::FullModel::Options options;
  options.head_only = opened.spec->fine_tune_type == spec::FineTuneType::kHead;
  options.task = opened.spec->task;
  options.model_folder = opened.model_folder;
  options.files = pipeline.ResultFiles();
  if (const data::ClassLabels* class_labels = pipeline.class_labels();
      class_labels != nullptr) {
    options.label_names = class_labels->names;
    options.problem_type = std::string(spec::ToString(class_labels->problem));
  }
  ASSIGN_OR_RETURN(auto full,
                   full::FullModel::Attach(network, std::move(options),
                                           opened.device->torch_device()));
  return std::unique_ptr<optim::Trainable>(std::move(full));
}

}  // namespace

absl::StatusOr<Loaded> Load(Opened opened) {
  auto pipeline = TaskPipeline::Make(*opened.spec);
  if (!opened.context.cache_dir.empty()) {
    pipeline->set_cache_folder(opened.context.cache_dir / kTokenFolder);
  }
  pipeline->set_started_at(
      StartOfRun(opened.context.out_dir).value_or(pipeline->started_at()));
  DataAndModel read;
  RETURN_IF_ERROR(pipeline->data_change_model()
                      ? LoadDataThenModel(opened, *pipeline, read)
                      : LoadBoth(opened, *pipeline, read));
  opened.observer.OnWarnings(model::Warnings(read.network->load_report()));
  ASSIGN_OR_RETURN(auto trainable,
                   opened.spec->fine_tune_type == spec::FineTuneType::kLora
                       ? AttachAdapter(opened, *pipeline, *read.network)
                       : AttachWeights(opened, *pipeline, *read.network));
  Loaded loaded{opened.context,
                opened.observer,
                std::move(opened.device),
                std::move(opened.model_folder),
                std::move(opened.digests),
                std::move(opened.spec),
                std::move(opened.config),
                std::move(pipeline),
                std::move(read.data),
                *std::move(read.best),
                std::move(read.weight_files),
                std::move(read.network),
                std::move(trainable)};
  if (loaded.spec->preference.enabled()) RETURN_IF_ERROR(AddReference(loaded));
  return loaded;
}

}  // namespace mpsd::train
