// SPDX-License-Identifier: Apache-2.0
#include "client/former_download.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/text/format.h"
#include "core/base/file.h"
#include "core/base/json_depth.h"
#include "core/base/sha256.h"

namespace mpsd::client {
namespace fs = std::filesystem;
namespace {

using Files = std::map<std::string, DownloadedFile>;  // by path

constexpr int64_t kMostHashed = 16 << 20;
constexpr size_t kMostNamed = 10;
constexpr size_t kLongestRow = 1 << 20;
// Each kind of download has one of these files.
constexpr const char* kSigns[] = {"adapter_config.json", "config.json",
                                  "predictions.jsonl", "predictions.tsv",
                                  "confusion_matrix.json"};

absl::Status Refused(const fs::path& path, const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat(path.string(), " ", why));
}

// Whether `folder` is `path` or contains it, with links resolved.
bool Holds(const fs::path& folder, const fs::path& path) {
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(path, error);
  if (error || path.empty()) return false;
  const fs::path outer = fs::weakly_canonical(folder, error);
  if (error) return false;
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end())
             .first == outer.end();
}

// The list in the folder; nullopt where there is no list that can be read.
std::optional<Files> ReadList(const fs::path& folder) {
  std::error_code error;
  const fs::path path = folder / kDownloadList;
  if (!fs::is_regular_file(fs::symlink_status(path, error))) {
    return std::nullopt;
  }
  absl::StatusOr<std::string> text = base::ReadFile(path);
  if (!text.ok()) return std::nullopt;
  Files files;
  const auto list = base::ParseTree<nlohmann::json>(*text);
  try {
    for (const auto& entry : list.at("files")) {
      DownloadedFile file;
      entry.at("path").get_to(file.path);
      entry.at("size_bytes").get_to(file.size_bytes);
      entry.at("sha256").get_to(file.sha256);
      files[file.path] = file;
    }
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  return files;
}

bool AsReceived(const fs::path& path, const DownloadedFile& file) {
  std::error_code error;
  const auto size = static_cast<int64_t>(fs::file_size(path, error));
  if (error || size != file.size_bytes) return false;
  if (size > kMostHashed) return true;
  absl::StatusOr<std::string> hash = base::Sha256File(path);
  return hash.ok() && *hash == file.sha256;
}

absl::Status WouldBeLost(const fs::path& folder,
                         std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  std::string text;
  for (size_t i = 0; i < names.size() && i < kMostNamed; ++i) {
    absl::StrAppend(&text, "\n  ", Printable(names[i]));
  }
  if (names.size() > kMostNamed) {
    absl::StrAppend(&text, "\n  and ", names.size() - kMostNamed, " more");
  }
  return Refused(folder, absl::StrCat("is no former download alone; to replace "
                                      "it would lose:",
                                      text));
}

struct Entry {
  fs::path relative;
  bool is_folder = false;
  bool is_file = false;  // a regular file, no link
};

absl::StatusOr<std::vector<Entry>> EntriesBelow(const fs::path& folder) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end;
       !error && it != end; it.increment(error)) {
    const fs::file_status status = it->symlink_status(error);
    if (error) break;
    entries.push_back({it->path().lexically_relative(folder),
                       fs::is_directory(status), fs::is_regular_file(status)});
  }
  if (error) return base::ErrnoStatus(error.value(), folder.string());
  return entries;
}

// The folders that contain `files`.
std::set<std::string> FoldersOf(const std::set<std::string>& files) {
  std::set<std::string> folders;
  for (const std::string& file : files) {
    for (fs::path folder = fs::path(file).parent_path(); !folder.empty();
         folder = folder.parent_path()) {
      folders.insert(folder.generic_string());
    }
  }
  return folders;
}

std::string Shown(const Entry& entry) {
  return entry.relative.generic_string() + (entry.is_folder ? "/" : "");
}

// The `entries` that the list does not have, or has with another size or hash.
std::vector<std::string> NotListed(const fs::path& folder,
                                   const std::vector<Entry>& entries,
                                   const Files& list) {
  std::set<std::string> names;
  for (const auto& [name, file] : list) names.insert(name);
  const std::set<std::string> folders = FoldersOf(names);
  std::vector<std::string> foreign;
  for (const Entry& entry : entries) {
    const std::string name = entry.relative.generic_string();
    if (entry.is_folder ? folders.contains(name) : name == kDownloadList) {
      continue;
    }
    const auto listed = list.find(name);
    if (!entry.is_file || listed == list.end()) {
      foreign.push_back(Shown(entry));
    } else if (!AsReceived(folder / entry.relative, listed->second)) {
      foreign.push_back(absl::StrCat(name, " (changed since)"));
    }
  }
  return foreign;
}

