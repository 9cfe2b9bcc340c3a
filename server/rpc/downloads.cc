// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/downloads.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "server/rpc/check.h"
#include "server/rpc/convert.h"

namespace mpsd::rpc {
namespace fs = std::filesystem;
namespace {

constexpr size_t kHashStep = 1 << 20;

absl::Status FileGone(const fs::path& path, const std::string& why) {
  return absl::AbortedError(absl::StrCat(
      path.string(), " changed while it was read (", why, "); ask again"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileReader>> FileReader::Open(
    const fs::path& path) {
  base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid() && (errno == ENOENT || errno == ELOOP)) {
    return FileGone(path, "it is no longer a file");
  }
  if (!fd.valid()) return base::ErrnoStatus(errno, path.string());
  struct stat info;
  // Checks the open file: the path may name another file by now.
  if (fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return FileGone(path, "it is no longer a file");
  }
  return std::unique_ptr<FileReader>(
      new FileReader(path, std::move(fd), info.st_size));
}

absl::StatusOr<bool> FileReader::HashNext(int64_t max) {
  const int64_t end = std::min(size_bytes_, hashed_ + max);
  while (hashed_ < end) {
    ASSIGN_OR_RETURN(
        std::string bytes,
        ReadAt(hashed_, std::min<int64_t>(kHashStep, end - hashed_)));
    hash_.Update(bytes);
    hashed_ += static_cast<int64_t>(bytes.size());
  }
  if (hashed_ < size_bytes_) return false;
  if (sha256_.empty()) sha256_ = hash_.FinishHex();
  return true;
}

absl::StatusOr<std::string> FileReader::Read(size_t max) {
  absl::StatusOr<std::string> bytes = ReadAt(offset_, max);
  if (bytes.ok()) offset_ += static_cast<int64_t>(bytes->size());
  return bytes;
}

absl::StatusOr<std::string> FileReader::ReadAt(int64_t offset,
                                               size_t max) const {
  const auto size = std::min<int64_t>(max, size_bytes_ - offset);
  ASSIGN_OR_RETURN(std::string bytes,
                   base::ReadAt(fd_.get(), offset, size, path_));
  if (static_cast<int64_t>(bytes.size()) == size) return bytes;
  return FileGone(path_, "it got shorter");
}

absl::StatusOr<std::vector<fs::path>> FilesBelow(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator();
       entry.increment(error)) {
    std::error_code vanished;
    const fs::file_status status = entry->symlink_status(vanished);
    if (!vanished && status.type() == fs::file_type::regular) {
      files.push_back(entry->path().lexically_relative(folder));
    }
  }
  if (error) return FileGone(folder, error.message());
  std::sort(files.begin(), files.end());
  return files;
}

bool IsInside(const fs::path& path, const fs::path& folder) {
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(path, error);
  if (error) return false;
  const fs::path outer = fs::weakly_canonical(folder, error);
  if (error || outer.empty()) return false;
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end())
             .first == outer.end();
}

namespace {

constexpr int64_t kHashSlice = 8 << 20;  // bytes: some 10 ms

// The files to send: all of `folder`, or those that `wanted` accepts.
struct Selection {
  fs::path folder;
  bool (*wanted)(const fs::path& relative) = nullptr;
};

absl::StatusOr<fs::path> OutputFolder(const jobs::Job& job) {
  if (!job.output_path.empty()) return job.output_path;
  return absl::FailedPreconditionError(
      absl::StrCat("job ", job.id, " is ", std::string(jobs::Name(job.state)),
                   " and has no final output",
                   jobs::IsFinal(job.state)
                       ? ""
                       : "; it exists once the job has SUCCEEDED, checkpoints "
                         "before"));
}

constexpr const char* kExportFormats[] = {"merged", "mlx-adapter", "gguf-f16",
                                          "gguf-bf16", "gguf-q8_0"};

bool IsExportFormat(const std::string& format) {
  return std::find(std::begin(kExportFormats), std::end(kExportFormats),
                   format) != std::end(kExportFormats);
}

bool IsManifest(const fs::path& relative) { return relative == "run.json"; }

bool IsCurve(const fs::path& relative) {
  return IsManifest(relative) || relative == "metrics.jsonl" ||
         relative == "eval.jsonl" || relative == "samples.jsonl" ||
         *relative.begin() == "runs";
}

// Predictions are in the run's folder, next to the final output.
bool IsPrediction(const fs::path& relative) {
  const std::string name = relative.string();
  return name == "confusion_matrix.json" || name == "predictions.jsonl" ||
         name == "predictions.tsv";
}

absl::StatusOr<fs::path> CheckpointFolder(jobs::JobReader& reader,
                                          const std::string& id, int64_t step) {
  ASSIGN_OR_RETURN(std::vector<jobs::Checkpoint> checkpoints,
                   reader.Checkpoints(id));
  std::vector<int64_t> steps;
  for (const jobs::Checkpoint& checkpoint : checkpoints) {
    if (checkpoint.step == step) return fs::path(checkpoint.path);
    steps.push_back(checkpoint.step);
  }
  return absl::NotFoundError(absl::StrCat(
      "job ", id, " has no checkpoint of step ", step,
      "; there are: ", steps.empty() ? "none" : absl::StrJoin(steps, ", ")));
}

class DownloadSource : public Source<v1::DownloadResponse> {
 public:
  DownloadSource(jobs::JobReader& reader, v1::DownloadRequest request,
                 planner::Planner* planner, std::string user, Wake wake)
      : jobs_(reader),
        request_(std::move(request)),
        planner_(planner),
        user_(std::move(user)),
        wake_(std::move(wake)) {}

