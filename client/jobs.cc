// SPDX-License-Identifier: Apache-2.0
#include "client/jobs.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/app.h"
#include "client/text/format.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/base/units.h"
#include "mpsd/v1/access.grpc.pb.h"

namespace mpsd::client {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kLast[] = "@last", kRunning[] = "@running";

// Whether it is as long as an id, and begins like one.
bool IsWholeId(const std::string& text) {
  return text.size() == limits::kWholeId && absl::ascii_isdigit(text[0]) &&
         std::all_of(text.begin(), text.end(), absl::ascii_isalnum);
}

// "5m03s ago" and the owner tell jobs of one name apart.
std::string Listing(const v1::FindJobsResponse& matches,
                    const Console& console) {
  constexpr int kMostShown = 10;
  std::string text = "Give the id of one of these:";
  for (int i = 0; i < matches.jobs_size() && i < kMostShown; ++i) {
    const v1::Job& job = matches.jobs(i);
    absl::StrAppend(&text, "\n  ", ShortJobId(job.id()), "  ",
                    StateName(job.state()), "  ", Printable(job.name()));
    if (!job.has_create_time()) continue;
    absl::StrAppend(
        &text, "  ",
        Seconds(console.terminal.clock->Now() - ToTime(job.create_time())),
        " ago, ", Printable(OrDash(job.owner())), "'s");
  }
  if (matches.more() || matches.jobs_size() > kMostShown) {
    absl::StrAppend(&text, "\n  …");
  }
  return text;
}

// Looks again for what FindJobs did not find, the beginning of a short id, or
// found in several jobs: with owners and times, and the caller's alone if
// `text` is the name of one of these.
void LookCloser(const Console& console, const std::string& text,
                v1::FindJobsResponse* matches) {
  v1::ListJobsRequest request;
  request.set_text(text);
  request.set_page_size(kMostListed);
  v1::ListJobsResponse listed;
  v1::WhoAmIResponse who;
  if (!console.daemon.Call(&JobStub::List, request, &listed).ok() ||
      !console.daemon.Call(&AccessStub::WhoAmI, {}, &who).ok()) {
    return;
  }
  v1::FindJobsResponse all, own;
  for (const v1::Job& job : listed.jobs()) {
    const auto is = [&](const v1::Job& one) { return one.id() == job.id(); };
    const bool meant =
        matches->jobs().empty()
            ? absl::StartsWithIgnoreCase(ShortJobId(job.id()), text)
            : std::any_of(matches->jobs().begin(), matches->jobs().end(), is);
    if (!meant) continue;
    *all.add_jobs() = job;
    if (job.name() == text && job.owner() == who.user()) *own.add_jobs() = job;
  }
  all.set_more(matches->more());
  if (all.jobs_size() < matches->jobs_size()) return;
  *matches = own.jobs_size() == 1 && !all.more() ? own : all;
}

// Finds the jobs that `text` may mean. False, with *code, if a call failed.
bool FindJobs(const Console& console, const std::string& text, PastJobs past,
              v1::FindJobsResponse* matches, ExitCode* code) {
  grpc::Status status;
  v1::ListJobsRequest list;
  v1::ListJobsResponse listed;
  list.set_page_size(text == kLast ? 1 : 2);
  if (text == kLast) {
    const auto user = CallerName(console, code);
    if (!user) return false;
    list.set_owner(*user);
  }
  if (text == kRunning) list.add_states(v1::JOB_STATE_RUNNING);
  if (text == kLast || text == kRunning) {
    status = console.daemon.Call(&JobStub::List, list, &listed);
    matches->mutable_jobs()->Swap(listed.mutable_jobs());
  } else if (text.size() <= limits::kFilterTextBytes &&
             Printable(text) == text) {
    v1::FindJobsRequest request;
    request.set_id_part(text);
    request.set_past(past == PastJobs::kToo);
    status = console.daemon.Call(&JobStub::FindJobs, request, matches);
  }
  if (!status.ok()) *code = console.Fail(status);
  return status.ok();
}

// The ids of all jobs that the filter finds, the oldest first.
std::optional<std::vector<std::string>> ListIds(const Console& console,
                                                v1::ListJobsRequest filter,
                                                ExitCode* code) {
  filter.set_ascending(true);
  filter.set_page_size(kMostListed);
  std::vector<std::string> ids;
  do {
    v1::ListJobsResponse response;
    const grpc::Status status =
        console.daemon.Call(&JobStub::List, filter, &response);
    if (!status.ok()) {
      *code = console.Fail(status);
      return std::nullopt;
    }
    for (const v1::Job& job : response.jobs()) ids.push_back(job.id());
    filter.set_page_token(response.next_page_token());
  } while (!filter.page_token().empty());
  return ids;
}

}  // namespace

