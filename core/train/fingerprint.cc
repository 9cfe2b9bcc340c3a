// SPDX-License-Identifier: Apache-2.0
#include "core/train/fingerprint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace mpsd::train {
namespace {

namespace fs = std::filesystem;

// Bytes of the weights to read ahead: after them the disk stays ahead of the
// loading thread without help.
constexpr int64_t kReadAhead = int64_t{1} << 30;

// A file's key in the cache. A file of the same path, size and time is assumed
// to have the same digest.
std::string CacheKey(const fs::path& path) {
  std::error_code error;
  const fs::path full = fs::canonical(path, error);
  // libc++'s file_time counts in 128 bits, which StrCat does not take.
  const auto time = static_cast<int64_t>(
      fs::last_write_time(path, error).time_since_epoch().count());
  return absl::StrCat(full.string(), "|", fs::file_size(path, error), "|",
                      time);
}

nlohmann::json ReadCache(const fs::path& cache) {
  auto text = base::ReadFile(cache);
  if (!text.ok()) return nlohmann::json::object();
  auto object = nlohmann::json::parse(*text, nullptr, false);
  return object.is_object() ? object : nlohmann::json::object();
}

bool IsWeightFile(const fs::path& path) {
  return path.extension() == ".safetensors";
}

bool IsModelFile(const fs::path& path) {
  const std::string name = path.filename().string();
  return name == "config.json" || name == "tokenizer.json" ||
         name == "tokenizer_config.json" || name == "chat_template.jinja" ||
         name == "preprocessor_config.json" || IsWeightFile(path);
}

// Asks the system to read the file's beginning into memory. A hint: failures do
// not matter.
void ReadAhead(const fs::path& path, int64_t bytes) {
  const absl::StatusOr<int> opened = base::OpenToRead(path);
  if (!opened.ok()) return;
  const int fd = *opened;
#ifdef __APPLE__
  radvisory advice{0, static_cast<int>(bytes)};
  fcntl(fd, F_RDADVISE, &advice);
#else
  posix_fadvise(fd, 0, bytes, POSIX_FADV_WILLNEED);
#endif
  close(fd);
}

void ReadWeightsAhead(const fs::path& folder) {
  int64_t left = kReadAhead;
  std::error_code error;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (IsWeightFile(entry.path())) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    const auto size = static_cast<int64_t>(fs::file_size(file, error));
    if (error || left <= 0) return;
    ReadAhead(file, std::min(size, left));
    left -= size;
  }
}

}  // namespace

absl::StatusOr<Digests> HashModel(const fs::path& model_folder,
                                  const fs::path& cache,
                                  const std::atomic<bool>& stop) {
  nlohmann::json known = ReadCache(cache);
  Digests digests;
  std::error_code error;
  bool changed = false;
  for (const auto& entry : fs::directory_iterator(model_folder, error)) {
    if (!IsModelFile(entry.path())) continue;
    const std::string name = entry.path().filename().string();
    const std::string key = CacheKey(entry.path());
    if (known.contains(key) && known[key].is_string()) {
      digests[name] = known[key].get<std::string>();
      continue;
    }
    ASSIGN_OR_RETURN(auto digest, base::Sha256File(entry.path(), &stop));
    digests[name] = digest;
    known[key] = digest;
    changed = true;
  }
  if (error) return base::ErrnoStatus(error.value(), model_folder.string());
  // A cache that cannot be written costs the next run time, nothing else.
  if (changed) base::WriteFileAtomic(cache, known.dump()).IgnoreError();
  if (!changed) ReadWeightsAhead(model_folder);
  return digests;
}

ModelDigests::ModelDigests(fs::path model_folder, fs::path cache)
    : digests_(std::async(
          std::launch::async,
          [this, folder = std::move(model_folder), file = std::move(cache)] {
            return HashModel(folder, file, stop_);
          })) {}

// The member's destructor waits for the thread.
ModelDigests::~ModelDigests() { stop_ = true; }

bool ModelDigests::done() const {
  return digests_.wait_for(std::chrono::seconds(0)) ==
         std::future_status::ready;
}

absl::StatusOr<Digests> ModelDigests::Get() { return digests_.get(); }

