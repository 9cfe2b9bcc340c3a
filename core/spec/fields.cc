// SPDX-License-Identifier: Apache-2.0
#include "core/spec/fields.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/spec/generation.h"
#include "core/spec/train_spec.h"

namespace mpsd::spec {
namespace {

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
constexpr std::string_view kOtherTrainingArguments[] = {
    "accelerator_config",
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
  if (std::find(std::begin(kOtherTrainingArguments),
                std::end(kOtherTrainingArguments),
                name) == std::end(kOtherTrainingArguments)) {
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
    std::string_view name, std::span<const std::string_view> candidates) {
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
  const std::vector<std::string_view> candidates(known.begin(), known.end());
  if (auto nearest = NearestName(name, candidates)) {
    return DidYouMean(section, *nearest);
  }
  return base::Cat("unknown field; the fields here are ",
                   absl::StrJoin(known, ", "));
}

namespace {

using OrderedJson = nlohmann::ordered_json;

// The object that has the last part of `field`; null if it does not exist and
// `make` is not set. On error *fault says why.
OrderedJson* ParentOf(OrderedJson& root, const std::vector<std::string>& parts,
                      bool make, std::string* fault) {
  OrderedJson* at = &root;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    if (!at->contains(parts[i])) {
      if (!make) return nullptr;
      (*at)[parts[i]] = OrderedJson::object();
    }
    at = &(*at)[parts[i]];
    if (at->is_null() && make) *at = OrderedJson::object();
    if (!at->is_object()) {
      *fault = absl::StrCat("'", base::Quotable(parts[i]),
                            "' is not an object with fields");
      return nullptr;
    }
  }
  return at;
}

absl::StatusOr<std::vector<std::string>> PartsOf(const std::string& field) {
  std::vector<std::string> parts = absl::StrSplit(field, '.');
  if (std::find(parts.begin(), parts.end(), "") != parts.end()) {
    return absl::InvalidArgumentError(
        "expected the path of a field, training.learning_rate");
  }
  if (parts.size() > static_cast<size_t>(limits::kJsonDepth)) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", parts.size(), " parts, at most ",
                     limits::kJsonDepth, " are allowed"));
  }
  return parts;
}

absl::Status CheckIsObject(const OrderedJson& spec) {
  if (spec.is_object()) return absl::OkStatus();
  return absl::InvalidArgumentError("the job's spec is not a JSON object");
}

}  // namespace

OrderedJson FieldValue(const std::string& text) {
  OrderedJson json = base::ParseTree<OrderedJson>(text);
  return json.is_discarded() ? OrderedJson(text) : json;
}

absl::Status SetField(OrderedJson& spec, const std::string& field,
                      OrderedJson value) {
  RETURN_IF_ERROR(CheckIsObject(spec));
  ASSIGN_OR_RETURN(const auto parts, PartsOf(field));
  std::string fault;
  OrderedJson* parent = ParentOf(spec, parts, /*make=*/true, &fault);
  if (parent == nullptr) return absl::InvalidArgumentError(fault);
  (*parent)[parts.back()] = std::move(value);
  return absl::OkStatus();
}

absl::Status UnsetField(OrderedJson& spec, const std::string& field) {
  RETURN_IF_ERROR(CheckIsObject(spec));
  ASSIGN_OR_RETURN(const auto parts, PartsOf(field));
  std::string fault;
  OrderedJson* parent = ParentOf(spec, parts, /*make=*/false, &fault);
  if (parent == nullptr || parent->erase(parts.back()) == 0) {
    return absl::InvalidArgumentError(
        fault.empty() ? "the job does not set this field" : fault);
  }
  return absl::OkStatus();
}

