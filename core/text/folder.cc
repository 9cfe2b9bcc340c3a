// SPDX-License-Identifier: Apache-2.0
#include "core/text/folder.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "nlohmann/json.hpp"

namespace mpsd::text {
namespace fs = std::filesystem;

namespace {

using Json = nlohmann::ordered_json;

// PreTrainedTokenizerBase.SPECIAL_TOKENS_ATTRIBUTES.
constexpr std::array<absl::string_view, 7> kStandardTokens = {
    "bos_token", "eos_token", "unk_token", "sep_token",
    "pad_token", "cls_token", "mask_token"};

bool IsStandard(absl::string_view name) {
  return std::find(kStandardTokens.begin(), kStandardTokens.end(), name) !=
         kStandardTokens.end();
}

absl::Status Invalid(const fs::path& file, absl::string_view fault) {
  return absl::InvalidArgumentError(absl::StrCat(file.string(), ": ", fault));
}

// The object in the file; an empty object for a missing file.
absl::StatusOr<Json> ReadObject(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return Json::object();
  ASSIGN_OR_RETURN(std::string bytes, base::ReadFile(file));
  if (base::NestsTooDeep(bytes)) return Invalid(file, "nested too deep");
  try {
    Json json = Json::parse(bytes);
    if (!json.is_object()) return Invalid(file, "a JSON object expected");
    return json;
  } catch (const Json::exception& e) {
    return Invalid(file, e.what());
  }
}

// A token is written as a string or as an object with "content".
std::optional<std::string> Content(const Json& token) {
  if (token.is_string()) return token.get<std::string>();
  if (token.is_object() && token.contains("content") &&
      token["content"].is_string()) {
    return token["content"].get<std::string>();
  }
  return std::nullopt;
}

// The token in tokenizer.json's form, without the id. `special` is the default
// of the field "special"; special tokens are not normalized by default.
Json AddedToken(const Json& token, bool special) {
  const bool is_object = token.is_object();
  const auto flag = [&](const char* name, bool fallback) {
    if (!is_object || !token.contains(name)) return fallback;
    return token[name].get<bool>();
  };
  special = flag("special", special);
  return {{"content", Content(token).value_or("")},
          {"single_word", flag("single_word", false)},
          {"lstrip", flag("lstrip", false)},
          {"rstrip", flag("rstrip", false)},
          {"normalized", flag("normalized", !special)},
          {"special", special}};
}

// The classes of Transformers that build their tokenizer anew, with the
// vocabulary, the merges and, unless they have one, the post-processor of
// tokenizer.json: what they set for the crate (ClassParts), and the tokens that
// they have unless the files name others or null. $-words stand for what
// tokenizer_config.json says.
constexpr char kClasses[] = R"({
"LlamaTokenizer": {
  "tokens": {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"},
  "model": {"type": "BPE", "byte_fallback": true},
  "pre_tokenizer": {"type": "Metaspace", "replacement": "▁",
                    "prepend_scheme": "$LLAMA", "split": false}},
"CodeLlamaTokenizer": {
  "single_texts": true,
  "tokens": {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>",
             "prefix_token": "▁<PRE>", "middle_token": "▁<MID>",
             "suffix_token": "▁<SUF>", "eot_token": "▁<EOT>",
             "fill_token": "<FILL_ME>"},
  "model": {"type": "BPE", "byte_fallback": true, "unk_token": "unk_token"},
  "pre_tokenizer": {"type": "Metaspace", "replacement": "▁",
                    "prepend_scheme": "$FIRST", "split": false},
  "post_processor": {"bos": "bos_token"}},
"GemmaTokenizer": {
  "tokens": {"unk_token": "<unk>", "bos_token": "<bos>", "eos_token": "<eos>",
             "pad_token": "<pad>", "mask_token": "<mask>"},
  "model": {"type": "BPE", "byte_fallback": true, "unk_token": "unk_token"},
  "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
  "pre_tokenizer": {"type": "Split", "pattern": {"String": " "},
                    "behavior": "MergedWithPrevious", "invert": false}},
"GPT2Tokenizer": {
  "tokens": {"unk_token": "<|endoftext|>", "bos_token": "<|endoftext|>",
             "eos_token": "<|endoftext|>"},
  "model": {"type": "BPE"},
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": $PREFIX,
                    "trim_offsets": true, "use_regex": true}},
"GPTNeoXTokenizer": {
  "tokens": {"unk_token": "<|endoftext|>", "bos_token": "<|endoftext|>",
             "eos_token": "<|endoftext|>", "pad_token": "<|padding|>"},
  "model": {"type": "BPE"},
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": $PREFIX,
                    "trim_offsets": true, "use_regex": true},
  "post_processor": {"type": "TemplateProcessing", "special_tokens": {},
                     "single": [{"Sequence": {"id": "A", "type_id": 0}}],
                     "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                              {"Sequence": {"id": "B", "type_id": 1}}]}},
"Qwen2Tokenizer": {
  "tokens": {"unk_token": "<|endoftext|>", "eos_token": "<|endoftext|>",
             "pad_token": "<|endoftext|>"},
  "model": {"type": "BPE"},
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "behavior": "Isolated", "invert": false,
     "pattern": {"Regex": "$QWEN2"}},
    {"type": "ByteLevel", "add_prefix_space": $PREFIX, "trim_offsets": true,
     "use_regex": false}]}},
