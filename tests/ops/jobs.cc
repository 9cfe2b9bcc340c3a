// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/jobs.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/file.h"
#include "core/model/classifier.h"
#include "core/spec/modules.h"
#include "core/train/run.h"
#include "tests/core/golden_model.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/selftest/passes.h"

namespace mpsd::ops {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

spec::ModelConfig WriteConfig(const fs::path& folder, const json& config) {
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << config.dump(1);
  return spec::ReadModelConfig(folder.string()).value();
}

std::unique_ptr<model::Network> Draw(spec::ModelConfig config) {
  if (config.family == spec::Family::kDecoder) {
    return *model::Decoder::Load(model::WeightSource{}, config);
  }
  config.num_labels = 2;
  return *model::Classifier::Load({}, config);
}

json HollowEntry(const std::vector<int64_t>& shape, int64_t& offset) {
  int64_t bytes = 2;
  for (const int64_t size : shape) bytes *= size;
  const int64_t begin = std::exchange(offset, offset + bytes);
  return {
      {"dtype", "BF16"}, {"shape", shape}, {"data_offsets", {begin, offset}}};
}

}  // namespace

void WriteModel(const fs::path& folder, const json& config) {
  const spec::ModelConfig parsed = WriteConfig(folder, config);
  at::manual_seed(1);
  const std::unique_ptr<model::Network> network = Draw(parsed);
  tensorfile::NamedTensors tensors;
  for (const model::NamedWeight& weight : network->NamedWeights()) {
    if (parsed.tie_word_embeddings && weight.name == "lm_head.weight") continue;
    tensors.emplace_back(spec::StoredName(parsed, weight.name), *weight.tensor);
  }
  ASSERT_TRUE(
      tensorfile::WriteSafetensors(folder / "model.safetensors", tensors).ok());
  if (parsed.family == spec::Family::kVision) return;
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) {
    fs::copy_file(testing_support::Golden("smollm", "model") / file,
                  folder / file);
  }
}

void WriteHollowDecoder(const fs::path& folder, const json& config) {
  const spec::ModelConfig parsed = WriteConfig(folder, config);
  json header = json::object();
  int64_t offset = 0;
  for (const spec::Module& m : spec::Modules(parsed)) {
    if (m.head && parsed.tie_word_embeddings) continue;
    std::vector<int64_t> shape = {m.out_features};
    if (m.kind == spec::Module::Kind::kLinear) {
      shape = {m.out_features, m.in_features};
    } else if (m.kind == spec::Module::Kind::kEmbedding) {
      shape = {m.in_features, m.out_features};
    }
    header[m.name + ".weight"] = HollowEntry(shape, offset);
    if (m.bias)
      header[m.name + ".bias"] = HollowEntry({m.out_features}, offset);
  }
  const std::string text = header.dump();
  const uint64_t length = text.size();
  const fs::path path = folder / "model.safetensors";
  {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof(length));
    file << text;
  }
  fs::resize_file(path, sizeof(length) + length + offset);
}

namespace {

// Every task, family and option that changes what runs on the device.

constexpr char kFull[] = R"({"fine_tune_type": "full"})";
constexpr char kHead[] = R"({"fine_tune_type": "head"})";
constexpr char kBf16[] = R"({"training": {"bf16": true}})";
constexpr char kFullBf16[] =
    R"({"fine_tune_type": "full", "training": {"bf16": true}})";
constexpr char kNoDropout[] =
    R"({"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
        "classifier_dropout": 0.0, "dropout": 0.0, "attention_dropout": 0.0,
        "seq_classif_dropout": 0.0})";

