// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/job_id.h"
#include "client/text/format.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

struct MoveOptions {
  std::vector<std::string> ids;
  bool top = false;
  bool bottom = false;
  std::optional<int32_t> priority;
};

ExitCode MoveOne(const std::string& id, const MoveOptions& options,
                 const Console& console) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::MoveRequest request;
  request.set_id(id);
  if (options.top) {
    request.set_top(true);
  } else if (options.bottom) {
    request.set_bottom(true);
  } else {
    request.set_priority(*options.priority);
  }
  v1::Job job;
  grpc::Status status = console.daemon.jobs().Move(&context, request, &job);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(job);
    return ExitCode::kOk;
  }
  console.out << "Job " << job.id() << " has priority " << job.priority();
  if (job.has_queue_position()) {
    console.out << (job.queue_position() == 0 ? ", first in the queue"
                                              : AheadText(job));
  }
  console.out << (job.held() ? "; it is held.\n" : ".\n");
  return ExitCode::kOk;
}

ExitCode Move(const MoveOptions& options, const Console& console) {
  std::vector<std::string> ids = options.ids;
  // The first one that is named is to be the first one in the queue.
  if (options.top) std::reverse(ids.begin(), ids.end());
  return ForEachJob(console, {ids, {}}, {}, [&](const std::string& id) {
    return MoveOne(id, options, console);
  });
}

}  // namespace

void AddMove(Command& app, Action* action) {
  auto options = std::make_shared<MoveOptions>();
  Command* verb = app.add_subcommand(
      "move",
      "Move queued jobs among your jobs of their priority\n"
      "(an admin: among all jobs of it), or to another priority");
  verb->add_option(kJobIdName, options->ids, "The jobs")
      ->required()
      ->type_name("");
  Command* to = verb->add_option_group("To");
  to->add_flag("--top", options->top, "Before the others");
  to->add_flag("--bottom", options->bottom, "Behind the others");
  to->add_option("--priority", options->priority, "Higher runs first")
      ->type_name("N");
  to->require_option(1);
  verb->callback([=] {
    *action = [=](const Console& console) { return Move(*options, console); };
  });
}

}  // namespace mpsd::client