"RobertaTokenizer": {
  "tokens": {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>",
             "sep_token": "</s>", "cls_token": "<s>", "pad_token": "<pad>",
             "mask_token": "<mask>"},
  "model": {"type": "BPE"},
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": $PREFIX,
                    "trim_offsets": true, "use_regex": true},
  "post_processor": {"type": "RobertaProcessing", "trim_offsets": $TRIM,
                     "add_prefix_space": $PREFIX,
                     "cls": "cls_token", "sep": "sep_token"}},
"XLMRobertaTokenizer": {
  "tokens": {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>",
             "sep_token": "</s>", "cls_token": "<s>", "pad_token": "<pad>",
             "mask_token": "<mask>"},
  "model": {"type": "Unigram"},
  "normalizer": "Precompiled",
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "WhitespaceSplit"},
    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "$ALWAYS",
     "split": true}]},
  "post_processor": {"type": "RobertaProcessing", "trim_offsets": false,
                     "add_prefix_space": false,
                     "cls": "bos_token", "sep": "eos_token"}},
"BertTokenizer": {
  "tokens": {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]",
             "cls_token": "[CLS]", "mask_token": "[MASK]"},
  "model": {"type": "WordPiece", "unk_token": "unk_token"},
  "normalizer": {"type": "BertNormalizer", "clean_text": true,
                 "handle_chinese_chars": $CHINESE, "strip_accents": $ACCENTS,
                 "lowercase": $LOWER},
  "pre_tokenizer": {"type": "BertPreTokenizer"},
  "post_processor": {"type": "BertProcessing",
                     "cls": "cls_token", "sep": "sep_token"}}
})";
// As part of a JSON string.
constexpr char kQwen2Words[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|)"
    R"( ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)";

// What a class sets with these settings; null for an unknown class.
Json FindClass(std::string name, const Json& config) {
  const auto flag = [&](const char* field, bool fallback) {
    const Json value = config.value(field, Json());
    return value.is_null() ? fallback : value.get<bool>();
  };
  const auto word = [](bool value) { return value ? "true" : "false"; };
  for (const char* bert :
       {"DistilBert", "Electra", "MobileBert", "SqueezeBert", "LayoutLM"}) {
    if (name == absl::StrCat(bert, "Tokenizer")) name = "BertTokenizer";
  }
  if (name == "BartTokenizer" || name == "LongformerTokenizer") {
    name = "RobertaTokenizer";
  }
  const bool prefix = flag("add_prefix_space", true);
  const bool always = config.value("add_prefix_space", Json(true)) == true;
  return Json::parse(
             absl::StrReplaceAll(
                 kClasses,
                 {{"$QWEN2", kQwen2Words},
                  {"$LLAMA", !prefix                 ? "never"
                             : flag("legacy", false) ? "always"
                                                     : "first"},
                  {"$FIRST", prefix ? "first" : "never"},
                  {"$ALWAYS", always ? "always" : "never"},
                  {"$PREFIX", word(flag("add_prefix_space", false))},
                  {"$TRIM", word(flag("trim_offsets", true))},
                  {"$CHINESE", word(flag("tokenize_chinese_chars", true))},
                  {"$ACCENTS", config.value("strip_accents", Json()).dump()},
                  {"$LOWER", word(flag("do_lower_case", true))}}))
      .value(name, Json());
}