namespace {

using Kind = JsonNode::Kind;
constexpr std::string_view kTargetsExpected =
    "a list of module names, a regular expression over full module names, or "
    "\"all-linear\"";

std::string ShowNumber(double value) {
  return nlohmann::json(value == static_cast<int64_t>(value)
                            ? nlohmann::json(static_cast<int64_t>(value))
                            : nlohmann::json(value))
      .dump();
}

// A string that contains a number stands for it: YAML reads 2e-4 as a string,
// which Transformers' parser accepts, too.
JsonNode AsNumber(const JsonNode& node) {
  if (node.kind != Kind::kString) return node;
  absl::StatusOr<JsonNode> number = ParseJson(node.text, "");
  if (!number.ok() ||
      (number->kind != Kind::kInteger && number->kind != Kind::kNumber)) {
    return node;
  }
  return *std::move(number);
}

std::vector<std::string> Strings(std::span<const std::string_view> views) {
  return {views.begin(), views.end()};
}

bool AllNonEmptyTexts(const JsonNode& list) {
  for (const JsonNode& item : list.items) {
    if (item.kind != Kind::kString || item.text.empty()) return false;
  }
  return true;
}

std::vector<std::string> TextsOf(const JsonNode& list) {
  std::vector<std::string> texts;
  texts.reserve(list.items.size());
  for (const JsonNode& item : list.items) texts.push_back(item.text);
  return texts;
}

}  // namespace

bool Range::Holds(double value) const {
  return (above_low ? value > low : value >= low) &&
         (below_high ? value < high : value <= high);
}

std::string Range::Text() const {
  const bool lower = low > -std::numeric_limits<double>::infinity();
  const bool upper = high < std::numeric_limits<double>::infinity();
  std::string text;
  if (lower) text += base::Cat(above_low ? " > " : " >= ", ShowNumber(low));
  if (lower && upper) text += " and";
  if (upper) {
    text += base::Cat(below_high ? " < " : " <= ", ShowNumber(high));
  }
  return text;
}

FieldReader::FieldReader(const JsonNode* object, std::string path,
                         Findings& findings)
    : object_(object), path_(std::move(path)), findings_(findings) {
  if (object_ != nullptr && object_->kind != Kind::kObject) {
    Expected(path_, *object_, "an object");
    object_ = nullptr;
  }
}

FieldReader FieldReader::Section(std::string_view name) {
  return FieldReader(Take(name), PathOf(name), findings_);
}

// Marks the field as known, even if absent: Finish reports the rest.
const JsonNode* FieldReader::Take(std::string_view name) {
  known_.emplace(name);
  return object_ == nullptr ? nullptr : object_->Find(name);
}

std::string FieldReader::PathOf(std::string_view name) const {
  return path_.empty() ? std::string(name) : base::Cat(path_, ".", name);
}

void FieldReader::Expected(std::string_view path, const JsonNode& node,
                           std::string_view expected) {
  findings_.Add(node.line, path,
                base::Cat("expected ", expected, ", found ", Describe(node)));
}

int FieldReader::LineOf(std::string_view name) const {
  if (object_ == nullptr) return 1;
  const JsonNode* node = object_->Find(name);
  return node == nullptr ? object_->line : node->line;
}

bool FieldReader::Has(std::string_view name) const {
  return object_ != nullptr && object_->Find(name) != nullptr;
}

void FieldReader::Fault(std::string_view name, std::string_view message) {
  findings_.Add(LineOf(name), PathOf(name), message);
}

void FieldReader::Ignored(std::string_view name,
                          std::span<const std::string_view> words) {
  const JsonNode* node = Take(name);
  if (node == nullptr || node->kind == Kind::kNull) return;
  if (!words.empty()) {
    CheckWord(name, *node, words);
  } else if (node->kind != Kind::kString) {
    Expected(PathOf(name), *node, "a string");
  }
}

void FieldReader::Text(std::string_view name, std::string& value,
                       std::string_view expected, bool required) {
  const JsonNode* node = Take(name);
  if (node == nullptr) {
    if (required) Fault(name, base::Cat("missing; expected ", expected));
    return;
  }
  if (node->kind == Kind::kNull && !required) return;
  if (node->kind != Kind::kString || node->text.empty()) {
    return Expected(PathOf(name), *node, expected);
  }
  value = node->text;
}

