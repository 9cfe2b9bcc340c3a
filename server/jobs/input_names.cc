// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/input_names.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/json_depth.h"
#include "core/base/small_file.h"

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

}  // namespace mpsd::jobs
