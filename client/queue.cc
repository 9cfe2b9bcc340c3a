// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/job_id.h"
#include "client/text/format.h"
#include "client/verbs.h"

namespace mpsd::client {

namespace {

using Entry = v1::QueueResponse::Entry;

std::string Why(const Entry& entry, const Console& console) {
  std::string why = entry.why();
  if (!entry.hold().empty()) absl::StrAppend(&why, "; held: ", entry.hold());
  if (entry.has_not_before()) {
    absl::StrAppend(
        &why, "; not before ",
        DateTime(ToTime(entry.not_before()), console.terminal.zone));
  }
  return Printable(why);
}

void PrintPlaces(const v1::QueueResponse& queue, const Console& console) {
  Table table({"PLACE", "ID", "OWNER", "PRIORITY", "WAITS", "NAME", "WHY"});
  int place = 0;
  for (const Entry& entry : queue.entries()) {
    const bool runs = entry.state() == v1::JOB_STATE_RUNNING;
    const absl::Duration waits =
        console.terminal.clock->Now() - ToTime(entry.queue_time());
    table.Add(
        {runs ? "runs" : absl::StrCat(++place), entry.id(),
         OrDash(entry.owner()), absl::StrCat(entry.priority()),
         runs ? "-" : Seconds(std::max(0.0, absl::ToDoubleSeconds(waits))),
         Printable(entry.name()), Why(entry, console)});
  }
  table.Print(console.out,
              console.terminal.is_tty ? console.terminal.columns() : 0);
  if (queue.more() > 0) {
    console.out << "and " << Count(queue.more()) << " more\n";
  }
}

void PrintUsage(const v1::QueueResponse& queue, const Console& console) {
  if (queue.usage().empty()) return;
  console.out << "\nThese owners' recent use of the device; it halves every "
              << Seconds(queue.half_life_seconds()) << ":\n";
  Table table({"OWNER", "USED"});
  for (const auto& usage : queue.usage()) {
    table.Add({OrDash(usage.owner()), Seconds(usage.seconds())});
  }
  table.Print(console.out, 0);
}

ExitCode Queue(const Console& console) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::QueueResponse queue;
  grpc::Status status = console.daemon.jobs().Queue(&context, {}, &queue);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(queue);
    return ExitCode::kOk;
  }
  if (queue.entries().empty()) {
    console.out << "No job runs or waits.\n";
    return ExitCode::kOk;
  }
  PrintPlaces(queue, console);
  PrintUsage(queue, console);
  return ExitCode::kOk;
}

}  // namespace

void AddQueue(Command& app, Action* action) {
  Command* verb = app.add_subcommand(
      "queue", "Show in which order the jobs will run, and why");
  verb->callback([=] { *action = Queue; });
}

namespace {

using Jobs = v1::JobService::Stub;

// Changes a job by `call` and reports it: as JSON, or by `print`.
template <typename Request, typename Print>
ExitCode Change(const Console& console,
                grpc::Status (Jobs::*call)(grpc::ClientContext*, const Request&,
                                           v1::Job*),
                const Request& request, Print print) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::Job job;
  const grpc::Status status =
      (console.daemon.jobs().*call)(&context, request, &job);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(job);
  } else {
    print(job);
  }
  return ExitCode::kOk;
}

ExitCode HoldOne(const std::string& id, const std::string& reason,
                 const Console& console) {
  v1::HoldRequest request;
  request.set_id(id);
  request.set_reason(reason);
  return Change(console, &Jobs::Hold, request, [&](const v1::Job& job) {
    console.out << "Job " << job.id() << " is held";
    if (!job.hold().empty()) console.out << ' ' << Printable(job.hold());
    console.out << ". It starts after `mpsctl release " << job.id() << "`.\n";
  });
}

}  // namespace

