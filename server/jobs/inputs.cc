// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/inputs.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"

namespace mpsd::jobs {

namespace {

using Json = nlohmann::json;

constexpr int kMostPaths = 16;
constexpr size_t kLargestFile = 256 << 20;

}  // namespace

std::string InputNames::Encode(const std::vector<JobFiles::Link>& links) {
  Json names = Json::object();
  bool other = false;
  for (const JobFiles::Link& link : links) {
    if (link.spelled.empty()) continue;
    other = other || link.spelled != link.relative;
    names[link.relative] = link.spelled;
  }
  return other ? names.dump(-1, ' ', false, Json::error_handler_t::replace)
               : "";
}

InputNames::InputNames(const std::filesystem::path& folder)
    : inputs_((folder / "inputs").string() + "/") {
  absl::StatusOr<std::string> text =
      base::ReadSmallFile(folder / kFile, kLargestFile);
  if (!text.ok()) return;
  const Json names = base::ParseTree<Json>(*text);
  if (!names.is_object()) return;
  for (const auto& [place, spelled] : names.items()) {
    if (!spelled.is_string()) continue;
    longest_ = std::max(longest_, place.size());
    names_[place] = spelled.get<std::string>();
  }
}

std::string InputNames::Respelled(std::string_view text) const {
  std::string respelled;
  for (int i = 0; i < kMostPaths; ++i) {
    const size_t at = text.find(inputs_);
    if (at == std::string_view::npos) break;
    respelled.append(text.substr(0, at));
    text.remove_prefix(at + inputs_.size());
    const auto [spelled, bytes] = Spelling(text);
    respelled.append(spelled);
    text.remove_prefix(bytes);
  }
  return respelled.append(text);
}

std::pair<std::string, size_t> InputNames::Spelling(
    std::string_view rest) const {
  for (size_t size = std::min(rest.size(), longest_); size > 0; --size) {
    const auto file = names_.find(rest.substr(0, size));
    if (file != names_.end()) return {file->second, size};
  }
  // A folder is spelled as a file in the folder, without the file's own part.
  const std::string_view folder =
      rest.substr(0, rest.find_first_of(":;,'\"() \t\n"));
  std::string inside(folder);
  if (!folder.ends_with("/")) inside += '/';
  const auto file = names_.lower_bound(inside);
  if (folder.empty() || file == names_.end() ||
      !file->first.starts_with(inside)) {
    return {"", 0};  // spelled like its place
  }
  const std::string_view own =
      std::string_view(file->first).substr(folder.size());
  if (!file->second.ends_with(own)) return {"", 0};
  return {file->second.substr(0, file->second.size() - own.size()),
          folder.size()};
}

namespace fs = std::filesystem;
namespace {

using PathParts = std::vector<std::string_view>;

// The parts between the slashes of a normal path; a leading slash makes no
// part.
PathParts PartsOf(std::string_view normal) {
  PathParts parts;
  while (!normal.empty()) {
    const size_t end = std::min(normal.find('/'), normal.size());
    if (end > 0) parts.push_back(normal.substr(0, end));
    normal.remove_prefix(std::min(end + 1, normal.size()));
  }
  return parts;
}

bool IsAbsolute(std::string_view path) { return path.starts_with('/'); }

// Like std::filesystem::path::lexically_normal, without a slash at the end.
std::string Normal(std::string_view path) {
  PathParts kept;
  for (const std::string_view part : PartsOf(path)) {
    if (part == ".") continue;
    if (part != ".." || (kept.empty() && !IsAbsolute(path)) ||
        (!kept.empty() && kept.back() == "..")) {
      kept.push_back(part);
    } else if (!kept.empty()) {
      kept.pop_back();
    }
  }
  std::string normal;
  for (const std::string_view part : kept) {
    if (!normal.empty() || IsAbsolute(path)) normal += '/';
    normal += part;
  }
  if (!normal.empty()) return normal;
  return IsAbsolute(path) ? "/" : ".";
}

int LevelsUp(std::string_view normal) {
  int levels = 0;
  for (; normal == ".." || normal.starts_with("../"); ++levels) {
    normal.remove_prefix(std::min<size_t>(3, normal.size()));
  }
  return levels;
}

bool IsBelow(std::string_view path, std::string_view folder) {
  return path.size() > folder.size() && path.starts_with(folder) &&
         path[folder.size()] == '/';
}

// Sorts a folder directly before the paths below it.
bool FolderFirst(std::string_view a, std::string_view b) {
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (x == a.end() || y == b.end()) return y != b.end();
  return *x != *y && (*x == '/' || (*y != '/' && *x < *y));
}

// Lengthens `name` until no part of an input's path has the name.
class FreeName {
 public:
  explicit FreeName(std::string name) : name_(std::move(name)) {}
  void Avoid(std::string_view part) {
    if (part.starts_with(name_) &&
        part.find_first_not_of('_', name_.size()) == std::string_view::npos) {
      taken_.insert(part.size());
    }
  }
  std::string Get() const {
    std::string name = name_;
    while (taken_.contains(name.size())) name += '_';
    return name;
  }

