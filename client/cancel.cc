// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "client/job_id.h"
#include "client/text/format.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

void PrintCancelled(const v1::Job& job, std::ostream& out) {
  out << "Job " << job.id();
  if (job.state() == v1::JOB_STATE_CANCELLED) {
    out << " is CANCELLED.\n";
  } else if (IsFinal(job.state())) {
    out << " had ended before: " << StateName(job.state()) << ".\n";
  } else {
    out << " is being cancelled; see it end with `mpsctl watch " << job.id()
        << "`.\n";
  }
}

ExitCode CancelOne(const std::string& id, bool now, const Console& console) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::CancelRequest request;
  request.set_id(id);
  request.set_now(now);
  v1::Job job;
  const grpc::Status status =
      console.daemon.jobs().Cancel(&context, request, &job);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(job);
  } else {
    PrintCancelled(job, console.out);
  }
  return ExitCode::kOk;
}

}  // namespace

void AddCancel(Command& app, Action* action) {
  auto named = std::make_shared<NamedJobs>();
  auto now = std::make_shared<bool>(false);
  Command* verb = app.add_subcommand("cancel", "Ask jobs to end");
  AddNamedJobs(verb, named.get());
  verb->add_flag("--now", *now,
                 "Kill their workers at once, whatever they are at work on");
  verb->callback([=] {
    *action = [=](const Console& console) {
      v1::ListJobsRequest filter;
      filter.add_states(v1::JOB_STATE_QUEUED);
      filter.add_states(v1::JOB_STATE_RUNNING);
      return ForEachJob(console, *named, filter, [&](const std::string& id) {
        return CancelOne(id, *now, console);
      });
    };
  });
}

}  // namespace mpsd::client