namespace {

// Ordered: of several patterns that match a module PEFT uses the first.
using json = nlohmann::ordered_json;
// A document's values by name.
using Values = std::map<std::string, json>;

constexpr int kVersion = 1;

constexpr char kBatch[] =
    "training.per_device_train_batch_size * "
    "training.gradient_accumulation_steps";

constexpr char kTrainTokens[] = "tokens.train";
constexpr char kLabels[] = "labels";

constexpr std::string_view kSections[] = {
    "dataset", "classification", "augmentation", "quantization_config",
    "lora",    "preference",     "training"};

// Not compared by value. The first are compared by what they refer to: files by
// content, "device" as the one that was found, a batch by its product. The
// others may change.
constexpr std::string_view kUncompared[] = {
    "model",
    "dataset.train",
    "dataset.eval",
    "adapter",
    "training.per_device_train_batch_size",
    "training.gradient_accumulation_steps",
    "training.chat_template_path",
    "device",
    "name",
    "model_id",
    "dataset.predict",
    "dataset.max_predict_samples",
    "quantization_config.bnb_4bit_compute_dtype",  // follows from bf16
    "training.num_train_epochs",
    "training.max_steps",
    "training.per_device_eval_batch_size",
    "training.padding_free",
    "training.auto_find_batch_size",
    "training.gradient_checkpointing",
    "training.recompute_granularity",
    "training.eval_steps",
    "training.save_steps",
    "training.save_total_limit",
    "training.logging_steps",
    "training.load_best_model_at_end",
    "training.early_stopping_patience",
    "training.early_stopping_threshold",
    "training.sample_prompts",
    "training.sample_steps",
    "training.sample_max_new_tokens",
    "allow_cpu_fallback",
};

bool IsCompared(const std::string& path) {
  return std::find(std::begin(kUncompared), std::end(kUncompared), path) ==
         std::end(kUncompared);
}

// The fields of a spec by path, from the text that ToJson wrote.
Values FlatOf(const spec::TrainSpec& spec) {
  Values flat;
  const json document = json::parse(spec::ToJson(spec));
  for (const auto& [name, value] : document.items()) {
    if (std::find(std::begin(kSections), std::end(kSections), name) ==
        std::end(kSections)) {
      flat[name] = value;
      continue;
    }
    for (const auto& [field, inner] : value.items()) {
      flat[absl::StrCat(name, ".", field)] = inner;
    }
  }
  return flat;
}

int64_t Product(const Values& flat) {
  int64_t product = 1;
  for (const char* name : {"training.per_device_train_batch_size",
                           "training.gradient_accumulation_steps"}) {
    const auto value = flat.find(name);
    if (value != flat.end() && value->second.is_number_integer()) {
      product *= value->second.get<int64_t>();
    }
  }
  return product;
}

// A value as it is compared: "eval_loss", "loss" and none are one metric.
json Canonical(const std::string& name, const json& value) {
  if (name != "training.metric_for_best_model" || !value.is_string()) {
    return value;
  }
  std::string metric = value.get<std::string>();
  if (metric.starts_with("eval_")) metric = metric.substr(5);
  return metric == "loss" ? json() : json(metric);
}

// The fields of a spec that are compared. An absent dropout counts as 0, since
// both train alike.
Values Compared(const Values& flat) {
  Values values;
  for (const auto& [path, value] : flat) {
    if (IsCompared(path)) values[path] = value;
  }
  if (json& dropout = values["lora.lora_dropout"]; dropout.is_null()) {
    dropout = 0.0;
  }
  values[kBatch] = Product(flat);
  return values;
}

const Values& Defaults() {
  static const Values& values =
      *new Values(Compared(FlatOf(spec::TrainSpec())));
  return values;
}

json DefaultOf(const std::string& name) {
  const auto value = Defaults().find(name);
  return value == Defaults().end() ? json() : value->second;
}

void PutInputs(const RunInputs& inputs, Values& values) {
  for (const auto& [file, digest] : inputs.model) {
    values["model/" + file] = digest;
  }
  for (const auto& [file, digest] : inputs.adapter) {
    values["adapter/" + file] = digest;
  }
  values["data.train"] = inputs.train;
  if (!inputs.eval.empty()) values["data.eval"] = inputs.eval;
  if (!inputs.train_tokens.empty()) values[kTrainTokens] = inputs.train_tokens;
  if (!inputs.eval_tokens.empty()) values["tokens.eval"] = inputs.eval_tokens;
  if (!inputs.label_names.empty()) {
    values[kLabels] = {{"problem_type", inputs.problem_type},
                       {"names", inputs.label_names}};
  }
  values["device"] = inputs.device;
}

std::string Document(const Values& values) {
  json written = json::object();
  for (const auto& [name, value] : values) {
    if (value != DefaultOf(name)) written[name] = value;
  }
  return json{{"version", kVersion}, {"values", written}}.dump(
      -1, ' ', false, json::error_handler_t::replace);
}

struct Parsed {
  int64_t version = 0;
  Values values;
};

std::optional<Parsed> Parse(std::string_view text) {
  const json document = json::parse(text, nullptr, false);
  if (!document.is_object() || !document.contains("version") ||
      !document["version"].is_number_integer() ||
      !document.contains("values") || !document["values"].is_object()) {
    return std::nullopt;
  }
  Parsed parsed{document["version"].get<int64_t>(), {}};
  for (const auto& [name, value] : document["values"].items()) {
    parsed.values[name] = value;
  }
  return parsed;
}

bool IsDigest(const std::string& name) {
  return name.starts_with("model/") || name.starts_with("adapter/") ||
         name.starts_with("data.") || name.starts_with("tokens.");
}

// Whether the value identifies files of which tokens and labels are made.
bool MakesTokens(const std::string& name) {
  if (name.starts_with("data.")) return true;
  return name.starts_with("model/") && !name.ends_with(".safetensors") &&
         name != "model/config.json";
}

// Whether the value decides labels, and nothing else.
bool MakesLabels(const std::string& name) {
  return name == "classification.label_names" ||
         name == "classification.problem_type";
}

// "training.seed is 7, the checkpoint's is 42"
std::string Difference(const std::string& name, const json& saved,
                       const json& now) {
  if (name == kLabels) {
    return absl::StrCat(
        "the labels differ, if only in their order: set "
        "classification.label_names and problem_type to ",
        saved.dump());
  }
  const auto show = [&](const json& value) -> std::string {
    if (!IsDigest(name)) return value.dump();
    if (!value.is_string()) return "not there";
    return absl::StrCat("sha256 ", value.get<std::string>().substr(0, 12));
  };
  return absl::StrCat(name, " is ", show(now), ", the checkpoint's is ",
                      show(saved));
}

}  // namespace