bool FieldReader::IntegerValue(std::string_view path, const JsonNode& node,
                               Range range, int64_t& value) {
  const JsonNode number = AsNumber(node);
  if (number.kind == Kind::kInteger && range.Holds(number.number)) {
    value = number.integer;
    return true;
  }
  Expected(path, node, base::Cat("an integer", range.Text()));
  return false;
}

bool FieldReader::NumberValue(std::string_view path, const JsonNode& node,
                              Range range, double& value) {
  const JsonNode number = AsNumber(node);
  if ((number.kind == Kind::kNumber || number.kind == Kind::kInteger) &&
      range.Holds(number.number)) {
    value = number.number;
    return true;
  }
  Expected(path, node, base::Cat("a number", range.Text()));
  return false;
}

void FieldReader::Integer(std::string_view name, int64_t& value, Range range) {
  const JsonNode* node = Take(name);
  if (node != nullptr) IntegerValue(PathOf(name), *node, range, value);
}

void FieldReader::Integer(std::string_view name, std::optional<int64_t>& value,
                          Range range) {
  const JsonNode* node = Take(name);
  if (node == nullptr || node->kind == Kind::kNull) return;
  int64_t integer;
  if (IntegerValue(PathOf(name), *node, range, integer)) value = integer;
}

void FieldReader::StepLimit(std::string_view name, int64_t& value) {
  const JsonNode* node = Take(name);
  if (node == nullptr) return;
  const JsonNode number = AsNumber(*node);
  if (number.kind != Kind::kInteger ||
      (number.integer < 1 && number.integer != -1)) {
    return Expected(PathOf(name), *node, "an integer > 0, or -1 for no limit");
  }
  value = number.integer;
}

void FieldReader::Number(std::string_view name, double& value, Range range) {
  const JsonNode* node = Take(name);
  if (node != nullptr) NumberValue(PathOf(name), *node, range, value);
}

void FieldReader::Number(std::string_view name, std::optional<double>& value,
                         Range range) {
  const JsonNode* node = Take(name);
  if (node == nullptr || node->kind == Kind::kNull) return;
  double number;
  if (NumberValue(PathOf(name), *node, range, number)) value = number;
}

void FieldReader::Bool(std::string_view name, bool& value) {
  std::optional<bool> read = value;
  const JsonNode* node = Take(name);
  if (node != nullptr && node->kind == Kind::kNull) {
    return Expected(PathOf(name), *node, "true or false");
  }
  Bool(name, read);
  value = *read;
}

void FieldReader::Bool(std::string_view name, std::optional<bool>& value) {
  const JsonNode* node = Take(name);
  if (node == nullptr || node->kind == Kind::kNull) return;
  if (node->kind != Kind::kBool) {
    const bool automatic = node->kind == Kind::kString && node->text == "auto";
    return Expected(PathOf(name), *node,
                    automatic ? "true or false (mpsd does not choose one; "
                                "leave the field out for its default)"
                              : "true or false");
  }
  value = node->boolean;
}

bool FieldReader::CheckWord(std::string_view name, const JsonNode& node,
                            std::span<const std::string_view> words) {
  if (node.kind == Kind::kString) {
    for (std::string_view word : words) {
      if (word == node.text) return true;
    }
  }
  std::string message = base::Cat(
      "expected ", words.size() == 1 ? "\"" : "one of \"",
      absl::StrJoin(Strings(words), "\", \""), "\", found ", Describe(node));
  if (node.kind == Kind::kString) {
    if (auto nearest = NearestName(node.text, words)) {
      message += base::Cat("; did you mean \"", *nearest, "\"?");
    }
  }
  findings_.Add(node.line, PathOf(name), message);
  return false;
}

void FieldReader::Word(std::string_view name, std::string& value,
                       std::span<const std::string_view> words) {
  const JsonNode* node = Take(name);
  if (node != nullptr && CheckWord(name, *node, words)) value = node->text;
}

