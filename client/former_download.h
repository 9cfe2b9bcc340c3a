// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_FORMER_DOWNLOAD_H_
#define MPSD_CLIENT_FORMER_DOWNLOAD_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Decides what `mpsctl download` may replace: a former download, and no other
// file of the user's.
namespace mpsd::client {

// The file in a downloaded folder that lists the other files. The name is
// hidden, so that the list is neither loaded nor uploaded with the files.
inline constexpr char kDownloadList[] = ".mpsctl-download.json";

struct DownloadedFile {
  std::string path;  // relative to the folder, normal
  int64_t size_bytes = 0;
  std::string sha256;
};

// FailedPrecondition for a place to which nothing is downloaded, whatever lies
// there: a symbolic link, the root, the home folder, the current folder, or a
// folder above one of them.
absl::Status CheckPlace(const std::filesystem::path& output);

// Writes the list of `files` into `folder`, durably.
absl::Status WriteDownloadList(const std::filesystem::path& folder,
                               const std::string& job_id,
                               const std::vector<DownloadedFile>& files);

// Everything below `folder`, relative to it, each before the folder it lies in,
// where it is a former download and no more: each file is in its list and as it
// was received (by size; up to 16 MiB by hash too). A folder without a list, of
// an older mpsctl, holds exactly the names of `fresh`; as long as those are not
// known (null), at least one that every download has. FailedPrecondition names
// what would be lost.
absl::StatusOr<std::vector<std::filesystem::path>> FormerDownload(
    const std::filesystem::path& folder,
    const std::vector<DownloadedFile>* fresh);

// FailedPrecondition unless `file` has the content of a predictions.tsv or
// .jsonl, whatever its name.
absl::Status CheckFormerPredictions(const std::filesystem::path& file);

// Removes `entries` (from FormerDownload) and then `folder`. False where
// another file has appeared meanwhile; that file and `folder` stay.
bool RemoveFormer(const std::filesystem::path& folder,
                  const std::vector<std::filesystem::path>& entries);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_FORMER_DOWNLOAD_H_
