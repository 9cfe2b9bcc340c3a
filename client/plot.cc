// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/event_reader.h"
#include "client/job_id.h"
#include "client/text/format.h"
#include "client/text/loss_chart.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

// The losses that a job's events report. Steps that the job did again after an
// interruption count as they were the last time.
struct Losses {
  std::vector<LossPoint> steps;
  std::vector<LossPoint> evaluations;
  int resumes = 0;  // how often the job went back to an earlier step

  void Add(const v1::JobEvent& event) {
    const auto from = [](int64_t step) {
      return [step](const LossPoint& p) { return p.step >= step; };
    };
    if (event.has_progress()) {
      const int64_t step = event.progress().step();
      if (!steps.empty() && step <= steps.back().step) {
        ++resumes;
        std::erase_if(steps, from(step));
        std::erase_if(evaluations, from(step));
      }
      steps.push_back({step, event.progress().loss()});
    } else if (event.has_evaluated()) {
      const int64_t step = event.evaluated().step();
      std::erase_if(evaluations, from(step));
      evaluations.push_back({step, event.evaluated().eval_loss()});
    }
  }
};

// What the chart shows of the job.
std::string Notes(const v1::Job& job, const Losses& losses) {
  const auto& points = losses.steps.empty() ? losses.evaluations : losses.steps;
  const auto number = [](int64_t n) { return Count(static_cast<double>(n)); };
  const int64_t first = points.front().step, last = points.back().step;
  std::string text =
      absl::StrCat("steps ", number(first), " to ", number(last));
  if (job.progress().total_steps() > 0) {
    absl::StrAppend(&text, " of ", number(job.progress().total_steps()));
  }
  absl::StrAppend(&text, ", ", StateName(job.state()));
  const int64_t there = std::ssize(losses.steps);
  if (there > 0 && there < last - first + 1) {
    absl::StrAppend(&text, "; mpsd has ", number(there),
                    " of them: it thins out old steps and very fast ones");
  }
  if (losses.resumes > 0) {
    absl::StrAppend(&text, "; went back to an earlier step ", losses.resumes,
                    losses.resumes == 1 ? " time" : " times",
                    ": the last values count");
  }
  int left_out = 0;
  for (const auto* kind : {&losses.steps, &losses.evaluations}) {
    for (const LossPoint& p : *kind) left_out += !std::isfinite(p.loss);
  }
  if (left_out > 0) {
    absl::StrAppend(&text, "; ", left_out, " left out: NaN or infinite");
  }
  return text;
}

ExitCode Plot(const Console& console, const std::string& text) {
  if (console.json) {
    return console.Fail(ExitCode::kBadInput, "plot prints no JSON",
                        "`mpsctl watch ID --json` has the job's losses.");
  }
  ExitCode code;
  const auto id = ResolveJobId(console, text, &code);
  if (!id) return code;
  grpc::ClientContext context;
  SetDeadline(context);
  v1::GetJobRequest request;
  request.set_id(*id);
  v1::Job job;
  grpc::Status status = console.daemon.jobs().Get(&context, request, &job);
  if (!status.ok()) return console.Fail(status);
  Losses losses;
  // A job that has not ended, and has nothing to draw yet, is not waited for.
  if (IsFinal(job.state()) || !RowReached(job).Add({})) {
    bool interrupted = false;
    status = ReadEvents(
        console, job, [&](const v1::JobEvent& event) { losses.Add(event); },
        &interrupted);
    if (interrupted) return ExitCode::kDetached;
    if (!status.ok()) return console.Fail(status);
  }
  if (losses.steps.empty() && losses.evaluations.empty()) {
    return console.Fail(
        ExitCode::kNotFound,
        absl::StrCat("job ", job.id(), " (", StateName(job.state()),
                     ") has no step yet"),
        absl::StrCat(IsFinal(job.state())
                         ? "See how it ended with `mpsctl show "
                         : "Follow it with `mpsctl watch ",
                     job.id(), "`."));
  }
  // The last two lines are the note's and the shell's.
  for (const std::string& line :
       DrawLosses(absl::StrCat("loss by step, job ", job.id(), " ", job.name()),
                  losses.steps, losses.evaluations, console.terminal.columns(),
                  console.terminal.rows() - 2, console.terminal.utf8)) {
    console.out << line << '\n';
  }
  console.out << Notes(job, losses) << '\n';
  return ExitCode::kOk;
}

}  // namespace

void AddPlot(Command& app, Action* action) {
  auto id = std::make_shared<std::string>();
  Command* verb = app.add_subcommand("plot", "Draw a job's loss and eval loss");
  verb->add_option(kJobIdName, *id, "The job")->required()->type_name("");
  verb->callback([=] {
    *action = [=](const Console& console) { return Plot(console, *id); };
  });
}

}  // namespace mpsd::client