void AddHold(Command& app, Action* action) {
  auto named = std::make_shared<NamedJobs>();
  auto reason = std::make_shared<std::string>();
  Command* verb = app.add_subcommand(
      "hold", "Keep queued jobs from starting; they keep their places");
  AddNamedJobs(verb, named.get());
  verb->add_option("--reason", *reason, "Why; shown in the queue")
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

namespace {

ExitCode ReleaseOne(const std::string& id, const Console& console) {
  v1::ReleaseRequest request;
  request.set_id(id);
  return Change(console, &Jobs::Release, request, [&](const v1::Job& job) {
    console.out << "Job " << job.id() << " is released" << AheadText(job)
                << ".\n";
  });
}

}  // namespace

void AddRelease(Command& app, Action* action) {
  auto named = std::make_shared<NamedJobs>();
  Command* verb = app.add_subcommand("release", "Let held jobs start");
  AddNamedJobs(verb, named.get());
  verb->callback([=] {
    *action = [=](const Console& console) {
      v1::ListJobsRequest filter;
      filter.add_states(v1::JOB_STATE_QUEUED);
      filter.set_held(true);
      return ForEachJob(console, *named, filter, [&](const std::string& id) {
        return ReleaseOne(id, console);
      });
    };
  });
}

namespace {

struct MoveOptions {
  std::vector<std::string> ids;
  bool top = false;
  bool bottom = false;
  std::optional<int32_t> priority;
};

ExitCode MoveOne(const std::string& id, const MoveOptions& options,
                 const Console& console) {
  v1::MoveRequest request;
  request.set_id(id);
  if (options.top) {
    request.set_top(true);
  } else if (options.bottom) {
    request.set_bottom(true);
  } else {
    request.set_priority(*options.priority);
  }
  return Change(console, &Jobs::Move, request, [&](const v1::Job& job) {
    console.out << "Job " << job.id() << " has priority " << job.priority();
    if (job.has_queue_position()) {
      console.out << (job.queue_position() == 0 ? ", first in the queue"
                                                : AheadText(job));
    }
    console.out << (job.held() ? "; it is held.\n" : ".\n");
  });
}

ExitCode Move(const MoveOptions& options, const Console& console) {
  std::vector<std::string> ids = options.ids;
  // The first job named becomes the first in the queue.
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
  to->add_flag("--bottom", options->bottom, "After the others");
  to->add_option("--priority", options->priority, "Higher runs first")
      ->type_name("N");
  to->require_option(1);
  verb->callback([=] {
    *action = [=](const Console& console) { return Move(*options, console); };
  });
}

namespace {

ExitCode PinOne(const std::string& id, bool pin, const Console& console) {
  const auto print = [&](const v1::Job& job) {
    console.out << "Job " << job.id()
                << (job.pinned() ? " is pinned: nothing of it is removed until "
                                   "`mpsctl unpin`.\n"
                                 : " is not pinned.\n");
  };
  v1::PinRequest pinned;
  pinned.set_id(id);
  v1::UnpinRequest unpinned;
  unpinned.set_id(id);
  return pin ? Change(console, &Jobs::Pin, pinned, print)
             : Change(console, &Jobs::Unpin, unpinned, print);
}

void AddVerb(Command& app, const char* name, const char* description, bool pin,
             Action* action) {
  auto texts = std::make_shared<std::vector<std::string>>();
  Command* verb = app.add_subcommand(name, description);
  verb->add_option(kJobIdName, *texts, "The jobs")->required()->type_name("");
  verb->callback([=] {
    *action = [=](const Console& console) {
      ExitCode code = ExitCode::kOk;
      const auto ids =
          ResolveJobIds(console, *texts, &code, FewestIdCharacters::kChanges);
      if (!ids) return code;
      for (const std::string& id : *ids) {
        const ExitCode one = PinOne(id, pin, console);
        if (code == ExitCode::kOk) code = one;
      }
      return code;
    };
  });
}

}  // namespace

void AddPin(Command& app, Action* action) {
  AddVerb(app, "pin", "Protect jobs from delete and from every rule", true,
          action);
  AddVerb(app, "unpin", "Unpin jobs", false, action);
}

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
  v1::CancelRequest request;
  request.set_id(id);
  request.set_now(now);
  return Change(console, &Jobs::Cancel, request,
                [&](const v1::Job& job) { PrintCancelled(job, console.out); });
}

}  // namespace

void AddCancel(Command& app, Action* action) {
  auto named = std::make_shared<NamedJobs>();
  auto now = std::make_shared<bool>(false);
  Command* verb = app.add_subcommand("cancel", "Cancel jobs");
  AddNamedJobs(verb, named.get());
  verb->add_flag("--now", *now,
                 "Kill their workers at once, whatever they are doing");
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

namespace {

ExitCode RetryOne(const std::string& id, bool from_scratch,
                  const Console& console) {
  v1::RetryRequest request;
  request.set_id(id);
  request.set_from_scratch(from_scratch);
  return Change(console, &Jobs::Retry, request, [&](const v1::Job& job) {
    console.out << "Job " << job.id();
    if (job.state() == v1::JOB_STATE_RUNNING) {
      console.out << " returns to the queue once its worker has stopped";
    } else {
      console.out << " is " << StateName(job.state()) << " again"
                  << AheadText(job);
    }
    console.out
        << (from_scratch
                ? "; it runs from scratch, without its earlier results.\n"
                : "; it resumes from its last checkpoint.\n");
  });
}

}  // namespace

void AddRetry(Command& app, Action* action) {
  auto texts = std::make_shared<std::vector<std::string>>();
  auto from_scratch = std::make_shared<bool>(false);
  Command* verb = app.add_subcommand(
      "retry",
      "Run jobs again under the same ids, from their last checkpoints:\n"
      "FAILED or CANCELLED ones, or running ones, which return to the queue");
  verb->add_option(kJobIdName, *texts, "The jobs")->required()->type_name("");
  verb->add_flag("--from-scratch", *from_scratch,
                 "Remove their checkpoints and results and start over, also\n"
                 "SUCCEEDED ones");
  verb->callback([=] {
    *action = [=](const Console& console) {
      return ForEachJob(console, {*texts, {}}, {}, [&](const std::string& id) {
        return RetryOne(id, *from_scratch, console);
      });
    };
  });
}

namespace {

ExitCode Drain(const std::string& reason, const Console& console) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::DrainRequest request;
  request.set_reason(reason);
  v1::DrainResponse response;
  grpc::Status status =
      console.daemon.daemon().Drain(&context, request, &response);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(response);
  } else {
    console.out << "mpsd starts no further job until `mpsctl undrain`, not "
                   "even after a restart. A running job continues.\n";
  }
  return ExitCode::kOk;
}

}  // namespace

void AddDrain(Command& app, Action* action) {
  auto reason = std::make_shared<std::string>();
  Command* verb = app.add_subcommand(
      "drain", "Start no further job until undrain; for admins");
  verb->add_option("--reason", *reason, "Why; shown to those who wait")
      ->type_name("TEXT");
  verb->callback([=] {
    *action = [=](const Console& console) { return Drain(*reason, console); };
  });
}

namespace {

ExitCode Undrain(const Console& console) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::UndrainResponse response;
  grpc::Status status =
      console.daemon.daemon().Undrain(&context, {}, &response);
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(response);
  } else {
    console.out << "mpsd starts jobs again.\n";
  }
  return ExitCode::kOk;
}

}  // namespace

void AddUndrain(Command& app, Action* action) {
  Command* verb =
      app.add_subcommand("undrain", "Start jobs again after drain; for admins");
  verb->callback([=] { *action = Undrain; });
}

}  // namespace mpsd::client
