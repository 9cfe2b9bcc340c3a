// SPDX-License-Identifier: Apache-2.0
#include "client/model_files.h"

#include <algorithm>
#include <set>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/spec/model_files.h"

namespace mpsd::client {
namespace fs = std::filesystem;
namespace {

// The only folder within a model's.
constexpr char kTemplates[] = "additional_chat_templates";

absl::StatusOr<std::set<std::string>> NamesIn(const fs::path& folder) {
  std::set<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    names.insert(entry->path().filename().string());
  }
  if (error) return base::ErrnoStatus(error.value(), folder.string());
  return names;
}

bool IsWeights(const std::string& name) {
  return absl::EndsWith(name, ".safetensors") ||
         absl::EndsWith(name, ".safetensors.index.json");
}

}  // namespace

absl::StatusOr<LocalModel> ReadLocalModel(const fs::path& folder) {
  absl::StatusOr<std::set<std::string>> names = NamesIn(folder);
  if (!names.ok()) return names.status();
  const absl::StatusOr<spec::ModelFolder> read = spec::ReadModelFolder(folder);
  if (!read.ok()) {
    return absl::Status(
        read.status().code(),
        absl::StrCat(folder.string(), ": ", read.status().message()));
  }
  if (names->contains(kTemplates)) {
    absl::StatusOr<std::set<std::string>> templates =
        NamesIn(folder / kTemplates);
    if (!templates.ok()) return templates.status();
    names->erase(kTemplates);
    for (const std::string& name : *templates) {
      names->insert(absl::StrCat(kTemplates, "/", name));
    }
  }
  // The index is of use with the files that it names alone.
  const bool sharded =
      read->weights.size() > 1 || !read->weights.contains("model.safetensors");
  LocalModel model;
  for (const std::string& name : *names) {
    const bool is_index = absl::EndsWith(name, ".index.json");
    const bool wanted = spec::IsModelFile(name) &&
                        (!IsWeights(name) ||
                         (is_index ? sharded : read->weights.contains(name)));
    std::error_code error;
    if (!wanted || !fs::is_regular_file(folder / name, error)) {
      model.left_out.push_back(name);
      continue;
    }
    LocalFile file;
    file.path = name;
    file.local = folder / name;
    model.files.push_back(std::move(file));
  }
  return model;
}

}  // namespace mpsd::client
