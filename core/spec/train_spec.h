// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "core/host/traits.h"
#include "core/spec/classification.h"
#include "core/spec/model_config.h"
#include "core/spec/quantization.h"

namespace mpsd::spec {

// Which activations of a layer the backward recomputes instead of keeping them.
// The gradient is the same for all choices.
enum class Recompute {
  kNone,       // the forward keeps all that the backward reads
  kSelective,  // recomputes the widest, the MLP's inner activations; autograd
               // recomputes whole layers instead
  kFull,       // recomputes the whole layer from its input
};

// PEFT's rank_pattern and alpha_pattern: regex → value, in file order. The
// order matters: if several patterns match a module, PEFT uses the first.
template <typename V>
class PatternMap {
 public:
  using value_type = std::pair<std::string, V>;
  using const_iterator = typename std::vector<value_type>::const_iterator;

  PatternMap() = default;
  PatternMap(std::initializer_list<value_type> entries) : entries_(entries) {}

  // The value of `pattern`, appended if new.
  V& operator[](std::string_view pattern) {
    for (value_type& entry : entries_) {
      if (entry.first == pattern) return entry.second;
    }
    return entries_.emplace_back(std::string(pattern), V()).second;
  }

  const_iterator begin() const { return entries_.begin(); }
  const_iterator end() const { return entries_.end(); }
  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  bool operator==(const PatternMap&) const = default;

  // For nlohmann's basic_json; reading from its ordered_json keeps the order.
  template <typename Json>
  friend void to_json(Json& json, const PatternMap& map) {
    json = Json::object();
    for (const auto& [pattern, value] : map) json[pattern] = value;
  }
  template <typename Json>
  friend void from_json(const Json& json, PatternMap& map) {
    map = PatternMap();
    for (auto it = json.begin(); it != json.end(); ++it) {
      map[it.key()] = it.value().template get<V>();
    }
  }

