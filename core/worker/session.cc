// SPDX-License-Identifier: Apache-2.0
#include "core/worker/session.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "core/base/clock.h"
#include "core/base/line_channel.h"
#include "core/worker/run_job.h"
#include "core/worker/terminal.h"

namespace mpsd::worker {
namespace {

using train::StopRequest;

// Sends what happens to the daemon, and a line of it to the job's log.
class SessionObserver : public train::Observer {
 public:
  SessionObserver(base::LineChannel& channel, std::ostream& log)
      : channel_(channel), terminal_(log, never_, /*logging_steps=*/1) {}

  void OnStage(const std::string& stage, double fraction) override {
    terminal_.OnStage(stage, fraction);
    // Often enough to show life, seldom enough to cost nothing.
    const absl::Duration now = base::Clock::Real().Monotonic();
    if (stage == last_stage_ && now - last_beat_ < absl::Seconds(1)) return;
    last_stage_ = stage;
    last_beat_ = now;
    Send(wire::Heartbeat{stage, fraction});
  }

  void OnStep(const train::StepReport& r) override {
    terminal_.OnStep(r);
    wire::Progress p;
    p.step = r.step;
    p.total_steps = r.total_steps;
    p.epoch = r.epoch;
    p.loss = r.loss;
    p.learning_rate = r.learning_rate;
    p.grad_norm = r.grad_norm;
    p.tokens = r.tokens;
    p.label_tokens = r.label_tokens;
    p.seconds = r.seconds;
    p.device = r.device;
    p.memory = {r.memory.current_allocated, r.memory.driver_allocated,
                r.memory.recommended_max, r.footprint_bytes};
    Send(p);
  }

  void OnEval(const train::EvalReport& r) override {
    terminal_.OnEval(r);
    Send(wire::Evaluated{r.step, r.eval_loss, r.label_tokens, r.seconds,
                         r.metrics});
  }

  void OnCheckpoint(const train::CheckpointReport& r) override {
    terminal_.OnCheckpoint(r);
    Send(wire::Checkpointed{r.step, r.path.string(), r.bytes, r.seconds,
                            r.removed.string()});
  }

  StopRequest stop_request() override { return stop_; }
  void RequestStop(StopRequest request) { stop_ = request; }

  // A daemon that is gone is noticed by the reader.
  void Send(const wire::FromWorker& message) {
    channel_.Send(wire::Encode(message)).IgnoreError();
  }

 private:
  base::LineChannel& channel_;
  const std::atomic<bool> never_{false};
  TerminalObserver terminal_;
  std::atomic<StopRequest> stop_{StopRequest::kNone};
  std::string last_stage_;
  absl::Duration last_beat_;
};

// Follows the daemon until the stream ends.
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
    }
  }
  if (observer.stop_request() == StopRequest::kNone) {
    observer.RequestStop(StopRequest::kPreempt);
  }
}

int SendOutcome(const Outcome& outcome, SessionObserver& observer,
                std::ostream& log) {
  if (const auto* failed = std::get_if<wire::Failed>(&outcome)) {
    log << "failed: " << failed->message << "\n" << std::flush;
    observer.Send(*failed);
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
  wire::Done done;
  done.steps = result.steps;
  done.output_path = result.output_path.string();
  done.output_kind =
      result.is_adapter ? wire::OutputKind::kAdapter : wire::OutputKind::kModel;
  done.train_loss = result.train_loss;
  done.eval_loss_before = result.eval_loss_before;
  done.eval_loss_after = result.eval_loss_after;
  done.seconds = result.seconds;
  done.metrics = result.metrics;
  done.confusion_matrix = result.confusion_matrix;
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
    log << "mpsd-worker: expected Start on fd " << fd << "\n" << std::flush;
    return 2;
  }
  std::thread listener([&] { Listen(channel, observer); });
  const Outcome outcome = RunJob(start->spec_path, start->output_dir, observer);
  const int code = SendOutcome(outcome, observer, log);
  shutdown(fd, SHUT_RDWR);  // ends Listen
  listener.join();
  return code;
}

}  // namespace mpsd::worker