class Reader {
 public:
  explicit Reader(const std::string& dir) : dir_(dir) {}

  absl::StatusOr<FolderText> Read();

 private:
  absl::Status ReadConfig();
  absl::StatusOr<std::string> ClassName() const;
  absl::Status CompleteClass();
  absl::Status MergeLegacyFiles();
  absl::Status CollectDeclared();
  absl::Status CollectSpecial();
  absl::Status CollectNamed(const std::string& name, const Json& token);
  absl::Status CollectExtra(const Json& tokens);
  absl::Status CollectTemplates();
  absl::StatusOr<bool> CollectTemplateFiles();
  absl::Status CollectConfigTemplates();
  void AddIfMissing(const Json& token);

  const fs::path dir_;
  fs::path config_file_;
  Json config_;
  Json class_;                      // null: tokenizer.json is used as it is
  Json declared_ = Json::object();  // tokens by id
  std::vector<Json> named_;
  std::set<std::string> known_;
  FolderText result_;
};

absl::Status Reader::ReadConfig() {
  config_file_ = dir_ / "tokenizer_config.json";
  ASSIGN_OR_RETURN(Json config, ReadObject(config_file_));
  config_ = std::move(config);
  const bool declares = config_.contains("added_tokens_decoder");
  if (!declares) RETURN_IF_ERROR(MergeLegacyFiles());
  ASSIGN_OR_RETURN(const std::string name, ClassName());
  if (name.empty()) return absl::OkStatus();
  class_ = FindClass(name, config_);
  if (!class_.is_null()) {
    class_["file_tokens"] = !declares;
    return absl::OkStatus();
  }
  result_.class_fault = absl::StrCat(
      config_file_.string(), ": tokenizer_class \"", name,
      "\": how it makes tokens is unknown here; expected the class of a Llama, "
      "Gemma, GPT-2, Qwen2, BERT, RoBERTa or XLM-RoBERTa; if tokenizer.json "
      "alone says it, write \"PreTrainedTokenizerFast\" instead");
  return absl::OkStatus();
}

