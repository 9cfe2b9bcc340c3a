// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/event_reader.h"
#include "client/job_id.h"
#include "client/plot/chart.h"
#include "client/plot/history.h"
#include "client/text/format.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

constexpr char kEvalLoss[] = "eval_loss";
constexpr int kMostColumns = 1000;
constexpr int kMostRows = 1000;
// Fewer steps than this are not smoothed.
constexpr size_t kFewestToSmooth = 50;

struct PlotOptions {
  std::string id;
  std::string metric = "loss";
  std::string x = "step";
  int width = 0;   // 0: the terminal's
  int height = 0;  // 0: the terminal's
  bool log = false;
};

// A unit for times up to `seconds`.
struct TimeUnit {
  const char* name;
  double seconds;
};
TimeUnit UnitFor(double seconds) {
  if (seconds < 180) return {"seconds", 1};
  if (seconds < 3 * 3600) return {"minutes", 60};
  if (seconds < 3 * 86400) return {"hours", 3600};
  return {"days", 86400};
}

class Plotting {
 public:
  Plotting(const Console& console, PlotOptions options)
      : console_(console),
        options_(std::move(options)),
        history_(options_.metric) {}

  ExitCode Run() {
    ExitCode code;
    const auto id = ResolveJobId(console_, options_.id, &code);
    if (!id) return code;
    grpc::Status status = Get(*id);
    bool interrupted = false;
    if (status.ok()) status = Read(&interrupted);
    if (interrupted) return ExitCode::kDetached;
    if (!status.ok()) return console_.Fail(status);
    if (history_.steps().empty() && history_.evaluations().empty() &&
        history_.evaluation_metrics().empty()) {
      return Missing("has no step yet");
    }
    const bool of_steps = IsStepMetric(options_.metric);
    const bool shows_evaluations = !of_steps || options_.metric == "loss";
    if (!of_steps && history_.evaluations().empty()) return NoEvaluation();
    if (of_steps) steps_ = history_.steps();
    if (shows_evaluations) evaluations_ = history_.evaluations();
    if (steps_.empty() && evaluations_.empty()) {
      return Missing("has no step yet");
    }
    return console_.json ? PrintPoints() : PrintChart();
  }