 private:
  std::vector<value_type> entries_;
};

// The letters of a job id, which is a ULID: Crockford's base 32.
inline constexpr std::string_view kJobIdLetters =
    "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

// Whether `text` is 26 of these letters, and so safe as a file name.
bool IsJobId(std::string_view text);

// `model` and `adapter` of job.json may name the result of another job of the
// same daemon: "job:ID". mpsd replaces it with the result's folder before the
// worker reads the spec.
inline constexpr char kNamedResult[] = "job:";

// Whether `path` claims to name a job's result, validly or not.
bool NamesResult(std::string_view path);

// The id of the job whose result `path` names; "" if `path` is not kNamedResult
// followed by a job id.
std::string JobNamedBy(std::string_view path);

// PEFT's TaskType, where it has one.
enum class Task { kCausalLm, kSeqCls, kImageCls };
// What is trained: a LoRA adapter (with modules_to_save), all weights, or only
// the classification head.
enum class FineTuneType { kLora, kFull, kHead };
using DeviceChoice = backend::Choice;
enum class Gradients { kAuto, kAutograd };

// PEFT's LoraConfig, same names and defaults (peft 0.21, lora/config.py).
struct LoraSpec {
  int64_t r = 8;
  double lora_alpha = 8;
  // Absent: the dropout that the job's `adapter` was trained with; without
  // `adapter` 0, PEFT's default.
  std::optional<double> lora_dropout;
  // One of: a list of name suffixes, a regex over full names (Python's
  // re.fullmatch), or the word "all-linear". Absent: PEFT's default for the
  // model type.
  struct AllLinear {
    bool operator==(const AllLinear&) const = default;
  };
  using Targets = std::variant<std::monostate, std::vector<std::string>,
                               std::string, AllLinear>;
  Targets target_modules;
  bool use_rslora = false;
  std::optional<std::vector<int64_t>> layers_to_transform;
  PatternMap<int64_t> rank_pattern;  // regex → r
  PatternMap<double> alpha_pattern;  // regex → lora_alpha
  std::vector<std::string> modules_to_save;
  bool operator==(const LoraSpec&) const = default;
};

// What a model is asked; one of the two.
struct Prompt {
  std::string text;
  std::string messages = {};  // of a chat, a JSON array of objects
  bool operator==(const Prompt&) const = default;
};

// Transformers' TrainingArguments (and TRL's SFTConfig for the text fields),
// same names and defaults unless noted.
struct TrainingSpec {
  double num_train_epochs = 3;
  int64_t max_steps = -1;  // > 0 overrides num_train_epochs
  int64_t per_device_train_batch_size = 8;
  int64_t per_device_eval_batch_size = 8;
  int64_t gradient_accumulation_steps = 1;
  double learning_rate = 5e-5;
  std::string lr_scheduler_type = "linear";
  // Below 1 a share of all steps, as in Transformers 5; else an integer.
  double warmup_steps = 0;
  double warmup_ratio = 0;  // used when warmup_steps is 0
  double weight_decay = 0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double max_grad_norm = 1;   // 0: no clipping
  int64_t max_length = 1024;  // tokens; longer samples are cut at the end
  bool packing = false;
  // TRL's name: short rows of a step are concatenated, as segments that do not
  // attend to each other, if this leaves less padding. The gradient is the
  // same. Absent: the trainer chooses if auto_find_batch_size lets it choose
  // the layout.
  std::optional<bool> padding_free;
  // "random"; "sequential", the order of the data; or "group_by_length": in
  // random order, but next to rows of similar length (Transformers'
  // LengthGroupedSampler), which reduces padding.
  std::string train_sampling_strategy = "random";
  // The trainer chooses the micro-batch: an optimizer step keeps its
  // per_device_train_batch_size · gradient_accumulation_steps rows, and a short
  // trial finds the micro-batch, with activations kept or not, that is fastest
  // within the device's memory. (Transformers halves the batch itself until it
  // fits.) gradient_checkpointing true stays in force.
  bool auto_find_batch_size = false;
  // Absent: TRL's defaults. The loss of a prompt/completion row is on its
  // completion, that of a messages or text row on every token. At most one of
  // the two may be true.
  //
  // assistant_only_loss: the labels are what {% generation %} blocks of the
  // chat template render; for a template without such blocks the text after
  // each generation prompt, including the end of the turn. Stock templates get
  // TRL's labels (Qwen3's is rendered with the thinking of every turn, as in
  // TRL).
  std::optional<bool> assistant_only_loss;
  std::optional<bool> completion_only_loss;
  // A chat template that replaces the model's, for base models, which have
  // none: a .jinja or .j2 file; or a model folder, whose chat template and
  // eos_token are used. Adapter and model are saved with it. "": the model's.
  std::string chat_template_path;
  // The token that ends a text or a turn instead of the model's: a token of the
  // tokenizer ("<|im_end|>"). "": the model's token, or the token of
  // chat_template_path's folder.
  std::string eos_token;
  bool gradient_checkpointing = false;
  // The extent of gradient_checkpointing (Megatron's name): whole layers, or
  // only their widest values, the MLP's inner activations. Language models with
  // LoRA support both; other jobs recompute whole layers. Never kNone.
  Recompute recompute_granularity = Recompute::kFull;
  // The two fields above as one value.
  Recompute recompute() const {
    return gradient_checkpointing ? recompute_granularity : Recompute::kNone;
  }
  void set_recompute(Recompute recompute) {
    gradient_checkpointing = recompute != Recompute::kNone;
    recompute_granularity =
        gradient_checkpointing ? recompute : Recompute::kFull;
  }
  bool bf16 = false;  // the frozen base in bfloat16; adapters stay fp32
  int64_t seed = 42;
  int64_t eval_steps = 0;    // 0: at the end of every epoch
  int64_t save_steps = 500;  // 0: at the end only
  std::optional<int64_t> save_total_limit;
  int64_t logging_steps = 1;  // spaces log lines; metrics.jsonl has every step
  bool load_best_model_at_end = false;
  // The metric that decides the best checkpoint: "loss", or a metric of the
  // task ("accuracy", "eval_accuracy"); "": the loss.
  std::string metric_for_best_model;
  std::optional<bool> greater_is_better;  // absent: true, except for the loss
  std::optional<int64_t> early_stopping_patience;  // evaluations
  double early_stopping_threshold = 0;  // an improvement must exceed this
  // CAUSAL_LM: answered greedily before training, every sample_steps steps and
  // by the result.
  std::vector<Prompt> sample_prompts;
  int64_t sample_steps = 0;  // 0: not during training
  int64_t sample_max_new_tokens = 64;
  bool operator==(const TrainingSpec&) const = default;
};

// TRL's trainer: of texts (SFTTrainer), or of preferences between two answers
// to a prompt (trl 1.16, dpo_trainer.py).
enum class Trainer { kSft, kDpo };
enum class PreferenceLoss { kSigmoid, kHinge, kIpo, kRobust };

// How preferences are learnt: names and defaults of TRL's DPOConfig. The
// reference is the model as training begins: the base, or the base with the
// job's `adapter`.
struct PreferenceSpec {
  Trainer trainer = Trainer::kSft;
  PreferenceLoss loss_type = PreferenceLoss::kSigmoid;
  double beta = 0.1;
  double label_smoothing = 0;  // of kRobust
  bool enabled() const { return trainer != Trainer::kSft; }
  // Sequences that a row of the data becomes: a pair has two.
  int64_t sequences() const { return enabled() ? 2 : 1; }
  bool operator==(const PreferenceSpec&) const = default;
};

// Files, and the columns for the task's parts. Language models read JSON Lines,
// or a file that is one JSON array of objects; text classification reads those,
// CSV (.csv) and TSV (.tsv, .txt) with a header; images come as a folder with a
// folder per class, as JSON Lines with paths, or as a .safetensors file of
// arrays.
struct DatasetSpec {
  std::vector<std::string> train;  // files or image folders, at least one
  std::vector<std::string> eval;
  std::vector<std::string> predict;  // labels may be absent
  // The share of `train` held out for evaluation if `eval` is empty, drawn by
  // `training.seed`; 0: none.
  double validation_split = 0;
  // A GLUE task: its layout of columns, labels and metrics; see GlueTaskNames.
  std::string task_name;
  // One or two columns that contain the text; empty: those of task_name, else
  // "sentence1" and "sentence2", "sentence", or "text", the first that the
  // files have. A language model has one, "text" by default (TRL's
  // dataset_text_field).
  std::vector<std::string> text_columns;
  // Language models: the columns that contain the parts of a row. Defaults are
  // "messages" (or "conversations"), "prompt" and "completion" (or "question"
  // and "answer"); data::ParseLanguageRow has the order in which a row is read
  // that has several of these. Naming a column decides what the rows are.
  std::string messages_column, prompt_column, completion_column;
  // How to read rows with Alpaca's "instruction", "input" and "output", which
  // are recognised by these names if there is no other column: "alpaca", the
  // default, fills Alpaca's prompt, with the output as the completion;
  // "alpaca_chat" makes a user's and an assistant's message for the chat
  // template: the instruction, an empty line and the input; then the output.
  std::string format;
  std::string label_column;                  // "": "label"
  std::string image_column;                  // in JSON Lines; "": "image"
  std::optional<int64_t> max_train_samples;  // the first rows
  std::optional<int64_t> max_eval_samples;
  std::optional<int64_t> max_predict_samples;
  // Whether training on these data includes evaluations.
  bool evaluates() const { return !eval.empty() || validation_split > 0; }
  bool operator==(const DatasetSpec&) const = default;
};

// Training images are cropped and mirrored at random, as
// torchvision.transforms.RandomResizedCrop and RandomHorizontalFlip do.
struct AugmentationSpec {
  bool random_resized_crop = true;
  double crop_scale_min = 0.08, crop_scale_max = 1;           // area share
  double crop_ratio_min = 3.0 / 4, crop_ratio_max = 4.0 / 3;  // width by height
  double horizontal_flip = 0.5;                               // probability
  bool operator==(const AugmentationSpec&) const = default;
};

// job.json with all defaults filled in.
struct TrainSpec {
  std::string name;  // optional, human-readable
  // Folder, id in the local Hugging Face cache, or "job:ID" (NamesResult)
  std::string model;
  // The id whose snapshot in a Hugging Face cache the folder `model` is: mpsd
  // sets it if a job asks for a model by its id. A folder that is not a
  // snapshot of this id is an error.
  std::string model_id;
  Task task = Task::kCausalLm;
  FineTuneType fine_tune_type = FineTuneType::kLora;
  // Reads only config.json and draws the weights as Transformers initialises
  // them. Only with fine_tune_type "full".
  bool from_scratch = false;
  DatasetSpec dataset;
  ClassificationSpec classification;     // SEQ_CLS and IMAGE_CLS
  AugmentationSpec augmentation;         // IMAGE_CLS
  QuantizationSpec quantization_config;  // of the frozen base
  std::string adapter;  // a PEFT folder to start from, "job:ID", or empty
  LoraSpec lora;
  PreferenceSpec preference;  // CAUSAL_LM
  TrainingSpec training;
  DeviceChoice device = DeviceChoice::kAuto;
  // An operator that MPS lacks runs on the CPU, counted and named in run.json,
  // instead of failing the job.
  bool allow_cpu_fallback = false;
  // "auto": the hand-written backward for language models, if it covers the
  // job. "autograd": autograd for these too, for comparison.
  Gradients gradients = Gradients::kAuto;
  bool operator==(const TrainSpec&) const = default;
};

// Parses and validates job.json. `origin` names the text in errors. The error
// is InvalidArgument with one line per fault, at most 20: "<origin>:<line>:
// <path>: <what was expected and found>"; for an unknown field the line gives
// the valid name that was probably meant. A duplicate name is an error too.
// Paths are kept as written.
absl::StatusOr<TrainSpec> ParseTrainSpec(std::string_view json,
                                         std::string_view origin);

// For a job to be submitted: ParseTrainSpec, with what the specs of earlier
// jobs may lack: a name that is there can be seen.
absl::StatusOr<TrainSpec> ParseNewSpec(std::string_view json,
                                       std::string_view origin);

// Reads the fields of job.json's "lora" from `json`, an object of which every
// other member, and every null, is ignored. Errors as ParseTrainSpec's.
absl::StatusOr<LoraSpec> ParseLora(std::string_view json,
                                   std::string_view origin);

// The spec as one line of JSON with all defaults written out and absent
// optionals as null, always in the same order; parses back to an equal spec.
std::string ToJson(const TrainSpec& spec);

// `spec` with every relative path made absolute against `base_dir`. A `model`
// that is not an existing folder is left as an id.
TrainSpec ResolvePaths(TrainSpec spec, const std::string& base_dir);

// Calls visit(field, path) for each path of `spec`, in the order of job.json's
// fields: the model (or its id), the files and folders of the data set, the
// adapter, the chat template. The path of an unset field is empty.
template <typename Spec, typename Visit>
void VisitPaths(Spec& spec, const Visit& visit) {
  visit("model", spec.model);
  for (auto& path : spec.dataset.train) visit("dataset.train", path);
  for (auto& path : spec.dataset.eval) visit("dataset.eval", path);
  for (auto& path : spec.dataset.predict) visit("dataset.predict", path);
  visit("adapter", spec.adapter);
  visit("training.chat_template_path", spec.training.chat_template_path);
}

// Whether a model of this config supports the job's task with this fine-tuning;
// Unimplemented or InvalidArgument names the possible choices.
absl::Status CheckTask(const TrainSpec& spec, const ModelConfig& config);

// The folder of `model`: the path itself if it is a folder with config.json,
// else the snapshot in the Hugging Face cache of "org/name" (by refs/main) or
// "org/name@REVISION" (a ref or a commit). The cache is HF_HUB_CACHE, else
// HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub, else
// ~/.cache/huggingface/hub. NotFound names the folders searched and what to do.
absl::StatusOr<std::string> FindModelFolder(const std::string& model);

// InvalidArgument, with what to do, for a data file of a kind that mpsd does
// not read (Parquet, Excel, an archive …), by its name or its first bytes.
absl::Status CheckKindIsRead(const std::string& name, std::string_view bytes);

// The name of a result's base model, as the job gave it: a folder, or an id
// with the revision that its snapshot's folder is named after.
struct BaseModel {
  std::string name;
  std::string revision;  // "" for a folder
  bool operator==(const BaseModel&) const = default;
};

// The base model of a job whose model is in `folder`, a result of
// FindModelFolder.
BaseModel BaseModelOf(const TrainSpec& spec, const std::string& folder);

// The revision of `id` whose snapshot in a Hugging Face cache is `folder`; ""
// if `folder` is not a snapshot of `id`.
std::string RevisionOf(const std::string& id, const std::string& folder);

// FindModelFolder with a given environment, which maps a variable's name to its
// value or null.
using Environment = std::function<const char*(const char* name)>;
absl::StatusOr<std::string> FindModelFolder(const std::string& model,
                                            const Environment& environment);

// The folder of a base model at its revision: a snapshot's hash or a ref's
// name; "" is the revision that FindModelFolder finds. NotFound if the cache
// has only other revisions.
absl::StatusOr<std::string> FindBaseModel(const BaseModel& base,
                                          const Environment& environment);
absl::StatusOr<std::string> FindBaseModel(const BaseModel& base);

}  // namespace mpsd::spec
