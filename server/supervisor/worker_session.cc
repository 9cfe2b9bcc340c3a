// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/worker_session.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "server/jobs/job_files.h"

namespace mpsd::supervisor {
namespace {

// `text`, printable and at most `max_bytes` long. Bytes far beyond the bound
// are not even read.
std::string Bounded(std::string_view text, size_t max_bytes,
                    base::Breaks breaks = base::Breaks::kEscape) {
  return base::Shortened(
      base::Printable(base::Shortened(text, max_bytes + 8), breaks), max_bytes);
}

// The matrix with printable labels; empty if it is omitted.
std::string CleanMatrix(const std::string& text) {
  if (text.size() > limits::kMatrixBytes) return "";
  auto matrix = base::ParseTree<nlohmann::ordered_json>(text);
  if (!matrix.is_object() || !matrix.contains("labels")) return "";
  auto& labels = matrix["labels"];
  if (!labels.is_array()) return "";
  for (auto& label : labels) {
    if (!label.is_string()) return "";
    label = base::Printable(label.get<std::string>());
  }
  return matrix.dump(-1, ' ', false,
                     nlohmann::ordered_json::error_handler_t::replace);
}

// Visits a report's fields and cleans those that hold text.
class Cleaner {
 public:
  void operator()(std::string_view name, std::string& value) const {
    if (name == "path" || name == "output_path") return;
    if (name == "message") {
      value = CleanText(value);
    } else if (name == "confusion_matrix") {
      value = CleanMatrix(value);
    } else {
      value = CleanVersion(value);
    }
  }
  void operator()(std::string_view, report::Metrics& value) const {
    if (value.size() > limits::kMetrics) value.resize(limits::kMetrics);
    for (auto& [metric, number] : value) {
      metric = Bounded(metric, limits::kMetricNameBytes);
    }
  }
  void operator()(std::string_view, report::Counts& value) const {
    report::Counts clean;
    for (const auto& [counted, count] : value) {
      if (clean.size() == limits::kFallbackOps) break;
      clean[Bounded(counted, limits::kMetricNameBytes)] = count;
    }
    value = std::move(clean);
  }
  // A list of paths, or of answers.
  void operator()(std::string_view name,
                  std::vector<std::string>& value) const {
    if (name == "completions") {
      if (value.size() > limits::kSamplePrompts) {
        value.resize(limits::kSamplePrompts);
      }
      for (std::string& text : value) {
        text = Bounded(text, limits::kSampleBytes, base::Breaks::kKeep);
      }
      return;
    }
    if (value.size() > limits::kRemovedPaths) {
      value.resize(limits::kRemovedPaths);
    }
  }
  // A field without text; a member of another type does not compile here.
  template <typename T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void operator()(std::string_view, T&) const {}
  template <typename T>
  requires std::is_arithmetic_v<T>
  void operator()(std::string_view, std::optional<T>&) const {}
  void operator()(std::string_view, report::MemoryCounters&) const {}
};

template <typename Report>
void CleanFields(Report& report) {
  const Cleaner cleaner;
  Fields(cleaner, report, &report);
}

}  // namespace

void Clean(report::Progress& progress) { CleanFields(progress); }
void Clean(report::Evaluated& evaluated) { CleanFields(evaluated); }
void Clean(report::Checkpointed& checkpointed) { CleanFields(checkpointed); }
void Clean(report::Sampled& sampled) { CleanFields(sampled); }
void Clean(report::Failure& failure) { CleanFields(failure); }

bool Clean(report::Outcome& outcome) {
  const bool had_matrix = !outcome.confusion_matrix.empty();
  CleanFields(outcome);
  return !had_matrix || !outcome.confusion_matrix.empty();
}

std::string CleanText(std::string_view text) {
  return Bounded(text, limits::kMessageBytes, base::Breaks::kKeep);
}

std::string CleanWarning(std::string_view text) {
  return Bounded(text, limits::kWarningBytes);
}

std::string CleanStage(std::string_view text) {
  return Bounded(text, limits::kStageBytes);
}

std::string CleanVersion(std::string_view text) {
  return Bounded(text, limits::kVersionBytes);
}

std::string ReadLogTail(const std::string& path, int64_t start) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const int64_t size = file.tellg();
  int64_t from = std::max<int64_t>(start, 0);
  const bool cut = size - from > static_cast<int64_t>(kLogTailBytes);
  if (cut) from = size - static_cast<int64_t>(kLogTailBytes);
  if (from >= size) return "";
  std::string bytes(size - from, '\0');
  file.seekg(from);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(file.gcount());
  if (const size_t line = bytes.find('\n');
      cut && line != std::string::npos && line + 1 < bytes.size()) {
    bytes.erase(0, line + 1);
  }
  return base::Printable(bytes, base::Breaks::kKeep);
}