// As AutoTokenizer.from_pretrained chooses it; "" for tokenizer.json as it is.
absl::StatusOr<std::string> Reader::ClassName() const {
  ASSIGN_OR_RETURN(const Json model, ReadObject(dir_ / "config.json"));
  const auto text = [](const Json& json, const char* name) {
    const Json value = json.value(name, Json());
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  const std::string type = text(model, "model_type");
  std::string name = text(config_, "tokenizer_class");
  if (name.empty()) name = text(model, "tokenizer_class");
  name = std::string(absl::StripSuffix(name, "Fast"));
  const Json code = config_.value("auto_map", Json());
  if (!code.is_array() && !code.contains("AutoTokenizer")) {
    for (const char* plain : {"mistral", "granite", "olmo2", "olmo3", "phi3"}) {
      if (type == plain) return "";
    }
    if (type == "qwen2") return "Qwen2Tokenizer";
    if (name == "LlamaTokenizer") {
      const auto file = base::ReadFile(dir_ / "tokenizer.json");
      // Llama 3's.
      if (file.ok() && absl::StrContains(*file, "\"ByteLevel\"")) return "";
    }
  }
  if (name == "TokenizersBackend" || name == "PreTrainedTokenizer" ||
      name == "BloomTokenizer") {
    return "";
  }
  if (!name.empty()) return name;
  if (type == "bert" || type == "distilbert" || type == "electra") {
    return "BertTokenizer";
  }
  if (type == "xlm-roberta" || type == "camembert") {
    return "XLMRobertaTokenizer";
  }
  if (type == "roberta") return "RobertaTokenizer";
  if (type.starts_with("gemma")) return "GemmaTokenizer";
  return type == "qwen2" || type == "qwen3" ? "Qwen2Tokenizer" : "";
}

// Puts the special tokens, which are known now, into the class.
absl::Status Reader::CompleteClass() {
  const auto put = [&](const char* part, const char* field) {
    if (!class_.contains(part) || !class_[part].contains(field)) return;
    Json& token = class_[part][field];
    const auto it = result_.special_tokens.find(token.get<std::string>());
    token = it == result_.special_tokens.end() ? Json() : Json(it->second);
  };
  put("model", "unk_token");
  put("post_processor", "bos");
  put("post_processor", "cls");
  put("post_processor", "sep");
  result_.single_texts = class_.contains("single_texts");
  result_.class_json = class_.dump();
  return absl::OkStatus();
}

absl::Status Reader::MergeLegacyFiles() {
  ASSIGN_OR_RETURN(Json special, ReadObject(dir_ / "special_tokens_map.json"));
  config_.update(special);
  const fs::path added_file = dir_ / "added_tokens.json";
  ASSIGN_OR_RETURN(Json added, ReadObject(added_file));
  Json decoder = Json::object();
  for (const auto& [content, id] : added.items()) {
    if (!id.is_number_unsigned()) {
      return Invalid(added_file,
                     absl::StrCat("\"", content, "\": an id expected"));
    }
    const bool is_special = std::any_of(special.begin(), special.end(),
                                        [&word = content](const Json& token) {
                                          return Content(token) == word;
                                        });
    decoder[absl::StrCat(id.get<uint64_t>())] = {{"content", content},
                                                 {"special", is_special},
                                                 {"normalized", !is_special}};
  }
  config_["added_tokens_decoder"] = std::move(decoder);
  return absl::OkStatus();
}

absl::Status Reader::CollectDeclared() {
  const Json& decoder = config_["added_tokens_decoder"];
  if (!decoder.is_object()) {
    return Invalid(config_file_, "added_tokens_decoder: an object expected");
  }
  for (const auto& [id, token] : decoder.items()) {
    uint64_t number = 0;
    if (!absl::SimpleAtoi(id, &number) || !Content(token).has_value()) {
      return Invalid(config_file_,
                     absl::StrCat("added_tokens_decoder.", id,
                                  ": an id and a token expected"));
    }
    known_.insert(*Content(token));
    declared_[absl::StrCat(number)] = AddedToken(token, false);
  }
  return absl::OkStatus();
}

void Reader::AddIfMissing(const Json& token) {
  Json added = AddedToken(token, true);
  if (known_.insert(added["content"].get<std::string>()).second) {
    named_.push_back(std::move(added));
  }
}

absl::Status Reader::CollectNamed(const std::string& name, const Json& token) {
  if (token.is_null()) return absl::OkStatus();
  const std::optional<std::string> content = Content(token);
  if (!content.has_value()) {
    return Invalid(config_file_, absl::StrCat(name, ": a token expected"));
  }
  result_.special_tokens[name] = *content;
  for (Json& declared : declared_) {
    if (class_.is_null() || Content(declared) != content) continue;
    declared["special"] = true;
  }
  AddIfMissing(token);
  return absl::OkStatus();
}

absl::Status Reader::CollectExtra(const Json& tokens) {
  if (tokens.is_object()) {
    for (const auto& [name, token] : tokens.items()) {
      RETURN_IF_ERROR(CollectNamed(name, token));
    }
    return absl::OkStatus();
  }
  if (!tokens.is_array()) return absl::OkStatus();
  for (const Json& token : tokens) {
    if (!Content(token).has_value()) {
      return Invalid(config_file_, "extra_special_tokens: a token expected");
    }
    AddIfMissing(token);
  }
  return absl::OkStatus();
}

absl::Status Reader::CollectSpecial() {
  if (!class_.is_null()) {
    Json tokens = class_["tokens"];
    tokens.update(config_);
    config_ = std::move(tokens);
  }
  for (absl::string_view name : kStandardTokens) {
    const auto it = config_.find(std::string(name));
    if (it == config_.end()) continue;
    RETURN_IF_ERROR(CollectNamed(std::string(name), *it));
  }
  for (const auto& [name, token] : config_.items()) {
    if (IsStandard(name) || !absl::EndsWith(name, "_token")) continue;
    // add_bos_token and similar flags have the same ending but are not tokens.
    if (!Content(token).has_value()) continue;
    RETURN_IF_ERROR(CollectNamed(name, token));
  }
  const Json& extra = config_.contains("extra_special_tokens")
                          ? config_["extra_special_tokens"]
                          : Json();
  const bool old_name = extra.empty();
  return CollectExtra(
      old_name ? config_.value("additional_special_tokens", Json()) : extra);
}

absl::StatusOr<bool> Reader::CollectTemplateFiles() {
  std::vector<std::pair<std::string, fs::path>> files;
  std::error_code error;
  const fs::path single = dir_ / "chat_template.jinja";
  if (fs::exists(single, error)) files.emplace_back("default", single);
  const fs::path more = dir_ / "additional_chat_templates";
  for (fs::directory_iterator it(more, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() != ".jinja") continue;
    files.emplace_back(it->path().stem().string(), it->path());
  }
  for (const auto& [name, file] : files) {
    ASSIGN_OR_RETURN(std::string source, base::ReadFile(file));
    result_.chat_templates[name] = std::move(source);
  }
  return !files.empty();
}

absl::Status Reader::CollectConfigTemplates() {
  const auto it = config_.find("chat_template");
  if (it == config_.end() || it->is_null()) return absl::OkStatus();
  if (it->is_string()) {
    result_.chat_templates["default"] = it->get<std::string>();
    return absl::OkStatus();
  }
  if (!it->is_array()) {
    return Invalid(config_file_,
                   "chat_template: a string or a list of {name, template} "
                   "expected");
  }
  for (size_t i = 0; i < it->size(); ++i) {
    const Json& entry = (*it)[i];
    if (!entry.is_object() || !entry.value("name", Json()).is_string() ||
        !entry.value("template", Json()).is_string()) {
      return Invalid(
          config_file_,
          absl::StrCat("chat_template[", i, "]: {name, template} expected"));
    }
    result_.chat_templates[entry["name"]] = entry["template"];
  }
  return absl::OkStatus();
}

absl::Status Reader::CollectTemplates() {
  ASSIGN_OR_RETURN(bool found, CollectTemplateFiles());
  return found ? absl::OkStatus() : CollectConfigTemplates();
}

absl::StatusOr<FolderText> Reader::Read() {
  using Step = absl::Status (Reader::*)();
  try {
    for (Step step : {&Reader::ReadConfig, &Reader::CollectDeclared,
                      &Reader::CollectSpecial, &Reader::CompleteClass,
                      &Reader::CollectTemplates}) {
      RETURN_IF_ERROR((this->*step)());
    }
    result_.split_special_tokens = config_.value("split_special_tokens", false);
    if (config_.contains("truncation_side")) {
      result_.truncate_left = config_["truncation_side"] == "left";
    }
    result_.added_tokens_json = Json::array({declared_, named_}).dump();
  } catch (const Json::exception& e) {
    return Invalid(config_file_, e.what());
  }
  return std::move(result_);
}

}  // namespace

