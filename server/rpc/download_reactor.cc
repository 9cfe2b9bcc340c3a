// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/download_reactor.h"

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/rpc/check.h"
#include "server/rpc/file_reader.h"
#include "server/rpc/status.h"

namespace mpsd::rpc {
namespace fs = std::filesystem;
namespace {

absl::StatusOr<std::string> AdapterFolder(const jobs::Job& job) {
  if (!job.adapter_path.empty()) return job.adapter_path;
  return absl::FailedPreconditionError(absl::StrCat(
      "job ", job.id, " is ", std::string(jobs::Name(job.state)),
      " and has no final adapter; it comes with SUCCEEDED, a checkpoint can be "
      "had before"));
}

absl::StatusOr<std::string> CheckpointFolder(jobs::JobManager& manager,
                                             const std::string& id,
                                             int64_t step) {
  absl::StatusOr<std::vector<jobs::Checkpoint>> checkpoints =
      manager.Checkpoints(id);
  if (!checkpoints.ok()) return checkpoints.status();
  std::vector<int64_t> steps;
  for (const jobs::Checkpoint& checkpoint : *checkpoints) {
    if (checkpoint.step == step) return checkpoint.path;
    steps.push_back(checkpoint.step);
  }
  return absl::NotFoundError(absl::StrCat(
      "job ", id, " has no checkpoint of step ", step,
      "; there are: ", steps.empty() ? "none" : absl::StrJoin(steps, ", ")));
}

class DownloadSource : public Source<v1::DownloadResponse> {
 public:
  DownloadSource(jobs::JobManager& manager, v1::DownloadRequest request)
      : manager_(manager), request_(std::move(request)) {}

  absl::StatusOr<Pull> Next(v1::DownloadResponse& message) override {
    if (folder_.empty()) {
      absl::Status found = FindFiles();
      if (!found.ok()) return found;
    }
    if (reader_ != nullptr && reader_->left_bytes() > 0) {
      absl::StatusOr<std::string> bytes = reader_->Read(kMaxChunkBytes);
      if (!bytes.ok()) return bytes.status();
      message.set_data(*std::move(bytes));
      return Pull::kMessage;
    }
    if (next_ == files_.size()) return Pull::kEnd;
    absl::Status started = StartFile(files_[next_++], *message.mutable_file());
    if (!started.ok()) return started;
    return Pull::kMessage;
  }

 private:
  absl::StatusOr<std::string> WantedFolder() {
    const std::string& id = request_.job_id();
    absl::Status checked = CheckId("job_id", id);
    if (!checked.ok()) return checked;
    absl::StatusOr<jobs::Job> job = manager_.Get(id);
    if (!job.ok()) return job.status();
    if (request_.what_case() == v1::DownloadRequest::kCheckpointStep) {
      return CheckpointFolder(manager_, id, request_.checkpoint_step());
    }
    if (request_.adapter()) return AdapterFolder(*job);
    return absl::InvalidArgumentError(
        "what: set adapter to true, or checkpoint_step");
  }

  absl::Status FindFiles() {
    absl::StatusOr<std::string> wanted = WantedFolder();
    if (!wanted.ok()) return wanted.status();
    if (!IsInside(*wanted, manager_.JobFolder(request_.job_id()))) {
      return absl::InternalError(absl::StrCat(
          *wanted, " lies outside the folder of job ", request_.job_id()));
    }
    absl::StatusOr<std::vector<fs::path>> files = FilesBelow(*wanted);
    if (!files.ok()) return files.status();
    files_ = *std::move(files);
    folder_ = *wanted;
    return absl::OkStatus();
  }

  absl::Status StartFile(const fs::path& relative,
                         v1::DownloadResponse::File& out) {
    absl::StatusOr<std::unique_ptr<FileReader>> reader =
        FileReader::Open(folder_ / relative);
    if (!reader.ok()) return reader.status();
    absl::StatusOr<std::string> sha256 = (*reader)->Sha256();
    if (!sha256.ok()) return sha256.status();
    reader_ = *std::move(reader);
    out.set_path(ValidUtf8(relative.generic_string()));
    out.set_size_bytes(reader_->size_bytes());
    out.set_sha256(*sha256);
    return absl::OkStatus();
  }

  jobs::JobManager& manager_;
  const v1::DownloadRequest request_;
  fs::path folder_;  // empty before FindFiles
  std::vector<fs::path> files_;
  size_t next_ = 0;
  std::unique_ptr<FileReader> reader_;
};

}  // namespace

std::unique_ptr<Source<v1::DownloadResponse>> MakeDownloadSource(
    jobs::JobManager& manager, const v1::DownloadRequest& request) {
  return std::make_unique<DownloadSource>(manager, request);
}

}  // namespace mpsd::rpc
