// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_TRAIN_SPEC_FIELDS_H_
#define MPSD_CORE_SPEC_TRAIN_SPEC_FIELDS_H_

#include "core/spec/fields.h"
#include "core/spec/train_spec.h"

// Every field of job.json, once: its name, the values it may have, and its
// order in ToJson. `Fields` is FieldReader or FieldWriter.
namespace mpsd::spec {

inline const Words<Task>& TaskWords() {
  static const Words<Task>& words =
      *new Words<Task>{{"CAUSAL_LM", Task::kCausalLm},
                       {"SEQ_CLS", Task::kSeqCls},
                       {"IMAGE_CLS", Task::kImageCls}};
  return words;
}

inline const Words<FineTuneType>& FineTuneWords() {
  static const Words<FineTuneType>& words =
      *new Words<FineTuneType>{{"lora", FineTuneType::kLora},
                               {"full", FineTuneType::kFull},
                               {"head", FineTuneType::kHead}};
  return words;
}

inline const Words<ProblemType>& ProblemWords() {
  static const auto& words = *new Words<ProblemType>{
      {ToString(ProblemType::kSingleLabel), ProblemType::kSingleLabel},
      {ToString(ProblemType::kRegression), ProblemType::kRegression},
      {ToString(ProblemType::kMultiLabel), ProblemType::kMultiLabel}};
  return words;
}

inline const Words<Recompute>& RecomputeWords() {
  static const Words<Recompute>& words = *new Words<Recompute>{
      {"full", Recompute::kFull}, {"selective", Recompute::kSelective}};
  return words;
}

inline const Words<Gradients>& GradientsWords() {
  static const Words<Gradients>& words = *new Words<Gradients>{
      {"auto", Gradients::kAuto}, {"autograd", Gradients::kAutograd}};
  return words;
}

inline const Words<DeviceChoice>& DeviceWords() {
  static const Words<DeviceChoice>& words =
      *new Words<DeviceChoice>{{"auto", DeviceChoice::kAuto},
                               {"mps", DeviceChoice::kMps},
                               {"cuda", DeviceChoice::kCuda},
                               {"cpu", DeviceChoice::kCpu}};
  return words;
}

// Transformers' SchedulerType, those that need no argument.
inline const std::vector<std::string_view>& SchedulerWords() {
  static const std::vector<std::string_view>& words =
      *new std::vector<std::string_view>{
          "linear",      "cosine",   "cosine_with_restarts",
          "polynomial",  "constant", "constant_with_warmup",
          "inverse_sqrt"};
  return words;
}

// Transformers' train_sampling_strategy, those of one device.
inline const std::vector<std::string_view>& SamplingWords() {
  static const std::vector<std::string_view>& words =
      *new std::vector<std::string_view>{"random", "sequential",
                                         "group_by_length"};
  return words;
}

inline const std::vector<std::string_view>& FormatWords() {
  static const std::vector<std::string_view>& words =
      *new std::vector<std::string_view>{"alpaca", "alpaca_chat"};
  return words;
}

template <typename Fields>
void VisitDataset(Fields&& f, DatasetSpec& dataset) {
  constexpr std::string_view kFiles = "a file or a list of them";
  f.Texts("train", dataset.train, kFiles, /*required=*/true);
  f.Texts("eval", dataset.eval, kFiles);
  f.Texts("predict", dataset.predict, kFiles);
  f.Number("validation_split", dataset.validation_split, Range::From0Below1());
  f.OptionalWord("task_name", dataset.task_name, GlueTaskNames());
  f.Texts("text_columns", dataset.text_columns, "one or two column names");
  f.Text("messages_column", dataset.messages_column, "the name of a column");
  f.Text("prompt_column", dataset.prompt_column, "the name of a column");
  f.Text("completion_column", dataset.completion_column,
         "the name of a column");
  f.OptionalWord("format", dataset.format, FormatWords());
  f.Text("label_column", dataset.label_column, "the name of a column");
  f.Text("image_column", dataset.image_column, "the name of a column");
  f.Integer("max_train_samples", dataset.max_train_samples, Range::AtLeast(1));
  f.Integer("max_eval_samples", dataset.max_eval_samples, Range::AtLeast(1));
  f.Integer("max_predict_samples", dataset.max_predict_samples,
            Range::AtLeast(1));
  f.Finish();
}

template <typename Fields>
void VisitClassification(Fields&& f, ClassificationSpec& c) {
  f.OptionalWord("problem_type", c.problem_type, ProblemWords());
  f.Texts("label_names", c.label_names, "a list of label names");
  f.Numbers("class_weights", c.class_weights, Range::Above(0));
  f.Bool("ignore_mismatched_sizes", c.ignore_mismatched_sizes);
  f.Finish();
}

template <typename Fields>
void VisitAugmentation(Fields&& f, AugmentationSpec& a) {
  f.Bool("random_resized_crop", a.random_resized_crop);
  f.Number("crop_scale_min", a.crop_scale_min, Range::Between(0, 1));
  f.Number("crop_scale_max", a.crop_scale_max, Range::Between(0, 1));
  f.Number("crop_ratio_min", a.crop_ratio_min, Range::Above(0));
  f.Number("crop_ratio_max", a.crop_ratio_max, Range::Above(0));
  f.Number("horizontal_flip", a.horizontal_flip, Range::Between(0, 1));
  f.Finish();
}

template <typename Fields>
void VisitQuantization(Fields&& f, QuantizationSpec& q) {
  f.Bool("load_in_4bit", q.load_in_4bit);
  f.Bool("load_in_8bit", q.load_in_8bit);
  f.Word("bnb_4bit_quant_type", q.bnb_4bit_quant_type, {"nf4"});
  f.Bool("bnb_4bit_use_double_quant", q.bnb_4bit_use_double_quant);
  f.OptionalWord("bnb_4bit_compute_dtype", q.bnb_4bit_compute_dtype,
                 {"float32", "bfloat16"});
  f.Texts("llm_int8_skip_modules", q.llm_int8_skip_modules,
          "a list of module names");
  f.Finish();
}

template <typename Fields>
void VisitLora(Fields&& f, LoraSpec& lora) {
  f.Integer("r", lora.r, Range::AtLeast(1));
  f.Number("lora_alpha", lora.lora_alpha, Range::Above(0));
  f.Number("lora_dropout", lora.lora_dropout, Range::From0Below1());
  f.Targets("target_modules", lora.target_modules);
  f.Bool("use_rslora", lora.use_rslora);
  f.Integers("layers_to_transform", lora.layers_to_transform,
             Range::AtLeast(0));
  f.Patterns("rank_pattern", lora.rank_pattern, Range::AtLeast(1));
  f.Patterns("alpha_pattern", lora.alpha_pattern, Range::Above(0));
  f.Texts("modules_to_save", lora.modules_to_save, "a list of module names");
  f.Finish();
}

template <typename Fields>
void VisitOptimization(Fields& f, TrainingSpec& t) {
  f.Number("num_train_epochs", t.num_train_epochs, Range::Above(0));
  f.StepLimit("max_steps", t.max_steps);
  f.Integer("per_device_train_batch_size", t.per_device_train_batch_size,
            Range::AtLeast(1));
  f.Integer("per_device_eval_batch_size", t.per_device_eval_batch_size,
            Range::AtLeast(1));
  f.Integer("gradient_accumulation_steps", t.gradient_accumulation_steps,
            Range::AtLeast(1));
  f.Number("learning_rate", t.learning_rate, Range::Above(0));
  f.Word("lr_scheduler_type", t.lr_scheduler_type, SchedulerWords());
  f.Integer("warmup_steps", t.warmup_steps, Range::AtLeast(0),
            "a share of all steps goes into \"warmup_ratio\"");
  f.Number("warmup_ratio", t.warmup_ratio, Range::Between(0, 1));
  f.Number("weight_decay", t.weight_decay, Range::AtLeast(0));
  f.Number("adam_beta1", t.adam_beta1, Range::From0Below1());
  f.Number("adam_beta2", t.adam_beta2, Range::From0Below1());
  f.Number("adam_epsilon", t.adam_epsilon, Range::Above(0));
  f.Number("max_grad_norm", t.max_grad_norm, Range::AtLeast(0));
}

template <typename Fields>
void VisitTraining(Fields&& f, TrainingSpec& t) {
  VisitOptimization(f, t);
  f.Integer("max_length", t.max_length, Range::AtLeast(2));
  f.Bool("packing", t.packing);
  f.Bool("padding_free", t.padding_free);
  f.Word("train_sampling_strategy", t.train_sampling_strategy, SamplingWords());
  f.Bool("auto_find_batch_size", t.auto_find_batch_size);
  f.Bool("assistant_only_loss", t.assistant_only_loss);
  f.Bool("completion_only_loss", t.completion_only_loss);
  f.Text("chat_template_path", t.chat_template_path,
         "the path of a .jinja file or of a model folder");
  f.Text("eos_token", t.eos_token, "a token of the model's tokenizer");
  f.Bool("gradient_checkpointing", t.gradient_checkpointing);
  f.Word("recompute_granularity", t.recompute_granularity, RecomputeWords());
  f.Bool("bf16", t.bf16);
  f.Integer("seed", t.seed, Range::AtLeast(0));
  f.Integer("eval_steps", t.eval_steps, Range::AtLeast(0));
  f.Integer("save_steps", t.save_steps, Range::AtLeast(0));
  f.Integer("save_total_limit", t.save_total_limit, Range::AtLeast(1));
  f.Integer("logging_steps", t.logging_steps, Range::AtLeast(1));
  f.Bool("load_best_model_at_end", t.load_best_model_at_end);
  f.Text("metric_for_best_model", t.metric_for_best_model,
         "the name of a metric");
  f.Bool("greater_is_better", t.greater_is_better);
  f.Integer("early_stopping_patience", t.early_stopping_patience,
            Range::AtLeast(1));
  f.Number("early_stopping_threshold", t.early_stopping_threshold,
           Range::AtLeast(0));
  f.Finish();
}

template <typename Fields>
void VisitSpec(Fields&& f, TrainSpec& spec) {
  f.Text("name", spec.name, "a non-empty string");
  f.Text("model", spec.model,
         "a model folder or the id of a model in the local Hugging Face cache",
         /*required=*/true);
  f.Text("model_id", spec.model_id, "the id of a model");
  f.Word("task", spec.task, TaskWords());
  f.Word("fine_tune_type", spec.fine_tune_type, FineTuneWords());
  f.Bool("from_scratch", spec.from_scratch);
  VisitDataset(f.Section("dataset"), spec.dataset);
  VisitClassification(f.Section("classification"), spec.classification);
  VisitAugmentation(f.Section("augmentation"), spec.augmentation);
  VisitQuantization(f.Section("quantization_config"), spec.quantization_config);
  f.Text("adapter", spec.adapter, "the path of a PEFT adapter folder");
  VisitLora(f.Section("lora"), spec.lora);
  VisitTraining(f.Section("training"), spec.training);
  f.Word("device", spec.device, DeviceWords());
  f.Word("gradients", spec.gradients, GradientsWords());
  f.Bool("allow_cpu_fallback", spec.allow_cpu_fallback);
  f.Finish();
}

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_TRAIN_SPEC_FIELDS_H_
