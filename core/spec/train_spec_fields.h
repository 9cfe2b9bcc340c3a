// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "core/base/limits.h"
#include "core/host/traits.h"
#include "core/spec/fields.h"
#include "core/spec/train_spec.h"

// Every field of job.json, listed once: its name, its purpose (a line quoted by
// the schema and client/README.md), its allowed values, and its place in
// ToJson. Its default is TrainSpec's. `Fields` is FieldReader, FieldWriter or
// the visitor of job_schema.cc.

namespace mpsd::spec {

// --- the allowed words of fields ---------------------------------------------

// The word for `value`; "" if there is none.
template <typename E>
std::string_view WordOf(E value, Words<E> words) {
  for (const auto& [word, meaning] : words) {
    if (meaning == value) return word;
  }
  return "";
}

template <typename E>
using Word = std::pair<std::string_view, E>;
inline constexpr Word<Task> kTaskWords[] = {{"CAUSAL_LM", Task::kCausalLm},
                                            {"SEQ_CLS", Task::kSeqCls},
                                            {"IMAGE_CLS", Task::kImageCls}};
inline constexpr Word<FineTuneType> kFineTuneWords[] = {
    {"lora", FineTuneType::kLora},
    {"full", FineTuneType::kFull},
    {"head", FineTuneType::kHead}};
inline constexpr Word<Recompute> kRecomputeWords[] = {
    {"full", Recompute::kFull}, {"selective", Recompute::kSelective}};
inline constexpr Word<Gradients> kGradientsWords[] = {
    {"auto", Gradients::kAuto}, {"autograd", Gradients::kAutograd}};
inline constexpr Word<Trainer> kTrainerWords[] = {{"sft", Trainer::kSft},
                                                  {"dpo", Trainer::kDpo}};
inline constexpr Word<PreferenceLoss> kPreferenceLossWords[] = {
    {"sigmoid", PreferenceLoss::kSigmoid},
    {"hinge", PreferenceLoss::kHinge},
    {"ipo", PreferenceLoss::kIpo},
    {"robust", PreferenceLoss::kRobust}};
// Transformers' SchedulerType, without the types that need an argument.
inline constexpr std::string_view kSchedulerWords[] = {
    "linear",      "cosine",   "cosine_with_restarts",
    "polynomial",  "constant", "constant_with_warmup",
    "inverse_sqrt"};
// Transformers' train_sampling_strategy, without those for several devices.
inline constexpr std::string_view kSamplingWords[] = {"random", "sequential",
                                                      "group_by_length"};
// The names of AdamW in Transformers' OptimizerNames.
inline constexpr std::string_view kOptimWords[] = {
    "adamw_torch", "adamw_torch_fused", "adamw_hf"};
inline constexpr std::string_view kFormatWords[] = {"alpaca", "alpaca_chat"};
inline constexpr std::string_view kQuantTypeWords[] = {"nf4"};
inline constexpr std::string_view kComputeDtypeWords[] = {"float32",
                                                          "bfloat16"};

template <typename Fields>
void VisitRowColumns(Fields& f, DatasetSpec& dataset) {
  constexpr std::string_view kColumn = "the name of a column";
  f.About(
       "The column of the text; two columns for pairs of texts (SEQ_CLS). "
       "Empty: the columns of `task_name`, else `sentence1` and `sentence2`, "
       "`sentence` or `text`, the first of these in the files; CAUSAL_LM: "
       "`text`.")
      .Texts("text_columns", dataset.text_columns, "one or two column names");
  f.About(
       "CAUSAL_LM: the column of the conversation. Absent: `messages` or "
       "`conversations`.")
      .Text("messages_column", dataset.messages_column, kColumn);
  f.About(
       "CAUSAL_LM: the column of the prompt. Absent: `prompt`, or `question` "
       "next to `answer`.")
      .Text("prompt_column", dataset.prompt_column, kColumn);
  f.About(
       "CAUSAL_LM: the column of the completion. Absent: `completion`, or "
       "`answer` next to `question`.")
      .Text("completion_column", dataset.completion_column, kColumn);
  f.About(
       "CAUSAL_LM: how rows with Alpaca's columns are read: as Alpaca's own "
       "prompt and a completion, or as a conversation for the chat template. "
       "Absent: `alpaca`.")
      .OptionalWord("format", dataset.format, kFormatWords);
  f.About(
       "SEQ_CLS and IMAGE_CLS: the column of the label. Absent: that of "
       "`task_name`, else `label`.")
      .Text("label_column", dataset.label_column, kColumn);
  f.About(
       "IMAGE_CLS: the column of the image's path in JSON Lines. Absent: "
       "`image`.")
      .Text("image_column", dataset.image_column, kColumn);
}

template <typename Fields>
void VisitDataset(Fields&& f, DatasetSpec& dataset) {
  constexpr std::string_view kFiles = "a file or a list of them";
  f.About(
       "The training data: files; IMAGE_CLS also takes folders with a folder "
       "per class. Paths may be relative to the folder of job.json.")
      .Texts("train", dataset.train, kFiles, /*required=*/true);
  f.About(
       "The data for evaluations: one before training and one every "
       "`training.eval_steps`.")
      .Texts("eval", dataset.eval, kFiles);
  f.About(
       "SEQ_CLS and IMAGE_CLS: data that the trained classifier labels, into "
       "predictions.jsonl and predictions.tsv. Its rows need no labels.")
      .Texts("predict", dataset.predict, kFiles);
  f.About(
       "The share of `train` that is held out for evaluations, drawn by "
       "`training.seed`; 0: none. Cannot be combined with `eval`.")
      .Number("validation_split", dataset.validation_split,
              Range::From0Below1());
  f.About("SEQ_CLS: the GLUE task whose columns, labels and metrics apply.")
      .OptionalWord("task_name", dataset.task_name, GlueTaskNames());
  VisitRowColumns(f, dataset);
  f.About("Use only this many rows of `train`, the first ones. Absent: all.")
      .Integer("max_train_samples", dataset.max_train_samples,
               Range::AtLeast(1));
  f.About("Use only this many rows of `eval`, the first ones. Absent: all.")
      .Integer("max_eval_samples", dataset.max_eval_samples, Range::AtLeast(1));
  f.About("Use only this many rows of `predict`, the first ones. Absent: all.")
      .Integer("max_predict_samples", dataset.max_predict_samples,
               Range::AtLeast(1));
  f.Finish();
}

template <typename Fields>
void VisitClassification(Fields&& f, ClassificationSpec& c) {
  f.About(
       "The kind of problem, which decides the loss. Absent: that of "
       "`dataset.task_name`, else by the labels: fractional numbers mean a "
       "regression, lists mean several labels per row.")
      .OptionalWord("problem_type", c.problem_type, kProblemWords);
  f.About(
       "The names of the labels in the order of their ids. Empty: those of the "
       "model's config.json or of the adapter if they cover the data, perhaps "
       "in another case, else those of the data, sorted as Transformers' "
       "examples do.")
      .Texts("label_names", c.label_names, "a list of label names");
  f.About(
       "The weight of each label in the loss, in the order of their ids. "
       "Empty: all 1.")
      .Numbers("class_weights", c.class_weights, Range::Above(0));
  f.About(
       "Draw a new head if the model's file has one of another size, which is "
       "otherwise an error.")
      .Bool("ignore_mismatched_sizes", c.ignore_mismatched_sizes);
  f.Finish();
}

template <typename Fields>
void VisitAugmentation(Fields&& f, AugmentationSpec& a) {
  f.About(
       "Crop a random part of each training image and scale it to the model's "
       "size, as torchvision's RandomResizedCrop does.")
      .Bool("random_resized_crop", a.random_resized_crop);
  f.About("The smallest crop, as a share of the image's area.")
      .Number("crop_scale_min", a.crop_scale_min, Range::Between(0, 1));
  f.About("The largest crop, as a share of the image's area.")
      .Number("crop_scale_max", a.crop_scale_max, Range::Between(0, 1));
  f.About("The smallest ratio of a crop's width to its height.")
      .Number("crop_ratio_min", a.crop_ratio_min, Range::Above(0));
  f.About("The largest ratio of a crop's width to its height.")
      .Number("crop_ratio_max", a.crop_ratio_max, Range::Above(0));
  f.About("The probability that a training image is mirrored left to right.")
      .Number("horizontal_flip", a.horizontal_flip, Range::Between(0, 1));
  f.Finish();
}

template <typename Fields>
void VisitQuantization(Fields&& f, QuantizationSpec& q) {
  f.About("Store the linear layers of the decoder's blocks in four bits.")
      .Bool("load_in_4bit", q.load_in_4bit);
  f.About(
       "Store the linear layers of the decoder's blocks in eight bits (int8); "
       "activations keep their type.")
      .Bool("load_in_8bit", q.load_in_8bit);
  f.About("The four-bit type.")
      .Word("bnb_4bit_quant_type", q.bnb_4bit_quant_type, kQuantTypeWords);
  f.About(
       "Store the scales of the four-bit weights in eight bits. Needs "
       "`load_in_4bit`.")
      .Bool("bnb_4bit_use_double_quant", q.bnb_4bit_use_double_quant);
  f.About(
       "The type that four-bit layers compute in: `bfloat16` with "
       "`training.bf16`, else `float32`. Absent: that one.")
      .OptionalWord("bnb_4bit_compute_dtype", q.bnb_4bit_compute_dtype,
                    kComputeDtypeWords);
  f.About(
       "Linear layers whose weights are not quantized: names, or ends of names "
       "after a dot.")
      .Texts("llm_int8_skip_modules", q.llm_int8_skip_modules,
             "a list of module names");
  f.Finish();
}

template <typename Fields>
void VisitLora(Fields&& f, LoraSpec& lora) {
  f.About("The rank of the adapter's matrices.")
      .Integer("r", lora.r, Range::Between(1, limits::kLoraRank));
  f.About("The adapter's output is multiplied by `lora_alpha` / `r`.")
      .Number("lora_alpha", lora.lora_alpha, Range::Above(0));
  f.About(
       "The probability that a value at the adapter's input is set to 0 in "
       "training. Absent: the value that `adapter` was trained with, else 0.")
      .Number("lora_dropout", lora.lora_dropout, Range::From0Below1());
  f.About(
       "The modules that get an adapter: a list of names or ends of names, a "
       "regular expression over full names, or `all-linear`. Absent: PEFT's "
       "default for the type of the model.")
      .Targets("target_modules", lora.target_modules);
  f.About("Divide `lora_alpha` by the square root of `r` instead of by `r`.")
      .Bool("use_rslora", lora.use_rslora);
  f.About(
       "The layers that get an adapter, counted from 0. Absent: all. Needs "
       "`target_modules` as a list.")
      .Integers("layers_to_transform", lora.layers_to_transform,
                Range::AtLeast(0));
  f.About(
       "Other values of `r`: an object of regular expressions over module "
       "names; the first match counts.")
      .Patterns("rank_pattern", lora.rank_pattern,
                Range::Between(1, limits::kLoraRank));
  f.About(
       "Other values of `lora_alpha`: an object of regular expressions over "
       "module names; the first match counts.")
      .Patterns("alpha_pattern", lora.alpha_pattern, Range::Above(0));
  f.About(
       "Modules that are trained in full and saved with the adapter. They "
       "always include a classifier's head.")
      .Texts("modules_to_save", lora.modules_to_save, "a list of module names");
  f.Finish();
}

template <typename Fields>
void VisitPreference(Fields&& f, PreferenceSpec& p) {
  f.About(
       "TRL's trainer: `sft` learns texts; `dpo` which of two answers is "
       "preferred, from rows of `prompt`, `chosen` and `rejected`.")
      .Word("trainer", p.trainer, kTrainerWords);
  f.About("The loss of a pair, as TRL's of this name.")
      .Word("loss_type", p.loss_type, kPreferenceLossWords);
  f.About(
       "How far the model may move from the reference, which is the model as "
       "training begins; higher: less far.")
      .Number("beta", p.beta, Range::Above(0));
  f.About(
       "The probability that a preference is the wrong way round, below 0.5. "
       "Needs `loss_type` `robust`.")
      .Number("label_smoothing", p.label_smoothing, Range::From0Below1());
  f.Finish();
}

template <typename Fields>
void VisitSteps(Fields& f, TrainingSpec& t) {
  f.About("The number of passes over the training data, if `max_steps` is -1.")
      .Number("num_train_epochs", t.num_train_epochs, Range::Above(0));
  f.About("The number of optimizer steps; -1: `num_train_epochs` decides.")
      .StepLimit("max_steps", t.max_steps);
  f.About("The rows of a micro-batch, which are computed together.")
      .Integer("per_device_train_batch_size", t.per_device_train_batch_size,
               Range::AtLeast(1));
  f.About("The rows that evaluations and predictions compute together.")
      .Integer("per_device_eval_batch_size", t.per_device_eval_batch_size,
               Range::AtLeast(1));
  f.About("The micro-batches of an optimizer step.")
      .Integer("gradient_accumulation_steps", t.gradient_accumulation_steps,
               Range::AtLeast(1));
}

template <typename Fields>
void VisitOptimizer(Fields& f, TrainingSpec& t) {
  f.About("The highest learning rate of the schedule.")
      .Number("learning_rate", t.learning_rate, Range::Above(0));
  f.About(
       "How the learning rate changes from step to step, as Transformers' "
       "schedule of this name with its defaults.")
      .Word("lr_scheduler_type", t.lr_scheduler_type, kSchedulerWords);
  f.About(
       "The optimizer steps in which the learning rate rises from 0; below 1 "
       "their share of all steps, as in Transformers 5; 0: `warmup_ratio` "
       "decides.")
      .Number("warmup_steps", t.warmup_steps, Range::AtLeast(0));
  f.About(
       "The share of all optimizer steps in which the learning rate rises from "
       "0, if `warmup_steps` is 0.")
      .Number("warmup_ratio", t.warmup_ratio, Range::Between(0, 1));
  f.About("A name of AdamW, the only optimizer; it has no effect on the job.")
      .Ignored("optim", kOptimWords);
  f.About("AdamW's weight decay. Biases and the weights of norms have none.")
      .Number("weight_decay", t.weight_decay, Range::AtLeast(0));
  f.About("AdamW's beta1, the decay of the gradient's mean.")
      .Number("adam_beta1", t.adam_beta1, Range::From0Below1());
  f.About("AdamW's beta2, the decay of the squared gradient's mean.")
      .Number("adam_beta2", t.adam_beta2, Range::From0Below1());
  f.About("AdamW's epsilon, added to the divisor.")
      .Number("adam_epsilon", t.adam_epsilon, Range::Above(0));
  f.About("The norm that the gradient of a step is clipped to; 0: no clipping.")
      .Number("max_grad_norm", t.max_grad_norm, Range::AtLeast(0));
}

template <typename Fields>
void VisitSamples(Fields& f, TrainingSpec& t) {
  f.About("The most tokens of a sample; longer samples are cut at the end.")
      .Integer("max_length", t.max_length, Range::AtLeast(2));
  f.About(
       "CAUSAL_LM: combine rows into sequences of `max_length` tokens, best "
       "fit first. Rows do not see each other.")
      .Bool("packing", t.packing);
  f.About(
       "CAUSAL_LM: concatenate short rows of a step if that leaves less "
       "padding. Rows do not see each other, and the gradient stays the same. "
       "Absent: the trainer decides with `auto_find_batch_size`, else false.")
      .Bool("padding_free", t.padding_free);
  f.About(
       "The order of the rows: `random`; `sequential`, the order of the data; "
       "`group_by_length`, random but next to rows of similar length, which "
       "reduces padding.")
      .Word("train_sampling_strategy", t.train_sampling_strategy,
            kSamplingWords);
  f.About(
       "Let short trials find how many rows to compute together, and which "
       "activations to keep. The rows of an optimizer step stay "
       "`per_device_train_batch_size` times `gradient_accumulation_steps`.")
      .Bool("auto_find_batch_size", t.auto_find_batch_size);
  f.About(
       "CAUSAL_LM: only the assistant's text in `messages` counts in the loss. "
       "Absent: every token counts.")
      .Bool("assistant_only_loss", t.assistant_only_loss);
  f.About(
       "CAUSAL_LM: only the completion counts in the loss. Absent: true for "
       "rows with a prompt and a completion, false for others.")
      .Bool("completion_only_loss", t.completion_only_loss);
  f.About(
       "CAUSAL_LM: a chat template that replaces the model's, saved with the "
       "result: a .jinja or .j2 file, or a model folder, whose eos_token is "
       "used too. Absent: the model's.")
      .Text("chat_template_path", t.chat_template_path,
            "the path of a .jinja file or of a model folder");
  f.About(
       "CAUSAL_LM: the token that ends a text or a turn; the model's tokenizer "
       "must have it. Absent: that of the folder in `chat_template_path`, else "
       "the model's.")
      .Text("eos_token", t.eos_token, "a token of the model's tokenizer");
}

template <typename Fields>
void VisitMemory(Fields& f, TrainingSpec& t) {
  f.About(
       "Recompute activations in the backward pass instead of keeping them: "
       "less memory, more time.")
      .Bool("gradient_checkpointing", t.gradient_checkpointing);
  f.About(
       "What `gradient_checkpointing` recomputes: whole layers, or only the "
       "inner activations of the MLP. `selective` is for language models.")
      .Word("recompute_granularity", t.recompute_granularity, kRecomputeWords);
  f.About(
       "Store the model in bfloat16 and compute in it. Trained weights and the "
       "optimizer stay in float32.")
      .Bool("bf16", t.bf16);
}

template <typename Fields>
void VisitEvaluations(Fields& f, TrainingSpec& t) {
  f.About(
       "The optimizer steps from one evaluation to the next; 0: at the end of "
       "every epoch.")
      .Integer("eval_steps", t.eval_steps, Range::AtLeast(0));
  f.About(
       "The optimizer steps from one checkpoint to the next; 0: at the end "
       "only.")
      .Integer("save_steps", t.save_steps, Range::AtLeast(0));
  f.About("How many checkpoints are kept; older ones are deleted. Absent: all.")
      .Integer("save_total_limit", t.save_total_limit, Range::AtLeast(1));
  f.About(
       "The optimizer steps from one line of the log to the next; "
       "metrics.jsonl has every step.")
      .Integer("logging_steps", t.logging_steps, Range::AtLeast(1));
  f.About("Use the best checkpoint for the result instead of the last.")
      .Bool("load_best_model_at_end", t.load_best_model_at_end);
  f.About(
       "The metric that decides the best checkpoint, such as `accuracy`. "
       "Absent: `loss`.")
      .Text("metric_for_best_model", t.metric_for_best_model,
            "the name of a metric");
  f.About(
       "Whether a greater `metric_for_best_model` is better. Absent: true "
       "unless it is the loss.")
      .Bool("greater_is_better", t.greater_is_better);
  f.About(
       "End training after this many evaluations in a row without improvement. "
       "Absent: never.")
      .Integer("early_stopping_patience", t.early_stopping_patience,
               Range::AtLeast(1));
  f.About(
       "The improvement that must be exceeded to count for "
       "`early_stopping_patience`.")
      .Number("early_stopping_threshold", t.early_stopping_threshold,
              Range::AtLeast(0));
}

template <typename Fields>
void VisitSampling(Fields& f, TrainingSpec& t) {
  f.About(
       "CAUSAL_LM: up to 16 prompts that the model answers greedily before "
       "training, every `sample_steps` steps and after it, to show what it "
       "learns: texts, or objects as `mpsctl generate --input` reads them.")
      .Prompts("sample_prompts", t.sample_prompts);
  f.About(
       "The optimizer steps from one answer to `sample_prompts` to the next; "
       "0: only before and after training.")
      .Integer("sample_steps", t.sample_steps, Range::AtLeast(0));
  f.About("The most tokens of an answer to `sample_prompts`.")
      .Integer("sample_max_new_tokens", t.sample_max_new_tokens,
               Range::Between(1, limits::kSampleTokens));
}

template <typename Fields>
void VisitTraining(Fields&& f, TrainingSpec& t) {
  VisitSteps(f, t);
  VisitOptimizer(f, t);
  VisitSamples(f, t);
  VisitMemory(f, t);
  f.About(
       "The seed of initial values, dropout, augmentation and the order of the "
       "rows.")
      .Integer("seed", t.seed, Range::AtLeast(0));
  VisitEvaluations(f, t);
  VisitSampling(f, t);
  f.Finish();
}

template <typename Fields>
void VisitSections(Fields& f, TrainSpec& spec) {
  VisitDataset(f.About("The data files, and the columns of a row's parts.")
                   .Section("dataset"),
               spec.dataset);
  VisitClassification(
      f.About("The labels of SEQ_CLS and IMAGE_CLS.").Section("classification"),
      spec.classification);
  VisitAugmentation(
      f.About("How IMAGE_CLS crops and mirrors training images at random.")
          .Section("augmentation"),
      spec.augmentation);
  VisitQuantization(f.About("The quantization of the frozen base (QLoRA), with "
                            "the names of Transformers' BitsAndBytesConfig.")
                        .Section("quantization_config"),
                    spec.quantization_config);
  f.About(
       "A PEFT adapter folder to start from, or `job:ID`, the adapter that a "
       "job of this daemon makes. Absent: a new adapter.")
      .Text("adapter", spec.adapter, "the path of a PEFT adapter folder");
  VisitLora(
      f.About("The adapter, with the names and defaults of PEFT's LoraConfig.")
          .Section("lora"),
      spec.lora);
  VisitPreference(f.About("How a language model learns preferences between "
                          "answers, with the names of TRL's DPOConfig.")
                      .Section("preference"),
                  spec.preference);
  VisitTraining(f.About("The training, with the names of Transformers' "
                        "TrainingArguments and TRL's SFTConfig.")
                    .Section("training"),
                spec.training);
}

template <typename Fields>
void VisitSpec(Fields&& f, TrainSpec& spec) {
  f.About("The schema of this file, for editors; it has no effect on the job.")
      .Ignored("$schema");
  f.About("A human-readable name of the job.")
      .Text("name", spec.name, "a non-empty string");
  f.About(
       "The base model: the name of a model that mpsd has (`mpsctl model "
       "list`; `ORG/NAME@REVISION` for another revision of the hub than main), "
       "a Hugging Face folder on the daemon's machine, or `job:ID`, the model "
       "that a full fine-tune of this daemon makes.")
      .Text(
          "model", spec.model,
          "a model folder or the id of a model in the local Hugging Face cache",
          /*required=*/true);
  f.About(
       "The id that `model`, a snapshot's folder in a Hugging Face cache, "
       "belongs to. mpsd sets it; leave it out.")
      .Text("model_id", spec.model_id, "the id of a model");
  f.About(
       "What the model is trained for: text, labels of texts, or labels of "
       "images.")
      .Word("task", spec.task, kTaskWords);
  f.About(
       "What is trained: a LoRA adapter, every weight, or the classification "
       "head alone.")
      .Word("fine_tune_type", spec.fine_tune_type, kFineTuneWords);
  f.About(
       "Read only the model's config.json and draw random weights. Needs "
       "`fine_tune_type` `full`.")
      .Bool("from_scratch", spec.from_scratch);
  VisitSections(f, spec);
  f.About(
       "The device that the job runs on; `auto` takes the GPU if there is one.")
      .Word("device", spec.device, backend::kChoices);
  f.About(
       "How gradients are computed: `auto` takes the hand-written backward "
       "pass for language models if it covers the job, `autograd` always "
       "PyTorch's.")
      .Word("gradients", spec.gradients, kGradientsWords);
  f.About(
       "Run operators that MPS lacks on the CPU, counted and named in "
       "run.json, instead of failing the job.")
      .Bool("allow_cpu_fallback", spec.allow_cpu_fallback);
  f.Finish();
}

}  // namespace mpsd::spec
