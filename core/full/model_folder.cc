// SPDX-License-Identifier: Apache-2.0
#include "core/full/model_folder.h"

#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace mpsd::full {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// The folder with the files of a Hugging Face snapshot: models--…/blobs.
bool IsBlobFolder(const fs::path& folder) {
  return folder.filename() == "blobs" &&
         folder.parent_path().filename().string().starts_with("models--");
}

// Others may see a result, so it copies only the model's own files: a link that
// leads out of the model's folder to anything but such a blob is an error.
absl::StatusOr<base::ReadRoots> OwnRoots(const fs::path& folder,
                                         const fs::path& name) {
  const fs::path path = folder / name;
  std::vector<fs::path> own = {folder};
  std::error_code error;
  const fs::path blobs = fs::canonical(path, error).parent_path();
  if (!error && IsBlobFolder(blobs)) own.push_back(blobs);
  base::ReadRoots roots(own);
  if (error || roots.Contain(path)) return roots;
  return absl::FailedPreconditionError(
      absl::StrCat(path.string(),
                   ": a link that leads out of the model's folder; it would "
                   "be copied into the result: put the file itself there"));
}

absl::StatusOr<std::string> ReadOwn(const fs::path& folder,
                                    const fs::path& name) {
  ASSIGN_OR_RETURN(const auto roots, OwnRoots(folder, name));
  return base::ReadFile(folder / name, roots);
}

// Transformers' name of the model type in the names of its classes.
std::string ClassPrefix(const std::string& model_type) {
  constexpr std::pair<std::string_view, std::string_view> kPrefixes[] = {
      {"bert", "Bert"},
      {"roberta", "Roberta"},
      {"distilbert", "DistilBert"},
      {"xlm-roberta", "XLMRoberta"},
      {"camembert", "Camembert"},
      {"electra", "Electra"},
      {"vit", "ViT"},
      {"mistral", "Mistral"},
      {"qwen2", "Qwen2"},
      {"qwen3", "Qwen3"},
      {"smollm3", "SmolLM3"},
      {"granite", "Granite"},
      {"phi3", "Phi3"},
      {"gemma2", "Gemma2"},
      {"gemma3_text", "Gemma3"},
      {"olmo2", "Olmo2"},
      {"olmo3", "Olmo3"}};
  for (const auto& [type, prefix] : kPrefixes) {
    if (type == model_type) return std::string(prefix);
  }
  return "Llama";
}

void PutLabels(const ResultConfig& result, Json& json) {
  json.erase("num_labels");
  if (result.task == spec::Task::kCausalLm) return;
  Json names = Json::object(), ids = Json::object();
  for (size_t i = 0; i < result.label_names.size(); ++i) {
    names[std::to_string(i)] = result.label_names[i];
    ids[result.label_names[i]] = i;
  }
  json["id2label"] = names;
  json["label2id"] = ids;
  json["problem_type"] = result.problem_type;
  // A head on the last token finds that token by the padding after it.
  if (result.config.pad_token_id) {
    json["pad_token_id"] = *result.config.pad_token_id;
  }
}

}  // namespace

std::string Architecture(const spec::ModelConfig& config, spec::Task task) {
  const char* suffix = "ForCausalLM";
  if (task == spec::Task::kSeqCls) suffix = "ForSequenceClassification";
  if (task == spec::Task::kImageCls) suffix = "ForImageClassification";
  std::string prefix = ClassPrefix(config.model_type);
  if (prefix == "Gemma3" && task == spec::Task::kSeqCls) prefix += "Text";
  return prefix + suffix;
}

absl::Status WriteConfig(const fs::path& from, const fs::path& to,
                         const ResultConfig& result) {
  ASSIGN_OR_RETURN(auto text, ReadOwn(from, "config.json"));
  Json json = base::ParseTree<Json>(text);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(
        (from / "config.json").string(), ": expected a JSON object"));
  }
  json["architectures"] = {Architecture(result.config, result.task)};
  const char* dtype = result.dtype == at::kBFloat16 ? "bfloat16"
                      : result.dtype == at::kHalf   ? "float16"
                                                    : "float32";
  json.erase("dtype");
  json["torch_dtype"] = dtype;  // read by Transformers 4 and 5
  // A file that has both with different values is not tied.
  if (result.config.family == spec::Family::kDecoder &&
      json.contains("tie_word_embeddings")) {
    json["tie_word_embeddings"] = result.config.tie_word_embeddings;
  }
  PutLabels(result, json);
  return base::WriteFileAtomic(to / "config.json", json.dump(2) + "\n");
}

namespace {

constexpr char kTemplates[] = "additional_chat_templates";
constexpr const char* kTextFiles[] = {"tokenizer.json",
                                      "tokenizer_config.json",
                                      "special_tokens_map.json",
                                      "added_tokens.json",
                                      "vocab.txt",
                                      "vocab.json",
                                      "merges.txt",
                                      "tokenizer.model",
                                      "chat_template.jinja"};
constexpr const char* kOtherFiles[] = {"generation_config.json",
                                       "preprocessor_config.json"};

absl::Status CopyOwn(const fs::path& from, const fs::path& to,
                     const fs::path& name) {
  ASSIGN_OR_RETURN(auto bytes, ReadOwn(from, name));
  return base::WriteFileAtomic(to / name, bytes);
}

// Copies the files that exist.
absl::Status CopyFiles(const fs::path& from, const fs::path& to,
                       absl::Span<const char* const> names) {
  for (const char* name : names) {
    std::error_code error;
    if (!fs::exists(from / name, error)) continue;
    RETURN_IF_ERROR(CopyOwn(from, to, name));
  }
  return absl::OkStatus();
}

// The named chat templates other than chat_template.jinja.
absl::Status CopyTemplates(const fs::path& from, const fs::path& to) {
  std::error_code error;
  for (fs::directory_iterator it(from / kTemplates, error), end;
       !error && it != end; it.increment(error)) {
    if (it->path().extension() != ".jinja") continue;
    std::error_code made;
    fs::create_directories(to / kTemplates, made);
    if (made) {
      return base::ErrnoStatus(made.value(), (to / kTemplates).string());
    }
    RETURN_IF_ERROR(
        CopyOwn(from, to, fs::path(kTemplates) / it->path().filename()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckCopied(const fs::path& from) {
  std::vector<fs::path> names = {"config.json"};
  names.insert(names.end(), std::begin(kTextFiles), std::end(kTextFiles));
  names.insert(names.end(), std::begin(kOtherFiles), std::end(kOtherFiles));
  std::error_code error;
  for (fs::directory_iterator it(from / kTemplates, error), end;
       !error && it != end; it.increment(error)) {
    names.push_back(fs::path(kTemplates) / it->path().filename());
  }
  for (const fs::path& name : names) {
    if (const auto own = OwnRoots(from, name); !own.ok()) return own.status();
  }
  return absl::OkStatus();
}

absl::Status CopyText(const fs::path& from, const fs::path& to) {
  RETURN_IF_ERROR(CopyFiles(from, to, kTextFiles));
  return CopyTemplates(from, to);
}

absl::Status CopyTokenizer(const fs::path& from, const fs::path& to) {
  RETURN_IF_ERROR(CopyText(from, to));
  return CopyFiles(from, to, kOtherFiles);
}

}  // namespace mpsd::full
