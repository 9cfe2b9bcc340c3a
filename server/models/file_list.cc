// SPDX-License-Identifier: Apache-2.0
#include "server/models/file_list.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "core/base/sha256.h"
#include "core/spec/model_files.h"
#include "server/jobs/blob_store.h"
#include "server/models/model_name.h"

namespace mpsd::models {
namespace {

absl::Status Wrong(const std::string& field, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what));
}

absl::Status CheckFile(const std::string& field, const ModelFile& file) {
  if (file.path.size() > limits::kPathBytes || !spec::IsModelFile(file.path)) {
    return Wrong(field + ".path",
                 absl::StrCat("'", base::Quotable(file.path),
                              "' is no file that a model consists of: send "
                              "config.json, model*.safetensors with its index, "
                              "and the tokenizer's files"));
  }
  if (!jobs::IsSha256(file.sha256)) {
    return Wrong(field + ".sha256", "must be 64 lower-case hexadecimal digits");
  }
  if (file.size_bytes < 0) {
    return Wrong(field + ".size_bytes",
                 absl::StrCat("must not be negative, is ", file.size_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFileList(const std::vector<ModelFile>& files) {
  if (files.size() > limits::kFilesOfModel) {
    return Wrong("files",
                 absl::StrCat("has ", files.size(), " entries, at most ",
                              limits::kFilesOfModel, " are allowed"));
  }
  std::map<std::string, const ModelFile*> by_folded;
  bool has_config = false;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string field = absl::StrCat("files[", i, "]");
    absl::Status checked = CheckFile(field, files[i]);
    if (!checked.ok()) return checked;
    const auto [other, added] =
        by_folded.emplace(FoldedName(files[i].path), &files[i]);
    if (!added) {
      return Wrong(
          field + ".path",
          absl::StrCat("'", files[i].path, "' and '", other->second->path,
                       "' are one name where case does not count: send one"));
    }
    has_config = has_config || files[i].path == "config.json";
  }
  if (has_config) return absl::OkStatus();
  return Wrong("files",
               "config.json is not among them: push a folder in Hugging Face "
               "layout");
}

std::string RevisionOfFiles(std::vector<ModelFile> files) {
  std::sort(
      files.begin(), files.end(),
      [](const ModelFile& a, const ModelFile& b) { return a.path < b.path; });
  std::string list;
  for (const ModelFile& file : files) {
    absl::StrAppend(&list, file.sha256, "  ", file.path, "\n");
  }
  return base::Sha256Hex(list);
}

}  // namespace mpsd::models