std::string JobIdHelp() {
  return R"(Which job, wherever a verb takes an ID:
  its name, characters of its id (at least 4: its first or last ones, or the
  first of the 8 that tables show), @last (your newest job) or @running.)";
}

std::optional<std::string> CallerName(const Console& console, ExitCode* code) {
  v1::WhoAmIResponse who;
  const grpc::Status status =
      console.daemon.Call(&AccessStub::WhoAmI, {}, &who);
  if (status.ok()) return who.user();
  *code = console.Fail(status);
  return std::nullopt;
}

std::optional<std::string> ResolveJobId(const Console& console,
                                        const std::string& text, ExitCode* code,
                                        PastJobs past) {
  const std::string see = "List the jobs with `mpsctl list`.";
  if (text.empty()) {
    *code = console.BadInput("the job's id is empty", see);
    return std::nullopt;
  }
  if (IsWholeId(text)) return absl::AsciiStrToUpper(text);
  v1::FindJobsResponse matches;
  if (!FindJobs(console, text, past, &matches, code)) return std::nullopt;
  if (text[0] != '@' &&
      (matches.jobs_size() > 1 ||
       (matches.jobs().empty() && text.size() >= limits::kIdPart))) {
    LookCloser(console, text, &matches);
  }
  const std::string quoted = absl::StrCat("'", Printable(text), "'");
  if (matches.jobs_size() == 1) return matches.jobs(0).id();
  if (!matches.jobs().empty()) {
    *code = console.BadInput(absl::StrCat(quoted, " is ambiguous: ",
                                          matches.more() ? "more than " : "",
                                          matches.jobs_size(), " jobs match"),
                             Listing(matches, console));
  } else if (text.size() < limits::kIdPart) {
    *code = console.BadInput(
        absl::StrCat(quoted, " is too short: give at least ", limits::kIdPart,
                     " characters of the job's id, or its name"),
        see);
  } else if (v1::FindJobsResponse gone;
             past == PastJobs::kNo && text[0] != '@' &&
             FindJobs(console, text, PastJobs::kToo, &gone, code) &&
             gone.jobs_size() > 0) {
    *code = console.Fail(
        ExitCode::kNotFound, absl::StrCat("job ", quoted, " was deleted"),
        absl::StrCat("Its record: `mpsctl show ", gone.jobs(0).id(), "`."));
  } else {
    *code = console.Fail(ExitCode::kNotFound,
                         text == kRunning ? "no job is running"
                         : text == kLast
                             ? "you have no job"
                             : absl::StrCat("no job with id or name ", quoted),
                         see);
  }
  return std::nullopt;
}

std::optional<std::vector<std::string>> ResolveJobIds(
    const Console& console, const std::vector<std::string>& texts,
    ExitCode* code, PastJobs past) {
  std::vector<std::string> ids;
  for (const std::string& text : texts) {
    std::optional<std::string> id = ResolveJobId(console, text, code, past);
    if (!id) return std::nullopt;
    if (std::find(ids.begin(), ids.end(), *id) == ids.end()) {
      ids.push_back(*std::move(id));
    }
  }
  return ids;
}

void DeclareJob(Command& verb, std::string& id) {
  verb.add_argument(kJobIdName, id, "The job");
}

void AddNamedJobs(Command* verb, NamedJobs* named) {
  verb->add_option(kJobIdName, named->texts, "The jobs");
  AddJobFilter(verb, &named->filter);
}

std::optional<std::vector<std::string>> ResolveNamed(const Console& console,
                                                     const NamedJobs& named,
                                                     v1::ListJobsRequest filter,
                                                     ExitCode* code) {
  const bool has_filter = named.filter != JobFilter();
  if (named.texts.empty() == !has_filter) {
    *code = console.BadInput(
        has_filter ? "name ids or a filter, not both"
                   : "name the jobs: their ids, or --label, --state …",
        "List the jobs with `mpsctl list`.");
    return std::nullopt;
  }
  if (!has_filter) return ResolveJobIds(console, named.texts, code);
  if (!named.filter.states.empty()) filter.clear_states();
  if (absl::Status filled = FillFilter(named.filter, console.terminal, filter);
      !filled.ok()) {
    *code = console.BadInput(filled);
    return std::nullopt;
  }
  auto ids = ListIds(console, std::move(filter), code);
  if (!ids || !ids->empty()) return ids;
  *code = console.Fail(ExitCode::kNotFound, "the filter finds no such job",
                       "`mpsctl list` takes the same filter.");
  return std::nullopt;
}

