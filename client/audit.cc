// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/job_id.h"
#include "client/text/format.h"
#include "client/text/table.h"
#include "client/text/when.h"
#include "client/verbs.h"
#include "mpsd/v1/access.grpc.pb.h"

namespace mpsd::client {
namespace {

struct AuditOptions {
  std::string user;
  std::string job;
  std::string method;
  std::string since;
  std::string until;
  bool refused = false;
  int limit = 50;
};

absl::Status SetTime(const char* option, const std::string& text,
                     const Terminal& terminal,
                     google::protobuf::Timestamp* stamp) {
  const absl::StatusOr<absl::Time> time =
      ParseWhen(text, terminal.clock->Now(), terminal.zone);
  if (!time.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, " ", std::string(time.status().message())));
  }
  stamp->set_seconds(absl::ToUnixSeconds(*time));
  return absl::OkStatus();
}

// Fetches up to `limit` entries, over as many pages as needed.
grpc::Status Fetch(v1::AccessService::Stub& access,
                   v1::ListAuditRequest request, int limit,
                   std::vector<v1::AuditEntry>* all) {
  do {
    request.set_page_size(std::min(500, limit - static_cast<int>(all->size())));
    grpc::ClientContext context;
    SetDeadline(context);
    v1::ListAuditResponse response;
    grpc::Status status = access.ListAudit(&context, request, &response);
    if (!status.ok()) return status;
    all->insert(all->end(), response.entries().begin(),
                response.entries().end());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty() &&
           static_cast<int>(all->size()) < limit);
  return grpc::Status::OK;
}

std::string OrDash(const std::string& text) {
  return text.empty() ? "-" : text;
}

// What became of the request, and what it was about.
std::string Outcome(const v1::AuditEntry& entry) {
  std::string text = entry.detail();
  if (!entry.message().empty()) {
    absl::StrAppend(&text, text.empty() ? "" : ": ", entry.message());
  }
  return text;
}

std::vector<std::string> Row(const v1::AuditEntry& entry,
                             const Terminal& terminal) {
  return {DateTime(ToTime(entry.time()), terminal.zone), OrDash(entry.user()),
          OrDash(entry.credential()), OrDash(entry.origin()),
          entry.method().substr(entry.method().find('.') + 1),
          OrDash(entry.job_id()),
          // A call that mpsd did not live to answer has no result.
          entry.result().empty() ? "?" : entry.result(), Outcome(entry)};
}

void PrintTable(const Console& console,
                const std::vector<v1::AuditEntry>& entries) {
  if (entries.empty()) {
    console.out << "Nothing was asked for.\n";
    return;
  }
  Table table({"TIME", "USER", "BY", "FROM", "WHAT", "JOB", "RESULT", ""});
  for (const v1::AuditEntry& entry : entries) {
    table.Add(Row(entry, console.terminal));
  }
  table.Print(console.out,
              console.terminal.is_tty ? console.terminal.columns() : 0);
}

ExitCode Audit(const AuditOptions& options, const Console& console) {
  v1::ListAuditRequest request;
  request.set_user(options.user);
  // A job that was deleted has entries still; its whole id finds them.
  request.set_job_id(absl::AsciiStrToUpper(options.job));
  if (!options.job.empty() && options.job.size() < 26) {
    ExitCode code;
    auto id = ResolveJobId(console, options.job, &code);
    if (!id) return code;
    request.set_job_id(*id);
  }
  request.set_method(options.method);
  request.set_refused(options.refused);
  absl::Status read;
  if (!options.since.empty()) {
    read = SetTime("--since", options.since, console.terminal,
                   request.mutable_since());
  }
  if (read.ok() && !options.until.empty()) {
    read = SetTime("--until", options.until, console.terminal,
                   request.mutable_until());
  }
  if (!read.ok()) return console.Fail(ExitCode::kBadInput, read, "");
  std::vector<v1::AuditEntry> entries;
  grpc::Status status =
      Fetch(console.daemon.access(), request, options.limit, &entries);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    for (const v1::AuditEntry& entry : entries) console.PrintJson(entry);
  } else {
    PrintTable(console, entries);
  }
  return ExitCode::kOk;
}

}  // namespace

void AddAudit(Command& app, Action* action) {
  auto options = std::make_shared<AuditOptions>();
  Command* verb = app.add_subcommand(
      "audit", "Show who asked for which change, newest first");
  verb->add_option("--user", options->user, "Only what this user asked for")
      ->type_name("NAME");
  verb->add_option("--job", options->job, "Only what concerns this job")
      ->type_name("ID");
  verb->add_option("--method", options->method,
                   "Only this call: Submit, Cancel, JobService.Delete …")
      ->type_name("NAME");
  verb->add_flag("--refused", options->refused, "Only what was not done");
  verb->add_option("--since", options->since,
                   "From then on: 2w, 7d, 12h or 30m ago, or a date")
      ->type_name("WHEN");
  verb->add_option("--until", options->until, "Before then; likewise")
      ->type_name("WHEN");
  verb->add_option("--limit", options->limit, "At most so many")
      ->check(Range(1, 1000000))
      ->type_name("N")
      ->capture_default_str();
  verb->callback([=] {
    *action = [=](const Console& console) { return Audit(*options, console); };
  });
}

}  // namespace mpsd::client
