// SPDX-License-Identifier: Apache-2.0
#include "server/openai/door.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "server/openai/answer.h"
#include "server/openai/file_calls.h"
#include "server/openai/model_calls.h"
#include "server/openai/page.h"

namespace mpsd::openai {
namespace {

using Path = std::vector<std::string>;

// Collects a body of JSON, which is small.
class JsonBody final : public http::Body {
 public:
  JsonBody(JobCalls& jobs, http::Request request)
      : jobs_(jobs), request_(std::move(request)) {}
  std::optional<http::Response> Take(std::string_view bytes) override {
    if (text_.size() + bytes.size() > limits::kHttpBodyBytes) {
      return TooLargeAnswer();
    }
    text_.append(bytes);
    return std::nullopt;
  }
  http::Response End() override { return jobs_.Create(request_, text_); }

 private:
  JobCalls& jobs_;
  const http::Request request_;
  std::string text_;
};

bool IsFiles(const Path& path) {
  return path.size() >= 2 && path[0] == "v1" && path[1] == "files";
}
bool IsModels(const Path& path) {
  return path.size() >= 2 && path[0] == "v1" && path[1] == "models";
}
bool IsJobs(const Path& path) {
  return path.size() >= 3 && path[0] == "v1" && path[1] == "fine_tuning" &&
         path[2] == "jobs";
}

// A model's name has a slash, which a client may send as such.
std::string NameIn(const Path& path) {
  return path.size() == 4 ? absl::StrCat(path[2], "/", path[3]) : path[2];
}

}  // namespace

Door::Door(Backend backend)
    : desk_(std::move(backend)), uploads_(desk_), jobs_(desk_) {}

http::Begun Door::Begin(const http::Request& request) {
  const absl::StatusOr<http::Target> target = http::ParseTarget(request.target);
  if (!target.ok()) return Fault(request, target.status());
  if (request.method == "GET") return Get(request, *target);
  if (request.method == "POST") return Post(request, *target);
  const Path& path = target->path;
  if (request.method == "DELETE" && IsFiles(path) && path.size() == 3) {
    return DeleteFile(desk_, request, path[2]);
  }
  return NoSuchAddress(request);
}

http::Response Door::Fault(const http::Request& request,
                           const absl::Status& fault) const {
  const absl::Status known = desk_.CallerOf(request).status();
  return ErrorAnswer(known.ok() ? fault : known);
}

http::Response Door::NoSuchAddress(const http::Request& request) const {
  return Fault(
      request,
      absl::UnimplementedError(absl::StrCat(
          "there is no ", request.method, " ", base::Quotable(request.target),
          " here: mpsd has /v1/files, /v1/fine_tuning/jobs and /v1/models")));
}

http::Begun Door::Post(const http::Request& request,
                       const http::Target& target) {
  const Path& path = target.path;
  if (IsFiles(path) && path.size() == 2) return uploads_.Begin(request);
  if (!IsJobs(path)) return NoSuchAddress(request);
  if (path.size() == 3) return CreateJob(request);
  if (path.size() == 5 && path[4] == "cancel") {
    return jobs_.Cancel(request, path[3]);
  }
  if (path.size() == 5 && path[4] == "pause") {
    return jobs_.Pause(request, path[3]);
  }
  if (path.size() == 5 && path[4] == "resume") {
    return jobs_.Resume(request, path[3]);
  }
  return NoSuchAddress(request);
}

http::Begun Door::CreateJob(const http::Request& request) {
  // Who may not submit sends no body.
  const absl::StatusOr<access::Rights> may = desk_.Enter(
      request, {"JobService.Submit", "", "by /v1/fine_tuning/jobs"});
  if (!may.ok()) return ErrorAnswer(may.status());
  if (request.content_length.value_or(0) >
      static_cast<int64_t>(limits::kHttpBodyBytes)) {
    return TooLargeAnswer();
  }
  return std::make_shared<JsonBody>(jobs_, request);
}

http::Response Door::Get(const http::Request& request,
                         const http::Target& target) {
  const Path& path = target.path;
  if (IsJobs(path)) return GetOfJobs(request, target);
  if (IsFiles(path) && path.size() == 2) {
    const absl::StatusOr<Page> page = ReadPage(target);
    return page.ok() ? ListFiles(desk_, request, *page)
                     : Fault(request, page.status());
  }
  if (IsFiles(path) && path.size() == 3)
    return GetFile(desk_, request, path[2]);
  if (IsFiles(path) && path.size() == 4 && path[3] == "content") {
    return GetContent(desk_, request, path[2]);
  }
  if (IsModels(path) && path.size() == 2) return ListModels(desk_, request);
  if (IsModels(path) && path.size() <= 4) {
    return GetModel(desk_, request, NameIn(path));
  }
  return NoSuchAddress(request);
}

http::Response Door::GetOfJobs(const http::Request& request,
                               const http::Target& target) {
  const Path& path = target.path;
  if (path.size() == 4) return jobs_.Get(request, path[3]);
  const absl::StatusOr<Page> page = ReadPage(target);
  if (!page.ok()) return Fault(request, page.status());
  if (path.size() == 3) return jobs_.List(request, *page);
  if (path.size() == 5 && path[4] == "events") {
    return jobs_.Events(request, path[3], *page);
  }
  if (path.size() == 5 && path[4] == "checkpoints") {
    return jobs_.Checkpoints(request, path[3], *page);
  }
  return NoSuchAddress(request);
}

}  // namespace mpsd::openai
