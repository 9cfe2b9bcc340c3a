// SPDX-License-Identifier: Apache-2.0
#include "server/models/model_facts.h"

#include "absl/status/status.h"
#include "core/base/printable.h"
#include "core/spec/model_files.h"
#include "core/spec/targets.h"
#include "core/spec/train_spec.h"

namespace mpsd::models {
namespace {

constexpr std::pair<spec::Task, const char*> kTasks[] = {
    {spec::Task::kCausalLm, "CAUSAL_LM"},
    {spec::Task::kSeqCls, "SEQ_CLS"},
    {spec::Task::kImageCls, "IMAGE_CLS"},
};
// Outputs of a head whose labels are not known yet.
constexpr int64_t kFewLabels = 2;

// LoRA with the defaults of job.json, at the layout that the trainer finds.
spec::TrainSpec DefaultJob(spec::Task task) {
  spec::TrainSpec spec;
  spec.task = task;
  spec.training.auto_find_batch_size = true;
  return spec;
}

}  // namespace

ModelFacts FactsOf(const std::filesystem::path& folder,
                   const jobs::MachineMemory& memory) {
  ModelFacts facts;
  absl::StatusOr<spec::ModelFolder> model = spec::ReadModelFolder(folder);
  if (!model.ok()) {
    facts.problem = base::Printable(std::string(model.status().message()));
    return facts;
  }
  facts.family = model->config.model_type;
  facts.parameters = spec::ParameterCount(model->config);
  for (const auto& [task, name] : kTasks) {
    const spec::TrainSpec spec = DefaultJob(task);
    if (absl::Status s = spec::CheckTask(spec, model->config); !s.ok()) {
      if (facts.problem.empty() && !absl::IsInvalidArgument(s)) {
        facts.problem = base::Printable(std::string(s.message()));
      }
      continue;
    }
    spec::ModelConfig config = model->config;
    if (task != spec::Task::kCausalLm) config.num_labels = kFewLabels;
    facts.tasks.emplace_back(name);
    if (facts.least_memory_bytes > 0) continue;
    facts.least_memory_bytes = jobs::LeastMemory(spec, config);
    const int64_t limit = jobs::MemoryFor(memory, spec.device);
    if (limit > 0) facts.fits = facts.least_memory_bytes <= limit;
  }
  if (model->weights.empty()) {
    facts.problem =
        "it has no weights in safetensors: jobs need from_scratch for it";
  }
  return facts;
}

}  // namespace mpsd::models
