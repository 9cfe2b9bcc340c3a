// SPDX-License-Identifier: Apache-2.0
#include "server/http/site.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/report/run_events.h"
#include "mpsd/v1/daemon.pb.h"
#include "mpsd/v1/jobs.pb.h"
#include "server/rpc/convert.h"
#include "server/rpc/downloads.h"
#include "server/rpc/job_calls.h"
#include "server/rpc/job_streams.h"
#include "server/rpc/list_calls.h"
#include "server/rpc/listener.h"

namespace mpsd::web {
namespace {

// Appends the bytes that `text` encodes. False for an invalid code and for
// control characters.
bool Decode(const std::string& text, bool plus_is_space, std::string& out) {
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '+' && plus_is_space) c = ' ';
    if (c == '%') {
      const std::string digits = text.substr(i + 1, 2);
      int32_t byte = 0;
      if (digits.size() != 2 || !absl::ascii_isxdigit(digits[0]) ||
          !absl::SimpleHexAtoi(digits, &byte)) {
        return false;
      }
      c = static_cast<char>(byte);
      i += 2;
    }
    if (absl::ascii_iscntrl(c)) return false;
    out += c;
  }
  return true;
}

}  // namespace

absl::StatusOr<Target> ParseTarget(const std::string& text) {
  absl::Status fault = absl::InvalidArgumentError("the address is not a path");
  if (text.empty() || text[0] != '/') return fault;
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(text, absl::MaxSplits('?', 1));
  Target target;
  const std::vector<std::string> path =
      absl::StrSplit(parts.first, '/', absl::SkipEmpty());
  for (const std::string& part : path) {
    if (!Decode(part, false, target.path.emplace_back())) return fault;
  }
  const std::vector<std::string> query =
      absl::StrSplit(parts.second, '&', absl::SkipEmpty());
  for (const std::string& entry : query) {
    const std::pair<std::string, std::string> pair =
        absl::StrSplit(entry, absl::MaxSplits('=', 1));
    auto& [name, value] = target.query.emplace_back();
    if (!Decode(pair.first, true, name) || !Decode(pair.second, true, value)) {
      return fault;
    }
  }
  return target;
}

namespace {

// As many steps as a report of one job has at most.
constexpr size_t kMostSteps = 8000;
constexpr int64_t kLogBytes = 64 << 10;

std::string Json(const google::protobuf::Message& message) {
  // Only a time beyond the year 9999 has no JSON.
  return rpc::ProtoJson(message).value_or("{}");
}

// Calls `take` with each message that the source has now, until it returns
// false.
template <typename Message, typename Take>
absl::Status Drain(rpc::Source<Message>& source, Take take) {
  while (true) {
    Message message;
    ASSIGN_OR_RETURN(const rpc::Pull pull, source.Next(message));
    if (pull == rpc::Pull::kWait || pull == rpc::Pull::kEnd) break;
    if (pull == rpc::Pull::kMessage && !take(message)) break;
  }
  return absl::OkStatus();
}

absl::Status ReadEvents(jobs::JobReader& reader, const std::string& id,
                        run_page::RunData& run) {
  v1::WatchRequest request;
  request.set_id(id);
  run_page::KeptEvents<v1::JobEvent> events(kMostSteps);
  const auto source = rpc::MakeWatchSource(reader, request, [] {});
  const absl::Status status = Drain(*source, [&](v1::JobEvent& event) {
    events.Add(event);
    return true;
  });
  events.Finish(Json, &run);
  return status;
}

absl::Status ReadLog(jobs::JobReader& reader, const std::string& id,
                     run_page::RunData& run) {
  std::error_code missing;
  const auto bytes = std::filesystem::file_size(reader.LogPath(id), missing);
  if (missing) return absl::OkStatus();  // no attempt has begun
  v1::LogsRequest request;
  request.set_id(id);
  int64_t before =
      std::max<int64_t>(0, static_cast<int64_t>(bytes) - kLogBytes);
  request.set_offset_bytes(before);
  const auto source =
      rpc::MakeLogSource(reader, request, absl::InfiniteDuration(), [] {});
  const absl::Status status = Drain(*source, [&](v1::LogChunk& chunk) {
    run.log += chunk.data();
    return run.log.size() < static_cast<size_t>(kLogBytes);
  });
  if (before > 0) {
    const size_t line = run.log.find('\n') + 1;  // npos + 1 is 0
    run.log.erase(0, line);
    before += static_cast<int64_t>(line);
  }
  run.left_out.log_bytes = before;
  return status;
}

void ReadFiles(jobs::JobReader& reader, const v1::DownloadRequest& request,
               run_page::RunData& run) {
  const auto source = rpc::MakeDownloadSource(reader, request);
  run_page::FilePicker picker(run.files);
  const absl::Status status =
      Drain(*source, [&](const v1::DownloadResponse& part) {
        return part.has_file()
                   ? picker.Begin(part.file().path(), part.file().size_bytes())
                   : picker.Append(part.data());
      });
  picker.Cut();
  if (!status.ok()) picker.Drop();
}

}  // namespace

absl::StatusOr<run_page::RunData> ReadRun(jobs::JobReader& reader,
                                          const access::Rights& rights,
                                          const std::string& id) {
  v1::GetJobRequest get;
  get.set_id(id);
  v1::Job job;
  absl::Status status = rpc::GetJob(reader, rights, get, job);
  if (status.ok()) {
    constexpr access::Method kWatch("JobService.Watch");
    status = access::CheckOwner(kWatch.rule(), rights, id, job.owner());
  }
  if (!status.ok()) return status;
  run_page::RunData run;
  run.job = Json(job);
  status = ReadEvents(reader, id, run);
  if (status.ok()) status = ReadLog(reader, id, run);
  if (!status.ok()) return status;
  v1::DownloadRequest download;
  download.set_job_id(id);
  download.set_manifest(true);
  ReadFiles(reader, download, run);
  download.set_predictions(true);
  ReadFiles(reader, download, run);
  return run;
}