std::string MakeFingerprint(const spec::TrainSpec& spec,
                            const RunInputs& inputs) {
  Values values = Compared(FlatOf(spec));
  PutInputs(inputs, values);
  return Document(values);
}

bool HasTokens(std::string_view fingerprint) {
  const std::optional<Parsed> parsed = Parse(fingerprint);
  return parsed && parsed->values.contains(kTrainTokens);
}

absl::Status CheckFingerprint(std::string_view saved, std::string_view now,
                              std::string_view labels) {
  std::optional<Parsed> there = Parse(saved);
  const std::optional<Parsed> here = Parse(now);
  if (!there || !here) {
    return absl::InvalidArgumentError("its fingerprint cannot be read");
  }
  if (there->version > kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("checkpoints of a newer mpsd (fingerprint version ",
                     there->version, ", here ", kVersion, ")"));
  }
  const json of_run = json::parse(labels, nullptr, false);
  if (of_run.is_object()) there->values.try_emplace(kLabels, of_run);
  std::set<std::string> names;
  for (const auto& [name, value] : there->values) names.insert(name);
  for (const auto& [name, value] : here->values) names.insert(name);
  const bool by_tokens = there->values.contains(kTrainTokens) &&
                         here->values.contains(kTrainTokens);
  const bool by_labels =
      there->values.contains(kLabels) && here->values.contains(kLabels);
  std::vector<std::string> differences;
  for (const std::string& name : names) {
    if (by_tokens ? MakesTokens(name) : name.starts_with("tokens.")) continue;
    if (by_labels ? MakesLabels(name) : name == kLabels) continue;
    const auto value_in = [&](const Values& values) {
      const auto value = values.find(name);
      return Canonical(name,
                       value == values.end() ? DefaultOf(name) : value->second);
    };
    const json before = value_in(there->values), after = value_in(here->values);
    if (before != after) {
      differences.push_back(Difference(name, before, after));
    }
  }
  if (differences.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "checkpoints of another job: ", absl::StrJoin(differences, "; ")));
}

}  // namespace mpsd::train