std::vector<Configuration> LanguageModels() {
  return {
      {"causal_lm_llama2", "llama2", "", ""},
      {"causal_lm_llama3", "llama3", "", ""},
      {"causal_lm_llama_options", "llama_options", "", ""},
      {"causal_lm_mistral", "mistral", "", ""},
      {"causal_lm_mistral_window", "mistral_window", "", ""},
      {"causal_lm_qwen2", "qwen2", "", ""},
      {"causal_lm_qwen2_window", "qwen2_window", "", ""},
      {"causal_lm_qwen3", "qwen3", "", ""},
      {"causal_lm_smollm", "smollm", "", ""},
      {"causal_lm_smollm3", "smollm3", "", ""},
      {"causal_lm_granite", "granite", "", ""},
      {"causal_lm_olmo2", "olmo2", "", kFullBf16},
      {"causal_lm_olmo3", "olmo3", "", ""},
      {"causal_lm_gemma2", "gemma2", "", R"({"training": {"packing": true}})"},
      {"causal_lm_gemma3", "gemma3", "", kBf16},
      {"causal_lm_phi3", "phi3", "", ""},
      {"causal_lm_all_linear", "llama3", "",
       R"({"lora": {"target_modules": "all-linear"}})"},
      {"causal_lm_bf16", "llama3", "",
       R"({"lora": {"target_modules": "all-linear"},
           "training": {"bf16": true}})"},
      {"causal_lm_qwen3_bf16", "qwen3", "", kBf16},
      {"causal_lm_dropout", "llama3", "",
       R"({"lora": {"target_modules": "all-linear", "lora_dropout": 0.1}})"},
      {"causal_lm_checkpointing", "llama3", "",
       R"({"lora": {"target_modules": "all-linear"},
           "training": {"gradient_checkpointing": true}})"},
      {"causal_lm_checkpointing_dropout_bf16", "llama3", "",
       R"({"lora": {"target_modules": "all-linear", "lora_dropout": 0.1},
           "training": {"gradient_checkpointing": true, "bf16": true}})"},
      {"causal_lm_packing", "llama3", "", R"({"training": {"packing": true}})"},
      {"causal_lm_packing_window_bf16", "mistral_window", "",
       R"({"training": {"packing": true, "bf16": true}})"},
      {"causal_lm_accumulation", "llama3", "",
       R"({"training": {"gradient_accumulation_steps": 3}})"},
      {"causal_lm_dpo", "llama3", "",
       R"({"preference": {"trainer": "dpo"},
           "dataset": {"train": "pairs.jsonl", "eval": "pairs.jsonl"}})"},
      {"causal_lm_modules_to_save", "llama2", "",
       R"({"lora": {"modules_to_save": ["lm_head", "embed_tokens"]}})"},
      {"causal_lm_modules_to_save_bf16", "llama2", "",
       R"({"lora": {"modules_to_save": ["lm_head", "embed_tokens"]},
           "training": {"bf16": true}})"},
      {"causal_lm_adapter_on_head", "llama2", "",
       R"({"lora": {"target_modules": ["q_proj", "lm_head"]}})"},
      {"causal_lm_no_clipping", "llama3", "",
       R"({"training": {"max_grad_norm": 0}})"},
      {"causal_lm_nf4_bf16", "llama3", "",
       R"({"quantization_config": {"load_in_4bit": true,
               "bnb_4bit_quant_type": "nf4",
               "bnb_4bit_use_double_quant": true},
           "lora": {"target_modules": "all-linear"},
           "training": {"bf16": true}})"},
      {"causal_lm_int8", "llama3", "",
       R"({"quantization_config": {"load_in_8bit": true}})"},
      {"causal_lm_full", "llama3", "", kFull},
      {"causal_lm_full_bf16", "qwen2", "", kFullBf16},
      {"causal_lm_full_checkpointing_bf16", "qwen3", "",
       R"({"fine_tune_type": "full",
           "training": {"gradient_checkpointing": true, "bf16": true}})"},
  };
}

std::vector<Configuration> TextClassifiers() {
  return {
      {"seq_cls_bert", "bert", "", ""},
      {"seq_cls_bert_no_dropout", "bert", kNoDropout, ""},
      {"seq_cls_bert_full", "bert", "", kFull},
      {"seq_cls_bert_full_no_dropout", "bert", kNoDropout, kFull},
      {"seq_cls_bert_full_bf16", "bert", "", kFullBf16},
      {"seq_cls_bert_head", "bert", "", kHead},
      {"seq_cls_bert_bf16", "bert", "", kBf16},
      {"seq_cls_bert_pairs", "bert", kNoDropout,
       R"({"dataset": {"train": "pairs.csv", "eval": "pairs.csv"}})"},
      {"seq_cls_bert_checkpointing", "bert", "",
       R"({"training": {"gradient_checkpointing": true},
           "lora": {"target_modules": "all-linear", "lora_dropout": 0.1}})"},
      {"seq_cls_bert_weights", "bert_weighted", kNoDropout,
       R"({"fine_tune_type": "full",
           "classification": {"class_weights": [1.0, 2.5]}})"},
      {"seq_cls_bert_regression", "bert", kNoDropout,
       R"({"fine_tune_type": "full",
           "dataset": {"train": "numbers.csv", "eval": "numbers.csv"}})"},
      {"seq_cls_roberta_several", "roberta", kNoDropout,
       R"({"fine_tune_type": "full",
           "classification": {"class_weights": [1.0, 2.5]},
           "dataset": {"train": "several.jsonl", "eval": "several.jsonl"}})"},
      {"seq_cls_roberta", "roberta", "", ""},
      {"seq_cls_roberta_full", "roberta", "", kFull},
      {"seq_cls_electra", "electra", "", ""},
      {"seq_cls_electra_full", "electra", kNoDropout, kFull},
      {"seq_cls_distilbert", "distilbert", "", ""},
      {"seq_cls_distilbert_full", "distilbert", kNoDropout, kFull},
      {"seq_cls_llama", "llama_classes", "", ""},
      {"seq_cls_llama_bf16", "llama_classes", "", kBf16},
      {"seq_cls_qwen2_full", "qwen2", "", kFull},
  };
}

