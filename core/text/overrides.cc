// SPDX-License-Identifier: Apache-2.0
#include "core/text/overrides.h"

#include <functional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/file.h"
#include "core/base/json_depth.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace mpsd::text {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

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
