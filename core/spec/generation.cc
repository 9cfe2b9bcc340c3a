// SPDX-License-Identifier: Apache-2.0
#include "core/spec/generation.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace mpsd::spec {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostInt = std::numeric_limits<int32_t>::max();
constexpr size_t kStopStrings = 64, kStopBytes = 256, kEosIds = 1024;

absl::Status Wrong(const char* field, const std::string& allowed,
                   const Json& given) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": must be ", allowed, ", is ",
                   base::Quotable(given.dump(-1, ' ', false,
                                             Json::error_handler_t::replace))));
}

// Reads one member after another; the first error is kept.
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}

  void Flag(const char* field, bool& value) {
    const Json* given = Find(field);
    if (given == nullptr) return;
    if (!given->is_boolean()) return Fail(field, "true or false");
    value = given->get<bool>();
  }
  void Whole(const char* field, int64_t least, int64_t most, int64_t& value) {
    const Json* given = Find(field);
    if (given == nullptr) return;
    if (!given->is_number_integer() || given->get<double>() < least ||
        given->get<double>() > most) {
      return Fail(field,
                  absl::StrCat("a whole number from ", least, " to ", most));
    }
    value = given->get<int64_t>();
  }
  // A number up to `most`, above `least` if `above`, else from it on.
  void Number(const char* field, bool above, double most, double& value) {
    const Json* given = Find(field);
    if (given == nullptr) return;
    const double number = given->is_number() ? given->get<double>() : -1;
    if (!(above ? number > 0 : number >= 0) || number > most) {
      return Fail(field, absl::StrCat("a number ", above ? "above 0" : "from 0",
                                      " to ", most));
    }
    value = number;
  }
  // A value or a list of them.
  template <typename T>
  void List(const char* field, const char* allowed, size_t most,
            const std::function<bool(const Json&)>& good,
            std::vector<T>& value) {
    const Json* given = Find(field);
    if (given == nullptr) return;
    const Json all = given->is_array() ? *given : Json::array({*given});
    std::vector<T> read;
    for (const Json& one : all) {
      if (!good(one) || read.size() == most) return Fail(field, allowed);
      read.push_back(one.get<T>());
    }
    value = std::move(read);
  }

  const absl::Status& status() const { return status_; }

 private:
  const Json* Find(const char* field) const {
    const auto found = json_.find(field);
    return !status_.ok() || found == json_.end() || found->is_null() ? nullptr
                                                                     : &*found;
  }
  void Fail(const char* field, const std::string& allowed) {
    status_ = Wrong(field, allowed, json_[field]);
  }

  const Json& json_;
  absl::Status status_;
};

}  // namespace

absl::Status TakeGenerationSettings(const Json& json,
                                    GenerationSettings& settings) {
  Reader reader(json);
  reader.Whole("max_new_tokens", 1, kMostNewTokens, settings.max_new_tokens);
  reader.Flag("do_sample", settings.do_sample);
  reader.Number("repetition_penalty", true, 100, settings.repetition_penalty);
  reader.Number("temperature", true, 100, settings.temperature);
  reader.Whole("top_k", 0, kMostInt, settings.top_k);
  reader.Number("top_p", false, 1, settings.top_p);
  reader.Number("min_p", false, 1, settings.min_p);
  reader.List<int64_t>(
      "eos_token_id", "token ids", kEosIds,
      [](const Json& id) {
        return id.is_number_integer() && id.get<int64_t>() >= 0;
      },
      settings.eos_token_id);
  reader.List<std::string>(
      "stop_strings", "up to 64 texts of up to 256 bytes", kStopStrings,
      [](const Json& text) {
        return text.is_string() &&
               !text.get_ref<const std::string&>().empty() &&
               text.get_ref<const std::string&>().size() <= kStopBytes;
      },
      settings.stop_strings);
  reader.Whole("seed", 0, kMostInt, settings.seed);
  return reader.status();
}