void FieldReader::OptionalWord(std::string_view name, std::string& value,
                               std::span<const std::string_view> words) {
  const JsonNode* node = Take(name);
  if (node != nullptr && node->kind != Kind::kNull) Word(name, value, words);
}

void FieldReader::Numbers(std::string_view name, std::vector<double>& value,
                          Range range) {
  const JsonNode* node = Take(name);
  if (node == nullptr || node->kind == Kind::kNull) return;
  if (node->kind != Kind::kArray) {
    return Expected(PathOf(name), *node,
                    base::Cat("a list of numbers", range.Text()));
  }
  std::vector<double> read(node->items.size());
  for (size_t i = 0; i < read.size(); ++i) {
    if (!NumberValue(base::Cat(PathOf(name), "[", i, "]"), node->items[i],
                     range, read[i])) {
      return;
    }
  }
  value = std::move(read);
}

void FieldReader::Texts(std::string_view name, std::vector<std::string>& value,
                        std::string_view expected, bool required) {
  const JsonNode* node = Take(name);
  if (node == nullptr) {
    if (required) Fault(name, base::Cat("missing; expected ", expected));
    return;
  }
  if (node->kind == Kind::kNull && !required) return;
  if (node->kind == Kind::kString && !node->text.empty()) {
    value = {node->text};
    return;
  }
  if (node->kind != Kind::kArray || (required && node->items.empty())) {
    return Expected(
        PathOf(name), *node,
        base::Cat(expected,
                  node->kind == Kind::kArray ? ", at least one" : ""));
  }
  if (!AllNonEmptyTexts(*node)) {
    for (size_t i = 0; i < node->items.size(); ++i) {
      const JsonNode& item = node->items[i];
      if (item.kind == Kind::kString && !item.text.empty()) continue;
      Expected(base::Cat(PathOf(name), "[", i, "]"), item,
               "a non-empty string");
    }
    return;
  }
  value = TextsOf(*node);
}

namespace {

nlohmann::ordered_json JsonOf(const JsonNode& node) {
  if (node.kind == Kind::kBool) return node.boolean;
  if (node.kind == Kind::kInteger) return node.integer;
  if (node.kind == Kind::kNumber) return node.number;
  if (node.kind == Kind::kString) return node.text;
  nlohmann::ordered_json json;
  if (node.kind == Kind::kArray) json = nlohmann::ordered_json::array();
  if (node.kind == Kind::kObject) json = nlohmann::ordered_json::object();
  for (const JsonNode& item : node.items) json.push_back(JsonOf(item));
  for (const JsonNode& m : node.members) json[m.name] = JsonOf(m);
  return json;
}

}  // namespace

void FieldReader::Prompts(std::string_view name, std::vector<Prompt>& value) {
  const JsonNode* node = Take(name);
  if (node == nullptr || node->kind == Kind::kNull) return;
  if (node->kind == Kind::kString && !node->text.empty()) {
    value = {{node->text}};
    return;
  }
  if (node->kind != Kind::kArray ||
      node->items.size() > limits::kSamplePrompts) {
    return Expected(
        PathOf(name), *node,
        base::Cat("a list of at most ", limits::kSamplePrompts, " prompts"));
  }
  std::vector<Prompt> read;
  for (const JsonNode& item : node->items) {
    std::optional<Prompt> prompt = PromptOf(JsonOf(item));
    if (item.kind == Kind::kString) prompt = Prompt{item.text};
    if (!prompt || *prompt == Prompt()) {
      return Expected(base::Cat(PathOf(name), "[", read.size(), "]"), item,
                      "a text, {\"prompt\": TEXT} or {\"messages\": "
                      "[{\"role\": …, \"content\": …}]}");
    }
    read.push_back(*std::move(prompt));
  }
  value = std::move(read);
}

