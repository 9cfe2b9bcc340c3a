// SPDX-License-Identifier: Apache-2.0
#include "core/text/chat_template.h"

#include <map>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status_macros.h"
#include "core/text/handover.h"
#include "core/text/training_template.h"
#include "nlohmann/json.hpp"

namespace mpsd::text {
namespace {

using Sources = std::map<std::string, std::string>;

struct Compiled {
  mpsd_text_template* rust = nullptr;
  bool has_generation_blocks = false;
};

// If a model has several templates, TRL trains only with the default one.
Sources ForUse(Sources sources, TemplateUse use) {
  const auto stock = sources.find("default");
  if (use == TemplateUse::kAsIs || stock == sources.end()) return sources;
  auto training = TrainingTemplate(stock->second);
  return training ? Sources{{"default", *std::move(training)}} : sources;
}

absl::StatusOr<Compiled> Compile(const Sources& sources,
                                 std::string_view tokens_json,
                                 absl::string_view where) {
  std::string sources_json;
  try {
    sources_json = nlohmann::json(sources).dump();
  } catch (const nlohmann::json::exception&) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": the chat template is not UTF-8"));
  }
  Compiled compiled;
  ReceivedBytes error;
  const int code = mpsd_text_template_new(View(sources_json), View(tokens_json),
                                          &compiled.rust, error.out());
  RETURN_IF_ERROR(
      ToStatus(code, error, absl::StrCat(where, ": chat template")));
  compiled.has_generation_blocks =
      mpsd_text_template_has_generation(compiled.rust) != 0;
  return compiled;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::FromFolder(
    const std::string& dir, TemplateUse use, const TextOverrides& overrides) {
  ASSIGN_OR_RETURN(FolderText folder, ReadFolderText(dir, overrides));
  if (folder.chat_templates.empty()) {
    return absl::NotFoundError(
        absl::StrCat(dir,
                     ": no chat template; expected chat_template.jinja or "
                     "\"chat_template\" in tokenizer_config.json"));
  }
  const std::string& path = overrides.chat_template_path;
  ASSIGN_OR_RETURN(Compiled compiled,
                   Compile(ForUse(std::move(folder.chat_templates), use),
                           nlohmann::json(folder.special_tokens).dump(),
                           path.empty() ? dir : path));
  return absl::WrapUnique(
      new ChatTemplate(compiled.rust, compiled.has_generation_blocks));
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::FromSource(
    std::string source, const std::string& tokens_json, TemplateUse use) {
  ASSIGN_OR_RETURN(Compiled compiled,
                   Compile(ForUse({{"default", std::move(source)}}, use),
                           tokens_json, "given source"));
  return absl::WrapUnique(
      new ChatTemplate(compiled.rust, compiled.has_generation_blocks));
}

ChatTemplate::~ChatTemplate() { mpsd_text_template_free(rust_); }

absl::StatusOr<Rendered> ChatTemplate::Render(
    std::string_view messages_json, std::string_view tools_json,
    bool add_generation_prompt, std::string_view kwargs_json) const {
  ReceivedBytes text;
  ReceivedRanges generation;
  ReceivedBytes error;
  const int code = mpsd_text_template_render(
      rust_, View(messages_json), View(tools_json), View(kwargs_json),
      add_generation_prompt, text.out(), generation.out(), error.out());
  RETURN_IF_ERROR(ToStatus(code, error, "chat template"));
  Rendered rendered;
  rendered.text.assign(text->data, text->size);
  rendered.generation_spans.reserve(generation->size);
  for (size_t i = 0; i < generation->size; ++i) {
    rendered.generation_spans.emplace_back(generation->data[i].begin,
                                           generation->data[i].end);
  }
  return rendered;
}

}  // namespace mpsd::text
