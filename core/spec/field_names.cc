// SPDX-License-Identifier: Apache-2.0
#include "core/spec/field_names.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/base/strings.h"
#include "core/spec/train_spec.h"

namespace mpsd::spec {
namespace {

using Names = std::vector<std::string_view>;
using Table = std::map<std::string_view, std::string_view>;

// Names that other tools use, and the path of mpsd's field.
const Table& Aliases() {
  static const Table& table = *new Table{
      {"alpha", "lora.lora_alpha"},
      {"base_model", "model"},
      {"batch_size", "training.per_device_train_batch_size"},
      {"chat_template", "training.chat_template_path"},
      {"chat_template_jinja", "training.chat_template_path"},
      {"clip_grad", "training.max_grad_norm"},
      {"completion_feature", "dataset.completion_column"},
      {"cutoff_len", "training.max_length"},
      {"data", "dataset"},
      {"datasets", "dataset"},
      {"dataset_text_field", "dataset.text_columns"},
      {"dropout", "lora.lora_dropout"},
      {"epochs", "training.num_train_epochs"},
      {"eval_batch_size", "training.per_device_eval_batch_size"},
      {"eval_dataset", "dataset.eval"},
      {"eval_file", "dataset.eval"},
      {"field_messages", "dataset.messages_column"},
      {"grad_accum", "training.gradient_accumulation_steps"},
      {"grad_accumulation_steps", "training.gradient_accumulation_steps"},
      {"grad_checkpoint", "training.gradient_checkpointing"},
      {"grad_clip", "training.max_grad_norm"},
      {"iters", "training.max_steps"},
      {"lora_r", "lora.r"},
      {"lora_rank", "lora.r"},
      {"lora_target_modules", "lora.target_modules"},
      {"lr", "training.learning_rate"},
      {"lr_scheduler", "training.lr_scheduler_type"},
      {"lr_schedule", "training.lr_scheduler_type"},
      {"max_iters", "training.max_steps"},
      {"max_seq_len", "training.max_length"},
      {"max_seq_length", "training.max_length"},
      {"micro_batch_size", "training.per_device_train_batch_size"},
      {"model_id", "model"},
      {"model_name", "model"},
      {"model_name_or_path", "model"},
      {"n_epochs", "training.num_train_epochs"},
      {"num_epochs", "training.num_train_epochs"},
      {"patience", "training.early_stopping_patience"},
      {"prompt_feature", "dataset.prompt_column"},
      {"rank", "lora.r"},
      {"sample_packing", "training.packing"},
      {"save_every", "training.save_steps"},
      {"scheduler", "training.lr_scheduler_type"},
      {"sequence_len", "training.max_length"},
      {"steps", "training.max_steps"},
      {"steps_per_eval", "training.eval_steps"},
      {"steps_per_report", "training.logging_steps"},
      {"test", "dataset.eval"},
      {"text_column", "dataset.text_columns"},
      {"text_feature", "dataset.text_columns"},
      {"text_field", "dataset.text_columns"},
      {"train_batch_size", "training.per_device_train_batch_size"},
      {"train_dataset", "dataset.train"},
      {"train_file", "dataset.train"},
      {"train_on_completions", "training.completion_only_loss"},
      {"val", "dataset.eval"},
      {"valid", "dataset.eval"},
      {"validation", "dataset.eval"},
      {"warmup", "training.warmup_steps"},
  };
  return table;
}

// Fields of TrainingArguments and SFTConfig that mpsd does not have, and why.
const Table& UnsupportedTraining() {
  static const Table& table = *new Table{
      {"data_seed", "seed also orders the data"},
      {"dataset_num_proc", "every core tokenizes"},
      {"ddp_backend", "a job has one device"},
      {"deepspeed", "a job has one device"},
      {"do_eval", "evaluation happens where dataset.eval names files"},
      {"do_predict", "prediction happens where dataset.predict names files"},
      {"do_train", "a job always trains"},
      {"eval_on_start", "a job with dataset.eval always does"},
      {"eval_packing", "evaluation rows are never packed"},
      {"eval_strategy", "eval_steps says when; 0 is the end of every epoch"},
      {"evaluation_strategy",
       "eval_steps says when; 0 is the end of every epoch"},
      {"fp16",
       "training in float16 needs loss scaling; use \"bf16\": true for a "
       "smaller base model, adapters and optimizer stay in float32"},
      {"fsdp", "a job has one device"},
      {"group_by_length",
       "write \"train_sampling_strategy\": \"group_by_length\""},
      {"load_in_4bit",
       "write it into \"quantization_config\" at the top level"},
      {"load_in_8bit",
       "write it into \"quantization_config\" at the top level"},
      {"local_rank", "a job has one device"},
      {"logging_dir",
       "metrics.jsonl and TensorBoard's runs/ are in the job's folder"},
      {"logging_strategy", "logging_steps says when"},
      {"loss_type", "the loss is the negative log-likelihood"},
      {"lr_scheduler_kwargs", "schedules have Transformers' defaults"},
      {"no_cuda", "write \"device\": \"cpu\" at the top level"},
      {"optim", "the optimizer is AdamW (adamw_torch)"},
      {"output_dir",
       "where results go is not part of a job; see mpsd-worker --out and "
       "mpsctl download --output"},
      {"overwrite_output_dir", "where results go is not part of a job"},
      {"packing_strategy", "packing is best-fit decreasing (\"bfd\")"},
      {"push_to_hub", "mpsd sends nothing anywhere"},
      {"report_to",
       "the daemon has metrics for Prometheus, and every step is in "
       "metrics.jsonl and TensorBoard's runs/"},
      {"resume_from_checkpoint",
       "an interrupted job resumes automatically; to start from an adapter, "
       "name it in \"adapter\" at the top level"},
      {"save_strategy", "save_steps says when; 0 is the end only"},
      {"train_on_inputs", "see assistant_only_loss and completion_only_loss"},
      {"truncation_mode", "samples are cut at the right (\"keep_start\")"},
      {"use_cpu", "write \"device\": \"cpu\" at the top level"},
      {"use_mps_device", "write \"device\": \"mps\" at the top level"},
  };
  return table;
}

// Further names of TrainingArguments and SFTConfig, whose absence needs no
// reason.
const Names& OtherTrainingArguments() {
  static const Names& names =
      *new Names{"accelerator_config",
                 "activation_checkpointing",
                 "activation_checkpointing_kwargs",
                 "activation_offloading",
                 "average_tokens_across_devices",
                 "batch_eval_metrics",
                 "bf16_full_eval",
                 "dataloader_drop_last",
                 "dataloader_in_order",
                 "dataloader_multiprocessing_context",
                 "dataloader_num_workers",
                 "dataloader_persistent_workers",
                 "dataloader_pin_memory",
                 "dataloader_prefetch_factor",
                 "dataset_kwargs",
                 "ddp_broadcast_buffers",
                 "ddp_bucket_cap_mb",
                 "ddp_find_unused_parameters",
                 "ddp_static_graph",
                 "ddp_timeout",
                 "debug",
                 "disable_tqdm",
                 "enable_jit_checkpoint",
                 "eval_accumulation_steps",
                 "eval_delay",
                 "eval_do_concat_batches",
                 "eval_use_gather_object",
                 "fp16_full_eval",
                 "fsdp_config",
                 "full_determinism",
                 "gradient_checkpointing_kwargs",
                 "hub_always_push",
                 "hub_model_id",
                 "hub_private_repo",
                 "hub_revision",
                 "hub_strategy",
                 "hub_token",
                 "ignore_data_skip",
                 "include_for_metrics",
                 "include_num_input_tokens_seen",
                 "jit_mode_eval",
                 "label_names",
                 "label_smoothing_factor",
                 "length_column_name",
                 "liger_kernel_config",
                 "log_level",
                 "log_level_replica",
                 "log_on_each_node",
                 "logging_first_step",
                 "logging_nan_inf_filter",
                 "model_init_kwargs",
                 "neftune_noise_alpha",
                 "optim_args",
                 "optim_target_modules",
                 "pad_token",
                 "pad_to_multiple_of",
                 "parallelism_config",
                 "prediction_loss_only",
                 "project",
                 "ray_scope",
                 "remove_unused_columns",
                 "restore_callback_states_from_checkpoint",
                 "router_aux_loss_coef",
                 "run_name",
                 "save_on_each_node",
                 "save_only_model",
                 "shuffle_dataset",
                 "skip_memory_metrics",
                 "tf32",
                 "torch_compile",
                 "torch_compile_backend",
                 "torch_compile_mode",
                 "torch_empty_cache_steps",
                 "trust_remote_code",
                 "use_cache",
                 "use_liger_kernel"};
  return names;
}

// Fields of PEFT's LoraConfig that mpsd does not have.
const Table& UnsupportedLora() {
  static const Table& table = *new Table{
      {"bias", "the base model's biases stay frozen (\"none\")"},
      {"corda_config", "adapters start as LoRA does"},
      {"eva_config", "adapters start as LoRA does"},
      {"exclude_modules", "name the modules to train in target_modules"},
      {"fan_in_fan_out", "every model here stores its weights the other way"},
      {"init_lora_weights",
       "A starts Kaiming-uniform, B at zero (PEFT's true)"},
      {"layer_replication", "the model keeps its layers"},
      {"layers_pattern", "layers_to_transform counts the decoder's layers"},
      {"loftq_config", "LoftQ would change the base model"},
      {"peft_type", "the adapter is always LoRA"},
      {"target_parameters", "LoRA goes onto modules, see target_modules"},
      {"task_type", "write \"task\" at the top level"},
      {"trainable_token_indices", "put \"embed_tokens\" into modules_to_save"},
      {"use_dora", "only plain LoRA and rsLoRA (use_rslora) are supported"},
      {"use_qalora", "adapters are not pooled by groups"},
  };
  return table;
}

std::string Normal(std::string_view name) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(std::string(name)),
                             {{"-", "_"}});
}

