// SPDX-License-Identifier: Apache-2.0
// Notifications of ended jobs: the command and its queue, the notifier.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/monitor.h"
#include "core/report/report.h"
#include "server/notify/notice.h"
#include "server/store/job.h"
#include "server/store/job_store.h"

namespace mpsd::notify {

// A program to run once: without a shell, in its own process group.
struct CommandCall {
  std::vector<std::string> argv;                   // argv[0]: an absolute path
  std::map<std::string, std::string> environment;  // all of it
  std::string input;       // the contents of its standard input
  absl::Duration timeout;  // then the group is killed
};
struct CommandEnd {
  int wait_status = 0;     // as waitpid gives it; 0 if `timed_out`
  bool timed_out = false;  // or interrupted
  std::string output;      // the beginning of the program's output
};
// Runs a program to its end, at most until `timeout`, or until *interrupted
// becomes true. An error where the program could not be started.
using CommandRunner = std::function<absl::StatusOr<CommandEnd>(
    const CommandCall& call, const std::atomic<bool>& interrupted)>;
// The runner over posix_spawn: the program in its own process group, with
// `call.input` on its standard input and no descriptor of this process. Keeps
// the first 4 KiB of its output. The group is killed at the time-out; children
// that outlive a program which exits normally keep running. The process must
// ignore SIGPIPE (server/process.h).
absl::StatusOr<CommandEnd> RunCommand(const CommandCall& call,
                                      const std::atomic<bool>& interrupted);

// How one attempt to deliver a notice ended.
struct Delivery {
  enum class Outcome {
    kSent,
    kRefused,  // another attempt would end the same way
    kLater,    // another attempt may succeed
  };
  Outcome outcome = Outcome::kSent;
  std::string why = {};  // unless sent; a clause

  static Delivery Sent() { return {}; }
  static Delivery Refused(std::string why) {
    return {Outcome::kRefused, std::move(why)};
  }
  static Delivery Later(std::string why) {
    return {Outcome::kLater, std::move(why)};
  }
};

// Delivers a notice to a program: the body on its standard input; event, title
// and text in MPSD_EVENT, MPSD_TITLE and MPSD_TEXT of an environment that has
// little else. Exit status 0 means sent, 75 (EX_TEMPFAIL of sysexits.h) later.
class Command {
 public:
  struct Options {
    std::vector<std::string> argv;
    // mpsd's environment; the program gets the variables that name its user,
    // its language and its folders.
    std::map<std::string, std::string> environment;
    absl::Duration timeout = absl::Seconds(30);
  };
  Command(Options options, CommandRunner run)
      : options_(std::move(options)), run_(std::move(run)) {}

  // Blocks until the program ends. One thread at a time.
  Delivery Deliver(const Notice& notice);
  // Makes a Deliver in progress, and each later one, return at once with
  // kLater. Any thread.
  void Interrupt() { interrupted_ = true; }

 private:
  const Options options_;
  const CommandRunner run_;
  std::atomic<bool> interrupted_ = false;
};

// What became of a notice: a label of metrics.
enum class Result { kSent, kFailed };
inline constexpr report::EnumName<Result> kResults[] = {
    {Result::kSent, "sent"}, {Result::kFailed, "failed"}};

// Reports ends of jobs to the command of the settings, on a thread of its own,
// so that a receiver cannot affect the scheduler. An end is delivered at least
// once: the store keeps it until it is sent, refused or too old, also across
// restarts. One that waits for another attempt blocks no other.
class Notifier {
 public:
  struct Options {
    Sender sender;
    std::map<std::string, std::string> environment;  // mpsd's own
    CommandRunner run = RunCommand;
    std::function<absl::StatusOr<jobs::Job>(const std::string& id)> job;
    absl::Duration interval = absl::Seconds(1);       // between two checks
    absl::Duration idle_interval = absl::Minutes(1);  // without a command
    // Ends that wait for the command; further ones stay in the store alone.
    size_t most_waiting = 256;
    // The wait after a failed first attempt; it doubles with each further one.
    absl::Duration first_wait = absl::Seconds(1);
    absl::Duration longest_wait = absl::Minutes(10);
    // From a job's end on; every notice gets at least one attempt.
    absl::Duration patience = absl::Hours(24);
    // Called on the notifier's thread, as `job` is.
    std::function<void(const std::string&)> log = [](const std::string&) {};
    std::function<void(Result)> count = [](Result) {};
  };

  // The dependencies must outlive the notifier.
  Notifier(Options options, Settings settings, jobs::EndedJobs& ends,
           const base::Clock& clock);
  // Interrupts a delivery in progress. Blocks for as long as the store does.
  ~Notifier();
  Notifier(const Notifier&) = delete;
  Notifier& operator=(const Notifier&) = delete;

 private:
  struct Waiting {
    int64_t end = 0;  // its number
    Notice notice;
    absl::Duration next_try = -absl::InfiniteDuration();  // monotonic
    int tries = 0;
  };

  void Run();
  void TakeEnds();
  void DeliverDue();
  // One attempt; whether it was the last.
  bool Deliver(Waiting& waiting);
  void ForgetDone();
  absl::Duration WaitAfter(int tries) const;
  bool stopped() const {
    base::MonitorLock lock(&mutex_);
    return stopped_;
  }

  const Options options_;
  const Settings settings_;
  jobs::EndedJobs& ends_;
  const base::Clock& clock_;
  std::optional<Command> command_;

  mutable base::Monitor mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;

  // The thread's own.
  int64_t last_end_ = 0;
  std::list<Waiting> waiting_;
  std::set<int64_t> done_;  // ends that the store still has
  std::thread thread_;
};

// Sends the command of `settings`, which has one, a test, in one attempt.
// `environment`: mpsd's own.
Delivery SendTest(const Settings& settings, const Sender& sender,
                  const std::map<std::string, std::string>& environment,
                  const CommandRunner& run = RunCommand);

}  // namespace mpsd::notify
