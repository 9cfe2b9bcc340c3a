// SPDX-License-Identifier: Apache-2.0
#include "client/watch.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "client/event_printer.h"
#include "client/job_id.h"
#include "client/reconnect.h"
#include "client/text/format.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

class Watcher {
 public:
  Watcher(const Console& console, const WatchOptions& options)
      : console_(console),
        options_(options),
        last_(options.after_sequence),
        printer_(console),
        reconnect_(console, options.patience) {}

  ExitCode Run() {
    while (true) {
      bool interrupted = false;
      grpc::Status status = Stream(&interrupted);
      v1::Job job;
      if (status.ok()) status = Get(&job);
      printer_.Clear();
      if (interrupted) return Detached();
      if (options_.last_sequence != nullptr) {
        *options_.last_sequence = last_;
        if (waits_again_) return ExitCode::kOk;
      }
      if (status.ok() && IsFinal(job.state())) return Ended(job);
      if (!reconnect_.ShouldRetry(status)) return GiveUp(status);
    }
  }

 private:
  // Prints events until the stream ends.
  grpc::Status Stream(bool* interrupted) {
    grpc::ClientContext context;
    Interrupt::Listener listener(console_.terminal.interrupt,
                                 [&context] { context.TryCancel(); });
    if (listener.raised()) context.TryCancel();
    v1::WatchRequest request;
    request.set_id(options_.id);
    request.set_after_sequence(last_);
    auto reader = console_.daemon.jobs().Watch(&context, request);
    v1::JobEvent event;
    while (reader->Read(&event)) {
      reconnect_.Received();
      last_ = event.sequence();
      printer_.Print(event);
      if (options_.last_sequence != nullptr && WaitsAgain(event)) {
        context.TryCancel();
      }
    }
    grpc::Status status = reader->Finish();
    *interrupted = listener.raised();
    return status;
  }

  // Whether the job went back to the queue with `event`, and is there still.
  bool WaitsAgain(const v1::JobEvent& event) {
    v1::Job job;
    waits_again_ = event.state().state() == v1::JOB_STATE_QUEUED &&
                   Get(&job).ok() && job.state() == v1::JOB_STATE_QUEUED;
    return waits_again_;
  }

  grpc::Status Get(v1::Job* job) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::GetJobRequest request;
    request.set_id(options_.id);
    return console_.daemon.jobs().Get(&context, request, job);
  }

  ExitCode Ended(const v1::Job& job) {
    if (console_.json) {
      console_.PrintJson(job);
    } else {
      PrintOutcome(console_, job);
    }
    return ForJobState(job.state());
  }

  ExitCode Detached() {
    console_.err << "mpsctl: stopped watching; job " << options_.id
                 << " goes on.\n"
                 << "Watch it again with `" << WatchAgain()
                 << "`, stop it with `mpsctl cancel " << options_.id << "`.\n";
    return ExitCode::kDetached;
  }

  ExitCode GiveUp(const grpc::Status& status) {
    const ExitCode code =
        status.ok()
            ? console_.Fail(ExitCode::kUnreachable,
                            "mpsd ended the stream before the job did", "")
            : console_.Fail(status);
    if (code == ExitCode::kUnreachable || code == ExitCode::kTryAgain) {
      console_.err << "The job is safe in the daemon's database: it goes on "
                      "once mpsd runs. Resume with `"
                   << WatchAgain() << "`.\n";
    }
    return code;
  }

  std::string WatchAgain() const {
    return absl::StrCat("mpsctl watch ", options_.id, " --after ", last_);
  }

  const Console& console_;
  const WatchOptions options_;
  int64_t last_;
  bool waits_again_ = false;
  EventPrinter printer_;
  Reconnect reconnect_;
};

}  // namespace

ExitCode Watch(const Console& console, const WatchOptions& options) {
  return Watcher(console, options).Run();
}

void AddWatch(Command& app, Action* action) {
  struct Options {
    std::string id;  // empty: whatever runs
    int64_t after = 0;
    int64_t patience_seconds = 120;
  };
  auto options = std::make_shared<Options>();
  Command* verb = app.add_subcommand(
      "watch", "Follow a job until it ends; exit with its code");
  Option* id = verb->add_option(kJobIdName, options->id,
                                "The job; without one, all that run, one after "
                                "the other, until Ctrl-C")
                   ->type_name("");
  verb->add_option("--after", options->after,
                   "Leave out the events up to this sequence number")
      ->type_name("SEQUENCE")
      ->needs(id);
  verb->add_option("--patience", options->patience_seconds,
                   "How long to wait for a daemon that went away")
      ->type_name("SECONDS")
      ->capture_default_str();
  verb->callback([=] {
    *action = [=](const Console& console) {
      const absl::Duration patience = absl::Seconds(options->patience_seconds);
      if (options->id.empty()) return Follow(console, patience);
      ExitCode code;
      auto id = ResolveJobId(console, options->id, &code);
      if (!id) return code;
      return Watch(console, {*id, options->after, patience});
    };
  });
}

}  // namespace mpsd::client
