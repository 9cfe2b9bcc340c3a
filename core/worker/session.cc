// SPDX-License-Identifier: Apache-2.0
#include "core/worker/session.h"

#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/line_channel.h"
#include "core/base/monitor.h"
#include "core/base/text.h"
#include "core/host/host.h"
#include "core/report/metrics.h"
#include "core/spec/train_spec.h"
#include "core/worker/process.h"
#include "core/worker/run_job.h"

namespace mpsd::worker {
namespace {

using train::StopRequest;

// Sign of life while the run is held, and while it works.
constexpr absl::Duration kHeldBeat = absl::Seconds(1);
constexpr absl::Duration kBeat = absl::Milliseconds(500);

// Reports each event to the daemon, and as a line to the job's log.
class SessionObserver : public train::Observer {
 public:
  SessionObserver(base::LineChannel& channel, std::ostream& log)
      : channel_(channel), terminal_(log, never_, /*logging_steps=*/1) {}

  void OnDevice(const std::string& name) override {
    Send(wire::Heartbeat{"", 0, name});
  }

  void OnStage(const std::string& stage, double fraction) override {
    terminal_.OnStage(stage, fraction);
    // Once a second shows life and costs nothing.
    const absl::Duration now = base::Clock::Real().Monotonic();
    if (stage == last_stage_ && now - last_beat_ < absl::Seconds(1)) return;
    last_stage_ = stage;
    last_beat_ = now;
    Send(wire::Heartbeat{stage, fraction});
  }

  void OnStep(const report::Progress& progress) override {
    terminal_.OnStep(progress);
    last_stage_.clear();
    step_ = progress.step;
    Send(progress);
  }

  void OnEval(const report::Evaluated& evaluated) override {
    terminal_.OnEval(evaluated);
    last_stage_.clear();
    Send(evaluated);
  }

  void OnSample(const report::Sampled& sampled) override {
    terminal_.OnSample(sampled);
    last_stage_.clear();
    Send(sampled);
  }

  void OnCheckpoint(const report::Checkpointed& checkpointed) override {
    terminal_.OnCheckpoint(checkpointed);
    last_stage_.clear();
    Send(checkpointed);
  }

  // Blocks while the daemon wants a pause. Called on the training thread. The
  // worker sends Held, then heartbeats while it is held, then Resumed.
  StopRequest stop_request() override {
    if (!Wait(absl::ZeroDuration())) {
      Send(wire::Held{step_});
      while (!Wait(kHeldBeat)) Send(wire::Heartbeat{"", 0});
      if (stop() == StopRequest::kNone) Send(wire::Resumed{step_});
    }
    return stop();
  }

  StopRequest stop() const {
    base::MonitorLock lock(&mutex_);
    return stop_;
  }
  void RequestStop(StopRequest request) {
    base::MonitorLock lock(&mutex_);
    stop_ = request;
  }
  void SetPaused(bool paused) {
    base::MonitorLock lock(&mutex_);
    paused_ = paused;
  }

  // An error is ignored: the listening thread notices when the daemon is gone.
  void Send(const wire::FromWorker& message) {
    channel_.Send(wire::Encode(message)).IgnoreError();
  }

 private:
  void TellWarning(const std::string& text) override {
    terminal_.OnWarning(text);
    Send(wire::Warning{text});
  }

  // Waits until the run may resume or has to stop; false if a pause outlasts
  // `timeout`.
  bool Wait(absl::Duration timeout) {
    base::MonitorLock lock(&mutex_);
    const auto free = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return !paused_ || stop_ != StopRequest::kNone;
    };
    return mutex_.AwaitFor(timeout, free);
  }

