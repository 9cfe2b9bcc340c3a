// SPDX-License-Identifier: Apache-2.0
#include "server/openai/file_calls.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/jobs/job_id.h"
#include "server/rpc/file_reader.h"

namespace mpsd::openai {
namespace {

namespace fs = std::filesystem;

// More files than a result has.
constexpr size_t kMostResultFiles = 100;

// A named file's bytes, or a result's.
class FileContent final : public http::Content {
 public:
  explicit FileContent(std::unique_ptr<rpc::FileReader> reader)
      : reader_(std::move(reader)) {}
  int64_t size_bytes() const override { return reader_->size_bytes(); }
  absl::StatusOr<std::string> Read(int64_t most) override {
    return reader_->Read(static_cast<size_t>(most));
  }

 private:
  const std::unique_ptr<rpc::FileReader> reader_;
};

// What "file-JOB-PATH" names.
struct ResultName {
  std::string job_id, path;
};
std::optional<ResultName> ReadResultName(const std::string& id) {
  constexpr size_t kPrefix = jobs::kNamedFilePrefix.size();
  constexpr size_t kJobId = 26;
  if (id.size() <= kPrefix + kJobId + 1 ||
      !id.starts_with(std::string(jobs::kNamedFilePrefix)) ||
      id[kPrefix + kJobId] != '-') {
    return std::nullopt;
  }
  ResultName name{id.substr(kPrefix, kJobId), id.substr(kPrefix + kJobId + 1)};
  if (!jobs::IsJobId(name.job_id)) return std::nullopt;
  return name;
}

// The folder of a job's result. The worker has reported its path: a wrong or
// linked one opens no other files.
absl::StatusOr<fs::path> ResultFolder(const Desk& desk, const std::string& id) {
  jobs::JobReader& reader = desk.backend().reader;
  const absl::StatusOr<jobs::Job> job = reader.Get(id);
  if (!job.ok()) return job.status();
  if (job->state != jobs::State::kSucceeded || job->output_path.empty()) {
    return absl::NotFoundError(
        absl::StrCat("job ", id, " has no result: it has not succeeded"));
  }
  if (!rpc::IsInside(job->output_path, reader.JobFolder(id))) {
    return absl::InternalError(absl::StrCat(
        "the result of job ", id, " lies outside of the job's folder"));
  }
  return fs::path(job->output_path);
}

struct OpenResult {
  ResultFile shown;
  std::unique_ptr<rpc::FileReader> reader;
};
absl::StatusOr<OpenResult> OpenResultFile(const Desk& desk,
                                          const ResultName& name) {
  const absl::StatusOr<fs::path> folder = ResultFolder(desk, name.job_id);
  if (!folder.ok()) return folder.status();
  const absl::StatusOr<std::vector<fs::path>> files = rpc::FilesBelow(*folder);
  if (!files.ok()) return files.status();
  // Only what the folder lists, so that no ".." and no link leads elsewhere.
  if (std::none_of(files->begin(), files->end(), [&](const fs::path& file) {
        return file.generic_string() == name.path;
      })) {
    return absl::NotFoundError(
        absl::StrCat("the result of job ", name.job_id, " has no such file"));
  }
  absl::StatusOr<std::unique_ptr<rpc::FileReader>> reader =
      rpc::FileReader::Open(*folder / name.path);
  if (!reader.ok()) return reader.status();
  const absl::StatusOr<jobs::Job> job = desk.backend().reader.Get(name.job_id);
  if (!job.ok()) return job.status();
  OpenResult opened{{name.job_id, name.path, (*reader)->size_bytes(),
                     job->end_time.value_or(job->create_time)},
                    nullptr};
  opened.reader = *std::move(reader);
  return opened;
}

// Does `named` for a file of the caller's own, or `result` for one of a job's
// result.
http::Response ForFile(
    const Desk& desk, const http::Request& request, const std::string& id,
    const std::function<absl::Status(const jobs::NamedFile&)>& named,
    const std::function<absl::Status(OpenResult)>& result,
    const http::Response& done) {
  absl::Status made;
  if (const std::optional<ResultName> name = ReadResultName(id)) {
    made = desk.Call(
        request, {"ArtifactService.Download", name->job_id}, [&](rpc::Call&) {
          absl::StatusOr<OpenResult> opened = OpenResultFile(desk, *name);
          return opened.ok() ? result(*std::move(opened)) : opened.status();
        });
  } else {
    made =
        desk.Call(request, {"ArtifactService.FindBlobs"}, [&](rpc::Call& call) {
          const absl::StatusOr<jobs::NamedFile> file =
              desk.backend().files.Get(call.rights.caller().user, id);
          return file.ok() ? named(*file) : file.status();
        });
  }
  return made.ok() ? done : ErrorAnswer(made);
}

}  // namespace

http::Response ListFiles(const Desk& desk, const http::Request& request,
                         const Page& page) {
  Json::array_t listed;
  bool more = false;
  const absl::Status made =
      desk.Call(request, {"ArtifactService.FindBlobs"}, [&](rpc::Call& call) {
        if (!page.purpose.empty() && page.purpose != "fine-tune") {
          return absl::OkStatus();  // mpsd has no others
        }
        absl::StatusOr<std::vector<jobs::NamedFile>> files =
            desk.backend().files.List(
                call.rights.caller().user,
                {page.after, page.limit + 1, page.oldest_first});
        if (!files.ok()) return files.status();
        more = files->size() > static_cast<size_t>(page.limit);
        if (more) files->pop_back();
        for (const jobs::NamedFile& file : *files) {
          listed.push_back(FileObject(file));
        }
        return absl::OkStatus();
      });
  return made.ok() ? ListAnswer(std::move(listed), more) : ErrorAnswer(made);
}

http::Response GetFile(const Desk& desk, const http::Request& request,
                       const std::string& id) {
  Json object;
  absl::Status made;
  http::Response answer = ForFile(
      desk, request, id,
      [&](const jobs::NamedFile& file) {
        object = FileObject(file);
        return absl::OkStatus();
      },
      [&](const OpenResult& file) {
        object = FileObject(file.shown);
        return absl::OkStatus();
      },
      {});
  return answer.status == 200 ? JsonAnswer(object) : answer;
}

http::Response GetContent(const Desk& desk, const http::Request& request,
                          const std::string& id) {
  std::unique_ptr<rpc::FileReader> reader;
  http::Response answer = ForFile(
      desk, request, id,
      [&](const jobs::NamedFile& file) {
        absl::StatusOr<std::unique_ptr<rpc::FileReader>> opened =
            rpc::FileReader::Open(desk.backend().blobs.PathOf(file.sha256));
        if (!opened.ok()) return opened.status();
        reader = *std::move(opened);
        return absl::OkStatus();
      },
      [&](OpenResult file) {
        reader = std::move(file.reader);
        return absl::OkStatus();
      },
      {.content_type = "application/octet-stream"});
  if (answer.status == 200) {
    answer.content = std::make_shared<FileContent>(std::move(reader));
  }
  return answer;
}

http::Response DeleteFile(const Desk& desk, const http::Request& request,
                          const std::string& id) {
  if (ReadResultName(id)) {
    return ErrorAnswer(absl::FailedPreconditionError(
        "a job's result goes with the job: mpsctl delete ID"));
  }
  // Who may send a file may take it back; the audit has both.
  const std::string detail = absl::StrCat(
      "deletes ", jobs::IsNamedFileId(id) ? id : "what is no file's id");
  const absl::Status made = desk.Call(
      request, {"ArtifactService.Upload", "", detail, /*needs_no_room=*/true},
      [&](rpc::Call& call) {
        const Backend& backend = desk.backend();
        const std::string& user = call.rights.caller().user;
        const absl::Status removed = backend.files.Remove(user, id);
        // To delete a row takes room, too.
        return absl::IsResourceExhausted(removed) && backend.make_room &&
                       backend.make_room()
                   ? backend.files.Remove(user, id)
                   : removed;
      });
  if (!made.ok()) return ErrorAnswer(made);
  return JsonAnswer({{"id", id}, {"object", "file"}, {"deleted", true}});
}

std::vector<std::string> ResultFileIds(const Desk& desk, const v1::Job& job) {
  std::vector<std::string> ids;
  if (job.output_path().empty()) return ids;
  const absl::StatusOr<fs::path> folder = ResultFolder(desk, job.id());
  if (!folder.ok()) return ids;
  const absl::StatusOr<std::vector<fs::path>> files = rpc::FilesBelow(*folder);
  if (!files.ok()) return ids;
  for (const fs::path& file : *files) {
    if (ids.size() == kMostResultFiles) break;
    ids.push_back(ResultFileId(job.id(), file.generic_string()));
  }
  return ids;
}

}  // namespace mpsd::openai
