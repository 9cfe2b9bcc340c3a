// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/inputs.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mpsd::jobs {
namespace fs = std::filesystem;
namespace {

std::string Normal(const std::string& path) {
  fs::path normal = fs::path(path).lexically_normal();
  if (!normal.has_filename() && normal.has_relative_path()) {
    normal = normal.parent_path();  // "folder/"
  }
  return normal.generic_string();
}

int LevelsUp(const fs::path& normal) {
  return static_cast<int>(std::count(normal.begin(), normal.end(), ".."));
}

bool IsBelow(const fs::path& path, const fs::path& folder) {
  const fs::path relative = path.lexically_relative(folder);
  return !relative.empty() && relative != "." && *relative.begin() != "..";
}

// `name`, longer by what makes it none of `taken`.
std::string Free(std::string name, const std::set<std::string>& taken) {
  while (taken.contains(name)) name += '_';
  return name;
}

absl::Status Invalid(const InputFile& input, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("input '", input.path, "' ", what));
}

}  // namespace

absl::StatusOr<Inputs> Inputs::Create(const std::vector<InputFile>& inputs,
                                      const std::string& job_id,
                                      JobFiles& files, BlobStore& blobs) {
  Inputs result(job_id, files, blobs);
  for (const InputFile& input : inputs) {
    absl::Status added = result.Add(input);
    if (!added.ok()) return added;
  }
  absl::Status arranged = result.Arrange();
  if (!arranged.ok()) return arranged;
  return result;
}

absl::Status Inputs::Add(const InputFile& input) {
  if (!IsSha256(input.sha256)) {
    return Invalid(input,
                   "must have 64 lower-case hexadecimal digits for its "
                   "sha256");
  }
  if (!blobs_->Has(input.sha256)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "input '", input.path, "' (", input.sha256,
        ") has not been uploaded: send it with ArtifactService.Upload"));
  }
  auto [known, added] = inputs_.emplace(
      Normal(input.path), Input{input.path, input.sha256, "", false});
  if (!added && (known->second.path == input.path ||
                 known->second.sha256 != input.sha256)) {
    return Invalid(input, "is given twice");
  }
  return absl::OkStatus();
}

absl::Status Inputs::Arrange() {
  std::set<std::string> names;
  for (const auto& [normal, input] : inputs_) {
    for (const fs::path& part : fs::path(normal)) names.insert(part.string());
    levels_up_ = std::max(levels_up_, LevelsUp(normal));
  }
  up_ = Free(up_, names);
  root_ = Free(root_, names);
  for (auto& [normal, input] : inputs_) {
    input.relative = PlaceOf(normal);
    if (input.relative.empty()) {
      return Invalid({input.path, ""}, "is the path of no file");
    }
    for (fs::path folder = fs::path(normal).parent_path();
         !folder.empty() && folder.has_relative_path();
         folder = folder.parent_path()) {
      if (inputs_.contains(folder.generic_string())) {
        return Invalid({input.path, ""}, "lies below another input");
      }
    }
  }
  return absl::OkStatus();
}

std::string Inputs::PlaceOf(const std::string& normal) const {
  const fs::path path(normal);
  fs::path place;
  if (path.is_absolute()) {
    place = fs::path(root_) / path.relative_path();
    return path.has_relative_path() ? place.generic_string() : "";
  }
  for (int i = LevelsUp(path); i < levels_up_; ++i) place /= up_;
  bool named = false;
  for (const fs::path& part : path) {
    if (part == ".." || part == ".") continue;
    place /= part;
    named = true;
  }
  return named ? place.generic_string() : "";
}

absl::StatusOr<std::string> Inputs::Resolve(const std::string& field,
                                            const std::string& path) {
  const std::string normal = Normal(path);
  if (auto input = inputs_.find(normal); input != inputs_.end()) {
    input->second.used = true;
    return files_->InputPath(*job_id_, input->second.relative);
  }
  bool folder = false;
  for (auto& [below, input] : inputs_) {
    if (!IsBelow(below, normal)) continue;
    input.used = true;
    folder = true;
  }
  if (!folder) return Local(field, path);
  const std::string place = PlaceOf(normal);
  if (!place.empty()) return files_->InputPath(*job_id_, place);
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": '", path,
                   "' has no name of its own; give the folder by its name"));
}

absl::StatusOr<std::string> Inputs::Local(const std::string& field,
                                          const std::string& path) const {
  if (!fs::path(path).is_absolute()) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ": '", path,
        "' is a relative path and was not uploaded; list it in inputs (mpsctl "
        "submit does), or give the absolute path of a file on the daemon's "
        "machine"));
  }
  if (files_->Exists(path)) return path;
  return absl::FailedPreconditionError(absl::StrCat(
      field, ": '", path, "' is neither uploaded nor on the daemon's machine"));
}

absl::Status Inputs::CheckAllUsed() const {
  for (const auto& [normal, input] : inputs_) {
    if (input.used) continue;
    return Invalid({input.path, ""},
                   "is not named by the spec: dataset.train, dataset.eval, "
                   "dataset.predict, training.chat_template_path, or a file "
                   "below a folder of theirs or below adapter, must spell it "
                   "the same way");
  }
  return absl::OkStatus();
}

std::vector<JobFiles::Link> Inputs::Links() const {
  std::vector<JobFiles::Link> links;
  for (const auto& [normal, input] : inputs_) {
    links.push_back({input.relative, blobs_->PathOf(input.sha256)});
  }
  return links;
}

}  // namespace mpsd::jobs