  absl::StatusOr<Pull> Next(v1::DownloadResponse& message) override {
    if (folder_.empty() && !Format().empty()) {
      RETURN_IF_ERROR(AwaitMerge());
      if (folder_.empty()) return Pull::kWait;
    }
    if (folder_.empty()) {
      RETURN_IF_ERROR(FindFiles());
    }
    if (reader_ != nullptr && !announced_) return Announce(message);
    if (reader_ != nullptr && reader_->left_bytes() > 0) {
      ASSIGN_OR_RETURN(std::string bytes, reader_->Read(limits::kChunkBytes));
      message.set_data(std::move(bytes));
      return Pull::kMessage;
    }
    if (next_ == files_.size()) return Pull::kEnd;
    ASSIGN_OR_RETURN(reader_, FileReader::Open(folder_ / files_[next_++]));
    announced_ = false;
    return Announce(message);
  }

 private:
  // What a worker has to make first; "": nothing.
  std::string Format() const {
    return request_.merged() ? "merged" : request_.export_format();
  }

  absl::StatusOr<Selection> Select() {
    const std::string& id = request_.job_id();
    RETURN_IF_ERROR(CheckId("job_id", id));
    ASSIGN_OR_RETURN(jobs::Job job, jobs_.Get(id));
    if (request_.what_case() == v1::DownloadRequest::kCheckpointStep) {
      ASSIGN_OR_RETURN(fs::path folder,
                       CheckpointFolder(jobs_, id, request_.checkpoint_step()));
      return Selection{std::move(folder)};
    }
    if (request_.manifest()) return RunSelection(job, IsManifest);
    if (request_.curves()) return RunSelection(job, IsCurve);
    if (!request_.adapter() && !request_.output() && !request_.predictions() &&
        request_.export_format().empty()) {
      return absl::InvalidArgumentError(
          "what: set output, merged, predictions, manifest or curves to true, "
          "or checkpoint_step or export_format");
    }
    ASSIGN_OR_RETURN(fs::path output, OutputFolder(job));
    if (!request_.predictions()) return Selection{std::move(output)};
    return Selection{output.parent_path(), IsPrediction};
  }

  // "manifest" or "curves": what a run has before its output.
  const char* RunFilesName() const {
    return request_.manifest() ? "manifest" : "curves";
  }

  absl::StatusOr<Selection> RunSelection(
      const jobs::Job& job, bool (*wanted)(const fs::path& relative)) const {
    const fs::path folder = jobs_.RunFolder(request_.job_id());
    std::error_code error;
    if (fs::exists(folder / "run.json", error)) {
      return Selection{folder, wanted};
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", request_.job_id(), " has no ", RunFilesName(),
        jobs::IsFinal(job.state) ? ": it ended before its first step"
                                 : " yet: wait for its first step"));
  }