namespace {

using http::Response;

// A file of server/http/page, embedded at build time.
struct File {
  const char* name;
  const char* content_type;
  const char* text;
};
constexpr File kFiles[] = {
#include "web_files.inc"
};

constexpr char kJson[] = "application/json";
constexpr char kHtml[] = "text/html; charset=utf-8";
// The page's own files and the JSON interface, and nothing from elsewhere.
constexpr char kPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'";

int HttpStatus(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return 400;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

Response Fault(const absl::Status& status) {
  const nlohmann::json body = {{"error", std::string(status.message())}};
  return {.status = HttpStatus(status),
          .content_type = kJson,
          .body = body.dump(-1, ' ', false,
                            nlohmann::json::error_handler_t::replace)};
}

Response JsonOf(const absl::Status& status,
                const google::protobuf::Message& message) {
  if (!status.ok()) return Fault(status);
  return {.content_type = kJson, .body = Json(message)};
}

absl::StatusOr<v1::ListJobsRequest> ListRequest(const Target& target) {
  v1::ListJobsRequest request;
  for (const auto& [name, value] : target.query) {
    v1::JobState state;
    int32_t size = 0;
    if (name == "states" && v1::JobState_Parse(value, &state)) {
      request.add_states(state);
    } else if (name == "page_size" && absl::SimpleAtoi(value, &size)) {
      request.set_page_size(size);
    } else if (name == "owner") {
      request.set_owner(value);
    } else if (name == "page_token") {
      request.set_page_token(value);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat(base::Quotable(name),
                       ": expected states=JOB_STATE_…, owner=…, "
                       "page_size=NUMBER or page_token=…"));
    }
  }
  return request;
}

Response Jobs(jobs::JobReader& reader, const access::Rights& rights,
              const Target& target) {
  const absl::StatusOr<v1::ListJobsRequest> request = ListRequest(target);
  if (!request.ok()) return Fault(request.status());
  v1::ListJobsResponse response;
  return JsonOf(rpc::ListJobs(reader, nullptr, rights, *request, response),
                response);
}

Response Job(jobs::JobReader& reader, const access::Rights& rights,
             const std::string& id) {
  v1::GetJobRequest request;
  request.set_id(id);
  v1::Job job;
  return JsonOf(rpc::GetJob(reader, rights, request, job), job);
}

// The run's document as JSON or, with `as_page`, in its page.
Response Run(jobs::JobReader& reader, const access::Rights& rights,
             const std::string& id, bool as_page) {
  absl::StatusOr<run_page::RunData> run = ReadRun(reader, rights, id);
  if (!run.ok()) return Fault(run.status());
  std::string document = run_page::RunDocument({*std::move(run)});
  if (!as_page) return {.content_type = kJson, .body = std::move(document)};
  return {.content_type = kHtml,
          .body = run_page::RunPage(document),
          .headers = {{"Content-Security-Policy",
                       absl::StrCat(run_page::ContentSecurityPolicy(),
                                    "; frame-ancestors 'none'")}}};
}

// Whether the header Host, with or without a port, names this machine alone.
bool IsOwnName(const std::string& host) {
  const bool has_port =
      host.find(':') != std::string::npos && !host.ends_with(']');
  return listener::IsLoopback(has_port ? host : host + ":0");
}

}  // namespace

access::Caller Site::PageVisitor() {
  access::Caller visitor;
  visitor.role = access::Role::kViewer;
  visitor.way = access::Way::kPage;
  return visitor;
}

Response Site::Answer(const http::Request& request) const {
  if (!IsOwnName(request.host)) {
    return {.status = 403,
            .body = "this page answers to localhost and 127.0.0.1 alone\n"};
  }
  Response response = Find(request);
  response.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  return response;
}

Response Site::Find(const http::Request& request) const {
  const absl::StatusOr<Target> target = ParseTarget(request.target);
  if (!target.ok()) return Fault(target.status());
  const std::vector<std::string>& path = target->path;
  const bool is_api = !path.empty() && path[0] == "api";
  if (is_api && path.size() == 2 && path[1] == "info") {
    v1::InfoResponse info;
    return JsonOf(rpc::DaemonInfo(reader_, facts_, info), info);
  }
  if (is_api && path.size() >= 2 && path[1] == "jobs") {
    if (path.size() == 2) return Jobs(reader_, rights_, *target);
    if (path.size() == 3) return Job(reader_, rights_, path[2]);
    if (path.size() == 4 && path[3] == "run") {
      return Run(reader_, rights_, path[2], /*as_page=*/false);
    }
  }
  if (path.size() == 2 && path[0] == "jobs") {
    return Run(reader_, rights_, path[1], /*as_page=*/true);
  }
  if (path.size() <= 1) {
    for (const File& file : kFiles) {
      if ((path.empty() ? "index.html" : path[0]) != file.name) continue;
      return {.content_type = file.content_type,
              .body = file.text,
              .headers = {{"Content-Security-Policy", kPolicy}}};
    }
  }
  return Fault(absl::NotFoundError("there is no such page"));
}

}  // namespace mpsd::web
