// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/job_id.h"
#include "client/list.h"
#include "client/text/format.h"
#include "client/verbs.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/base/units.h"

namespace mpsd::client {

namespace {

// Jobs deleted per call, so that Ctrl-C takes effect soon.
constexpr int kJobsOfCall = 100;
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

// --- Jobs by name ------------------------------------------------------------

ExitCode DeleteOne(const std::string& id, const Console& console) {
  grpc::ClientContext context;
  Interrupt::Listener listener(console.terminal.interrupt,
                               [&context] { context.TryCancel(); });
  v1::DeleteRequest request;
  request.set_id(id);
  v1::DeleteResponse response;
  // No deadline: a large folder takes long to remove.
  grpc::Status status =
      console.daemon.jobs().Delete(&context, request, &response);
  if (listener.raised()) {
    return console.Fail(ExitCode::kDetached,
                        "interrupted; the job may have been deleted", "");
  }
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    const nlohmann::ordered_json object = {
        {"job_id", id}, {"freed_bytes", response.freed_bytes()}};
    console.out << object.dump() << '\n' << std::flush;
  } else {
    console.out << "Job " << id << " is deleted, "
                << Bytes(response.freed_bytes()) << " freed.\n"
                << std::flush;
  }
  return ExitCode::kOk;
}

ExitCode DeleteNamed(const std::vector<std::string>& ids,
                     const Console& console) {
  ExitCode code = ExitCode::kOk;
  for (const std::string& id : ids) {
    const ExitCode one = DeleteOne(id, console);
    if (code == ExitCode::kOk) code = one;
    if (one == ExitCode::kDetached) break;
  }
  return code;
}

// --- Jobs by filter ----------------------------------------------------------

std::string CountOfJobs(int64_t count) {
  return count == 1 ? "1 job" : absl::StrCat(Count(count), " jobs");
}

absl::StatusOr<v1::DeleteJobsRequest> Request(const DeleteOptions& options,
                                              const Terminal& terminal) {
  v1::DeleteJobsRequest request;
  v1::ListJobsRequest& filter = *request.mutable_filter();
  RETURN_IF_ERROR(FillFilter(options.filter, terminal, filter));
  if (options.filter.states.empty()) {
    for (const v1::JobState state :
         {v1::JOB_STATE_SUCCEEDED, v1::JOB_STATE_FAILED,
          v1::JOB_STATE_CANCELLED}) {
      filter.add_states(state);
    }
  }
  if (options.older_than.empty()) return request;
  const absl::StatusOr<absl::Time> time =
      base::ParseWhen(options.older_than, terminal.clock->Now(), terminal.zone);
  if (!time.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--older-than ", time.status().message()));
  }
  filter.mutable_end_time_to()->set_seconds(absl::ToUnixSeconds(*time));
  return request;
}

grpc::Status Call(const Console& console, const v1::DeleteJobsRequest& request,
                  v1::DeleteJobsResponse& response, bool* interrupted) {
  grpc::ClientContext context;
  Interrupt::Listener listener(console.terminal.interrupt,
                               [&context] { context.TryCancel(); });
  grpc::Status status =
      console.daemon.jobs().DeleteJobs(&context, request, &response);
  *interrupted = listener.raised();
  return status;
}

void PrintKept(const v1::DeleteJobsResponse& response, const Console& console) {
  for (const auto& kept : response.kept()) {
    console.out << "Job " << Printable(kept.id())
                << " stays: " << Printable(kept.why()) << '\n';
  }
}

void PrintJson(const v1::DeleteJobsResponse& response, bool dry_run,
               const Console& console) {
  nlohmann::ordered_json object = {{"dry_run", dry_run},
                                   {"matched", response.matched()},
                                   {"freed_bytes", response.freed_bytes()},
                                   {"deleted", nlohmann::ordered_json::array()},
                                   {"kept", nlohmann::ordered_json::array()}};
  for (const std::string& id : response.deleted()) object["deleted"] += id;
  for (const auto& kept : response.kept()) {
    object["kept"] += {{"id", kept.id()}, {"why", kept.why()}};
  }
  const std::string line = object.dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  console.out << (console.terminal.is_tty ? base::Printable(line) : line)
              << '\n'
              << std::flush;
}

ExitCode PrintDryRun(const v1::DeleteJobsResponse& response,
                     const Console& console) {
  if (console.json) {
    PrintJson(response, /*dry_run=*/true, console);
    return ExitCode::kOk;
  }
  int shown = 0;
  for (const std::string& id : response.deleted()) {
    if (++shown > kShownIds) break;
    console.out << Printable(id) << '\n';
  }
  if (response.matched() > kShownIds) {
    console.out << "… and " << Count(response.matched() - kShownIds)
                << " more\n";
  }
  PrintKept(response, console);
  console.out << CountOfJobs(response.matched()) << " would be deleted, about "
              << Bytes(response.freed_bytes()) << " freed.\n";
  return ExitCode::kOk;
}

// Whether the user confirms.
ExitCode Ask(const v1::DeleteJobsResponse& would, const Console& console) {
  const absl::StatusOr<std::string> answer = console.terminal.ask(
      absl::StrCat("Delete ", CountOfJobs(would.matched()),
                   " with logs, checkpoints and results, about ",
                   Bytes(would.freed_bytes()), "? (yes/no) "),
      Echo::kOn);
  if (!answer.ok()) {
    return console.Fail(
        ExitCode::kBadInput,
        absl::StrCat("cannot ask without a terminal whether to delete ",
                     CountOfJobs(would.matched())),
        "--yes deletes them without asking, --dry-run lists them.");
  }
  if (*answer == "yes" || *answer == "y") return ExitCode::kOk;
  console.out << "Nothing was deleted.\n";
  return ExitCode::kDetached;
}

ExitCode DeleteAll(v1::DeleteJobsRequest request, const Console& console) {
  request.mutable_filter()->set_page_size(kJobsOfCall);
  v1::DeleteJobsResponse all;
  std::set<std::string> kept;
  bool more = true, interrupted = false;
  while (more) {
    v1::DeleteJobsResponse response;
    const grpc::Status status = Call(console, request, response, &interrupted);
    if (interrupted) break;
    if (!status.ok()) return console.Fail(status);
    more = response.more();
    all.set_matched(all.matched() + response.matched());
    all.set_freed_bytes(all.freed_bytes() + response.freed_bytes());
    all.mutable_deleted()->MergeFrom(response.deleted());
    for (const auto& one : response.kept()) {
      if (kept.insert(one.id()).second) *all.add_kept() = one;
    }
  }
  if (console.json) {
    PrintJson(all, /*dry_run=*/false, console);
  } else {
    PrintKept(all, console);
    console.out << CountOfJobs(all.matched())
                << (all.matched() == 1 ? " is" : " are") << " deleted, "
                << Bytes(all.freed_bytes()) << " freed.\n";
  }
  if (!interrupted) return ExitCode::kOk;
  return console.Fail(ExitCode::kDetached,
                      "interrupted; some more jobs may have been deleted", "");
}

ExitCode DeleteFound(const DeleteOptions& options, const Console& console) {
  absl::StatusOr<v1::DeleteJobsRequest> request =
      Request(options, console.terminal);
  if (!request.ok()) {
    return console.Fail(ExitCode::kBadInput, request.status(), "");
  }
  v1::ListJobsRequest& filter = *request->mutable_filter();
  // The question did not cover jobs that ended after it.
  if (!filter.has_end_time_to()) {
    filter.mutable_end_time_to()->set_seconds(
        absl::ToUnixSeconds(console.terminal.clock->Now()) + 1);
  }
  if (options.yes && !options.dry_run) {
    return DeleteAll(*std::move(request), console);
  }
  request->set_dry_run(true);
  v1::DeleteJobsResponse would;
  bool interrupted = false;
  const grpc::Status status = Call(console, *request, would, &interrupted);
  if (!status.ok()) return console.Fail(status);
  if (options.dry_run) return PrintDryRun(would, console);
  if (would.matched() == 0) {
    PrintKept(would, console);
    console.out << "No such jobs.\n";
    return ExitCode::kOk;
  }
  const ExitCode wanted = Ask(would, console);
  if (wanted != ExitCode::kOk) return wanted;
  request->clear_dry_run();
  return DeleteAll(*std::move(request), console);
}

ExitCode TryNamed(const std::vector<std::string>& ids, const Console& console) {
  v1::DeleteJobsRequest request;
  request.set_dry_run(true);
  for (const std::string& id : ids) request.add_ids(id);
  v1::DeleteJobsResponse response;
  bool interrupted = false;
  const grpc::Status status = Call(console, request, response, &interrupted);
  return status.ok() ? PrintDryRun(response, console) : console.Fail(status);
}

ExitCode Delete(const DeleteOptions& options, const Console& console) {
  if (options.texts.empty() == !options.has_filter()) {
    return console.Fail(
        ExitCode::kBadInput,
        options.texts.empty()
            ? "name the jobs: their ids, or --state, --older-than … or --all"
            : "name ids or a filter, not both",
        "See `mpsctl delete --help`.");
  }
  if (options.has_filter()) return DeleteFound(options, console);
  ExitCode code = ExitCode::kOk;
  const auto ids = ResolveJobIds(console, options.texts, &code,
                                 FewestIdCharacters::kChanges);
  if (!ids) return code;
  return options.dry_run ? TryNamed(*ids, console) : DeleteNamed(*ids, console);
}

}  // namespace

