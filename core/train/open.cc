// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/full/model_folder.h"
#include "core/lora/peft_folder.h"
#include "core/spec/idle_fields.h"
#include "core/spec/targets.h"
#include "core/train/stages.h"

namespace mpsd::train {
namespace {

// The settings of an adapter that training starts from. The adapter decides
// what is trained; only dropout may be this run's, as with PEFT's
// from_pretrained. A job whose `lora` asks for anything else is rejected as a
// misunderstanding.
absl::StatusOr<spec::LoraSpec> LoraOfAdapter(const spec::TrainSpec& spec,
                                             const spec::ModelConfig& config) {
  ASSIGN_OR_RETURN(auto lora, lora::ReadPeftConfig(spec.adapter));
  spec::LoraSpec unset;
  if (const auto& asked = spec.lora.lora_dropout) {
    lora.lora_dropout = unset.lora_dropout = *asked;
  }
  if (spec.lora == unset) return lora;
  ASSIGN_OR_RETURN(auto asked, spec::MatchTargets(spec.lora, config));
  ASSIGN_OR_RETURN(auto there, spec::MatchTargets(lora, config));
  const auto saved = [&config](const spec::LoraSpec& l) {
    return spec::EffectiveLora(l, config).modules_to_save;
  };
  if (asked != there || saved(spec.lora) != saved(lora)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "lora: asks for other modules, ranks or scaling than the adapter in ",
        spec.adapter,
        " has; leave lora out (lora_dropout may stay) to train the adapter as "
        "it is, or leave adapter out"));
  }
  return lora;
}

// Fills in spec.lora. Rejects a wrong target before data and weights are read.
absl::Status ResolveLora(spec::ModelConfig config, spec::TrainSpec& spec) {
  // MatchTargets needs a head, but the number of labels is still unknown: any
  // number will do.
  if (spec.task != spec::Task::kCausalLm) config.num_labels = 2;
  if (!spec.adapter.empty()) {
    ASSIGN_OR_RETURN(spec.lora, LoraOfAdapter(spec, config));
  }
  spec.lora = spec::EffectiveLora(std::move(spec.lora), config);
  // TRL's trainers turn off an adapter's dropout.
  if (spec.preference.enabled()) spec.lora.lora_dropout = 0;
  absl::Status s = spec::MatchTargets(spec.lora, config).status();
  if (!s.ok() || !spec.adapter.empty()) return s;
  return spec::CheckPatternKeys(spec.lora, config);
}

}  // namespace

absl::StatusOr<Described> Describe(spec::TrainSpec spec, Observer& observer) {
  ASSIGN_OR_RETURN(auto folder, spec::FindModelFolder(spec.model));
  RETURN_IF_ERROR(full::CheckCopied(folder));
  ASSIGN_OR_RETURN(auto config, spec::ReadModelConfig(folder));
  RETURN_IF_ERROR(spec::CheckTask(spec, config));
  observer.OnWarnings(spec::IdleWarnings(spec));
  observer.OnWarnings(spec::ModelWarnings(spec, config));
  if (spec.fine_tune_type == spec::FineTuneType::kLora) {
    RETURN_IF_ERROR(ResolveLora(config, spec));
  }
  return Described{std::move(folder), std::move(config),
                   std::make_unique<spec::TrainSpec>(std::move(spec))};
}

absl::StatusOr<Opened> Open(spec::TrainSpec spec, const RunContext& context,
                            Observer& observer) {
  ASSIGN_OR_RETURN(auto device, device::Open(spec.device));
  observer.OnDevice(device->name());
  device->Seed(static_cast<uint64_t>(spec.training.seed));
  ASSIGN_OR_RETURN(auto described, Describe(std::move(spec), observer));
  // Hashing starts as soon as the folder is known to contain a model for the
  // job, and runs concurrently with everything up to the first checkpoint.
  auto digests = std::make_unique<ModelDigests>(
      described.model_folder, context.cache_dir / kModelDigestsFile);
  return Opened{context,
                observer,
                std::move(device),
                std::move(described.model_folder),
                std::move(digests),
                std::move(described.config),
                std::move(described.spec)};
}

}  // namespace mpsd::train