  base::LineChannel& channel_;
  const std::atomic<bool> never_{false};
  TerminalObserver terminal_;
  int64_t step_ = 0;  // the last finished step
  mutable base::Monitor mutex_;
  StopRequest stop_ ABSL_GUARDED_BY(mutex_) = StopRequest::kNone;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  std::string last_stage_;  // empty once something else was reported
  absl::Duration last_beat_;
};

// Applies the daemon's messages until the stream ends. Runs on its own thread.
void Listen(base::LineChannel& channel, SessionObserver& observer) {
  while (true) {
    auto line = channel.Receive();
    if (!line.ok() || !line->has_value()) break;
    auto message = wire::DecodeToWorker(**line);
    if (!message.ok()) continue;
    if (const auto* stop = std::get_if<wire::Stop>(&*message)) {
      observer.RequestStop(stop->reason == wire::StopReason::kCancel
                               ? StopRequest::kCancel
                               : StopRequest::kPreempt);
    } else if (std::holds_alternative<wire::Pause>(*message)) {
      observer.SetPaused(true);
    } else if (std::holds_alternative<wire::Resume>(*message)) {
      observer.SetPaused(false);
    }
  }
  // A daemon that is gone counts as Stop{kPreempt}: the run saves a checkpoint,
  // from which the next daemon resumes.
  if (observer.stop() == StopRequest::kNone) {
    observer.RequestStop(StopRequest::kPreempt);
  }
}

// Runs the kind of job that the daemon asks for.
Outcome RunKind(const wire::Start& start, train::Observer& observer) {
  return start.kind == wire::JobKind::kTraining
             ? RunJob(start.spec_path, start.output_dir, observer)
             : RunStudy(start.kind, start.study, start.spec_path,
                        start.output_dir, observer);
}

int SendOutcome(const Outcome& outcome, SessionObserver& observer,
                std::ostream& log) {
  if (const auto* failed = std::get_if<wire::Failed>(&outcome)) {
    // The text may quote a user's file: a cell of many MB, terminal escapes.
    wire::Failed shown = *failed;
    shown.message =
        base::Shortened(base::Printable(failed->message, base::Breaks::kKeep),
                        limits::kMessageBytes);
    log << "failed: " << base::Indented(shown.message) << "\n" << std::flush;
    observer.Send(shown);
    return 1;
  }
  const auto& result = std::get<train::RunResult>(outcome);
  if (result.stopped != StopRequest::kNone) {
    observer.Send(wire::Stopped{result.stopped == StopRequest::kCancel
                                    ? wire::StopReason::kCancel
                                    : wire::StopReason::kPreempt,
                                result.checkpoint_step});
    return 0;
  }
  report::Outcome done = result;
  if (done.confusion_matrix.size() > limits::kMatrixBytes) {
    done.confusion_matrix.clear();
    observer.OnWarning(
        "the confusion matrix is too large to be sent; confusion_matrix.json "
        "next to the predictions has it");
  }
  observer.Send(done);
  return 0;
}

}  // namespace

int RunSession(int fd, std::ostream& log) {
  base::LineChannel channel(fd);
  SessionObserver observer(channel, log);
  observer.Send(wire::Hello{wire::kProtocolVersion, getpid(), WorkerVersion(),
                            TorchVersion()});
  auto line = channel.Receive();
  if (!line.ok() || !line->has_value()) return 2;
  auto message = wire::DecodeToWorker(**line);
  const auto* start =
      message.ok() ? std::get_if<wire::Start>(&*message) : nullptr;
  if (start == nullptr) {
    // The daemon shows the end of this log: it must say why this worker cannot
    // read a Start, which above all may be for a newer kind of job.
    log << "mpsd-worker: expected Start on fd " << fd;
    if (!message.ok()) {
      log << ": " << base::Printable(std::string(message.status().message()))
          << "; install mpsd and mpsd-worker of one build";
    }
    log << "\n" << std::flush;
    return 2;
  }
  LimitToStart(*start);
  std::thread listener([&] { Listen(channel, observer); });
  const Outcome outcome = [&] {
    const Pulse pulse(kBeat, [&] { observer.Send(wire::Heartbeat{"", 0}); });
    return RunKind(*start, observer);
  }();
  const int code = SendOutcome(outcome, observer, log);
  shutdown(fd, SHUT_RDWR);  // ends Listen
  listener.join();
  return code;
}