// Whether one of `entries` is a file that every download of some kind has.
bool HasSign(const std::vector<Entry>& entries) {
  return std::any_of(entries.begin(), entries.end(), [](const Entry& entry) {
    return std::find(std::begin(kSigns), std::end(kSigns),
                     entry.relative.generic_string()) != std::end(kSigns);
  });
}

// The `entries` whose names are not in `fresh`; all of them where a name of
// `fresh` is missing.
std::vector<std::string> NotFresh(const std::vector<Entry>& entries,
                                  const std::vector<DownloadedFile>& fresh) {
  std::set<std::string> names;
  for (const DownloadedFile& file : fresh) names.insert(file.path);
  const std::set<std::string> folders = FoldersOf(names);
  std::vector<std::string> foreign, all;
  size_t known = 0;
  for (const Entry& entry : entries) {
    const std::string name = entry.relative.generic_string();
    all.push_back(Shown(entry));
    if (entry.is_folder ? folders.contains(name)
                        : entry.is_file && names.contains(name)) {
      known += entry.is_file;
    } else {
      foreign.push_back(Shown(entry));
    }
  }
  return known == names.size() ? foreign : all;
}

std::vector<std::string> Foreign(const fs::path& folder,
                                 const std::vector<Entry>& entries,
                                 const std::vector<DownloadedFile>* fresh) {
  const std::optional<Files> list = ReadList(folder);
  if (list) return NotListed(folder, entries, *list);
  if (fresh != nullptr) return NotFresh(entries, *fresh);
  if (HasSign(entries)) return {};
  return NotFresh(entries, {});
}

}  // namespace

absl::Status CheckPlace(const fs::path& output) {
  std::error_code error;
  if (!output.has_relative_path()) return Refused(output, "is the root folder");
  if (fs::is_symlink(fs::symlink_status(output, error))) {
    return Refused(output, "is a symbolic link");
  }
  const char* home = std::getenv("HOME");
  if (home != nullptr && Holds(output, home)) {
    return Refused(output, "is or holds your home folder");
  }
  if (Holds(output, fs::current_path(error))) {
    return Refused(output, "is or holds the folder that you are in");
  }
  return absl::OkStatus();
}

absl::Status WriteDownloadList(const fs::path& folder,
                               const std::string& job_id,
                               const std::vector<DownloadedFile>& files) {
  nlohmann::ordered_json list = {{"job_id", job_id},
                                 {"files", nlohmann::json::array()}};
  for (const DownloadedFile& file : files) {
    list["files"].push_back({{"path", file.path},
                             {"size_bytes", file.size_bytes},
                             {"sha256", file.sha256}});
  }
  return base::WriteFileAtomic(
      folder / kDownloadList,
      list.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) +
          "\n");
}

absl::StatusOr<std::vector<fs::path>> FormerDownload(
    const fs::path& folder, const std::vector<DownloadedFile>* fresh) {
  absl::StatusOr<std::vector<Entry>> entries = EntriesBelow(folder);
  if (!entries.ok()) return entries.status();
  std::vector<std::string> foreign = Foreign(folder, *entries, fresh);
  if (!foreign.empty()) return WouldBeLost(folder, std::move(foreign));
  std::vector<fs::path> paths;
  // In reverse: the iterator lists a folder before the entries of the folder.
  for (auto entry = entries->rbegin(); entry != entries->rend(); ++entry) {
    paths.push_back(entry->relative);
  }
  return paths;
}

absl::Status CheckFormerPredictions(const fs::path& file) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(file, error);
  if (!fs::is_regular_file(status)) {
    return Refused(file, "is no file of predictions");
  }
  std::string line(kLongestRow, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(in.gcount());
  line = line.substr(0, line.find('\n'));
  if (absl::StartsWith(line, "index\t")) return absl::OkStatus();
  const auto row = base::ParseTree<nlohmann::json>(line);
  if (row.is_object() && row.contains("index")) return absl::OkStatus();
  return Refused(file, "is no file of predictions, and would be lost");
}

bool RemoveFormer(const fs::path& folder,
                  const std::vector<fs::path>& entries) {
  std::error_code error;
  // Without recursion: a folder that has gained another file stays.
  for (const fs::path& entry : entries) fs::remove(folder / entry, error);
  return fs::remove(folder, error) && !error;
}

}  // namespace mpsd::client
