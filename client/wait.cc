// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/event_printer.h"
#include "client/job_id.h"
#include "client/text/format.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

struct WaitOptions {
  std::vector<std::string> texts;
  bool any = false;
  std::optional<double> timeout_seconds;
  int64_t patience_seconds = 120;
};

// Polls one job after the other until all, or any, have ended. A pause of ten
// times a round's duration follows each round, so that waiting for hundreds of
// jobs is no load.
class Waiter {
 public:
  Waiter(const Console& console, const WaitOptions& options,
         std::vector<std::string> ids)
      : console_(console),
        options_(options),
        waiting_(std::move(ids)),
        start_(Now()),
        reconnect_(console, absl::Seconds(options.patience_seconds)) {}

  ExitCode Run() {
    while (true) {
      const absl::Duration before = Now();
      grpc::Status status = Round();
      if (status.ok() && IsOver()) return code_;
      if (!status.ok()) {
        if (!reconnect_.ShouldRetry(status)) return console_.Fail(status);
      } else if (!Pause(Now() - before)) {
        return TimedOut();
      }
    }
  }

 private:
  absl::Duration Now() const { return console_.terminal.clock->Monotonic(); }
  bool IsOver() const {
    return waiting_.empty() || (options_.any && ended_ > 0);
  }

  // Polls every job that is waited for.
  grpc::Status Round() {
    for (size_t i = 0; i < waiting_.size() && !IsOver();) {
      v1::Job job;
      grpc::Status status = GetJob(console_, waiting_[i], &job);
      if (!status.ok()) return status;
      reconnect_.Received();
      if (IsFinal(job.state())) {
        Ended(job);
        waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
        continue;
      }
      if (!warned_ && job.held()) WarnOfHold(job);
      ++i;
    }
    return grpc::Status::OK;
  }

  void Ended(const v1::Job& job) {
    ++ended_;
    // A FAILED job takes precedence over a CANCELLED one.
    const ExitCode code = ForJobState(job.state());
    if (code_ != ExitCode::kJobFailed && code != ExitCode::kOk) code_ = code;
    if (console_.json) {
      console_.PrintJson(job);
    } else {
      console_.out << "Job " << job.id() << ' ' << StateName(job.state());
      if (!job.message().empty()) {
        console_.out << ": " << Printable(job.message());
      }
      console_.out << '\n';
    }
    console_.out << std::flush;
  }

  void WarnOfHold(const v1::Job& job) {
    warned_ = true;
    console_.err << "mpsctl: job " << job.id() << " is held";
    if (!job.hold().empty()) {
      console_.err << " (" << Printable(job.hold()) << ')';
    }
    console_.err << ": it ends only after `mpsctl release " << job.id() << "`\n"
                 << std::flush;
  }

  // False if the time is up. `round`: how long the last round took.
  bool Pause(absl::Duration round) {
    absl::Duration pause =
        std::clamp(round * 10, absl::Seconds(1), absl::Seconds(30));
    if (options_.timeout_seconds) {
      const absl::Duration left =
          start_ + absl::Seconds(*options_.timeout_seconds) - Now();
      if (left <= absl::ZeroDuration()) return false;
      pause = std::min(pause, left);
    }
    console_.terminal.sleep(pause);
    return true;
  }

  ExitCode TimedOut() const {
    return console_.Fail(
        ExitCode::kTryAgain,
        absl::StrCat(
            "after ", Seconds(*options_.timeout_seconds), " ", waiting_.size(),
            " of the jobs had not ended: ", absl::StrJoin(waiting_, " ")),
        "");
  }

  const Console& console_;
  const WaitOptions& options_;
  std::vector<std::string> waiting_;  // ids of jobs that have not ended
  const absl::Duration start_;        // monotonic
  Reconnect reconnect_;
  int ended_ = 0;
  bool warned_ = false;
  ExitCode code_ = ExitCode::kOk;
};

ExitCode Wait(const WaitOptions& options, const Console& console) {
  ExitCode code = ExitCode::kOk;
  auto ids =
      ResolveJobIds(console, options.texts, &code, FewestIdCharacters::kLooks);
  if (!ids) return code;
  return Waiter(console, options, *std::move(ids)).Run();
}

}  // namespace

void AddWait(Command& app, Action* action) {
  auto options = std::make_shared<WaitOptions>();
  Command* verb = app.add_subcommand(
      "wait", "Return when jobs have ended; 0 if all of them SUCCEEDED");
  verb->add_option(kJobIdName, options->texts, "The jobs")
      ->required()
      ->type_name("");
  verb->add_flag("--any", options->any,
                 "Return when the first has ended, with its code");
  verb->add_option("--timeout", options->timeout_seconds,
                   "Give up after this long, with code 7")
      ->type_name("SECONDS")
      ->check(Range(0.0, 1e9));
  verb->add_option("--patience", options->patience_seconds,
                   "How long to wait for a daemon that is unreachable")
      ->type_name("SECONDS")
      ->capture_default_str();
  verb->callback([=] {
    *action = [=](const Console& console) { return Wait(*options, console); };
  });
}

}  // namespace mpsd::client
