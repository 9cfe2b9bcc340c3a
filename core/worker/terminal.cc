// SPDX-License-Identifier: Apache-2.0
#include "core/worker/terminal.h"

#include <csignal>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/file.h"
#include "core/host/host.h"
#include "core/report/metrics.h"
#include "core/spec/train_spec.h"
#include "core/worker/run_job.h"

namespace mpsd::worker {
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