absl::StatusOr<FolderText> ReadFolderText(const std::string& dir) {
  return Reader(dir).Read();
}

namespace {

constexpr char kTemplatePath[] = "training.chat_template_path";

absl::StatusOr<std::string> ReadTemplate(const fs::path& file) {
  if (file.extension() != ".jinja" && file.extension() != ".j2") {
    return absl::InvalidArgumentError(
        absl::StrCat(kTemplatePath, ": ", file.string(),
                     ": expected a .jinja or .j2 file, or a model folder"));
  }
  absl::StatusOr<std::string> source = base::ReadFile(file);
  if (source.ok()) return source;
  return absl::Status(
      source.status().code(),
      absl::StrCat(kTemplatePath, ": ", source.status().message()));
}

void Ask(const std::string& token, absl::string_view who, FolderText& text) {
  text.asked_tokens.emplace(token, who);
}

// The template and, with `end_too`, the end token of the folder `path`.
absl::Status TakeTemplate(const std::string& path, FolderText other,
                          bool end_too, FolderText& text) {
  const auto source = other.chat_templates.find("default");
  if (source == other.chat_templates.end()) {
    return absl::NotFoundError(
        absl::StrCat(kTemplatePath, ": ", path, " has no chat template"));
  }
  for (const auto& list : Json::parse(other.added_tokens_json)) {
    for (const Json& token : list) {
      const auto content = token["content"].get<std::string>();
      if (content.empty() || !absl::StrContains(source->second, content)) {
        continue;
      }
      Ask(content, absl::StrCat(kTemplatePath, " (", path, ")"), text);
    }
  }
  if (const auto end = other.special_tokens.find("eos_token");
      end_too && end != other.special_tokens.end()) {
    Ask(end->second, absl::StrCat(kTemplatePath, " (", path, ")"), text);
    text.special_tokens["eos_token"] = end->second;
  }
  text.chat_templates = {{"default", source->second}};
  return absl::OkStatus();
}

// Calls `change` on the file's object and writes the object back; a missing
// file is created if `create`, else left missing.
absl::Status ChangeObject(const fs::path& file, bool create,
                          const std::function<void(Json&)>& change) {
  std::error_code error;
  const bool exists = fs::exists(file, error);
  if (!create && !exists) return absl::OkStatus();
  Json json = Json::object();
  if (exists) {
    ASSIGN_OR_RETURN(std::string bytes, base::ReadFile(file));
    json = base::ParseTree<Json>(bytes);
    if (!json.is_object()) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.string(), ": expected a JSON object"));
    }
  }
  change(json);
  return base::WriteFileAtomic(file, json.dump(2) + "\n");
}