grpc::Status GetJob(const Console& console, const std::string& id,
                    v1::Job* job) {
  v1::GetJobRequest request;
  request.set_id(id);
  return console.daemon.Call(&JobStub::Get, request, job);
}

std::string RunningEta(const Console& console, const v1::Job& job) {
  if (!job.has_queue_position()) return "";
  v1::ListJobsRequest request;
  request.add_states(v1::JOB_STATE_RUNNING);
  request.set_page_size(1);
  v1::ListJobsResponse response;
  const bool known =
      console.daemon.Call(&JobStub::List, request, &response).ok() &&
      !response.jobs().empty() && response.jobs(0).progress().eta_seconds() > 0;
  return known ? Seconds(response.jobs(0).progress().eta_seconds()) : "";
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

namespace {

// --- Verbs that send one request for each job --------------------------------

// Calls `change` for each of the jobs in turn, even after one fails; returns
// the first code that is not kOk. Changes nothing if one text has no job.
// A filter without an owner matches only the caller's own jobs.
ExitCode ForEachJob(
    const Console& console, NamedJobs named, v1::ListJobsRequest filter,
    const std::function<ExitCode(const std::string& id)>& change) {
  ExitCode code = ExitCode::kOk;
  if (named.filter != JobFilter() && named.filter.owner.empty()) {
    const auto user = CallerName(console, &code);
    if (!user) return code;
    named.filter.owner = *user;
  }
  const auto ids = ResolveNamed(console, named, std::move(filter), &code);
  if (!ids) return code;
  return ForEach(*ids, change);
}

struct ChangeOptions {
  NamedJobs named;
  std::string reason;
  bool now = false, from_scratch = false;
};

v1::ListJobsRequest InStates(std::initializer_list<v1::JobState> states) {
  v1::ListJobsRequest filter;
  for (const v1::JobState state : states) filter.add_states(state);
  return filter;
}

// Sends `request` for each of the jobs, and prints the text for the new state.
template <typename Request>
ExitCode Change(const Console& console, const NamedJobs& named,
                const v1::ListJobsRequest& filter,
                grpc::Status (JobStub::*method)(grpc::ClientContext*,
                                                const Request&, v1::Job*),
                Request request, std::string (*text)(const v1::Job&)) {
  return ForEachJob(console, named, filter, [&](const std::string& id) {
    request.set_id(id);
    return console.Ask(method, request, [&](const v1::Job& job) {
      console.out << "Job " << job.id() << text(job) << '\n';
    });
  });
}

void DeclareNamedJobs(Command& verb, ChangeOptions& options) {
  AddNamedJobs(&verb, &options.named);
}

void DeclareHold(Command& verb, ChangeOptions& options) {
  DeclareNamedJobs(verb, options);
  verb.add_option("--reason TEXT", options.reason, "Why; shown in the queue");
}

ExitCode Hold(const ChangeOptions& options, const Console& console) {
  v1::HoldRequest request;
  request.set_reason(options.reason);
  return Change(console, options.named, InStates({v1::JOB_STATE_QUEUED}),
                &JobStub::Hold, request, [](const v1::Job& job) {
                  return absl::StrCat(" is held", job.hold().empty() ? "" : " ",
                                      Printable(job.hold()),
                                      ". It starts after `mpsctl release ",
                                      job.id(), "`.");
                });
}

ExitCode Release(const ChangeOptions& options, const Console& console) {
  v1::ListJobsRequest filter = InStates({v1::JOB_STATE_QUEUED});
  filter.set_held(true);
  return Change(console, options.named, filter, &JobStub::Release, {},
                [](const v1::Job& job) {
                  return absl::StrCat(" is released", AheadText(job), ".");
                });
}

void DeclareCancel(Command& verb, ChangeOptions& options) {
  DeclareNamedJobs(verb, options);
  verb.add_flag("--now", options.now,
                "End them at once, without a further checkpoint");
}

std::string CancelText(const v1::Job& job, const std::string& how) {
  if (job.state() == v1::JOB_STATE_CANCELLED) return " is CANCELLED.";
  if (!IsFinal(job.state())) return how;
  return absl::StrCat(" had ended before: ", StateName(job.state()), ".");
}

ExitCode Cancel(const ChangeOptions& options, const Console& console) {
  v1::CancelRequest request;
  request.set_now(options.now);
  const auto now = [](const v1::Job& job) {
    return CancelText(job, " is ended at once.");
  };
  const auto saving = [](const v1::Job& job) {
    return CancelText(
        job, absl::StrCat(": cancelling",
                          IsStudy(job.kind()) ? "" : "; saving a checkpoint",
                          ". `mpsctl cancel --now ", job.id(),
                          "` ends it at once."));
  };
  return Change(console, options.named,
                InStates({v1::JOB_STATE_QUEUED, v1::JOB_STATE_RUNNING}),
                &JobStub::Cancel, request, options.now ? +now : +saving);
}

void DeclareRetry(Command& verb, ChangeOptions& options) {
  verb.add_argument(kJobIdName, options.named.texts, "The jobs");
  verb.add_flag("--from-scratch", options.from_scratch,
                "Remove their checkpoints and results and start over, also\n"
                "SUCCEEDED ones");
}

// `how`: the next attempt; `saving`: what a running job's worker does before.
std::string RetryText(const v1::Job& job, const std::string& how,
                      const char* saving) {
  return job.state() == v1::JOB_STATE_RUNNING
             ? absl::StrCat(": requeue requested; ", saving, ".")
             : absl::StrCat(" is ", StateName(job.state()), " again",
                            AheadText(job), "; ", how, ".");
}

ExitCode Retry(const ChangeOptions& options, const Console& console) {
  v1::RetryRequest request;
  request.set_from_scratch(options.from_scratch);
  const auto from_scratch = [](const v1::Job& job) {
    constexpr char kHow[] = "starts from step 0, without its earlier results";
    return RetryText(job, kHow, kHow);
  };
  const auto resumed = [](const v1::Job& job) {
    return RetryText(job, ResumeText(job), "saving a checkpoint");
  };
  return Change(console, options.named, {}, &JobStub::Retry, request,
                options.from_scratch ? +from_scratch : +resumed);
}

// --- set ---------------------------------------------------------------------

struct SetOptions {
  std::vector<std::string> texts, tags, untags;
  std::optional<std::string> note;
  std::optional<int32_t> priority;
  bool top = false, bottom = false, hold = false, release = false, pin = false,
       unpin = false;

  bool moves() const { return top || bottom || priority; }
  bool records() const { return note || !tags.empty() || !untags.empty(); }
};

void DeclareSet(Command& verb, SetOptions& options) {
  verb.add_argument(kJobIdName, options.texts, "The jobs");
  Option* top = verb.add_flag("--top", options.top,
                              "Before your other queued jobs of its priority;\n"
                              "an admin's: before everyone's");
  Option* bottom =
      verb.add_flag("--bottom", options.bottom, "After them")->excludes(top);
  verb.add_option("--priority N", options.priority, "Higher runs first")
      ->excludes(top)
      ->excludes(bottom);
  Option* hold = verb.add_flag("--hold", options.hold,
                               "Keep it from starting; it keeps its place");
  verb.add_flag("--release", options.release, "Let it start")->excludes(hold);
  Option* pin = verb.add_flag("--pin", options.pin,
                              "Protect it from delete and from every rule");
  verb.add_flag("--unpin", options.unpin, "Unpin it")->excludes(pin);
  verb.add_option("--note TEXT", options.note,
                  "Add a note of at most 4,096 bytes, also to a deleted\n"
                  "job; notes stay");
  verb.add_list("--tag WORD", options.tags,
                "Add a tag of letters, digits and ._-+/@, also to a\n"
                "deleted job; repeatable");
  verb.add_list("--untag WORD", options.untags, "Remove a tag; repeatable");
}

std::string MovedText(const v1::Job& job) {
  const bool first = job.has_queue_position() && !job.queue_position();
  return absl::StrCat(" has priority ", job.priority(),
                      first ? ", first in the queue" : AheadText(job),
                      job.held() ? "; it is held." : ".");
}

std::string PinText(const v1::Job& job) {
  return job.pinned() ? " is pinned: nothing of it is removed until `mpsctl "
                        "set ID --unpin`."
                      : " is not pinned.";
}

ExitCode AddNote(const std::string& id, const std::string& text,
                 const Console& console) {
  v1::AddNoteRequest request;
  request.set_id(id);
  request.set_text(text);
  return console.Ask(&JobStub::AddNote, request, [&](const auto& response) {
    console.out << "Job " << id << " has "
                << CountOf(response.record().notes_size(), "note") << ".\n";
  });
}

ExitCode ChangeTags(const std::string& id, const SetOptions& options,
                    const Console& console) {
  v1::TagRequest request;
  request.set_id(id);
  request.mutable_add()->Assign(options.tags.begin(), options.tags.end());
  request.mutable_remove()->Assign(options.untags.begin(),
                                   options.untags.end());
  return console.Ask(&JobStub::Tag, request, [&](const auto& response) {
    const auto& tags = response.record().tags();
    console.out << "Job " << id << " has "
                << (tags.empty()
                        ? "no tags"
                        : absl::StrCat(
                              tags.size() == 1 ? "the tag " : "the tags ",
                              Printable(absl::StrJoin(tags, ", "))))
                << ".\n";
  });
}

// Makes each change, even after one fails; returns the first code that is not
// kOk.
ExitCode SetOne(const SetOptions& options, const std::string& id,
                const Console& console) {
  const NamedJobs job{{id}, {}};
  ChangeOptions change;
  change.named = job;
  v1::MoveRequest move;
  if (options.top) move.set_top(true);
  if (options.bottom) move.set_bottom(true);
  if (options.priority) move.set_priority(*options.priority);
  ExitCode code = ExitCode::kOk;
  const auto also = [&code](bool asked, const auto& make) {
    const ExitCode one = asked ? make() : ExitCode::kOk;
    if (code == ExitCode::kOk) code = one;
  };
  also(options.moves(), [&] {
    return Change(console, job, {}, &JobStub::Move, move, MovedText);
  });
  also(options.hold, [&] { return Hold(change, console); });
  also(options.release, [&] { return Release(change, console); });
  also(options.pin,
       [&] { return Change(console, job, {}, &JobStub::Pin, {}, PinText); });
  also(options.unpin,
       [&] { return Change(console, job, {}, &JobStub::Unpin, {}, PinText); });
  also(options.note.has_value(),
       [&] { return AddNote(id, *options.note, console); });
  also(!options.tags.empty() || !options.untags.empty(),
       [&] { return ChangeTags(id, options, console); });
  return code;
}

ExitCode Set(const SetOptions& options, const Console& console) {
  const bool changes = options.moves() || options.hold || options.release ||
                       options.pin || options.unpin;
  if (!changes && !options.records()) {
    return console.BadInput("set: name what to set: --priority, --note …",
                            "See `mpsctl set --help`.");
  }
  ExitCode code = ExitCode::kOk;
  // A deleted job has notes and tags alone.
  auto ids = ResolveJobIds(console, options.texts, &code,
                           changes ? PastJobs::kNo : PastJobs::kToo);
  if (!ids) return code;
  // The first job named becomes the first in the queue.
  if (options.top) std::reverse(ids->begin(), ids->end());
  return ForEach(*ids, [&](const std::string& id) {
    return SetOne(options, id, console);
  });
}

// --- Verbs that send one request ---------------------------------------------

void DeclareDrain(Command& verb, std::string& reason) {
  verb.add_option("--reason TEXT", reason, "Why; shown to those who wait");
}

ExitCode Drain(const std::string& reason, const Console& console) {
  v1::DrainRequest request;
  request.set_reason(reason);
  return console.Ask(&DaemonStub::Drain, request, [&](const auto&) {
    console.out << "Queue paused until `mpsctl admin undrain`, also across "
                   "restarts. The running job continues.\n";
  });
}

ExitCode Undrain(const Console& console) {
  return console.Ask(&DaemonStub::Undrain, {},
                     [&](const auto&) { console.out << "Queue resumed.\n"; });
}

// --- Removal -----------------------------------------------------------------

// Ids shown in a dry run.
constexpr int kShownIds = 20;

struct DeleteOptions {
  std::vector<std::string> texts;
  JobFilter filter;
  std::string older_than;
  bool all = false;
  bool yes = false;
  bool dry_run = false;

  bool has_filter() const {
    return all || !older_than.empty() || filter != JobFilter();
  }
};

ExitCode DeleteOne(const std::string& id, const Console& console) {
  v1::DeleteRequest request;
  request.set_id(id);
  v1::DeleteResponse response;
  bool interrupted = false;
  const grpc::Status status = console.daemon.CallLong(&JobStub::Delete, request,
                                                      &response, &interrupted);
  if (interrupted) {
    return console.Fail(ExitCode::kDetached,
                        "interrupted; the job may have been deleted");
  }
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(
        Json{{"job_id", id}, {"freed_bytes", response.freed_bytes()}});
  } else {
    console.out << "Deleted job " << id << ", freed "
                << base::BytesText(response.freed_bytes()) << ".\n"
                << std::flush;
  }
  return ExitCode::kOk;
}

// What was deleted, or would be, and what stays.
struct Deleted {
  std::vector<std::string> ids;
  std::vector<std::pair<std::string, std::string>>
      kept;  // each with the reason
  int64_t freed_bytes = 0;
};

// Deletes the jobs one by one. Returns why it ended early; a job that cannot be
// deleted stays, and is no reason.
ExitCode DeleteEach(const std::vector<std::string>& ids, bool dry_run,
                    const Console& console, Deleted& deleted) {
  for (const std::string& id : ids) {
    v1::DeleteRequest request;
    request.set_id(id);
    request.set_dry_run(dry_run);
    v1::DeleteResponse response;
    bool interrupted = false;
    const grpc::Status status = console.daemon.CallLong(
        &JobStub::Delete, request, &response, &interrupted);
    if (interrupted) {
      return console.Fail(ExitCode::kDetached,
                          "interrupted; some jobs may have been deleted");
    }
    switch (status.error_code()) {
      case grpc::StatusCode::OK:
        deleted.ids.push_back(id);
        deleted.freed_bytes += response.freed_bytes();
        break;
      case grpc::StatusCode::FAILED_PRECONDITION:
      case grpc::StatusCode::NOT_FOUND:
      case grpc::StatusCode::PERMISSION_DENIED:
      case grpc::StatusCode::DATA_LOSS:
        deleted.kept.emplace_back(id, status.error_message());
        break;
      default:
        return console.Fail(status);
    }
  }
  return ExitCode::kOk;
}

// A job that has just ended has not been measured yet.
std::string FreedText(const Deleted& would) {
  return would.freed_bytes == 0
             ? ""
             : absl::StrCat(", freeing about ",
                            base::BytesText(would.freed_bytes));
}

void Print(const Deleted& deleted, bool dry_run, const Console& console) {
  const int64_t count = std::ssize(deleted.ids);
  if (console.json) {
    Json object = {{"dry_run", dry_run},
                   {"matched", count},
                   {"freed_bytes", deleted.freed_bytes},
                   {"deleted", deleted.ids},
                   {"kept", Json::array()}};
    for (const auto& [id, why] : deleted.kept) {
      object["kept"] += {{"id", id}, {"why", why}};
    }
    return console.PrintJson(object);
  }
  for (int64_t i = 0; dry_run && i < std::min<int64_t>(count, kShownIds); ++i) {
    console.out << deleted.ids[i] << '\n';
  }
  if (dry_run && count > kShownIds) {
    console.out << "… and " << Count(count - kShownIds) << " more\n";
  }
  for (const auto& [id, why] : deleted.kept) {
    console.out << "Job " << id << " stays: " << Printable(why) << '\n';
  }
  if (dry_run) {
    console.out << CountOf(count, "job") << " would be deleted"
                << FreedText(deleted) << ".\n";
  } else if (count == 0) {
    console.out << "No such jobs.\n";
  } else {
    console.out << "Deleted " << CountOf(count, "job") << ", freed "
                << base::BytesText(deleted.freed_bytes) << ".\n";
  }
}

// Whether the user confirms.
ExitCode Ask(const Deleted& would, const Console& console) {
  const std::string jobs = CountOf(std::ssize(would.ids), "job");
  const absl::StatusOr<std::string> answer = console.terminal.ask(
      absl::StrCat("Delete ", jobs, " with logs, checkpoints and results",
                   FreedText(would), "? (yes/no) "),
      Echo::kOn);
  if (!answer.ok()) {
    return console.BadInput(
        absl::StrCat("cannot ask without a terminal whether to delete ", jobs),
        "--yes deletes them without asking, --dry-run lists them.");
  }
  if (*answer == "yes" || *answer == "y") return ExitCode::kOk;
  console.err << "Nothing was deleted.\n";
  return ExitCode::kDetached;
}

// The ended jobs that a filter finds: the caller's, or all for an admin.
std::optional<std::vector<std::string>> FindEnded(const DeleteOptions& options,
                                                  const Console& console,
                                                  ExitCode* code) {
  v1::ListJobsRequest filter = InStates(
      {v1::JOB_STATE_SUCCEEDED, v1::JOB_STATE_FAILED, v1::JOB_STATE_CANCELLED});
  if (!options.filter.states.empty()) filter.clear_states();
  v1::WhoAmIResponse who;
  const grpc::Status status =
      console.daemon.Call(&AccessStub::WhoAmI, {}, &who);
  if (!status.ok()) {
    *code = console.Fail(status);
    return std::nullopt;
  }
  absl::Status filled = FillFilter(options.filter, console.terminal, filter);
  if (filled.ok()) {
    filled = SetWhen("--older-than", options.older_than, console.terminal,
                     filter, &v1::ListJobsRequest::mutable_end_time_to);
  }
  if (!filled.ok()) {
    *code = console.BadInput(filled);
    return std::nullopt;
  }
  if (filter.owner().empty() && who.role() != v1::ROLE_ADMIN) {
    filter.set_owner(who.user());
  }
  return ListIds(console, std::move(filter), code);
}

ExitCode Delete(const DeleteOptions& options, const Console& console) {
  const bool finds = options.has_filter();
  if (options.texts.empty() == !finds) {
    return console.BadInput(
        finds ? "name ids or a filter, not both"
              : "name the jobs: their ids, or --state, --older-than … or --all",
        "See `mpsctl delete --help`.");
  }
  ExitCode code = ExitCode::kOk;
  auto ids = finds ? FindEnded(options, console, &code)
                   : ResolveJobIds(console, options.texts, &code);
  if (!ids) return code;
  if (!finds && !options.dry_run) {
    return ForEach(*ids,
                   [&](const auto& id) { return DeleteOne(id, console); });
  }
  Deleted deleted;
  if (options.dry_run || !options.yes) {
    code = DeleteEach(*ids, /*dry_run=*/true, console, deleted);
    if (code != ExitCode::kOk) return code;
    if (options.dry_run || deleted.ids.empty()) {
      Print(deleted, options.dry_run, console);
      return code;
    }
    code = Ask(deleted, console);
    if (code != ExitCode::kOk) return code;
    *ids = std::exchange(deleted.ids, {});
    deleted.freed_bytes = 0;
  }
  code = DeleteEach(*ids, /*dry_run=*/false, console, deleted);
  Print(deleted, /*dry_run=*/false, console);
  return code;
}

void DeclareDelete(Command& verb, DeleteOptions& options) {
  verb.add_option(kJobIdName, options.texts, "The jobs");
  AddJobFilter(&verb, &options.filter);
  verb.add_option("--older-than TIME", options.older_than,
                  "Only those that ended at least this long ago: 30d, 2w, 12h")
      ->excludes(verb.get_option("--ended-until"));
  verb.add_flag("--all", options.all,
                "All of yours that have ended; for admins: everyone's");
  verb.add_flag("-y,--yes", options.yes,
                "Delete what a filter finds, without asking");
  verb.add_flag("--dry-run", options.dry_run,
                "Show what would be deleted, and delete nothing");
}

std::string ItemKindName(v1::CollectionItem::Kind kind) {
  switch (kind) {
    case v1::CollectionItem::KIND_JOB:
      return "job";
    case v1::CollectionItem::KIND_CHECKPOINTS:
      return "checkpoints";
    case v1::CollectionItem::KIND_BLOB:
      return "upload";
    case v1::CollectionItem::KIND_PARTIAL_UPLOAD:
      return "part of an upload";
    case v1::CollectionItem::KIND_LEFTOVER:
      return "leftover";
    default:
      return absl::StrCat("kind ", static_cast<int>(kind));
  }
}

// A SHA-256 is cut: no one types it.
std::string ShortId(const v1::CollectionItem& item) {
  constexpr size_t kShown = 26;
  if (item.id().empty()) return "-";
  return item.id().size() > kShown ? item.id().substr(0, 12) + "…" : item.id();
}

void PrintUse(const v1::PlanCollectionResponse& plan, const Console& console) {
  if (plan.fresh() > 0) {
    console.out << CountOf(plan.fresh(), "job")
                << " beyond the rules ended too recently; the first may be "
                   "removed at "
                << DateTime(plan.fresh_until(), console.terminal.zone) << ".\n";
  }
  if (plan.used_bytes() == 0) {
    console.out << "The state folder has not been measured yet.\n";
  } else if (plan.budget_bytes() == 0) {
    console.out << "The state folder has " << base::BytesText(plan.used_bytes())
                << ", and no budget.\n";
  } else {
    console.out << "The state folder has " << base::BytesText(plan.used_bytes())
                << " of a budget of " << base::BytesText(plan.budget_bytes())
                << ".\n";
  }
  if (!plan.short_of().empty()) {
    console.out << "Short of space: " << Printable(plan.short_of()) << ".\n";
  }
}

void PrintPlan(const v1::PlanCollectionResponse& plan, const Console& console) {
  if (plan.items().empty()) {
    console.out << "Nothing would be removed.\n";
    return PrintUse(plan, console);
  }
  Table table({"WHAT", "ID", "SIZE", "OWNER", "NAME", "WHY"});
  for (const v1::CollectionItem& item : plan.items()) {
    table.Add({ItemKindName(item.kind()), ShortId(item),
               base::BytesText(item.size_bytes()), OrDash(item.owner()),
               OrDash(item.name()), item.why()});
  }
  console.Print(table);
  if (plan.more() > 0) {
    console.out << "… and " << Count(plan.more()) << " more\n";
  }
  console.out << Count(plan.items_size() + plan.more())
              << " would be removed, about "
              << base::BytesText(plan.freed_bytes()) << " freed.\n";
  PrintUse(plan, console);
}

ExitCode Collect(const Console& console) {
  v1::CollectResponse collected;
  bool interrupted = false;
  const grpc::Status status = console.daemon.CallLong(&DaemonStub::Collect, {},
                                                      &collected, &interrupted);
  if (interrupted) {
    return console.Fail(ExitCode::kDetached,
                        "interrupted; some of it may have been removed");
  }
  if (!status.ok()) return console.Fail(status);
  return console.Show(collected, [&](const v1::CollectResponse&) {
    for (const std::string& failed : collected.failed()) {
      console.out << "Stays: " << Printable(failed) << '\n';
    }
    console.out << Count(collected.removed()) << " removed, "
                << base::BytesText(collected.freed_bytes()) << " freed.\n";
  });
}

void DeclareGc(Command& verb, bool& dry_run) {
  verb.add_flag("--dry-run", dry_run,
                "Show what would be removed, and why; remove nothing");
}

ExitCode Gc(const bool& dry_run, const Console& console) {
  if (!dry_run) return Collect(console);
  return console.Ask(&DaemonStub::PlanCollection, {},
                     [&](const v1::PlanCollectionResponse& plan) {
                       PrintPlan(plan, console);
                     });
}

}  // namespace

