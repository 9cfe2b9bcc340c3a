// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <system_error>
#include <utility>

#include "core/base/file.h"
#include "core/base/read_roots.h"
#include "core/base/status_macros.h"
#include "core/base/strings.h"
#include "core/base/work_count.h"
#include "core/data/codec.h"
#include "core/data/list_builder.h"

namespace mpsd::image {
namespace {

namespace fs = std::filesystem;
using base::Cat;

bool Hidden(const fs::path& path) {
  return path.filename().string().starts_with(".");
}

absl::Status FolderError(const fs::path& folder, const std::error_code& error) {
  return absl::InvalidArgumentError(
      Cat(folder.string(), ": cannot be listed: ", error.message()));
}

// The contents of `folder` in the order of their names, without hidden ones.
absl::StatusOr<std::vector<fs::path>> Contents(const fs::path& folder) {
  // A link out of the folders that jobs may read would reveal the names there.
  RETURN_IF_ERROR(base::CheckMayRead(folder));
  std::error_code error;
  std::vector<fs::path> paths;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    if (!Hidden(it->path())) paths.push_back(it->path());
  }
  if (error) return FolderError(folder, error);
  std::sort(paths.begin(), paths.end());
  return paths;
}

// Every file in `folder` and below it.
absl::Status AppendFiles(const fs::path& folder, int depth,
                         std::vector<fs::path>& files) {
  constexpr int kMaxDepth = 32;  // a link may lead back up
  if (depth > kMaxDepth) {
    return absl::InvalidArgumentError(
        Cat(folder.string(), ": more than ", kMaxDepth, " folders deep"));
  }
  ASSIGN_OR_RETURN(auto paths, Contents(folder));
  for (const fs::path& path : paths) {
    std::error_code error;
    base::CountWork();
    if (!fs::is_directory(path, error)) {
      files.push_back(path);
    } else if (auto status = AppendFiles(path, depth + 1, files);
               !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

// A folder's name is a class name, even if it looks like a number or a list;
// only an integer may be an id.
data::LabelValue ClassName(const fs::path& folder) {
  const std::string name = folder.filename().string();
  data::LabelValue label = data::LabelFromText(name);
  if (label.kind == data::LabelValue::Kind::kInteger) return label;
  return {data::LabelValue::Kind::kWord, name};
}

bool IsImage(const fs::path& file) {
  auto mapped = base::MappedFile::Open(file);
  return mapped.ok() &&
         (IsPng((*mapped)->bytes()) || IsJpeg((*mapped)->bytes()));
}

struct FolderImages {
  std::vector<fs::path> loose;                  // images without a class
  std::vector<std::vector<fs::path>> by_class;  // in `names`' order
  std::vector<data::LabelValue> names;
};

absl::StatusOr<FolderImages> Find(const fs::path& folder,
                                  ListBuilder& builder) {
  ASSIGN_OR_RETURN(auto paths, Contents(folder));
  FolderImages found;
  for (const fs::path& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      if (IsImage(path)) found.loose.push_back(path);
      continue;
    }
    std::vector<fs::path> files;
    auto status = AppendFiles(path, 0, files);
    if (!status.ok()) return status;
    if (files.empty()) builder.Fault(path, "a class folder without images");
    found.by_class.push_back(std::move(files));
    found.names.push_back(ClassName(path));
  }
  return found;
}

// Keeps the first files of every class, `count` files in total. The classes'
// counts differ by at most one, unless a class has fewer files.
void KeepFirst(int64_t count, std::vector<std::vector<fs::path>>& by_class) {
  std::vector<size_t> kept(by_class.size());
  bool more = true;
  while (count > 0 && more) {
    more = false;
    for (size_t i = 0; i < kept.size() && count > 0; ++i) {
      if (kept[i] == by_class[i].size()) continue;
      ++kept[i];
      --count;
      more = true;
    }
  }
  for (size_t i = 0; i < kept.size(); ++i) by_class[i].resize(kept[i]);
}

}  // namespace

absl::Status ListFolder(const fs::path& folder, ListBuilder& builder) {
  ASSIGN_OR_RETURN(auto found, Find(folder, builder));
  const ListOptions& options = builder.options();
  if (options.labels_needed && !found.loose.empty()) {
    builder.Fault(
        found.loose[0].string(),
        Cat("an image outside the class folders of ", folder.string()));
  }
  if (options.max_samples) KeepFirst(*options.max_samples, found.by_class);
  const auto add = [&](const fs::path& file, data::LabelValue label) {
    if (builder.full()) return;
    builder.AddFile(file.string(), file,
                    file.lexically_relative(folder).generic_string(),
                    std::move(label));
  };
  for (const fs::path& file : found.loose) add(file, {});
  for (size_t i = 0; i < found.by_class.size(); ++i) {
    for (const fs::path& file : found.by_class[i]) add(file, found.names[i]);
  }
  if (!found.loose.empty() || !found.names.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat(folder.string(),
          ": no images; expected a folder with a folder for each class"));
}

}  // namespace mpsd::image