namespace {

// Members that mpsd does not have, and their value without effect.
const std::pair<const char*, Json> kWithoutEffect[] = {
    {"num_beams", 1},
    {"min_length", 0},
    {"min_new_tokens", 0},
    {"no_repeat_ngram_size", 0},
    {"typical_p", 1.0},
    {"epsilon_cutoff", 0.0},
    {"eta_cutoff", 0.0},
    {"top_h", nullptr},
    {"penalty_alpha", nullptr},
    {"guidance_scale", nullptr},
    {"sequence_bias", nullptr},
    {"bad_words_ids", nullptr},
    {"suppress_tokens", nullptr},
    {"begin_suppress_tokens", nullptr},
    {"forced_bos_token_id", nullptr},
    {"forced_eos_token_id", nullptr},
    {"exponential_decay_length_penalty", nullptr},
};

}  // namespace

absl::StatusOr<GenerationSettings> ReadGenerationSettings(
    const std::string& model_folder, std::vector<std::string>& ignored) {
  const std::filesystem::path folder(model_folder);
  std::error_code error;
  const bool own =
      std::filesystem::exists(folder / "generation_config.json", error);
  const auto path = folder / (own ? "generation_config.json" : "config.json");
  ASSIGN_OR_RETURN(const std::string text,
                   base::ReadSmallFile(path, limits::kModelFileBytes));
  Json json = base::ParseTree<Json>(text);
  const auto wrong = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), ": ", what));
  };
  if (!json.is_object()) return wrong("expected a JSON object");
  GenerationSettings settings;
  if (!own) {
    json = {{"eos_token_id", json.value("eos_token_id", Json())}};
  }
  const absl::Status taken = TakeGenerationSettings(json, settings);
  if (!taken.ok()) return wrong(std::string(taken.message()));
  for (const auto& [name, none] : kWithoutEffect) {
    const auto found = json.find(name);
    if (found != json.end() && !found->is_null() && *found != none) {
      ignored.push_back(name);
    }
  }
  return settings;
}

std::optional<Prompt> PromptOf(const nlohmann::ordered_json& json) {
  if (!json.is_object()) return std::nullopt;
  const auto text = json.find("prompt"), chat = json.find("messages");
  if ((text == json.end()) == (chat == json.end())) return std::nullopt;
  if (text != json.end()) {
    if (!text->is_string()) return std::nullopt;
    return Prompt{text->get<std::string>()};
  }
  if (!chat->is_array() || chat->empty()) return std::nullopt;
  for (const auto& message : *chat) {
    if (!message.is_object() || !message.contains("role")) return std::nullopt;
  }
  return Prompt{"", chat->dump()};
}

std::string ShownText(const Prompt& prompt) {
  const Json chat = base::ParseTree<Json>(prompt.messages);
  if (!chat.is_array() || chat.empty()) return prompt.text;
  const Json said = chat.back().value("content", Json());
  return said.is_string() ? said.get<std::string>() : said.dump();
}

absl::StatusOr<std::vector<Prompt>> ParsePrompts(std::string_view jsonl,
                                                 const std::string& origin) {
  std::vector<Prompt> prompts;
  size_t number = 0;
  while (!jsonl.empty()) {
    const size_t end = std::min(jsonl.find('\n'), jsonl.size());
    const std::string_view line = jsonl.substr(0, end);
    jsonl.remove_prefix(std::min(end + 1, jsonl.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    // Templates show the members of a message in their order.
    std::optional<Prompt> prompt =
        PromptOf(base::ParseTree<nlohmann::ordered_json>(line));
    const auto wrong = [&](const std::string& what) {
      return absl::InvalidArgumentError(
          absl::StrCat(origin, ":", number, ": ", what));
    };
    if (!prompt) {
      return wrong(absl::StrCat(
          "expected {\"prompt\": TEXT} or {\"messages\": [{\"role\": …, "
          "\"content\": …}]}, found ",
          base::Quotable(std::string(line))));
    }
    if (prompts.size() == kMostPrompts) {
      return wrong(absl::StrCat("there are more than ", kMostPrompts,
                                " prompts: split the file"));
    }
    prompts.push_back(*std::move(prompt));
  }
  if (prompts.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(origin, ": has no prompt"));
  }
  return prompts;
}

}  // namespace mpsd::spec