void FieldReader::Integers(std::string_view name,
                           std::optional<std::vector<int64_t>>& value,
                           Range range) {
  const JsonNode* node = Take(name);
  if (node == nullptr || node->kind == Kind::kNull) return;
  std::vector<int64_t> read(1);
  if (node->kind == Kind::kInteger) {
    if (IntegerValue(PathOf(name), *node, range, read[0])) value = read;
    return;
  }
  if (node->kind != Kind::kArray) {
    return Expected(PathOf(name), *node,
                    base::Cat("a list of integers", range.Text()));
  }
  read.resize(node->items.size());
  for (size_t i = 0; i < node->items.size(); ++i) {
    if (!IntegerValue(base::Cat(PathOf(name), "[", i, "]"), node->items[i],
                      range, read[i])) {
      return;
    }
  }
  value = read;
}

template <typename V, typename Read>
void FieldReader::PatternObject(std::string_view name, PatternMap<V>& value,
                                Read read) {
  const JsonNode* node = Take(name);
  if (node == nullptr || node->kind == Kind::kNull) return;
  if (node->kind != Kind::kObject) {
    return Expected(PathOf(name), *node,
                    "an object of module patterns and numbers");
  }
  for (const JsonNode& number : node->members) {
    V read_value = V();
    if (read(base::Cat(PathOf(name), "[\"", number.name, "\"]"), number,
             read_value)) {
      value[number.name] = read_value;
    }
  }
}

void FieldReader::Patterns(std::string_view name, PatternMap<int64_t>& value,
                           Range range) {
  PatternObject(
      name, value,
      [&](const std::string& path, const JsonNode& node, int64_t& out) {
        return IntegerValue(path, node, range, out);
      });
}

void FieldReader::Patterns(std::string_view name, PatternMap<double>& value,
                           Range range) {
  PatternObject(
      name, value,
      [&](const std::string& path, const JsonNode& node, double& out) {
        return NumberValue(path, node, range, out);
      });
}

void FieldReader::Targets(std::string_view name, LoraSpec::Targets& value) {
  const JsonNode* node = Take(name);
  if (node == nullptr || node->kind == Kind::kNull) return;
  if (node->kind == Kind::kString && !node->text.empty()) {
    if (absl::AsciiStrToLower(node->text) == kAllLinear) {
      value = LoraSpec::AllLinear();
    } else {
      value = node->text;
    }
    return;
  }
  if (node->kind != Kind::kArray || node->items.empty() ||
      !AllNonEmptyTexts(*node)) {
    std::string expected(kTargetsExpected);
    if (node->kind == Kind::kArray)
      expected = "a list of one or more non-empty module names";
    return Expected(PathOf(name), *node, expected);
  }
  value = TextsOf(*node);
}

void FieldReader::Finish() {
  if (object_ == nullptr) return;
  for (const JsonNode& member : object_->members) {
    if (known_.count(member.name) > 0) continue;
    findings_.Add(member.line, PathOf(member.name),
                  UnknownField(path_, member.name, known_));
  }
}

FieldWriter FieldWriter::Section(std::string_view name) {
  return FieldWriter(object_[std::string(name)]);
}

void FieldWriter::Text(std::string_view name, const std::string& value,
                       std::string_view, bool required) {
  if (value.empty() && !required) {
    object_[std::string(name)] = nullptr;
  } else {
    Put(name, value);
  }
}

void FieldWriter::Prompts(std::string_view name,
                          const std::vector<Prompt>& value) {
  Json prompts = Json::array();
  for (const Prompt& prompt : value) {
    prompts.push_back(prompt.messages.empty()
                          ? Json(prompt.text)
                          : Json{{"messages", Json::parse(prompt.messages)}});
  }
  Put(name, prompts);
}

void FieldWriter::Targets(std::string_view name,
                          const LoraSpec::Targets& value) {
  OrderedJson& out = object_[std::string(name)];
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    out = *list;
  } else if (const auto* regex = std::get_if<std::string>(&value)) {
    out = *regex;
  } else if (std::holds_alternative<LoraSpec::AllLinear>(value)) {
    out = std::string(kAllLinear);
  } else {
    out = nullptr;
  }
}

}  // namespace mpsd::spec
