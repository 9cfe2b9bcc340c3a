// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "client/job_id.h"
#include "client/text/format.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

ExitCode HoldOne(const std::string& id, const std::string& reason,
                 const Console& console) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::HoldRequest request;
  request.set_id(id);
  request.set_reason(reason);
  v1::Job job;
  grpc::Status status = console.daemon.jobs().Hold(&context, request, &job);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(job);
    return ExitCode::kOk;
  }
  console.out << "Job " << job.id() << " is held";
  if (!job.hold().empty()) console.out << ' ' << Printable(job.hold());
  console.out << ". It starts after `mpsctl release " << job.id() << "`.\n";
  return ExitCode::kOk;
}

}  // namespace

void AddHold(Command& app, Action* action) {
  auto named = std::make_shared<NamedJobs>();
  auto reason = std::make_shared<std::string>();
  Command* verb = app.add_subcommand(
      "hold", "Keep queued jobs from starting; they keep their places");
  AddNamedJobs(verb, named.get());
  verb->add_option("--reason", *reason, "Why, for whoever looks at the queue")
      ->type_name("TEXT");
  verb->callback([=] {
    *action = [=](const Console& console) {
      v1::ListJobsRequest filter;
      filter.add_states(v1::JOB_STATE_QUEUED);
      return ForEachJob(console, *named, filter, [&](const std::string& id) {
        return HoldOne(id, *reason, console);
      });
    };
  });
}

}  // namespace mpsd::client
