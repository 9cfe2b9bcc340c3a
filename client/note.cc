// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/command_line.h"
#include "client/job_id.h"
#include "client/text/format.h"
#include "client/verbs.h"
#include "core/base/units.h"
#include "mpsd/v1/access.grpc.pb.h"

namespace mpsd::client {

namespace {

ExitCode Note(const std::string& text, const std::string& note,
              const Console& console) {
  ExitCode code = ExitCode::kOk;
  const auto id = ResolveJobId(console, text, &code, FewestIdCharacters::kLooks,
                               PastJobs::kToo);
  if (!id) return code;
  v1::AddNoteRequest request;
  request.set_id(*id);
  request.set_text(note);
  grpc::ClientContext context;
  SetDeadline(context);
  v1::GetRecordResponse response;
  const grpc::Status status =
      console.daemon.jobs().AddNote(&context, request, &response);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(response);
  } else {
    console.out << *id << ": notes " << response.record().notes_size() << '\n';
  }
  return ExitCode::kOk;
}

ExitCode Tag(const std::string& text, const std::vector<std::string>& words,
             bool remove, const Console& console) {
  ExitCode code = ExitCode::kOk;
  const auto id = ResolveJobId(console, text, &code, FewestIdCharacters::kLooks,
                               PastJobs::kToo);
  if (!id) return code;
  v1::TagRequest request;
  request.set_id(*id);
  (remove ? request.mutable_remove() : request.mutable_add())
      ->Assign(words.begin(), words.end());
  grpc::ClientContext context;
  SetDeadline(context);
  v1::GetRecordResponse response;
  const grpc::Status status =
      console.daemon.jobs().Tag(&context, request, &response);
  if (!status.ok()) return console.Fail(status);
  const auto& tags = response.record().tags();
  if (console.json) {
    console.PrintJson(response);
  } else {
    console.out << *id << ": "
                << (tags.empty() ? "no tags"
                                 : Printable(absl::StrJoin(tags, ", ")))
                << '\n';
  }
  return ExitCode::kOk;
}

}  // namespace

void AddNote(Command& app, Action* action) {
  struct Options {
    std::string id, text;
  };
  auto options = std::make_shared<Options>();
  Command* verb = app.add_subcommand(
      "note", "Add a note to a job, even to a deleted one; notes stay");
  verb->add_option(kJobIdName, options->id, "The job")
      ->required()
      ->type_name("");
  verb->add_option("TEXT", options->text, "At most 4,096 bytes")
      ->required()
      ->type_name("");
  verb->callback([=] {
    *action = [=](const Console& console) {
      return Note(options->id, options->text, console);
    };
  });
}

void AddTag(Command& app, Action* action) {
  struct Options {
    std::string id;
    std::vector<std::string> words;
    bool remove = false;
  };
  auto options = std::make_shared<Options>();
  Command* verb = app.add_subcommand(
      "tag", "Add tags to a job, even to a deleted one, or remove them");
  verb->add_option(kJobIdName, options->id, "The job")
      ->required()
      ->type_name("");
  verb->add_option("WORD", options->words,
                   "Tags, of letters, digits and ._-+/@")
      ->required()
      ->type_name("");
  verb->add_flag("--remove", options->remove, "Remove these tags");
  verb->callback([=] {
    *action = [=](const Console& console) {
      return Tag(options->id, options->words, options->remove, console);
    };
  });
}

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
      base::ParseWhen(text, terminal.clock->Now(), terminal.zone);
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

// The outcome of the request, and its details.
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
          // A call that mpsd did not survive has no result.
          entry.result().empty() ? "?" : entry.result(), Outcome(entry)};
}

void PrintTable(const Console& console,
                const std::vector<v1::AuditEntry>& entries) {
  if (entries.empty()) {
    console.out << "There were no requests.\n";
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
  // A deleted job still has entries; its whole id finds them.
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
      "audit", "Show who requested which change, newest first");
  verb->add_option("--user", options->user, "Only this user's requests")
      ->type_name("NAME");
  verb->add_option("--job", options->job, "Only what concerns this job")
      ->type_name("ID");
  verb->add_option("--method", options->method,
                   "Only this call: Submit, Cancel, JobService.Delete …")
      ->type_name("NAME");
  verb->add_flag("--refused", options->refused,
                 "Only what was refused or failed");
  verb->add_option("--since", options->since,
                   "Since: 2w, 7d, 12h or 30m ago, or a date")
      ->type_name("WHEN");
  verb->add_option("--until", options->until, "Before then; likewise")
      ->type_name("WHEN");
  verb->add_option("--limit", options->limit, "At most this many")
      ->check(Range(1, 1000000))
      ->type_name("N")
      ->capture_default_str();
  verb->callback([=] {
    *action = [=](const Console& console) { return Audit(*options, console); };
  });
}

}  // namespace mpsd::client
