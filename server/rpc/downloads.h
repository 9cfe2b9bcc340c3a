// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/descriptor.h"
#include "core/base/sha256.h"
#include "mpsd/v1/artifacts.pb.h"
#include "server/jobs/job_reader.h"
#include "server/planner/plan_maker.h"
#include "server/rpc/streams.h"

namespace mpsd::rpc {

// ArtifactService.Download: sends the requested regular files, sorted by name,
// each as a header with the SHA-256 and then its bytes in chunks of 1 MiB.
// Reads only folders inside the job's own and follows no symbolic link. A file
// that disappears or changes meanwhile ends the stream with ABORTED.
// `planner` makes the merged model for `user`, and must outlive the source;
// `wake` is the stream's.
std::unique_ptr<Source<v1::DownloadResponse>> MakeDownloadSource(
    jobs::JobReader& reader, v1::DownloadRequest request,
    planner::Planner* planner = nullptr, std::string user = "",
    Wake wake = nullptr);

// An open regular file, read from its start to the size that it had when it was
// opened.
class FileReader {
 public:
  // Opens `path`, never through a symbolic link. Aborted if there is no such
  // file (any more).
  static absl::StatusOr<std::unique_ptr<FileReader>> Open(
      const std::filesystem::path& path);
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  int64_t size_bytes() const { return size_bytes_; }
  int64_t left_bytes() const { return size_bytes_ - offset_; }

  // Hashes the next bytes, at most `max`, without moving the reader. Returns
  // true once the whole file is hashed; then sha256() is valid.
  absl::StatusOr<bool> HashNext(int64_t max);
  const std::string& sha256() const { return sha256_; }
  // The next min(max, left_bytes()) bytes. Aborted if the file became shorter.
  absl::StatusOr<std::string> Read(size_t max);

 private:
  FileReader(std::filesystem::path path, base::UniqueFd fd, int64_t size_bytes)
      : path_(std::move(path)), fd_(std::move(fd)), size_bytes_(size_bytes) {}
  absl::StatusOr<std::string> ReadAt(int64_t offset, size_t max) const;

  const std::filesystem::path path_;
  const base::UniqueFd fd_;
  const int64_t size_bytes_;
  int64_t offset_ = 0;
  base::Sha256 hash_;
  int64_t hashed_ = 0;
  std::string sha256_;
};

// The regular files below `folder`, relative to it, sorted, without links.
// Aborted if there is no such folder (any more).
absl::StatusOr<std::vector<std::filesystem::path>> FilesBelow(
    const std::filesystem::path& folder);

// Whether `path`, with links resolved, lies in `folder`.
bool IsInside(const std::filesystem::path& path,
              const std::filesystem::path& folder);

}  // namespace mpsd::rpc
