// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/line_channel.h"
#include "core/report/report.h"
#include "core/wire/messages.h"
#include "server/jobs/attempt_end.h"
#include "server/supervisor/spawned_process.h"

namespace mpsd::supervisor {

// Makes a worker's report safe to store and show, because a worker repeats the
// content of users' files: unprintable characters are escaped in every text but
// paths, and texts and lists are cut to the bounds of core/base/limits.h. Only
// a failure's message may have several lines. Clean() walks the report's field
// list, so that new fields are cleaned from the start.
void Clean(report::Progress& progress);
void Clean(report::Evaluated& evaluated);
void Clean(report::Checkpointed& checkpointed);
void Clean(report::Sampled& sampled);
void Clean(report::Failure& failure);
// Omits a confusion matrix that is too large or is not valid JSON; returns
// false then.
bool Clean(report::Outcome& outcome);

// Texts outside the reports. `CleanText`: a worker's text, from its log or a
// protocol violation, as part of a message.
std::string CleanText(std::string_view text);
std::string CleanWarning(std::string_view text);
std::string CleanStage(std::string_view text);
std::string CleanVersion(std::string_view text);

inline constexpr size_t kLogTailBytes = 4096;

// The last kLogTailBytes of the file at `path` after offset `start`, made
// printable (base::Printable, lines kept). A cut tail begins with a whole line.
// Empty for a file that cannot be read.
std::string ReadLogTail(const std::string& path, int64_t start);

// The daemon's end of one worker: a thread that reads the worker's messages,
// enforces the protocol and the time limits, and reports to the listener.
//
//   spawned -> Hello -> running -> last word -> end of stream -> reaped
//
// At any point a protocol violation, silence beyond the hang limit or the end
// of a grace makes the session kill the process group, which leads to reaped.
// Time limits pause while the machine sleeps, and while the thread does not
// look at the worker: a stopped mpsd, or one that waits for its disk, blames no
// worker. Destroying the session kills a worker that still runs and joins the
// thread.
class WorkerSession final : public jobs::Worker {
 public:
  struct Options {
    wire::Start start;
    absl::Duration hang_timeout;  // at least; see jobs::HangLimit
    absl::Duration slowest_step;  // in earlier attempts
    // How long the process may take to end after its last message or the end of
    // the stream.
    absl::Duration exit_grace = absl::Seconds(10);
    // Removed once the process has ended; null: none.
    std::shared_ptr<TemporaryFolder> temporary_folder;
    std::string log_path;
    int64_t log_start = 0;  // the log's size before this worker
    // What messages show as model_name, as users know it.
    std::string model_folder, model_name;
    // The clock for every limit: a worker makes no progress while the machine
    // sleeps.
    std::function<absl::Duration()> awake_time = base::AwakeTime;
  };

  // `channel_fd`: our end of the worker's fd 3. `listener` must outlive it.
  static absl::StatusOr<std::unique_ptr<WorkerSession>> Create(
      Options options, std::unique_ptr<SpawnedProcess> process,
      UniqueFd channel_fd, jobs::WorkerListener& listener);
  ~WorkerSession() override;

  void Preempt(absl::Duration grace) override {
    Ask(jobs::Asked::kPreempt, grace);
  }
  void Cancel(absl::Duration grace) override {
    Ask(jobs::Asked::kCancel, grace);
  }
  void Pause() override { SetPaused(true); }
  void Resume() override { SetPaused(false); }

 private:
  WorkerSession(Options options, std::unique_ptr<SpawnedProcess> process,
                UniqueFd channel_fd, Pipe wake, jobs::WorkerListener& listener);

  void Ask(jobs::Asked asked, absl::Duration grace);
  void SetPaused(bool paused);
  void Wake();

  // Run() and the methods below it run on the session's thread.
  void Run();
  // The awake time, without that in which this process was stopped.
  absl::Duration Now() const;
  absl::Duration KillTime();
  void Converse();
  // Like LineChannel::Receive; DeadlineExceeded when a time limit has passed.
  absl::StatusOr<std::optional<std::string>> NextLine();
  absl::Status WaitForNews(absl::Duration deadline);
  absl::Duration Deadline();
  void Overdue();
  absl::Status Handle(const std::string& line);
  absl::Status Handle(const wire::Hello& hello);
  absl::Status Report(wire::FromWorker message);
  int Reap();
  // `text` with the job's files and model in the user's spelling.
  std::string Respelled(std::string text) const;

  const Options options_;
  const std::unique_ptr<SpawnedProcess> process_;
  base::LineChannel channel_;
  const Pipe wake_;  // wakes poll() to check grace_
  jobs::WorkerListener& listener_;

  // Accessed only from the session's thread.
  bool greeted_ = false;
  bool at_end_of_stream_ = false;
  absl::Duration frozen_;
  absl::Duration kill_at_ = absl::InfiniteDuration();
  jobs::HangLimit hang_limit_;
  jobs::WorkerEnding ending_;  // complete but for `asked`

  absl::Mutex mutex_;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;    // Start was sent
  bool stop_sent_ ABSL_GUARDED_BY(mutex_) = false;  // Stop was sent
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;     // the last request
  jobs::Asked asked_ ABSL_GUARDED_BY(mutex_) = jobs::Asked::kNothing;
  // From the thread's next look on.
  absl::Duration grace_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();

  std::thread thread_;
};

}  // namespace mpsd::supervisor
