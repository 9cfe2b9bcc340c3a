// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include "client/job_id.h"
#include "client/text/format.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

ExitCode RetryOne(const std::string& id, bool from_scratch,
                  const Console& console) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::RetryRequest request;
  request.set_id(id);
  request.set_from_scratch(from_scratch);
  v1::Job job;
  grpc::Status status = console.daemon.jobs().Retry(&context, request, &job);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(job);
    return ExitCode::kOk;
  }
  console.out << "Job " << job.id();
  if (job.state() == v1::JOB_STATE_RUNNING) {
    console.out << " returns to the queue once its worker has stopped";
  } else {
    console.out << " is " << StateName(job.state()) << " again"
                << AheadText(job);
  }
  console.out << (from_scratch
                      ? "; it runs from scratch, without what it had reached.\n"
                      : "; it resumes from its last checkpoint.\n");
  return ExitCode::kOk;
}

}  // namespace

void AddRetry(Command& app, Action* action) {
  auto texts = std::make_shared<std::vector<std::string>>();
  auto from_scratch = std::make_shared<bool>(false);
  Command* verb = app.add_subcommand(
      "retry",
      "Run jobs again under their own ids, from their last checkpoints:\n"
      "FAILED or CANCELLED ones, or running ones, which return to the queue");
  verb->add_option(kJobIdName, *texts, "The jobs")->required()->type_name("");
  verb->add_flag("--from-scratch", *from_scratch,
                 "Remove their checkpoints and results and begin anew, also\n"
                 "SUCCEEDED ones");
  verb->callback([=] {
    *action = [=](const Console& console) {
      return ForEachJob(console, {*texts, {}}, {}, [&](const std::string& id) {
        return RetryOne(id, *from_scratch, console);
      });
    };
  });
}

}  // namespace mpsd::client
