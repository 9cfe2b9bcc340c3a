// SPDX-License-Identifier: Apache-2.0
#include "client/job_id.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/text/format.h"
#include "client/verbs.h"

namespace mpsd::client {

namespace {

constexpr int kPageSize = 500;  // the most that the daemon sends at once

struct Matches {
  std::vector<v1::Job> jobs;
  bool more = false;
};

grpc::Status FindMatches(v1::JobService::Stub& jobs, const std::string& part,
                         PastJobs past, Matches* matches) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::FindJobsRequest request;
  request.set_id_part(part);
  request.set_past(past == PastJobs::kToo);
  v1::FindJobsResponse response;
  const grpc::Status status = jobs.FindJobs(&context, request, &response);
  matches->jobs.assign(response.jobs().begin(), response.jobs().end());
  matches->more = response.more();
  return status;
}

std::string Listing(const Matches& matches) {
  constexpr size_t kMostShown = 10;
  std::string text = "Give more of its id; it may be any of:";
  for (size_t i = 0; i < matches.jobs.size() && i < kMostShown; ++i) {
    const v1::Job& job = matches.jobs[i];
    absl::StrAppend(&text, "\n  ", job.id(), "  ", StateName(job.state()), "  ",
                    Printable(job.name()));
  }
  if (matches.more || matches.jobs.size() > kMostShown) {
    absl::StrAppend(&text, "\n  …");
  }
  return text;
}

// The error of `text` that needs no call to the daemon; "" for none.
std::string Complaint(const std::string& text, FewestIdCharacters fewest) {
  const size_t least = static_cast<size_t>(fewest);
  if (text.empty()) return "the job's id is empty";
  if (!std::all_of(text.begin(), text.end(), absl::ascii_isalnum) ||
      text.size() > kJobIdLength) {
    return absl::StrCat("'", Printable(text), "' is not part of a job's id");
  }
  if (text.size() >= least) return "";
  return absl::StrCat("'", text,
                      "' is too short for a job's id: give at least ", least,
                      " characters");
}

}  // namespace

std::optional<std::string> ResolveJobId(const Console& console,
                                        const std::string& text, ExitCode* code,
                                        FewestIdCharacters fewest,
                                        PastJobs past) {
  const std::string see = "List the jobs with `mpsctl list`.";
  if (const std::string wrong = Complaint(text, fewest); !wrong.empty()) {
    *code = console.Fail(ExitCode::kBadInput, wrong, see);
    return std::nullopt;
  }
  if (text.size() == kJobIdLength) return absl::AsciiStrToUpper(text);
  const std::string part = absl::AsciiStrToUpper(text);
  Matches matches;
  grpc::Status status =
      FindMatches(console.daemon.jobs(), part, past, &matches);
  if (!status.ok()) {
    *code = console.Fail(status);
  } else if (matches.jobs.empty()) {
    *code = console.Fail(
        ExitCode::kNotFound,
        absl::StrCat("no job's id begins or ends with '", text, "'"), see);
  } else if (matches.jobs.size() > 1) {
    *code = console.Fail(ExitCode::kBadInput,
                         absl::StrCat("'", text, "' is ambiguous: ",
                                      matches.more ? "more than " : "",
                                      matches.jobs.size(), " jobs match"),
                         Listing(matches));
  } else {
    return matches.jobs[0].id();
  }
  return std::nullopt;
}

std::optional<std::vector<std::string>> ResolveJobIds(
    const Console& console, const std::vector<std::string>& texts,
    ExitCode* code, FewestIdCharacters fewest) {
  std::vector<std::string> ids;
  for (const std::string& text : texts) {
    std::optional<std::string> id = ResolveJobId(console, text, code, fewest);
    if (!id) return std::nullopt;
    if (std::find(ids.begin(), ids.end(), *id) == ids.end()) {
      ids.push_back(*std::move(id));
    }
  }
  return ids;
}