std::vector<Configuration> ImageClassifiers() {
  return {
      {"image_cls_vit", "vit", "", ""},
      {"image_cls_vit_no_dropout", "vit", kNoDropout, ""},
      {"image_cls_vit_full", "vit", "", kFull},
      {"image_cls_vit_full_no_dropout", "vit", kNoDropout, kFull},
      {"image_cls_vit_full_bf16", "vit", "", kFullBf16},
      {"image_cls_vit_head", "vit", kNoDropout, kHead},
      {"image_cls_vit_bf16", "vit", kNoDropout, kBf16},
      {"image_cls_vit_checkpointing", "vit", "",
       R"({"training": {"gradient_checkpointing": true},
           "lora": {"target_modules": "all-linear", "lora_dropout": 0.1}})"},
      {"image_cls_vit_grey_full", "vit_grey", "", kFull},
  };
}

}  // namespace

std::vector<Configuration> Configurations(const std::string& task) {
  if (task == "CAUSAL_LM") return LanguageModels();
  if (task == "SEQ_CLS") return TextClassifiers();
  return ImageClassifiers();
}

namespace {

constexpr int kSteps = 6;

// Closes a part of the recording at each report of the trainer.
class PartObserver : public train::Observer {
 public:
  explicit PartObserver(Recorder* recorder) : recorder_(recorder) {}
  void OnStage(const std::string& stage, double) override {
    // Reading a checkpoint is no part of the step that follows.
    if (stage == "training" || stage.starts_with("resuming")) {
      Close("begin");
    }
  }
  void OnStep(const report::Progress& report) override {
    losses.push_back(report.loss);
    Close("step");
    stop_ = report.step == kSteps - 2 && !resumed;
  }
  void OnEval(const report::Evaluated&) override { Close("evaluation"); }
  void OnCheckpoint(const report::Checkpointed&) override {
    Close("checkpoint");
  }
  train::StopRequest stop_request() override {
    return stop_ ? train::StopRequest::kPreempt : train::StopRequest::kNone;
  }
  void Close(const std::string& name) {
    if (recorder_ != nullptr) recorder_->Close(name);
  }

  bool resumed = false;
  std::vector<double> losses;

