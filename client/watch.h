// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/support/status.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/command_line.h"
#include "client/console.h"
#include "mpsd/v1/jobs.pb.h"

// Following jobs: their events, their ends, their logs.

namespace mpsd::client {

// Prints a job's events as they arrive: on a terminal as lines above a progress
// bar with a sparkline of the last losses; in a pipe as lines (progress once
// per percent, or every step of a run of at most 100 steps); with --json each
// event as an object.
class EventPrinter {
 public:
  explicit EventPrinter(const Console& console)
      : console_(console), line_(console) {}

  void Print(const v1::JobEvent& event);
  // What the job waits for: on a terminal in the last line, elsewhere as a line
  // when `what`, the text without its ETA, changes, at most every 30 seconds.
  void PrintWaiting(const std::string& what, const std::string& text);
  // Removes the bar, so that other code can print.
  void Clear() { line_.Clear(); }

 private:
  void PrintProgress(const v1::JobEvent& event);
  void Line(const v1::JobEvent& event, const std::string& text);

  const Console& console_;
  ProgressLine line_;
  std::vector<double> losses_;  // the last ones
  int64_t last_percent_ = -1;
  std::string waiting_;  // printed last
  absl::Time next_waiting_ = absl::InfinitePast();
};

// Prints the end of a job in a few lines: state and duration, eval losses,
// metrics, the output or the reason, and what to do next.
void PrintOutcome(const Console& console, const v1::Job& job);

// Detects when a stream of stored and new events has reached the state of a
// job's row that was read before: the stream of an unfinished job stays open.
class RowReached {
 public:
  explicit RowReached(const v1::Job& job) : job_(job) {}

  // Takes the next event; returns whether the row's progress and its latest
  // evaluation were among the events so far.
  bool Add(const v1::JobEvent& event);

 private:
  const v1::Job job_;
  bool progress_ = false;
  bool evaluated_ = false;
};

// Reads the events of a job so far, oldest first: up to the state of `job`,
// which was read before; of an unfinished job that has neither progress nor an
// evaluation, what arrives within a second. Sets *interrupted after Ctrl-C.
grpc::Status ReadEvents(const Console& console, const v1::Job& job,
                        const std::function<void(const v1::JobEvent&)>& take,
                        bool* interrupted);

// Adds --patience to `verb`: how long Reconnect waits.
void AddPatience(Command& verb, int64_t& seconds);

// The pause between two attempts to reach the daemon: 0.2 s, then twice as long
// each time, up to 2 s.
class RetryPause {
 public:
  explicit RetryPause(const Console& console) : console_(console) {}

  // Waits and drops the connection, so that the next attempt makes a new one.
  // Returns the time waited.
  absl::Duration Wait();
  // An attempt succeeded: the next pause is the shortest.
  void Restart() { pause_ = absl::ZeroDuration(); }

 private:
  const Console& console_;
  absl::Duration pause_ = absl::ZeroDuration();
};

// Continues a stream after a restart of the daemon: tries again after each
// pause, and gives up when nothing was received for `limit`.
class Reconnect {
 public:
  Reconnect(const Console& console, absl::Duration limit)
      : console_(console), limit_(limit), pause_(console) {}

  // The stream received something: the limit starts again.
  void Received();

  // Whether to try again after an attempt that ended with `status`; if so,
  // first waits and resets the connection. False for errors that would occur
  // again, and for the very first attempt unless Received was called. Says on
  // stderr, once per outage, that it waits.
  bool ShouldRetry(const grpc::Status& status);

 private:
  const Console& console_;
  const absl::Duration limit_;
  bool received_ = false;
  RetryPause pause_;
  absl::Duration waited_ = absl::ZeroDuration();
};

struct WatchOptions {
  std::string id;              // a whole id
  int64_t after_sequence = 0;  // earlier events are not shown
  // How long the client waits for an unreachable daemon.
  absl::Duration patience = absl::Minutes(2);
  // If set, watching also ends if the job returns to the queue, with kOk, and
  // the last event's sequence is stored here.
  int64_t* last_sequence = nullptr;
};

// Prints the job's events until the job ends, then its outcome (with --json the
// job as the last object). If the connection breaks, resumes after the last
// event seen. Ctrl-C leaves the job running and returns kDetached. Otherwise
// returns the code of the job's final state, or of the failed call.
ExitCode Watch(const Console& console, const WatchOptions& options);

// Follows the running job, and when it ends the next one, until Ctrl-C, which
// leaves the jobs running and returns kDetached: on a terminal on one screen,
// elsewhere and with --json as Watch prints each job. Waits for an unreachable
// daemon as Watch does.
ExitCode Follow(const Console& console, absl::Duration patience);

struct LogTail {
  std::string text;          // begins with a line where bytes are omitted
  int64_t before_bytes = 0;  // of the log before `text`
};

// Reads the end of a job's log, at most `most_bytes`, without reading the rest,
// however long the log is.
grpc::Status ReadLogTail(const Console& console, const std::string& job_id,
                         int64_t most_bytes, LogTail* tail);

}  // namespace mpsd::client