namespace {

std::atomic<bool> g_stop{false};

void OnSignal(int) { g_stop = true; }

std::string Loss(const std::optional<double>& loss) {
  return loss ? absl::StrFormat("%.4f", *loss) : "-";
}

// "accuracy 0.8431  f1 0.8912"
std::string Metrics(const metrics::Values& values) {
  std::string text;
  for (const auto& [name, value] : values) {
    absl::StrAppendFormat(&text, "%s%s %.4f", text.empty() ? "" : "  ", name,
                          value);
  }
  return text;
}

int Report(const Outcome& outcome, std::ostream& out, std::ostream& err) {
  if (const auto* failed = std::get_if<wire::Failed>(&outcome)) {
    err << "mpsd-worker: " << failed->message << "\n";
    return failed->kind == wire::FailureKind::kRejected ? 2 : 1;
  }
  const auto& result = std::get<train::RunResult>(outcome);
  if (result.stopped != train::StopRequest::kNone) {
    out << absl::StrFormat(
        "stopped after step %d; the same command resumes from there\n",
        result.steps);
    return 0;
  }
  out << absl::StrFormat(
      "done: %d steps in %.1f s, train loss %s, eval loss %s -> %s\n"
      "%s: %s\n",
      result.steps, result.seconds, Loss(result.train_loss),
      Loss(result.eval_loss_before), Loss(result.eval_loss_after),
      result.output_kind == report::OutputKind::kAdapter ? "adapter" : "model",
      result.output_path);
  if (!result.metrics.empty()) out << Metrics(result.metrics) << "\n";
  return 0;
}

}  // namespace

void TerminalObserver::OnStage(const std::string& stage, double) {
  if (stage == stage_) return;
  stage_ = stage;
  out_ << stage << "\n" << std::flush;
}

void TerminalObserver::OnStep(const report::Progress& r) {
  stage_.clear();
  const bool last = r.step == r.total_steps;
  if (logging_steps_ <= 0 || (r.step % logging_steps_ != 0 && !last)) return;
  out_ << absl::StrFormat(
              "step %d/%d  epoch %.2f  loss %.4f  lr %.3g  grad norm %.3g  "
              "%.0f tok/s\n",
              r.step, r.total_steps, r.epoch, r.loss, r.learning_rate,
              r.grad_norm, r.tokens / r.seconds)
       << std::flush;
}

void TerminalObserver::OnEval(const report::Evaluated& r) {
  stage_.clear();
  out_ << absl::StrFormat("eval at step %d: loss %.4f%s%s (%.1f s)\n", r.step,
                          r.eval_loss, r.metrics.empty() ? "" : "  ",
                          Metrics(r.metrics), r.seconds)
       << std::flush;
}

void TerminalObserver::OnSample(const report::Sampled& r) {
  stage_.clear();
  for (size_t i = 0; i < r.completions.size(); ++i) {
    out_ << "sample " << i + 1 << " at step " << r.step << ": "
         << base::Quotable(r.completions[i]) << "\n";
  }
  out_ << std::flush;
}

void TerminalObserver::OnCheckpoint(const report::Checkpointed& r) {
  out_ << "checkpoint " << r.path << "\n" << std::flush;
}

void TerminalObserver::TellWarning(const std::string& text) {
  out_ << "warning: " << text << "\n" << std::flush;
}

train::StopRequest TerminalObserver::stop_request() {
  return stop_ ? train::StopRequest::kPreempt : train::StopRequest::kNone;
}

int RunAlone(const std::string& job, const std::string& out_dir,
             std::ostream& out, std::ostream& err) {
  std::signal(SIGINT, OnSignal);
  std::signal(SIGTERM, OnSignal);
  int64_t logging_steps = 1;
  // Read only for logging_steps; RunJob reports errors in the job.
  if (auto text = base::ReadFile(job); text.ok()) {
    if (auto spec = spec::ParseTrainSpec(*text, job); spec.ok()) {
      logging_steps = spec->training.logging_steps;
    }
  }
  const auto awake =
      host::OpenHost()->KeepAwake(absl::StrCat("mpsd-worker trains ", job));
  TerminalObserver observer(out, g_stop, logging_steps);
  return Report(RunJob(job, out_dir, observer), out, err);
}

}  // namespace mpsd::worker
