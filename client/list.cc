// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/job_labels.h"
#include "client/table.h"
#include "client/text/format.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

struct ListOptions {
  std::vector<std::string> states;
  std::string owner;
  std::vector<std::string> job_labels;
  int limit = 50;
  bool quiet = false;
};

std::vector<std::string> StateNames() {
  std::vector<std::string> names;
  for (int i = v1::JobState_MIN + 1; i <= v1::JobState_MAX; ++i) {
    names.push_back(StateName(static_cast<v1::JobState>(i)));
  }
  return names;
}

v1::JobState StateOf(const std::string& name) {
  v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
  v1::JobState_Parse(absl::StrCat("JOB_STATE_", absl::AsciiStrToUpper(name)),
                     &state);
  return state;
}

// Fetches up to `limit` jobs, over as many pages as needed.
grpc::Status Fetch(v1::JobService::Stub& jobs, v1::ListJobsRequest request,
                   int limit, std::vector<v1::Job>* all) {
  do {
    request.set_page_size(std::min(500, limit - static_cast<int>(all->size())));
    grpc::ClientContext context;
    SetDeadline(context);
    v1::ListJobsResponse response;
    grpc::Status status = jobs.List(&context, request, &response);
    if (!status.ok()) return status;
    all->insert(all->end(), response.jobs().begin(), response.jobs().end());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty() &&
           static_cast<int>(all->size()) < limit);
  return grpc::Status::OK;
}

const char* Remark(const v1::Job& job) {
  if (job.cancel_requested() && !IsFinal(job.state())) return " (cancelling)";
  return job.hold().empty() ? "" : " (held)";
}

std::vector<std::string> Row(const v1::Job& job, absl::Time now) {
  const v1::Progress& progress = job.progress();
  const double age = absl::ToDoubleSeconds(now - ToTime(job.create_time()));
  return {job.id(),
          absl::StrCat(StateName(job.state()), Remark(job)),
          job.has_progress()
              ? absl::StrCat(progress.step(), "/", progress.total_steps())
              : "-",
          job.has_progress() ? Loss(progress.loss()) : "-",
          job.has_eval_loss_after() ? Loss(job.eval_loss_after()) : "-",
          job.owner().empty() ? "-" : Printable(job.owner()),
          Seconds(std::max(0.0, age)),
          Printable(job.name())};
}

void PrintTable(const Console& console, const std::vector<v1::Job>& jobs) {
  if (jobs.empty()) {
    console.out << "No jobs. Queue one with `mpsctl submit job.json`.\n";
    return;
  }
  Table table({"ID", "STATE", "STEP", "LOSS", "EVAL", "OWNER", "AGE", "NAME"});
  for (const v1::Job& job : jobs) {
    table.Add(Row(job, console.terminal.clock->Now()));
  }
  table.Print(console.out,
              console.terminal.is_tty ? console.terminal.columns() : 0);
}

ExitCode List(const ListOptions& options, const Console& console) {
  v1::ListJobsRequest request;
  for (const std::string& name : options.states) {
    request.add_states(StateOf(name));
  }
  request.set_owner(options.owner);
  absl::Status added =
      AddJobLabels(options.job_labels, request.mutable_labels());
  if (!added.ok()) return console.Fail(ExitCode::kBadInput, added, "");
  std::vector<v1::Job> jobs;
  grpc::Status status =
      Fetch(console.daemon.jobs(), request, options.limit, &jobs);
  if (!status.ok()) return console.Fail(status);
  if (options.quiet) {
    for (const v1::Job& job : jobs) console.out << job.id() << '\n';
  } else if (console.json) {
    for (const v1::Job& job : jobs) console.PrintJson(job);
  } else {
    PrintTable(console, jobs);
  }
  return ExitCode::kOk;
}

}  // namespace

void AddList(CLI::App& app, Action* action) {
  auto options = std::make_shared<ListOptions>();
  CLI::App* verb = app.add_subcommand("list", "Show the jobs, newest first");
  verb->add_option("--state", options->states, "Only this state; repeatable")
      ->check(CLI::IsMember(StateNames(), CLI::ignore_case))
      ->allow_extra_args(false);
  verb->add_option("--owner", options->owner, "Only this owner's")
      ->type_name("NAME");
  verb->add_option("--label", options->job_labels,
                   "Only with this label; repeatable, all must match")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  verb->add_option("--limit", options->limit, "At most so many")
      ->check(CLI::Range(1, 1000000))
      ->type_name("N")
      ->capture_default_str();
  verb->add_flag("-q,--quiet", options->quiet, "Only the ids");
  verb->callback([=] {
    *action = [=](const Console& console) { return List(*options, console); };
  });
}

}  // namespace mpsd::client