 private:
  grpc::Status Get(const std::string& id) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::GetJobRequest request;
    request.set_id(id);
    return console_.daemon.jobs().Get(&context, request, &job_);
  }

  // Reads the events that there are.
  grpc::Status Read(bool* interrupted) {
    if (!IsFinal(job_.state()) && RowReached(job_).Add({})) {
      return grpc::Status::OK;  // nothing yet
    }
    return ReadEvents(
        console_, job_, [&](const v1::JobEvent& event) { history_.Add(event); },
        interrupted);
  }

  ExitCode Missing(const std::string& what) const {
    return console_.Fail(
        ExitCode::kNotFound,
        absl::StrCat("job ", job_.id(), " (", StateName(job_.state()), ") ",
                     what),
        IsFinal(job_.state())
            ? absl::StrCat("See how it ended with `mpsctl show ", job_.id(),
                           "`.")
            : absl::StrCat("Follow it with `mpsctl watch ", job_.id(), "`."));
  }

  ExitCode NoEvaluation() const {
    if (options_.metric == kEvalLoss) return Missing("has no evaluation yet");
    const auto& names = history_.evaluation_metrics();
    return console_.Fail(
        ExitCode::kBadInput,
        absl::StrCat("--metric: job ", job_.id(), " has no '", options_.metric,
                     "'"),
        absl::StrCat("Its steps have ", absl::StrJoin(StepMetrics(), ", "),
                     "; its evaluations ", kEvalLoss, names.empty() ? "" : ", ",
                     absl::StrJoin(names, ", "), "."));
  }

  ExitCode PrintPoints() const {
    const auto print = [&](const std::string& metric,
                           const std::vector<Sample>& samples) {
      for (const Sample& sample : samples) {
        const nlohmann::ordered_json object = {
            {"metric", metric},
            {"step", sample.step},
            {"tokens", static_cast<int64_t>(sample.tokens)},
            {"seconds", sample.seconds},
            {"value", sample.value}};  // null where it is not finite
        console_.out << object.dump(-1, ' ', true,
                                    nlohmann::json::error_handler_t::replace)
                     << '\n';
      }
    };
    print(options_.metric, steps_);
    print(steps_.empty() ? options_.metric : kEvalLoss, evaluations_);
    return ExitCode::kOk;
  }

  ExitCode PrintChart() const {
    const std::vector<std::string> notes = Notes();
    // The notes, one line of what is left out, and the shell's prompt.
    const int below = static_cast<int>(notes.size()) + 2;
    const int columns = options_.width > 0
                            ? options_.width
                            : Bounded(console_.terminal.columns(),
                                      kFewestColumns, kMostColumns);
    const int rows =
        options_.height > 0
            ? options_.height
            : Bounded(console_.terminal.rows() - below, kFewestRows, kMostRows);
    const Drawing drawing =
        Draw(MakeChart(), columns, rows, console_.terminal.utf8);
    for (const std::string& line : drawing.lines) console_.out << line << '\n';
    for (const std::string& note : notes) console_.out << note << '\n';
    if (drawing.left_out > 0) {
      console_.out << Count(static_cast<double>(drawing.left_out))
                   << (drawing.left_out == 1 ? " point" : " points")
                   << " left out: missing, NaN"
                   << (options_.log ? ", infinite, or not above 0\n"
                                    : " or infinite\n");
    }
    return ExitCode::kOk;
  }

  static int Bounded(int value, int least, int most) {
    return std::clamp(value, least, most);
  }

  Chart MakeChart() const {
    double seconds = 0;
    for (const auto* samples : {&steps_, &evaluations_}) {
      if (!samples->empty()) {
        seconds = std::max(seconds, samples->back().seconds);
      }
    }
    const TimeUnit unit = UnitFor(seconds);
    const auto points = [&](const std::vector<Sample>& samples) {
      std::vector<CurvePoint> result;
      for (const Sample& s : samples) {
        const double x = options_.x == "step"     ? static_cast<double>(s.step)
                         : options_.x == "tokens" ? s.tokens
                                                  : s.seconds / unit.seconds;
        result.push_back({x, s.value});
      }
      return result;
    };
    Chart chart;
    chart.spread = options_.log ? Spread::kLogarithmic : Spread::kLinear;
    chart.counts_x = options_.x != "time";
    chart.title = absl::StrCat(
        options_.metric, " by ", options_.x == "time" ? unit.name : options_.x,
        ", job ", job_.id(), job_.name().empty() ? "" : " ", job_.name());
    if (steps_.empty()) {
      chart.curves = {{"", CurveStyle::kDots, points(evaluations_)},
                      {"", CurveStyle::kMarks, points(evaluations_)}};
      return chart;
    }
    chart.curves.push_back({"each step", CurveStyle::kDots, points(steps_)});
    if (IsNoisy() && steps_.size() >= kFewestToSmooth) {
      chart.curves.push_back(
          {"smoothed", CurveStyle::kHeavy, points(Smoothed(steps_))});
    }
    chart.curves.push_back(
        {"evaluations", CurveStyle::kMarks, points(evaluations_)});
    return chart;
  }

  bool IsNoisy() const {
    return options_.metric == "loss" || options_.metric == "grad_norm" ||
           options_.metric == "step_seconds";
  }

  // What the drawing shows of the job.
  std::vector<std::string> Notes() const {
    std::vector<std::string> notes;
    const std::vector<Sample>& samples = steps_.empty() ? evaluations_ : steps_;
    const int64_t first = samples.front().step, last = samples.back().step;
    std::string text =
        absl::StrCat("steps ", Number(first), " to ", Number(last));
    if (job_.progress().total_steps() > 0) {
      absl::StrAppend(&text, " of ", Number(job_.progress().total_steps()));
    }
    absl::StrAppend(&text, ", ", StateName(job_.state()));
    const int64_t there = std::ssize(steps_);
    if (there > 0 && there < last - first + 1) {
      absl::StrAppend(&text, "; mpsd has ", Number(there),
                      " of them: it thins out old steps and very fast ones");
    }
    notes.push_back(text);
    if (history_.resumes() > 0) {
      notes.push_back(absl::StrCat("went back to an earlier step ",
                                   history_.resumes(),
                                   history_.resumes() == 1 ? " time" : " times",
                                   ": the last values count"));
    }
    return notes;
  }

  static std::string Number(int64_t value) {
    return Count(static_cast<double>(value));
  }

  const Console& console_;
  const PlotOptions options_;
  v1::Job job_;
  History history_;
  std::vector<Sample> steps_;        // what is drawn of them
  std::vector<Sample> evaluations_;  // what is drawn of them
};

}  // namespace

void AddPlot(Command& app, Action* action) {
  auto options = std::make_shared<PlotOptions>();
  Command* verb =
      app.add_subcommand("plot", "Draw a job's loss, or another metric");
  verb->add_option(kJobIdName, options->id, "The job")
      ->required()
      ->type_name("");
  verb->add_option(
          "--metric", options->metric,
          absl::StrCat("One of ", absl::StrJoin(StepMetrics(), ", "), ";\n",
                       kEvalLoss, ", or a metric of the task, as accuracy"))
      ->type_name("NAME")
      ->capture_default_str();
  verb->add_option("--x", options->x, "What the curve runs along")
      ->check(IsMember({"step", "tokens", "time"}))
      ->type_name("step|tokens|time")
      ->capture_default_str();
  verb->add_option("--width", options->width,
                   "Columns of the drawing (else the terminal's)")
      ->check(Range(kFewestColumns, kMostColumns))
      ->type_name("COLUMNS");
  verb->add_option("--height", options->height,
                   "Lines of the drawing (else what the terminal has)")
      ->check(Range(kFewestRows, kMostRows))
      ->type_name("LINES");
  verb->add_flag("--log", options->log, "A logarithmic scale");
  verb->callback([=] {
    *action = [=](const Console& console) {
      return Plotting(console, *options).Run();
    };
  });
}

}  // namespace mpsd::client