void AddNamedJobs(Command* verb, NamedJobs* named) {
  Option* label =
      verb->add_option("--label", named->job_labels,
                       "The jobs with this label; repeatable, all must match")
          ->type_name("NAME=VALUE")
          ->allow_extra_args(false);
  verb->add_option(kJobIdName, named->texts, "The jobs")
      ->type_name("")
      ->excludes(label);
}

std::optional<std::vector<std::string>> ResolveNamed(
    const Console& console, const NamedJobs& named, v1::ListJobsRequest filter,
    ExitCode* code, FewestIdCharacters fewest) {
  if (named.job_labels.empty()) {
    if (!named.texts.empty()) {
      return ResolveJobIds(console, named.texts, code, fewest);
    }
    *code = console.Fail(ExitCode::kBadInput,
                         "name the jobs: their ids, or --label NAME=VALUE",
                         "List the jobs with `mpsctl list`.");
    return std::nullopt;
  }
  const absl::Status added =
      AddJobLabels(named.job_labels, filter.mutable_labels());
  if (!added.ok()) {
    *code = console.Fail(ExitCode::kBadInput, added, "");
    return std::nullopt;
  }
  filter.set_ascending(true);
  filter.set_page_size(kPageSize);
  std::vector<std::string> ids;
  do {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::ListJobsResponse response;
    const grpc::Status status =
        console.daemon.jobs().List(&context, filter, &response);
    if (!status.ok()) {
      *code = console.Fail(status);
      return std::nullopt;
    }
    for (const v1::Job& job : response.jobs()) ids.push_back(job.id());
    filter.set_page_token(response.next_page_token());
  } while (!filter.page_token().empty());
  if (!ids.empty()) return ids;
  *code = console.Fail(ExitCode::kNotFound, "no such job has the label",
                       "List the jobs with `mpsctl list --label NAME=VALUE`.");
  return std::nullopt;
}

ExitCode ForEachJob(
    const Console& console, const NamedJobs& named, v1::ListJobsRequest filter,
    const std::function<ExitCode(const std::string& id)>& change) {
  if (!named.job_labels.empty()) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::WhoAmIResponse who;
    const grpc::Status status =
        console.daemon.access().WhoAmI(&context, {}, &who);
    if (!status.ok()) return console.Fail(status);
    filter.set_owner(who.user());
  }
  ExitCode code = ExitCode::kOk;
  const auto ids = ResolveNamed(console, named, std::move(filter), &code,
                                FewestIdCharacters::kChanges);
  if (!ids) return code;
  for (const std::string& id : *ids) {
    const ExitCode one = change(id);
    if (code == ExitCode::kOk) code = one;
  }
  return code;
}

grpc::Status GetJob(const Console& console, const std::string& id,
                    v1::Job* job) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::GetJobRequest request;
  request.set_id(id);
  return console.daemon.jobs().Get(&context, request, job);
}

std::string AheadText(const v1::Job& job) {
  if (job.queue_position() <= 0) return "";
  return absl::StrCat(", ", job.queue_position(), " ahead of it");
}

absl::Status AddJobLabels(
    const std::vector<std::string>& texts,
    google::protobuf::Map<std::string, std::string>* job_labels) {
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("--label '", text, "': expected NAME=VALUE"));
    }
    const std::string name = text.substr(0, equals);
    const std::string value = text.substr(equals + 1);
    auto known = job_labels->find(name);
    if (known != job_labels->end() && known->second != value) {
      return absl::InvalidArgumentError(
          absl::StrCat("--label ", name, " is given twice, as '", known->second,
                       "' and '", value, "'"));
    }
    (*job_labels)[name] = value;
  }
  return absl::OkStatus();
}

std::string JobLabelsText(
    const google::protobuf::Map<std::string, std::string>& job_labels) {
  std::string text;
  for (const auto& [name, value] : std::map<std::string, std::string>(
           job_labels.begin(), job_labels.end())) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", name, "=", value);
  }
  return text;
}

}  // namespace mpsd::client
