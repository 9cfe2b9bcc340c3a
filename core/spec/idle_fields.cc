// SPDX-License-Identifier: Apache-2.0
#include "core/spec/idle_fields.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/spec/modules.h"

namespace mpsd::spec {
namespace {

constexpr std::string_view kNoEvaluation =
    "there is no evaluation: dataset.eval and dataset.validation_split are "
    "absent";
constexpr std::string_view kNoBest =
    "only run.json's best uses it: load_best_model_at_end and "
    "early_stopping_patience are absent";
constexpr std::string_view kNoCrop = "random_resized_crop is false";

const TrainingSpec& DefaultTraining() {
  static const TrainingSpec& defaults = *new TrainingSpec;
  return defaults;
}

template <double AugmentationSpec::*field>
bool UnusedCrop(const TrainSpec& s) {
  return !s.augmentation.random_resized_crop &&
         s.augmentation.*field != AugmentationSpec().*field;
}

bool UsesBest(const TrainSpec& s) {
  return s.training.load_best_model_at_end ||
         s.training.early_stopping_patience.has_value();
}

bool IsSelective(const TrainSpec& s) {
  return s.training.recompute_granularity == Recompute::kSelective;
}

bool HasWarmup(const TrainSpec& s) {
  return s.training.warmup_steps > 0 || s.training.warmup_ratio > 0;
}

std::vector<IdleField> DataFields() {
  return {
      {"dataset.max_eval_samples", kNoEvaluation,
       [](const TrainSpec& s) {
         return s.dataset.max_eval_samples.has_value() &&
                !s.dataset.evaluates();
       }},
      {"dataset.max_predict_samples", "there is no dataset.predict",
       [](const TrainSpec& s) {
         return s.dataset.max_predict_samples.has_value() &&
                s.dataset.predict.empty();
       }},
      {"classification.ignore_mismatched_sizes",
       "from_scratch reads no weights",
       [](const TrainSpec& s) {
         return s.classification.ignore_mismatched_sizes && s.from_scratch;
       }},
      {"augmentation.crop_scale_min", kNoCrop,
       UnusedCrop<&AugmentationSpec::crop_scale_min>},
      {"augmentation.crop_scale_max", kNoCrop,
       UnusedCrop<&AugmentationSpec::crop_scale_max>},
      {"augmentation.crop_ratio_min", kNoCrop,
       UnusedCrop<&AugmentationSpec::crop_ratio_min>},
      {"augmentation.crop_ratio_max", kNoCrop,
       UnusedCrop<&AugmentationSpec::crop_ratio_max>},
      {"quantization_config.bnb_4bit_compute_dtype", "load_in_4bit is false",
       [](const TrainSpec& s) {
         return !s.quantization_config.bnb_4bit_compute_dtype.empty() &&
                !s.quantization_config.load_in_4bit;
       }},
  };
}

std::vector<IdleField> StepFields() {
  return {
      {"training.num_train_epochs", "max_steps overrides it",
       [](const TrainSpec& s) {
         return s.training.max_steps > 0 &&
                s.training.num_train_epochs !=
                    DefaultTraining().num_train_epochs;
       }},
      {"training.warmup_ratio", "warmup_steps overrides it",
       [](const TrainSpec& s) {
         return s.training.warmup_ratio > 0 && s.training.warmup_steps > 0 &&
                s.training.lr_scheduler_type != "constant";
       }},
      {"training.warmup_steps or warmup_ratio",
       "lr_scheduler_type \"constant\" has no warm-up; \"constant_with_"
       "warmup\" has",
       [](const TrainSpec& s) {
         return HasWarmup(s) && s.training.lr_scheduler_type == "constant";
       }},
      {"training.max_length", "images have no length",
       [](const TrainSpec& s) {
         return s.task == Task::kImageCls &&
                s.training.max_length != DefaultTraining().max_length;
       }},
      {"training.padding_free", "packing leaves no padding",
       [](const TrainSpec& s) {
         return s.training.padding_free.has_value() && s.training.packing;
       }},
      {"training.train_sampling_strategy", "images are all of one length",
       [](const TrainSpec& s) {
         return s.task == Task::kImageCls &&
                s.training.train_sampling_strategy == "group_by_length";
       }},
      {"training.recompute_granularity", "gradient_checkpointing is false",
       [](const TrainSpec& s) {
         return IsSelective(s) && !s.training.gradient_checkpointing;
       }},
      {"training.recompute_granularity",
       "only language models support \"selective\"; whole layers are "
       "recomputed",
       [](const TrainSpec& s) {
         return s.training.recompute() == Recompute::kSelective &&
                s.task != Task::kCausalLm;
       }},
      {"gradients", "only language models have an alternative to autograd",
       [](const TrainSpec& s) {
         return s.gradients == Gradients::kAutograd &&
                s.task != Task::kCausalLm;
       }},
      {"allow_cpu_fallback", "it is for the device \"mps\"",
       [](const TrainSpec& s) {
         return s.allow_cpu_fallback &&
                !backend::TraitsOf(s.device).lacks_operators;
       }},
  };
}

std::vector<IdleField> EvaluationFields() {
  return {
      {"training.per_device_eval_batch_size",
       "there is no dataset.eval, validation_split or predict",
       [](const TrainSpec& s) {
         return s.training.per_device_eval_batch_size !=
                    DefaultTraining().per_device_eval_batch_size &&
                !s.dataset.evaluates() && s.dataset.predict.empty();
       }},
      {"training.metric_for_best_model", kNoEvaluation,
       [](const TrainSpec& s) {
         return !s.training.metric_for_best_model.empty() &&
                !s.dataset.evaluates();
       }},
      {"training.metric_for_best_model", kNoBest,
       [](const TrainSpec& s) {
         return !s.training.metric_for_best_model.empty() &&
                s.dataset.evaluates() && !UsesBest(s);
       }},
      {"training.greater_is_better", kNoEvaluation,
       [](const TrainSpec& s) {
         return s.training.greater_is_better.has_value() &&
                !s.dataset.evaluates();
       }},
      {"training.greater_is_better", kNoBest,
       [](const TrainSpec& s) {
         return s.training.greater_is_better.has_value() &&
                s.dataset.evaluates() && !UsesBest(s);
       }},
      {"training.early_stopping_threshold", "early_stopping_patience is absent",
       [](const TrainSpec& s) {
         return s.training.early_stopping_threshold > 0 &&
                !s.training.early_stopping_patience;
       }},
      {"training.sample_max_new_tokens", "there is no sample_prompts",
       [](const TrainSpec& s) {
         return s.training.sample_max_new_tokens !=
                    DefaultTraining().sample_max_new_tokens &&
                s.training.sample_prompts.empty();
       }},
      {"training.save_total_limit",
       "save_steps is 0: one checkpoint is written, at the end",
       [](const TrainSpec& s) {
         return s.training.save_total_limit.has_value() &&
                s.training.save_steps == 0 &&
                !s.training.load_best_model_at_end;
       }},
  };
}

}  // namespace

const std::vector<IdleField>& IdleFields() {
  static const std::vector<IdleField>& all = *[] {
    auto* fields = new std::vector<IdleField>(DataFields());
    for (const auto& more : {StepFields(), EvaluationFields()}) {
      fields->insert(fields->end(), more.begin(), more.end());
    }
    return fields;
  }();
  return all;
}

std::vector<std::string> IdleWarnings(const TrainSpec& spec) {
  std::vector<std::string> warnings;
  for (const IdleField& field : IdleFields()) {
    if (!field.idle(spec)) continue;
    warnings.push_back(
        base::Cat(field.field, " has no effect: ", field.reason));
  }
  return warnings;
}

std::vector<std::string> ModelWarnings(const TrainSpec& spec,
                                       const ModelConfig& config) {
  std::vector<std::string> warnings;
  const int64_t length = spec.training.max_length;
  const int64_t limit = config.max_row_tokens();
  if (spec.task == Task::kCausalLm && length > limit) {
    warnings.push_back(
        base::Cat("training.max_length is ", length,
                  ", the model's max_position_embeddings ", limit,
                  ": longer rows use positions that it was not made for"));
  }
  if (spec.task == Task::kSeqCls && length > limit &&
      length != DefaultTraining().max_length) {
    warnings.push_back(base::Cat("training.max_length is ", length,
                                 ", the model has positions for ", limit,
                                 " tokens: texts are cut to those"));
  }
  const std::vector<Module> modules = Modules(config);
  for (const std::string& entry :
       spec.quantization_config.llm_int8_skip_modules) {
    const bool found = std::any_of(
        modules.begin(), modules.end(),
        [&](const Module& m) { return MeansModule(entry, m.name); });
    if (found) continue;
    warnings.push_back(
        base::Cat("quantization_config.llm_int8_skip_modules: \"", entry,
                  "\" has no effect: no module of this model has that name"));
  }
  return warnings;
}

}  // namespace mpsd::spec