void AddDelete(Command& app, Action* action) {
  auto options = std::make_shared<DeleteOptions>();
  Command* verb = app.add_subcommand(
      "delete", "Remove jobs that have ended, with their logs and results");
  verb->add_option(kJobIdName, options->texts, "The jobs")->type_name("");
  AddJobFilter(verb, &options->filter);
  verb->add_option("--older-than", options->older_than,
                   "Only those that ended at least this long ago: 30d, 2w, 12h")
      ->type_name("TIME")
      ->excludes(verb->get_option("--ended-until"));
  verb->add_flag("--all", options->all,
                 "All of yours that have ended; for admins: everyone's");
  verb->add_flag("-y,--yes", options->yes,
                 "Delete what a filter finds, without asking");
  verb->add_flag("--dry-run", options->dry_run,
                 "Show what would be deleted, and delete nothing");
  verb->callback([=] {
    *action = [=](const Console& console) { return Delete(*options, console); };
  });
}

namespace {

std::string KindName(v1::CollectionItem::Kind kind) {
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
  if (plan.used_bytes() == 0) {
    console.out << "The state folder has not been measured yet.\n";
  } else if (plan.budget_bytes() == 0) {
    console.out << "The state folder has " << Bytes(plan.used_bytes())
                << ", and no budget.\n";
  } else {
    console.out << "The state folder has " << Bytes(plan.used_bytes())
                << " of a budget of " << Bytes(plan.budget_bytes()) << ".\n";
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
    table.Add({KindName(item.kind()), ShortId(item), Bytes(item.size_bytes()),
               OrDash(item.owner()), OrDash(item.name()), item.why()});
  }
  table.Print(console.out,
              console.terminal.is_tty ? console.terminal.columns() : 0);
  if (plan.more() > 0) {
    console.out << "… and " << Count(plan.more()) << " more\n";
  }
  console.out << Count(plan.items_size() + plan.more())
              << " would be removed, about " << Bytes(plan.freed_bytes())
              << " freed.\n";
  PrintUse(plan, console);
}

ExitCode Plan(const Console& console) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::PlanCollectionResponse plan;
  const grpc::Status status =
      console.daemon.daemon().PlanCollection(&context, {}, &plan);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(plan);
  } else {
    PrintPlan(plan, console);
  }
  return ExitCode::kOk;
}

