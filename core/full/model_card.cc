// SPDX-License-Identifier: Apache-2.0
#include "core/full/model_card.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"

namespace mpsd::full {
namespace {

constexpr char kLoading[] = "\n## How to load it\n\n";
constexpr char kLibraryLine[] = "library_name: ",
               kTaskLine[] = "pipeline_tag: ";
// By CardLibrary.
constexpr const char* kLibraries[] = {"peft", "transformers", "gguf", "mlx"};
// By spec::Task.
struct TaskNames {
  const char *pipeline, *auto_class;
};
constexpr TaskNames kTasks[] = {
    {"text-generation", "AutoModelForCausalLM"},
    {"text-classification", "AutoModelForSequenceClassification"},
    {"image-classification", "AutoModelForImageClassification"}};

const char* NameOf(CardLibrary library) {
  return kLibraries[static_cast<size_t>(library)];
}

std::string LoadingText(CardLibrary library, const TaskNames& task,
                        int64_t labels) {
  if (library == CardLibrary::kGguf) {
    return "`ollama create NAME -f Modelfile`, or `llama-cli -m FILE.gguf`\n";
  }
  if (library == CardLibrary::kMlx) {
    return "`mlx_lm.generate --model BASE --adapter-path . --prompt TEXT`, "
           "where BASE is the model above\n";
  }
  const std::string loads = absl::StrCat(task.auto_class, ".from_pretrained(");
  std::string code = absl::StrCat("from transformers import ", task.auto_class,
                                  "\n\nfolder = \".\"  # of this file\n");
  if (library == CardLibrary::kPeft) {
    const std::string head =
        absl::StrCat(", num_labels=", labels, ", ignore_mismatched_sizes=True");
    code = absl::StrCat(
        "from peft import PeftConfig, PeftModel\n", code,
        "# The base model: its name on the hub, or the path of your copy.\n",
        "base = PeftConfig.from_pretrained(folder).base_model_name_or_path\n",
        "model = ", loads, "base", labels > 0 ? head : "", ")\n",
        "model = PeftModel.from_pretrained(model, folder)\n");
  } else {
    absl::StrAppend(&code, "model = ", loads, "folder)\n");
  }
  const bool generates = &task == kTasks;
  return absl::StrCat(
      "```python\n", code, "```\n",
      generates ? "\nWhere mpsd trained it: `mpsctl generate JOB --prompt "
                  "TEXT`.\n"
                : "");
}

// The value of the line of `card`'s metadata that begins with `name`, or "".
std::string Metadata(absl::string_view card, absl::string_view name) {
  if (!absl::ConsumePrefix(&card, "---\n")) return "";
  for (absl::string_view line : absl::StrSplit(card, '\n')) {
    if (line == "---") break;
    if (!absl::ConsumePrefix(&line, name)) continue;
    return std::string(absl::StripAsciiWhitespace(line));
  }
  return "";
}

// A JSON string is a double-quoted scalar of YAML.
std::string Line(const char* name, const std::string& text) {
  return absl::StrCat(
      name, ": ",
      nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/true,
                                nlohmann::json::error_handler_t::replace),
      "\n");
}

}  // namespace

std::string LicenseOf(const std::filesystem::path& folder) {
  const auto card =
      base::ReadSmallFile(folder / kModelCard, limits::kModelFileBytes);
  const std::string license = card.ok() ? Metadata(*card, "license:") : "";
  const bool word = std::all_of(license.begin(), license.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '-' || c == '.';
  });
  return word && license.size() <= 64 ? license : "";
}

std::string CardText(const ModelCard& card) {
  const TaskNames& task = kTasks[static_cast<size_t>(card.task)];
  const std::filesystem::path base(card.base);
  const bool hub = base.is_relative() && !card.base.starts_with('.');
  return absl::StrCat("---\n", hub ? Line("base_model", card.base) : "",
                      card.license.empty() ? "" : Line("license", card.license),
                      kLibraryLine, NameOf(card.library), "\n", kTaskLine,
                      task.pipeline, "\ntags:\n- mpsd\n- ", card.tag,
                      "\n---\n\n# ", hub ? card.base : base.filename().string(),
                      ", fine-tuned\n\n", card.body, kLoading,
                      LoadingText(card.library, task, card.labels));
}

absl::Status ConvertCard(const std::filesystem::path& from,
                         const std::filesystem::path& to, CardLibrary library) {
  auto card = base::ReadSmallFile(from / kModelCard, limits::kModelFileBytes);
  if (absl::IsNotFound(card.status())) return absl::OkStatus();
  if (!card.ok()) return card.status();
  const std::string before = Metadata(*card, kLibraryLine);
  const std::string pipeline = Metadata(*card, kTaskLine);
  const auto* const task =
      std::find_if(std::begin(kTasks), std::end(kTasks),
                   [&](const auto& one) { return pipeline == one.pipeline; });
  const size_t loading = card->rfind(kLoading);
  if (before.empty() || task == std::end(kTasks) || loading == card->npos) {
    return absl::OkStatus();
  }
  card->resize(loading);
  card->replace(card->find(kLibraryLine) + sizeof(kLibraryLine) - 1,
                before.size(), NameOf(library));
  return base::WriteFileAtomic(
      to / kModelCard,
      absl::StrCat(*card, kLoading, LoadingText(library, *task, 0)));
}

}  // namespace mpsd::full
