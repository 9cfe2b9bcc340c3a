// SPDX-License-Identifier: Apache-2.0
#include "client/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "client/interrupt.h"
#include "client/progress_line.h"
#include "core/base/atomic_file.h"
#include "core/base/file.h"
#include "core/base/sha256.h"

namespace mpsd::client {
namespace {

using File = v1::DownloadResponse::File;

// Takes one file out of a Download stream.
class Picker {
 public:
  Picker(const Console& console, std::string name,
         std::unique_ptr<base::AtomicFile> to)
      : name_(std::move(name)), to_(std::move(to)), line_(console) {}

  absl::Status Accept(const v1::DownloadResponse& part) {
    if (part.has_file()) {
      taking_ = part.file().path() == name_;
      if (taking_) file_ = part.file();
      return absl::OkStatus();
    }
    if (!taking_) return absl::OkStatus();
    hash_.Update(part.data());
    received_ += static_cast<int64_t>(part.data().size());
    line_.Draw(received_, file_->size_bytes(), "receiving");
    return to_->Append(part.data());
  }

  bool found() const { return file_.has_value(); }

  absl::Status Finish() {
    line_.Clear();
    if (received_ != file_->size_bytes() ||
        hash_.FinishHex() != file_->sha256()) {
      return absl::DataLossError(absl::StrCat(
          name_, " arrived with another hash or size than announced"));
    }
    return to_->Commit();
  }

 private:
  const std::string name_;
  const std::unique_ptr<base::AtomicFile> to_;
  ProgressLine line_;
  bool taking_ = false;
  std::optional<File> file_;
  base::Sha256 hash_;
  int64_t received_ = 0;
};

absl::Status CheckFolder(const std::string& option,
                         const std::filesystem::path& folder) {
  const std::string what = absl::StrCat(option, ": ", folder.string());
  std::error_code error;
  const bool is_folder = std::filesystem::is_directory(folder, error);
  if (error) return base::ErrnoStatus(error.value(), what);
  if (!is_folder) {
    return absl::InvalidArgumentError(absl::StrCat(what, " is no folder"));
  }
  if (access(folder.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return base::ErrnoStatus(errno, what);
}

}  // namespace

absl::Status CheckOutputFile(const std::string& option,
                             const std::filesystem::path& path) {
  if (path.empty()) return absl::OkStatus();
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) &&
      !std::filesystem::is_regular_file(path, ignored)) {
    return absl::InvalidArgumentError(absl::StrCat(
        option, ": ", path.string(), " is there and no regular file"));
  }
  const std::filesystem::path folder = path.parent_path();
  return CheckFolder(option, folder.empty() ? "." : folder);
}

ExitCode FetchOutputFile(const Console& console, const std::string& id,
                         const std::string& name,
                         const std::filesystem::path& path,
                         const std::string& missing) {
  auto file = base::AtomicFile::Create(path);
  if (!file.ok()) {
    return console.Fail(ExitCode::kBadInput, file.status(),
                        "Nothing was written.");
  }
  Picker picker(console, name, *std::move(file));
  grpc::ClientContext context;
  Interrupt::Listener listener(console.terminal.interrupt,
                               [&context] { context.TryCancel(); });
  v1::DownloadRequest request;
  request.set_job_id(id);
  request.set_output(true);
  auto reader = console.daemon.artifacts().Download(&context, request);
  v1::DownloadResponse part;
  absl::Status written;
  while (written.ok() && reader->Read(&part)) written = picker.Accept(part);
  if (!written.ok()) context.TryCancel();
  const grpc::Status status = reader->Finish();
  if (listener.raised()) {
    return console.Fail(ExitCode::kDetached, "interrupted",
                        "Nothing was written.");
  }
  if (written.ok() && !status.ok()) return console.Fail(status);
  if (written.ok() && !picker.found()) {
    return console.Fail(
        ExitCode::kNotFound,
        absl::StrCat("the output of job ", id, " has no ", name), missing);
  }
  if (written.ok()) written = picker.Finish();
  return written.ok()
             ? ExitCode::kOk
             : console.Fail(ExitCode::kOther, written, "Nothing was written.");
}

}  // namespace mpsd::client