std::optional<std::string> Unsupported(std::string_view section,
                                       const std::string& name) {
  if (section == "lora") {
    const auto found = UnsupportedLora().find(name);
    if (found == UnsupportedLora().end()) return std::nullopt;
    return base::Cat("not supported: ", found->second);
  }
  const auto found = UnsupportedTraining().find(name);
  if (found != UnsupportedTraining().end()) {
    return base::Cat("not supported: ", found->second);
  }
  const Names& others = OtherTrainingArguments();
  if (std::find(others.begin(), others.end(), name) == others.end()) {
    return std::nullopt;
  }
  return "not supported: mpsd has no such training argument; leave it out";
}

// The path of the field with exactly this name, in any section.
std::optional<std::string> InAnotherSection(const std::string& name) {
  static const nlohmann::ordered_json& all = *new nlohmann::ordered_json(
      nlohmann::ordered_json::parse(ToJson(TrainSpec()), nullptr, false));
  if (all.contains(name)) return name;
  for (const auto& [section, fields] : all.items()) {
    if (fields.is_object() && fields.contains(name)) {
      return base::Cat(section, ".", name);
    }
  }
  return std::nullopt;
}

std::string DidYouMean(std::string_view section, std::string_view path) {
  const std::string prefix = base::Cat(section, ".");
  if (!section.empty() && path.substr(0, prefix.size()) == prefix) {
    path.remove_prefix(prefix.size());
  }
  return base::Cat("unknown field; did you mean \"", path, "\"?");
}

}  // namespace

int EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> cost(a.size() + 1,
                                     std::vector<int>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = static_cast<int>(i + j);
        continue;
      }
      const int replace = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

std::optional<std::string_view> NearestName(
    std::string_view name, const std::vector<std::string_view>& candidates) {
  constexpr size_t kLongest = 64;
  if (name.size() > kLongest) return std::nullopt;
  const std::string normal = Normal(name);
  int best = std::max(1, static_cast<int>(name.size()) / 3) + 1;
  std::optional<std::string_view> nearest;
  for (std::string_view candidate : candidates) {
    const int distance = EditDistance(normal, Normal(candidate));
    const bool other_word = distance >= static_cast<int>(candidate.size());
    if (distance < best && !other_word) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string UnknownField(std::string_view section, std::string_view name,
                         const std::set<std::string, std::less<>>& known) {
  const std::string normal = Normal(name);
  if (known.count(normal) > 0) return DidYouMean(section, normal);
  if (auto reason = Unsupported(section, normal)) return *reason;
  if (const auto alias = Aliases().find(normal); alias != Aliases().end()) {
    return DidYouMean(section, alias->second);
  }
  if (auto path = InAnotherSection(normal)) return DidYouMean(section, *path);
  const Names candidates(known.begin(), known.end());
  if (auto nearest = NearestName(name, candidates)) {
    return DidYouMean(section, *nearest);
  }
  return base::Cat("unknown field; the fields here are ",
                   absl::StrJoin(known, ", "));
}

}  // namespace mpsd::spec