namespace {

constexpr absl::Duration kTerminateGrace = absl::Seconds(1);
constexpr absl::Duration kLongestPoll = absl::Seconds(1);

constexpr char kMatrixLeftOut[] =
    "the confusion matrix is too large to be shown; confusion_matrix.json next "
    "to the predictions has it";

absl::Status ProtocolViolation(const std::string& message) {
  return absl::InvalidArgumentError(message);
}

// A worker that gets time saves a checkpoint, also for a job that is cancelled.
wire::Stop StopWithin(absl::Duration grace) {
  return {grace > absl::ZeroDuration() ? wire::StopReason::kPreempt
                                       : wire::StopReason::kCancel};
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerSession>> WorkerSession::Create(
    Options options, std::unique_ptr<SpawnedProcess> process,
    UniqueFd channel_fd, jobs::WorkerListener& listener) {
  ASSIGN_OR_RETURN(Pipe wake, MakePipe());
  Unblock(wake.reading);
  Unblock(wake.writing);
  std::unique_ptr<WorkerSession> session(
      new WorkerSession(std::move(options), std::move(process),
                        std::move(channel_fd), std::move(wake), listener));
  session->thread_ = std::thread([raw = session.get()] { raw->Run(); });
  return session;
}

WorkerSession::WorkerSession(Options options,
                             std::unique_ptr<SpawnedProcess> process,
                             UniqueFd channel_fd, Pipe wake,
                             jobs::WorkerListener& listener)
    : options_(std::move(options)),
      process_(std::move(process)),
      channel_(channel_fd.release()),
      wake_(std::move(wake)),
      listener_(listener),
      hang_limit_(options_.hang_timeout, options_.slowest_step, Now()) {
  base::Check(process_ != nullptr, "a session has a process");
}

WorkerSession::~WorkerSession() {
  {
    absl::MutexLock lock(&mutex_);
    // The daemon ends, so the end that follows counts as a preemption, not as a
    // crash of the worker.
    if (asked_ == jobs::Asked::kNothing) asked_ = jobs::Asked::kPreempt;
    grace_ = absl::ZeroDuration();
  }
  Wake();
  process_->Signal(SIGKILL);
  if (thread_.joinable()) thread_.join();
}

void WorkerSession::Ask(jobs::Asked asked, absl::Duration grace) {
  {
    absl::MutexLock lock(&mutex_);
    const bool first = asked_ == jobs::Asked::kNothing;
    if (asked_ != jobs::Asked::kCancel) asked_ = asked;
    // Before Start the worker has nothing to save, so it gets no grace.
    grace_ = std::min(grace_, started_ ? grace : absl::ZeroDuration());
    // The protocol allows one Stop.
    if (first && started_) {
      base::Check(!std::exchange(stop_sent_, true), "Stop is sent once");
      // A failed send means that the stream is closed, which the reading thread
      // notices.
      channel_.Send(wire::Encode(wire::ToWorker(StopWithin(grace))))
          .IgnoreError();
    }
  }
  Wake();
}

void WorkerSession::SetPaused(bool paused) {
  absl::MutexLock lock(&mutex_);
  if (paused == paused_ || asked_ != jobs::Asked::kNothing) return;
  paused_ = paused;
  if (!started_) return;  // Handle(Hello) sends it after Start
  const wire::ToWorker message =
      paused ? wire::ToWorker(wire::Pause{}) : wire::ToWorker(wire::Resume{});
  channel_.Send(wire::Encode(message)).IgnoreError();
}

void WorkerSession::Wake() {
  // A write to a full pipe fails, but a full pipe wakes the thread just as
  // well.
  [[maybe_unused]] ssize_t n = write(wake_.writing.get(), "", 1);
}

absl::Duration WorkerSession::Now() const {
  return options_.awake_time() - frozen_;
}

absl::Duration WorkerSession::KillTime() {
  absl::MutexLock lock(&mutex_);
  kill_at_ = std::min(kill_at_,
                      Now() + std::exchange(grace_, absl::InfiniteDuration()));
  return kill_at_;
}

void WorkerSession::Run() {
  Converse();
  ending_.wait_status = Reap();
  // Before the report: the next attempt may write a folder of the same name.
  if (options_.temporary_folder) options_.temporary_folder->Remove();
  ending_.log_tail = ReadLogTail(options_.log_path, options_.log_start);
  {
    absl::MutexLock lock(&mutex_);
    ending_.asked = asked_;
  }
  jobs::WorkerListener::Result result = jobs::DecideExit(ending_);
  result.message = CleanText(Respelled(result.message));
  listener_.OnExit(result);
}

std::string WorkerSession::Respelled(std::string text) const {
  const std::filesystem::path spec = options_.start.spec_path;
  return jobs::AsSpelled(std::move(text), spec.parent_path(),
                         options_.model_folder, options_.model_name);
}

void WorkerSession::Converse() {
  while (true) {
    absl::StatusOr<std::optional<std::string>> line = NextLine();
    if (absl::IsDeadlineExceeded(line.status())) return Overdue();
    absl::Status status = line.status();
    if (status.ok()) {
      at_end_of_stream_ = !line->has_value();
      if (at_end_of_stream_) return;
      hang_limit_.Heard(Now());
      status = Handle(**line);
    }
    if (!status.ok()) {
      ending_.protocol_error = CleanText(std::string(status.message()));
      return;
    }
  }
}

absl::StatusOr<std::optional<std::string>> WorkerSession::NextLine() {
  while (true) {
    // Checked before each line: a worker that sends many lines must not outlast
    // its grace.
    if (KillTime() <= Now()) return absl::DeadlineExceededError("grace");
    absl::StatusOr<std::optional<std::string>> line =
        channel_.Receive(absl::ZeroDuration());
    if (!absl::IsDeadlineExceeded(line.status())) return line;
    // Nothing is buffered: sleep until a line, a Wake() or the next limit.
    const absl::Duration deadline = Deadline();
    if (Now() >= deadline) return absl::DeadlineExceededError("silence");
    RETURN_IF_ERROR(WaitForNews(deadline));
  }
}

absl::Status WorkerSession::WaitForNews(absl::Duration deadline) {
  const absl::Duration begin = Now();
  const absl::Duration left =
      std::clamp(deadline - begin, absl::ZeroDuration(), kLongestPoll);
  pollfd entries[] = {{channel_.fd(), POLLIN, 0},
                      {wake_.reading.get(), POLLIN, 0}};
  const int n = poll(entries, 2,
                     static_cast<int>(absl::ToInt64Milliseconds(
                         absl::Ceil(left, absl::Milliseconds(1)))));
  if (n < 0 && errno != EINTR) return base::ErrnoStatus(errno, "poll");
  // A poll of many seconds: this process was stopped, and the worker may have
  // been stopped as well. Once both run again, it gets the rest of its time.
  const absl::Duration took = Now() - begin;
  if (took > left + kLongestPoll) frozen_ += took;
  char bytes[16];
  while (read(wake_.reading.get(), bytes, sizeof bytes) > 0) {
  }
  return absl::OkStatus();
}

absl::Duration WorkerSession::Deadline() {
  const bool finished =
      !std::holds_alternative<std::monostate>(ending_.last_word);
  const absl::Duration limit =
      finished ? hang_limit_.heard_at() + options_.exit_grace
               : hang_limit_.deadline();
  return std::min(limit, kill_at_);
}

void WorkerSession::Overdue() {
  if (Now() >= kill_at_) {
    ending_.killed_after_grace = true;
  } else {
    ending_.hung = true;
    ending_.silence = Now() - hang_limit_.heard_at();
  }
}

absl::Status WorkerSession::Handle(const std::string& line) {
  ASSIGN_OR_RETURN(wire::FromWorker message, wire::DecodeFromWorker(line));
  const auto* hello = std::get_if<wire::Hello>(&message);
  if (!greeted_ && hello == nullptr) {
    return ProtocolViolation("its first message was no Hello");
  }
  if (greeted_ && hello != nullptr) {
    return ProtocolViolation("it said Hello twice");
  }
  if (!std::holds_alternative<std::monostate>(ending_.last_word)) {
    return ProtocolViolation("it sent a message after its last one");
  }
  return hello != nullptr ? Handle(*hello) : Report(std::move(message));
}

absl::Status WorkerSession::Handle(const wire::Hello& hello) {
  if (hello.version != wire::kProtocolVersion) {
    return ProtocolViolation(absl::StrCat(
        "it speaks version ", hello.version, ", mpsd speaks ",
        wire::kProtocolVersion, ": install mpsd and mpsd-worker of one build"));
  }
  base::Check(!greeted_, "a worker is greeted once");
  greeted_ = true;
  listener_.OnHello({hello.pid, CleanVersion(hello.worker_version),
                     CleanVersion(hello.torch_version)});
  absl::MutexLock lock(&mutex_);
  if (asked_ != jobs::Asked::kNothing) return absl::OkStatus();
  base::Check(!std::exchange(started_, true), "Start is sent once");
  // A failed send means that the stream is closed, which the next read notices.
  channel_.Send(wire::Encode(wire::ToWorker(options_.start))).IgnoreError();
  if (paused_) {
    channel_.Send(wire::Encode(wire::ToWorker(wire::Pause{}))).IgnoreError();
  }
  return absl::OkStatus();
}

absl::Status WorkerSession::Report(wire::FromWorker message) {
  std::visit(
      [this](auto& m) {
        using Message = std::decay_t<decltype(m)>;
        if constexpr (std::is_same_v<Message, report::Progress>) {
          hang_limit_.Stepped(Now(), m.seconds);
          Clean(m);
          listener_.OnProgress({std::move(m)});
        } else if constexpr (std::is_same_v<Message, report::Evaluated>) {
          Clean(m);
          listener_.OnEvaluated(m);
        } else if constexpr (std::is_same_v<Message, report::Sampled>) {
          Clean(m);
          listener_.OnSampled(m);
        } else if constexpr (std::is_same_v<Message, report::Checkpointed>) {
          Clean(m);
          listener_.OnCheckpoint(m);
        } else if constexpr (std::is_same_v<Message, wire::Heartbeat>) {
          if (!m.device.empty()) listener_.OnDevice(CleanVersion(m.device));
          listener_.OnHeartbeat(CleanStage(m.stage), m.fraction);
        } else if constexpr (std::is_same_v<Message, wire::Warning>) {
          listener_.OnWarning(CleanWarning(Respelled(m.text)));
        } else if constexpr (std::is_same_v<Message, wire::Held>) {
          listener_.OnHeld();
        } else if constexpr (std::is_same_v<Message, wire::Resumed>) {
          listener_.OnResumed();
        } else if constexpr (std::is_same_v<Message, report::Outcome>) {
          if (!Clean(m)) listener_.OnWarning(kMatrixLeftOut);
          ending_.last_word = std::move(m);
        } else if constexpr (std::is_same_v<Message, report::Failure>) {
          Clean(m);
          ending_.last_word = std::move(m);
        } else if constexpr (std::is_same_v<Message, report::Stopped>) {
          ending_.last_word = m;
        }
      },
      message);
  return absl::OkStatus();
}

int WorkerSession::Reap() {
  // A stream that did not end was left at a breach of the protocol or a limit:
  // the process gets no further time.
  if (!at_end_of_stream_) return process_->Kill();
  if (std::optional<int> status = process_->WaitFor(options_.exit_grace)) {
    return *status;
  }
  if (std::holds_alternative<std::monostate>(ending_.last_word)) {
    ending_.protocol_error = "it closed fd 3 and stayed alive";
  }
  return process_->TerminateOrKill(kTerminateGrace);
}

}  // namespace mpsd::supervisor