 private:
  const std::string name_;
  std::set<size_t> taken_;  // lengths of such parts
};

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
    RETURN_IF_ERROR(result.Add(input));
  }
  RETURN_IF_ERROR(result.Arrange());
  return result;
}

absl::Status Inputs::Add(const InputFile& input) {
  if (!IsSha256(input.sha256)) {
    return Invalid(input,
                   "must have 64 lower-case hexadecimal digits for its "
                   "sha256");
  }
  // Has also restarts the blob's grace period: Collect must not remove the blob
  // before the job's folder has a link to the file.
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
  FreeName up(up_), root(root_);
  std::vector<std::string_view> paths;
  for (const auto& [normal, input] : inputs_) {
    for (const std::string_view part : PartsOf(normal)) {
      up.Avoid(part);
      root.Avoid(part);
    }
    levels_up_ = std::max(levels_up_, LevelsUp(normal));
    paths.push_back(normal);
  }
  up_ = up.Get();
  root_ = root.Get();
  for (auto& [normal, input] : inputs_) {
    input.relative = PlaceOf(normal);
    if (input.relative.empty()) {
      return Invalid({input.path, ""}, "is the path of no file");
    }
  }
  std::sort(paths.begin(), paths.end(), FolderFirst);
  for (size_t i = 1; i < paths.size(); ++i) {
    if (!IsBelow(paths[i], paths[i - 1])) continue;
    return Invalid({inputs_.at(std::string(paths[i])).path, ""},
                   "lies below another input");
  }
  return absl::OkStatus();
}

std::string Inputs::PlaceOf(const std::string& normal) const {
  std::string place;
  const auto add = [&place](std::string_view part) {
    if (!place.empty()) place += '/';
    place += part;
  };
  if (IsAbsolute(normal)) {
    add(root_);
  } else {
    for (int i = LevelsUp(normal); i < levels_up_; ++i) add(up_);
  }
  bool named = false;
  for (const std::string_view part : PartsOf(normal)) {
    if (part == ".." || part == ".") continue;
    add(part);
    named = true;
  }
  return named ? place : "";
}

bool Inputs::UseBelow(const std::string& folder) {
  if (const auto [known, added] = folders_.try_emplace(folder, false); !added) {
    return known->second;
  }
  const bool here = folder == ".";
  const std::string prefix = here || folder == "/" ? "" : folder + "/";
  bool any = false;
  for (auto it = inputs_.lower_bound(prefix);
       it != inputs_.end() && it->first.starts_with(prefix); ++it) {
    if (prefix.empty() &&
        (IsAbsolute(it->first) == here || LevelsUp(it->first) > 0)) {
      continue;
    }
    it->second.used = any = true;
  }
  return folders_[folder] = any;
}

absl::StatusOr<std::string> Inputs::Resolve(const std::string& field,
                                            const std::string& path,
                                            JobFiles::Use use) {
  const std::string normal = Normal(path);
  if (auto input = inputs_.find(normal); input != inputs_.end()) {
    input->second.used = true;
    return files_->InputPath(*job_id_, input->second.relative);
  }
  if (!UseBelow(normal)) return Local(field, path, use);
  const std::string place = PlaceOf(normal);
  if (!place.empty()) return files_->InputPath(*job_id_, place);
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": '", path,
                   "' has no name of its own; give the folder by its name"));
}

absl::StatusOr<std::string> Inputs::Local(const std::string& field,
                                          const std::string& path,
                                          JobFiles::Use use) const {
  if (!fs::path(path).is_absolute()) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ": '", path,
        "' is a relative path and was not uploaded; list it in inputs (mpsctl "
        "submit does), or give the absolute path of a file on the daemon's "
        "machine"));
  }
  if (absl::Status s = files_->MayRead(path, use); !s.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(field, ": ", s.message()));
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
  links.reserve(inputs_.size());
  for (const auto& [normal, input] : inputs_) {
    links.push_back({input.relative, blobs_->PathOf(input.sha256), input.path});
  }
  return links;
}

}  // namespace mpsd::jobs
