// SPDX-License-Identifier: Apache-2.0
#include "client/job_id.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/format.h"

namespace mpsd::client {
namespace {

grpc::Status FindMatches(v1::JobService::Stub& jobs, const std::string& part,
                         std::vector<v1::Job>* matches) {
  v1::ListJobsRequest request;
  request.set_page_size(500);
  do {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::ListJobsResponse response;
    grpc::Status status = jobs.List(&context, request, &response);
    if (!status.ok()) return status;
    for (v1::Job& job : *response.mutable_jobs()) {
      const std::string id = absl::AsciiStrToUpper(job.id());
      if (absl::StartsWith(id, part) || absl::EndsWith(id, part)) {
        matches->push_back(std::move(job));
      }
    }
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return grpc::Status::OK;
}

std::string Listing(const std::vector<v1::Job>& jobs) {
  std::string text = "Give more of its id; it may be any of:";
  for (size_t i = 0; i < jobs.size() && i < 10; ++i) {
    absl::StrAppend(&text, "\n  ", jobs[i].id(), "  ",
                    StateName(jobs[i].state()), "  ",
                    Printable(jobs[i].name()));
  }
  if (jobs.size() > 10) absl::StrAppend(&text, "\n  …");
  return text;
}

}  // namespace

std::optional<std::string> ResolveJobId(const Console& console,
                                        const std::string& text,
                                        ExitCode* code) {
  const std::string part = absl::AsciiStrToUpper(text);
  if (part.size() >= kJobIdLength) return part;
  std::vector<v1::Job> matches;
  grpc::Status status = FindMatches(console.daemon.jobs(), part, &matches);
  if (!status.ok()) {
    *code = console.Fail(status);
  } else if (matches.empty()) {
    *code = console.Fail(
        ExitCode::kNotFound,
        absl::StrCat("no job's id begins or ends with '", text, "'"),
        "See the jobs there are with `mpsctl list`.");
  } else if (matches.size() > 1) {
    *code =
        console.Fail(ExitCode::kBadInput,
                     absl::StrCat("'", text, "' is ambiguous: ", matches.size(),
                                  " jobs match"),
                     Listing(matches));
  } else {
    return matches[0].id();
  }
  return std::nullopt;
}

}  // namespace mpsd::client