// `id` first, then the ids that end a generation in `before`.
Json WithEndToken(int32_t id, const Json& before) {
  if (before.is_number()) return WithEndToken(id, Json::array({before}));
  Json ids = Json::array({id});
  for (const Json& other : before) {
    if (other != id) ids.push_back(other);
  }
  return ids;
}

}  // namespace

absl::StatusOr<std::string> OverridesId(const std::string& dir,
                                        const TextOverrides& overrides) {
  if (overrides.empty()) return std::string();
  ASSIGN_OR_RETURN(FolderText text, ReadFolderText(dir, overrides));
  // Templates and tokens that are not overridden are hashed too; they come from
  // the model folder and are equal for an equal folder.
  return base::Sha256Hex(Json{text.chat_templates, text.special_tokens}.dump(
      -1, ' ', false, Json::error_handler_t::replace));
}

absl::Status WriteOverrides(const std::string& dir,
                            const TextOverrides& overrides,
                            std::optional<int32_t> eos_id,
                            const fs::path& folder) {
  if (overrides.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(FolderText text, ReadFolderText(dir, overrides));
  std::error_code error;
  const bool has_template = !overrides.chat_template_path.empty();
  if (has_template) {
    RETURN_IF_ERROR(base::WriteFileAtomic(folder / "chat_template.jinja",
                                          text.chat_templates["default"]));
    fs::remove_all(folder / "additional_chat_templates", error);
  }
  const bool has_end = !overrides.eos_token.empty() ||
                       fs::is_directory(overrides.chat_template_path, error);
  const auto put_token = [&](Json& json) {
    if (has_template) json.erase("chat_template");
    const auto end = text.special_tokens.find("eos_token");
    if (!has_end || end == text.special_tokens.end()) return;
    json["eos_token"] = end->second;
  };
  absl::Status s =
      ChangeObject(folder / "tokenizer_config.json", true, put_token);
  if (s.ok()) {
    s = ChangeObject(folder / "special_tokens_map.json", false, put_token);
  }
  if (!s.ok() || !has_end || !eos_id) return s;
  s = ChangeObject(folder / "config.json", false,
                   [&](Json& json) { json["eos_token_id"] = *eos_id; });
  if (!s.ok()) return s;
  return ChangeObject(
      folder / "generation_config.json", false, [&](Json& json) {
        json["eos_token_id"] =
            WithEndToken(*eos_id, json.value("eos_token_id", Json::array()));
      });
}

absl::StatusOr<FolderText> ReadFolderText(const std::string& dir,
                                          const TextOverrides& overrides) {
  absl::StatusOr<FolderText> text = ReadFolderText(dir);
  if (!text.ok()) return text;
  const std::string& path = overrides.chat_template_path;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    absl::StatusOr<FolderText> other = ReadFolderText(path);
    if (!other.ok()) return other;
    RETURN_IF_ERROR(TakeTemplate(path, *std::move(other),
                                 overrides.eos_token.empty(), *text));
  } else if (!path.empty()) {
    ASSIGN_OR_RETURN(auto source, ReadTemplate(path));
    text->chat_templates = {{"default", std::move(source)}};
  }
  if (!overrides.eos_token.empty()) {
    Ask(overrides.eos_token, "training.eos_token", *text);
    text->special_tokens["eos_token"] = overrides.eos_token;
  }
  return text;
}

}  // namespace mpsd::text