 private:
  Recorder* const recorder_;
  bool stop_ = false;
};

// Rows of several lengths, so that batches have several.
std::string Words(int row) {
  std::string text = "row";
  for (int i = 0; i <= row * 3 % 7; ++i) text += " w" + std::to_string(i * row);
  return text;
}

void WriteTexts(const fs::path& folder) {
  std::ofstream train(folder / "texts.jsonl"), pairs(folder / "pairs.jsonl");
  for (int i = 0; i < 24; ++i) {
    train << json{{"text", Words(i)}}.dump() << "\n";
    pairs << json{{"prompt", "row "},
                  {"chosen", Words(i)},
                  {"rejected", Words(i + 3)}}
                 .dump()
          << "\n";
  }
}

void WriteClasses(const fs::path& folder) {
  std::ofstream one(folder / "classes.csv"), two(folder / "pairs.csv");
  std::ofstream numbers(folder / "numbers.csv");
  std::ofstream several(folder / "several.jsonl");
  one << "text,label\n";
  two << "sentence1,sentence2,label\n";
  numbers << "text,label\n";
  for (int i = 0; i < 24; ++i) {
    const char* label = i % 2 == 0 ? "even" : "odd";
    one << Words(i) << "," << label << "\n";
    two << "r" << i << "," << Words(i) << "," << label << "\n";
    numbers << Words(i) << "," << i % 5 << ".5\n";
    json labels = json::array();
    if (i % 2 == 0) labels.push_back("a");
    if (i % 3 == 0) labels.push_back("b");
    several << json{{"text", Words(i)}, {"label", labels}}.dump() << "\n";
  }
}

void WriteImages(const fs::path& folder, const json& config) {
  const int64_t size = config["image_size"], channels = config["num_channels"];
  at::manual_seed(2);
  std::vector<int64_t> shape = {24, size, size};
  if (channels == 3) shape.push_back(3);
  const absl::Status s = tensorfile::WriteSafetensors(
      folder / "images.safetensors",
      {{"images", at::randint(256, shape, at::kByte)},
       {"labels", at::arange(24).remainder(2)}});
  ASSERT_TRUE(s.ok()) << s;
}

json PlainJob(const std::string& task) {
  json job = {{"model", "model"},
              {"task", task},
              {"classification", {{"ignore_mismatched_sizes", true}}},
              {"training",
               {{"max_steps", kSteps},
                {"per_device_train_batch_size", 4},
                {"learning_rate", 1e-3},
                {"weight_decay", 0.01},
                {"max_length", 48},
                {"eval_steps", 3},
                {"save_steps", 100}}}};
  std::string data = "texts.jsonl";
  if (task == "SEQ_CLS") {
    data = "classes.csv";
    job["training"]["max_length"] = 32;
  }
  if (task == "IMAGE_CLS") data = "images.safetensors";
  if (task == "CAUSAL_LM") job.erase("classification");
  job["dataset"] = {{"train", data}, {"eval", data}};
  return job;
}

json ModelConfig(const Configuration& configuration) {
  const fs::path path =
      testing_support::Golden(configuration.family, "model") / "config.json";
  json config = json::parse(*base::ReadFile(path));
  if (config.contains("vocab_size")) config["vocab_size"] = 128;
  for (const char* decided_by_data : {"id2label", "label2id", "problem_type"}) {
    config.erase(decided_by_data);
  }
  if (!configuration.model.empty()) {
    config.merge_patch(json::parse(configuration.model));
  }
  return config;
}

absl::Status Train(const fs::path& folder, const json& job,
                   train::Observer& observer) {
  auto spec = spec::ParseTrainSpec(job.dump(), "job.json");
  if (!spec.ok()) return spec.status();
  train::RunContext context;
  context.out_dir = folder / "out";
  context.cache_dir = folder;
  return train::Run(spec::ResolvePaths(*spec, folder.string()), context,
                    observer)
      .status();
}

Recording Record(const std::string& task, const Configuration& configuration,
                 const std::string& device) {
  const fs::path folder =
      testing_support::FreshFolder("ops_" + device + configuration.name);
  const json config = ModelConfig(configuration);
  WriteModel(folder / "model", config);
  WriteTexts(folder);
  WriteClasses(folder);
  if (task == "IMAGE_CLS") WriteImages(folder, config);
  json job = PlainJob(task);
  if (!configuration.job.empty()) {
    job.merge_patch(json::parse(configuration.job));
  }
  job["device"] = device;
  Recording recording;
  recording.max_length = job["training"]["max_length"];
  Recorder recorder;
  for (const bool resumed : {false, true}) {
    PartObserver observer(&recorder);
    observer.resumed = resumed;
    const absl::Status s = Train(folder, job, observer);
    EXPECT_TRUE(s.ok()) << configuration.name << ": " << s;
    observer.Close("end");
    recording.losses.insert(recording.losses.end(), observer.losses.begin(),
                            observer.losses.end());
  }
  recording.parts = recorder.parts();
  recording.missing = recorder.missing();
  recording.faults = recorder.faults();
  return recording;
}

}  // namespace

std::vector<const RecordedPart*> Recording::named(
    const std::string& name) const {
  std::vector<const RecordedPart*> found;
  for (const RecordedPart& part : parts) {
    if (part.name == name) found.push_back(&part);
  }
  return found;
}

const Recording& RecordingOf(const std::string& task,
                             const Configuration& configuration,
                             const std::string& device) {
  static auto* kept = new std::map<std::string, Recording>;
  const std::string key = device + configuration.name;
  const auto it = kept->find(key);
  if (it != kept->end()) return it->second;
  return (*kept)[key] = Record(task, configuration, device);
}

