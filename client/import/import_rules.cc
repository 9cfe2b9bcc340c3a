// SPDX-License-Identifier: Apache-2.0
#include "client/import/import_rules.h"

namespace mpsd::client {
namespace {

using Kind = FieldRule::Kind;

constexpr FieldRule kFields[] = {
    {"num_train_epochs", "training", "num_train_epochs", Kind::kNumber},
    {"max_steps", "training", "max_steps", Kind::kInteger},
    {"per_device_train_batch_size", "training", "per_device_train_batch_size",
     Kind::kInteger},
    {"per_gpu_train_batch_size", "training", "per_device_train_batch_size",
     Kind::kInteger},
    {"per_device_eval_batch_size", "training", "per_device_eval_batch_size",
     Kind::kInteger},
    {"per_gpu_eval_batch_size", "training", "per_device_eval_batch_size",
     Kind::kInteger},
    {"gradient_accumulation_steps", "training", "gradient_accumulation_steps",
     Kind::kInteger},
    {"learning_rate", "training", "learning_rate", Kind::kNumber},
    {"lr_scheduler_type", "training", "lr_scheduler_type", Kind::kText},
    {"warmup_ratio", "training", "warmup_ratio", Kind::kNumber},
    {"weight_decay", "training", "weight_decay", Kind::kNumber},
    {"adam_beta1", "training", "adam_beta1", Kind::kNumber},
    {"adam_beta2", "training", "adam_beta2", Kind::kNumber},
    {"adam_epsilon", "training", "adam_epsilon", Kind::kNumber},
    {"max_grad_norm", "training", "max_grad_norm", Kind::kNumber},
    {"gradient_checkpointing", "training", "gradient_checkpointing",
     Kind::kSwitch},
    {"bf16", "training", "bf16", Kind::kSwitch},
    {"auto_find_batch_size", "training", "auto_find_batch_size", Kind::kSwitch},
    {"train_sampling_strategy", "training", "train_sampling_strategy",
     Kind::kText},
    {"seed", "training", "seed", Kind::kInteger},
    {"save_total_limit", "training", "save_total_limit", Kind::kInteger},
    {"logging_steps", "training", "logging_steps", Kind::kInteger},
    {"load_best_model_at_end", "training", "load_best_model_at_end",
     Kind::kSwitch},
    {"metric_for_best_model", "training", "metric_for_best_model", Kind::kText},
    {"greater_is_better", "training", "greater_is_better", Kind::kSwitch},
    {"max_train_samples", "dataset", "max_train_samples", Kind::kInteger},
    {"max_eval_samples", "dataset", "max_eval_samples", Kind::kInteger},
    {"max_predict_samples", "dataset", "max_predict_samples", Kind::kInteger},
    {"label_column_name", "dataset", "label_column", Kind::kText},
    {"image_column_name", "dataset", "image_column", Kind::kText},
    {"ignore_mismatched_sizes", "classification", "ignore_mismatched_sizes",
     Kind::kSwitch},
};

struct Reason {
  std::string_view name;
  std::string_view why;
};

constexpr std::string_view kOneDevice =
    "not needed: a job runs in one process on one device";
constexpr std::string_view kLoader =
    "not needed: the data are read and encoded once, before the first step";
constexpr std::string_view kHub =
    "mpsd sends nothing anywhere: fetch the model with `mpsctl download` and "
    "push it from there";
constexpr std::string_view kLogs =
    "not needed: every step is in metrics.jsonl, in TensorBoard's runs/, in "
    "`mpsctl watch` and in Prometheus";
constexpr std::string_view kCompile =
    "not needed: the kernels are chosen by mpsd-worker";
constexpr std::string_view kAdamW =
    "the optimizer is AdamW (adamw_torch); adam_beta1, adam_beta2, "
    "adam_epsilon and weight_decay set it";
constexpr std::string_view kOwnModel =
    "the tokenizer, its settings and the config are those of the model's "
    "folder: put other files there";
constexpr std::string_view kLocal =
    "models are read from the daemon's disk: its Hugging Face cache (HF_HOME, "
    "HF_HUB_CACHE) or a folder; nothing is downloaded";
constexpr std::string_view kResume =
    "not needed: a job that was interrupted resumes by itself, bit for bit";
constexpr std::string_view kWholeEval =
    "not needed: metrics are of the whole evaluation set";

constexpr Reason kReasons[] = {
    {"output_dir",
     "not needed: the daemon keeps a folder for each job; fetch the result "
     "with `mpsctl download ID --output DIR`"},
    {"overwrite_output_dir", "not needed: every job has a folder of its own"},
    {"overwrite_cache", "not needed: there is no cache of encoded data"},
    {"pad_to_max_length",
     "not needed: a batch is padded to its longest row, which gives the same "
     "numbers"},
    {"use_fast_tokenizer", kOwnModel},
    {"tokenizer_name", kOwnModel},
    {"config_name", kOwnModel},
    {"image_processor_name", kOwnModel},
    {"model_type", kOwnModel},
    {"cache_dir", kLocal},
    {"model_revision", kLocal},
    {"token", kLocal},
    {"use_auth_token", kLocal},
    {"trust_remote_code",
     "no code comes with a model: its family must be one of mpsd's own"},
    {"fp16",
     "training in float16 is not supported: on MPS its gradients overflow; "
     "--bf16 takes as little memory"},
    {"fp16_full_eval", "evaluation is in the precision of training"},
    {"bf16_full_eval", "evaluation is in the precision of training"},
    {"fp16_opt_level", "of apex, which mpsd does not have"},
    {"fp16_backend", "of apex, which mpsd does not have"},
    {"half_precision_backend", "--bf16 is the only one"},
    {"tf32", "of CUDA; the precision is float32, or bfloat16 with --bf16"},
    {"optim", kAdamW},
    {"optim_args", kAdamW},
    {"optim_target_modules", kAdamW},
    {"adafactor", kAdamW},
    {"lr_scheduler_kwargs", "schedules have Transformers' defaults"},
    {"label_smoothing_factor", "the loss is the cross-entropy as it is"},
    {"neftune_noise_alpha", "no noise is added to embeddings"},
    {"group_by_length",
     "in a job it is \"train_sampling_strategy\": \"group_by_length\""},
    {"length_column_name", "rows are drawn in a random order"},
    {"data_seed", "seed orders the data too"},
    {"full_determinism",
     "not needed: a run with the same seed on the same machine repeats itself"},
    {"shuffle_train_dataset", "not needed: training rows are always shuffled"},
    {"shuffle_seed", "seed orders the data too"},
    {"remove_unused_columns", "not needed: other columns are left alone"},
    {"remove_columns", "not needed: other columns are left alone"},
    {"remove_splits", "not needed: a job names the files it takes"},
    {"train_split_name", "a job names files: write them into dataset.train"},
    {"validation_split_name",
     "a job names files: write them into dataset.eval"},
    {"test_split_name", "a job names files: write them into dataset.predict"},
    {"text_column_delimiter",
     "columns are not joined; one is a text, two are a pair"},
    {"metric_name",
     "not needed: all metrics of the task are computed; the one that counts is "
     "metric_for_best_model"},
    {"label_names", "labels are in dataset.label_column"},
    {"preprocessing_num_workers", kLoader},
    {"dataloader_num_workers", kLoader},
    {"dataloader_pin_memory", kLoader},
    {"dataloader_persistent_workers", kLoader},
    {"dataloader_prefetch_factor", kLoader},
    {"dataloader_multiprocessing_context", kLoader},
    {"dataloader_in_order", kLoader},
    {"dataloader_drop_last", "the last, smaller batch is trained on too"},
    {"gradient_checkpointing_kwargs", kCompile},
    {"activation_checkpointing", "write --gradient_checkpointing"},
    {"activation_checkpointing_kwargs", kCompile},
    {"torch_compile", kCompile},
    {"torch_compile_backend", kCompile},
    {"torch_compile_mode", kCompile},
    {"torchdynamo", kCompile},
    {"use_liger_kernel", kCompile},
    {"liger_kernel_config", kCompile},
    {"use_ipex", kCompile},
    {"jit_mode_eval", kCompile},
    {"use_cache", kCompile},
    {"torch_empty_cache_steps", kCompile},
    {"attn_implementation", kCompile},
    {"local_rank", kOneDevice},
    {"ddp_backend", kOneDevice},
    {"ddp_find_unused_parameters", kOneDevice},
    {"ddp_bucket_cap_mb", kOneDevice},
    {"ddp_broadcast_buffers", kOneDevice},
    {"ddp_static_graph", kOneDevice},
    {"ddp_timeout", kOneDevice},
    {"deepspeed", kOneDevice},
    {"fsdp", kOneDevice},
    {"fsdp_config", kOneDevice},
    {"fsdp_min_num_params", kOneDevice},
    {"accelerator_config", kOneDevice},
    {"parallelism_config", kOneDevice},
    {"average_tokens_across_devices", kOneDevice},
    {"tpu_num_cores", kOneDevice},
    {"split_batches", kOneDevice},
    {"save_on_each_node", kOneDevice},
    {"log_on_each_node", kOneDevice},
    {"log_level_replica", kOneDevice},
    {"save_only_model", "a checkpoint always holds what resuming needs"},
    {"save_safetensors", "not needed: weights are safetensors"},
    {"enable_jit_checkpoint", kResume},
    {"resume_from_checkpoint", kResume},
    {"ignore_data_skip", kResume},
    {"restore_callback_states_from_checkpoint", kResume},
    {"logging_dir", kLogs},
    {"logging_strategy", kLogs},
    {"logging_first_step", kLogs},
    {"logging_nan_inf_filter",
     "a loss that is not finite ends the job with NonFinite"},
    {"report_to", kLogs},
    {"project", kLogs},
    {"trackio_space_id", kLogs},
    {"trackio_bucket_id", kLogs},
    {"trackio_static_space_id", kLogs},
    {"include_num_input_tokens_seen", kLogs},
    {"include_tokens_per_second", kLogs},
    {"log_level", "`mpsctl logs ID` prints all there is"},
    {"disable_tqdm", "`mpsctl submit --detach` follows nothing"},
    {"skip_memory_metrics", kLogs},
    {"debug", "mpsd-worker has no such mode"},
    {"eval_on_start",
     "not needed: a job with evaluation data begins with an evaluation"},
    {"eval_delay", "evaluations begin with the first step"},
    {"eval_accumulation_steps", kWholeEval},
    {"eval_do_concat_batches", kWholeEval},
    {"eval_use_gather_object", kWholeEval},
    {"batch_eval_metrics", kWholeEval},
    {"include_for_metrics", kWholeEval},
    {"include_inputs_for_metrics", kWholeEval},
    {"prediction_loss_only", kWholeEval},
    {"push_to_hub", kHub},
    {"push_to_hub_model_id", kHub},
    {"push_to_hub_organization", kHub},
    {"push_to_hub_token", kHub},
    {"hub_model_id", kHub},
    {"hub_strategy", kHub},
    {"hub_token", kHub},
    {"hub_private_repo", kHub},
    {"hub_always_push", kHub},
    {"hub_revision", kHub},
};

}  // namespace

const FieldRule* FindFieldRule(std::string_view name) {
  for (const FieldRule& rule : kFields) {
    if (rule.name == name) return &rule;
  }
  return nullptr;
}

std::string_view WhyNoEqual(std::string_view name) {
  for (const Reason& reason : kReasons) {
    if (reason.name == name) return reason.why;
  }
  return "";
}

std::vector<std::string_view> RuleNames() {
  std::vector<std::string_view> names;
  for (const FieldRule& rule : kFields) names.push_back(rule.name);
  for (const Reason& reason : kReasons) names.push_back(reason.name);
  return names;
}

}  // namespace mpsd::client