std::vector<Verb> JobsVerbs() {
  return {
      {"set", "Change place, priority, hold, pin, notes, tags",
       Takes(DeclareSet, Set),
       "mpsctl set moods --priority 5\n"
       "mpsctl set @last --note \"rejected: overfits\" --tag ablation"},
      {"hold", "Keep queued jobs from starting", Takes(DeclareHold, Hold),
       "mpsctl hold moods --reason \"data are being fixed\""},
      {"release", "Let held jobs start", Takes(DeclareNamedJobs, Release),
       "mpsctl release moods"},
      {"cancel", "Cancel jobs", Takes(DeclareCancel, Cancel),
       "mpsctl cancel @last\n"
       "mpsctl cancel --label sweep=ranks --state QUEUED"},
      {"retry", "Run jobs again, from their last checkpoints",
       Takes(DeclareRetry, Retry),
       "mpsctl retry moods\n"
       "mpsctl retry @last --from-scratch"},
      {"drain", "Start no further job until undrain",
       Takes(DeclareDrain, Drain),
       "mpsctl admin drain --reason \"update at noon\""},
      {"undrain", "Start jobs again", TakesNothing(Undrain),
       "mpsctl admin undrain"},
      {"delete", "Remove ended jobs with logs and results",
       Takes(DeclareDelete, Delete),
       "mpsctl delete moods\n"
       "mpsctl delete --state FAILED --older-than 30d --dry-run"},
      {"gc", "Remove now what mpsd's rules and budget allow",
       Takes(DeclareGc, Gc), "mpsctl admin gc --dry-run"},
  };
}

}  // namespace mpsd::client