namespace {

constexpr char kBudgetPath[] = MPSD_TEST_SOURCE_DIR "/tests/ops/budget.txt";
constexpr char kBudgetHead[] =
    "# What a run's optimizer steps ask of MPS; written by `ninja "
    "update_budget`.\n"
    "# name, kernels, bytes made, peak bytes, uploads and syncs a step, "
    "distinct shapes\n";

struct Field {
  const char* name;
  int64_t Cost::*value;
};
constexpr Field kFields[] = {
    {"kernels", &Cost::kernels}, {"bytes", &Cost::bytes},
    {"peak", &Cost::peak},       {"uploads", &Cost::uploads},
    {"syncs", &Cost::syncs},     {"shapes", &Cost::shapes}};

Budget ReadBudget() {
  auto text = base::ReadFile(kBudgetPath);
  if (!text.ok()) return {};
  auto budget = ParseBudget(*text);
  EXPECT_TRUE(budget.has_value()) << kBudgetPath << " is broken";
  return std::move(budget).value_or(Budget());
}

}  // namespace

Cost CostOf(const Recording& recording) {
  Cost cost;
  std::set<std::string> signatures;
  for (const RecordedPart* step : recording.named("step")) {
    cost.kernels += step->kernels;
    cost.bytes += step->bytes;
    cost.peak = std::max(cost.peak, step->peak);
    cost.uploads = std::max(cost.uploads, step->uploads);
    cost.syncs = std::max(cost.syncs, step->syncs);
    signatures.insert(step->signatures.begin(), step->signatures.end());
  }
  cost.shapes = static_cast<int64_t>(signatures.size());
  return cost;
}

std::optional<Budget> ParseBudget(std::string_view text) {
  Budget budget;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string name, rest;
    Cost cost;
    words >> name;
    for (const Field& field : kFields) words >> cost.*field.value;
    if (!words || words >> rest) return std::nullopt;
    budget[name] = cost;
  }
  return budget;
}

std::string ToText(const Budget& budget) {
  std::string text = kBudgetHead;
  for (const auto& [name, cost] : budget) {
    text += name;
    for (const Field& field : kFields) {
      absl::StrAppend(&text, " ", cost.*field.value);
    }
    text += "\n";
  }
  return text;
}

std::vector<std::string> Excess(const Cost& cost, const Cost& budget) {
  std::vector<std::string> found;
  for (const Field& field : kFields) {
    if (cost.*field.value <= budget.*field.value) continue;
    found.push_back(absl::StrCat(field.name, " ", cost.*field.value,
                                 ", budget ", budget.*field.value));
  }
  return found;
}

void CheckBudget(const std::string& name, const Cost& cost) {
  Budget budget = ReadBudget();
  if (std::getenv("MPSD_UPDATE_BUDGET") != nullptr) {
    budget[name] = cost;
    ASSERT_TRUE(base::WriteFileAtomic(kBudgetPath, ToText(budget)).ok());
    return;
  }
  const auto it = budget.find(name);
  ASSERT_NE(it, budget.end())
      << name << " has no budget yet: ninja update_budget";
  const std::vector<std::string> excess = Excess(cost, it->second);
  EXPECT_TRUE(excess.empty())
      << name << " costs more than before: " << absl::StrJoin(excess, "; ")
      << ". If it must: ninja update_budget, and commit budget.txt";
  if (excess.empty() && cost != it->second) {
    std::cout << name << " costs less than its budget: "
              << absl::StrJoin(Excess(it->second, cost), "; ")
              << " (the first number is the budget). ninja update_budget "
                 "keeps it so\n";
  }
}

namespace {

std::vector<RunCheck> RunAll() {
  InstallFakeMps();
  const auto device = *device::OpenMps();
  std::vector<RunCheck> runs;
  for (selftest::Check& check :
       selftest::AllChecks(selftest::Small(), *device)) {
    Recorder recorder;
    const selftest::Report report = selftest::RunChecks(*device, {check});
    recorder.Close("");
    const RecordedPart& part = recorder.parts()[0];
    RunCheck run{std::move(check), part.operators, part.signatures,
                 part.kernels,     report.seconds, ""};
    if (!report.passed()) run.failure = selftest::TableRow(report.results[0]);
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace

const std::vector<RunCheck>& SelftestRun() {
  static const auto* runs = new std::vector<RunCheck>(RunAll());
  return *runs;
}

const std::set<std::string>& RunBySelftest() {
  static const auto* all = [] {
    auto* names = new std::set<std::string>;
    for (const RunCheck& run : SelftestRun()) {
      names->insert(run.operators.begin(), run.operators.end());
    }
    return names;
  }();
  return *all;
}

}  // namespace mpsd::ops