ExitCode Collect(const Console& console) {
  grpc::ClientContext context;
  Interrupt::Listener listener(console.terminal.interrupt,
                               [&context] { context.TryCancel(); });
  v1::CollectResponse collected;
  // No deadline: many folders take long to remove.
  const grpc::Status status =
      console.daemon.daemon().Collect(&context, {}, &collected);
  if (listener.raised()) {
    return console.Fail(ExitCode::kDetached,
                        "interrupted; some of it may have been removed", "");
  }
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(collected);
  } else {
    for (const std::string& failed : collected.failed()) {
      console.out << "Stays: " << Printable(failed) << '\n';
    }
    console.out << Count(collected.removed()) << " removed, "
                << Bytes(collected.freed_bytes()) << " freed.\n";
  }
  return ExitCode::kOk;
}

}  // namespace

void AddGc(Command& app, Action* action) {
  auto dry_run = std::make_shared<bool>(false);
  Command* verb = app.add_subcommand(
      "gc", "Remove now what mpsd's --keep-… rules and budget allow");
  verb->add_flag("--dry-run", *dry_run,
                 "Show what would be removed, and why; remove nothing");
  verb->callback([=] {
    *action = [=](const Console& console) {
      return *dry_run ? Plan(console) : Collect(console);
    };
  });
}

}  // namespace mpsd::client