  absl::Status FindFiles() {
    ASSIGN_OR_RETURN(Selection selection, Select());
    const fs::path& folder = selection.folder;
    // The worker reported this path: a wrong or linked one must not give
    // clients other files.
    if (!IsInside(folder, jobs_.JobFolder(request_.job_id()))) {
      return absl::InternalError(
          absl::StrCat(folder.string(), " lies outside the folder of job ",
                       request_.job_id()));
    }
    ASSIGN_OR_RETURN(std::vector<fs::path> files, FilesBelow(folder));
    if (selection.wanted != nullptr) {
      std::erase_if(files, std::not_fn(selection.wanted));
      if (files.empty()) return NothingThere();
    }
    files_ = std::move(files);
    folder_ = folder;
    return absl::OkStatus();
  }

  // Begins the merge at the first call; finds the files once it is done.
  absl::Status AwaitMerge() {
    if (merge_ == nullptr) {
      if (planner_ == nullptr) {
        return absl::PermissionDeniedError(
            "a merge needs the role user: ask an admin for it, or download the "
            "adapter and merge it with `mpsctl merge`");
      }
      RETURN_IF_ERROR(CheckId("job_id", request_.job_id()));
      ASSIGN_OR_RETURN(const jobs::Job job, jobs_.Get(request_.job_id()));
      RETURN_IF_ERROR(OutputFolder(job).status());
      const std::string& format = request_.export_format();
      if (!format.empty() && !IsExportFormat(format)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "export_format: expected ", absl::StrJoin(kExportFormats, ", ")));
      }
      if (format == "merged" && job.output_kind == jobs::OutputKind::kModel) {
        return FindFiles();
      }
      ASSIGN_OR_RETURN(merge_, planner_->Merge(job, Format(), user_, wake_));
    }
    ASSIGN_OR_RETURN(const auto news, merge_->Next());
    if (!news || !news->plan) return absl::OkStatus();
    merged_ = news->plan->merged;
    ASSIGN_OR_RETURN(files_, FilesBelow(merged_->path() / "model"));
    folder_ = merged_->path() / "model";
    return absl::OkStatus();
  }

  absl::Status NothingThere() const {
    if (request_.manifest() || request_.curves()) {
      return absl::NotFoundError(absl::StrCat(
          "the files of the ", RunFilesName(), " of job ", request_.job_id(),
          " are gone, or are not regular files"));
    }
    return absl::NotFoundError(absl::StrCat(
        "job ", request_.job_id(),
        " has no predictions: dataset.predict of its job.json names no file"));
  }

  // Hashes one slice of the file, or sends the header once the hash is
  // complete. So a file of many gigabytes delays no other stream, and hashing
  // stops when the client is gone.
  absl::StatusOr<Pull> Announce(v1::DownloadResponse& message) {
    ASSIGN_OR_RETURN(bool hashed, reader_->HashNext(kHashSlice));
    if (!hashed) return Pull::kMore;
    announced_ = true;
    v1::DownloadResponse::File& out = *message.mutable_file();
    out.set_path(ValidUtf8(files_[next_ - 1].generic_string()));
    out.set_size_bytes(reader_->size_bytes());
    out.set_sha256(reader_->sha256());
    return Pull::kMessage;
  }

  jobs::JobReader& jobs_;
  const v1::DownloadRequest request_;
  fs::path folder_;  // empty before FindFiles
  std::vector<fs::path> files_;
  size_t next_ = 0;
  std::unique_ptr<FileReader> reader_;  // reads files_[next_ - 1]
  bool announced_ = false;              // the file's header was sent

  planner::Planner* const planner_;
  const std::string user_;
  const Wake wake_;
  std::unique_ptr<planner::PlanWatch> merge_;
  std::shared_ptr<supervisor::TemporaryFolder> merged_;
};

}  // namespace

std::unique_ptr<Source<v1::DownloadResponse>> MakeDownloadSource(
    jobs::JobReader& reader, v1::DownloadRequest request,
    planner::Planner* planner, std::string user, Wake wake) {
  return std::make_unique<DownloadSource>(reader, std::move(request), planner,
                                          std::move(user), std::move(wake));
}

}  // namespace mpsd::rpc
