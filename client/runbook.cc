// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/doctor.h"
#include "client/given.h"
#include "client/inputs.h"
#include "client/output_file.h"
#include "client/plan.h"
#include "client/runbook_page.h"
#include "client/study.h"
#include "client/text/format.h"
#include "client/text/json.h"
#include "client/upload.h"
#include "client/verbs.h"
#include "core/base/atomic_file.h"
#include "core/base/file.h"
#include "core/spec/train_spec.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;

struct RunbookOptions {
  StudyArguments study;
  std::string output = "runbook";
  std::string against = "cpu";
  std::vector<std::string> left_out;
  bool keep_going = false;
};

struct Step {
  const char* name;
  // Takes the step and shows what it found. kOk, or why it could not be taken.
  std::function<ExitCode()> take;
  std::function<v1::Verdict()> verdict;
};

class Steps {
 public:
  Steps(const RunbookOptions& options, const Console& console)
      : options_(options),
        // With --json the runbook alone is for the script.
        course_{console.json ? console.err : console.out, console.err,
                console.terminal, console.daemon, false} {}

  v1::Runbook& runbook() { return runbook_; }

  // Takes them in their order. kOk, or why the first one that could not be
  // taken could not.
  ExitCode Take(const std::vector<Step>& steps) {
    std::string over;  // why no further step is taken
    ExitCode problem = ExitCode::kOk;
    for (size_t i = 0; i < steps.size(); ++i) {
      const Step& step = steps[i];
      if (IsLeftOut(step.name)) {
        Note(step.name, "left out by --skip");
        continue;
      }
      if (!over.empty()) {
        Note(step.name, over);
        continue;
      }
      course_.out << "== " << i + 1 << "/" << steps.size() << " " << step.name
                  << "\n"
                  << std::flush;
      const ExitCode taken = step.take();
      if (taken != ExitCode::kOk) {
        Note(step.name, absl::StrCat("could not be taken, exit code ",
                                     static_cast<int>(taken)));
        if (problem == ExitCode::kOk) problem = taken;
        // Nobody is there, or the user wants no more.
        if (!options_.keep_going || taken == ExitCode::kDetached ||
            taken == ExitCode::kUnreachable || taken == ExitCode::kNotLetIn) {
          over = absl::StrCat(step.name, " could not be taken");
        }
      } else if (step.verdict() == v1::VERDICT_FAIL && !options_.keep_going) {
        over = absl::StrCat(step.name,
                            " says no; --keep-going goes on nonetheless");
      }
    }
    return problem;
  }

  ExitCode Doctor() {
    v1::Diagnosis diagnosis;
    const ExitCode asked =
        Diagnose(course_, /*deep=*/true, options_.study.thresholds, &diagnosis);
    if (asked != ExitCode::kOk) return asked;
    PrintDiagnosis(diagnosis, course_.out);
    *runbook_.mutable_doctor() = std::move(diagnosis);
    return asked;
  }

  ExitCode Plan(const PreparedJob& job) {
    const grpc::Status sent = Upload(course_, job.files);
    if (!sent.ok()) return course_.Fail(sent);
    v1::Plan plan;
    const ExitCode made =
        MakePlan(course_, RequestOf(job), options_.study.thresholds, &plan);
    if (made != ExitCode::kOk && made != ExitCode::kVerdictFail) return made;
    PrintPlan(plan, course_);
    *runbook_.mutable_plan() = std::move(plan);
    return ExitCode::kOk;
  }

  ExitCode Study(const v1::Study& study, v1::StudyResult* result) {
    v1::StudyResult found;
    const ExitCode code = FindOut(course_, options_.study, study, &found);
    if (code != ExitCode::kOk) return code;
    ShowStudy(course_, found, PrintAnyStudy);
    *result = std::move(found);
    return code;
  }

 private:
  bool IsLeftOut(const std::string& name) const {
    return std::count(options_.left_out.begin(), options_.left_out.end(),
                      name) > 0;
  }
  void Note(const std::string& name, const std::string& why) {
    runbook_.add_not_taken(absl::StrCat(name, ": ", why));
  }

  const RunbookOptions& options_;
  const Console course_;
  v1::Runbook runbook_;
};

// Writes the page in its three forms, and the charts that Markdown shows; the
// JSON is the message Runbook.
absl::Status WritePages(const std::string& output, const v1::Runbook& runbook,
                        const std::string& json) {
  const fs::path folder = output;
  absl::Status written = base::WriteFileAtomic(folder / "runbook.json", json);
  for (const auto& [name, svg] : RunbookPictures(runbook)) {
    if (written.ok()) written = base::WriteFileAtomic(folder / name, svg);
  }
  if (written.ok()) {
    written =
        base::WriteFileAtomic(folder / "runbook.md", RunbookMarkdown(runbook));
  }
  if (written.ok()) {
    written =
        base::WriteFileAtomic(folder / "runbook.html", RunbookHtml(runbook));
  }
  return written;
}

// Writes the pages and shows the proofs.
ExitCode Tell(const RunbookOptions& options, const v1::Runbook& runbook,
              const Console& console) {
  const absl::Status written =
      WritePages(options.output, runbook, ToJson(runbook).dump(1));
  if (console.json) {
    console.PrintJson(runbook);
  } else {
    PrintFindings(runbook.proofs(), console.out);
    console.out << "Fit to promise: " << VerdictName(runbook.verdict()) << ".";
    if (written.ok()) {
      console.out << " Read " << options.output << "/runbook.html";
    }
    console.out << '\n' << std::flush;
  }
  // What was measured for hours has been shown nonetheless.
  if (!written.ok()) {
    return console.Fail(ExitCode::kOther, written,
                        "`mpsctl result ID` shows each study again.");
  }
  return ExitCode::kOk;
}

ExitCode RunRunbook(const RunbookOptions& options, const Console& console) {
  absl::StatusOr<PreparedJob> job = PrepareJob(
      options.study.job_file, Hashing(console, options.study.rehash));
  if (!job.ok()) {
    return console.Fail(ExitCode::kBadInput, job.status(),
                        "Nothing was looked at.");
  }
  const absl::StatusOr<spec::TrainSpec> spec =
      spec::ParseTrainSpec(job->spec_json, "job.json");
  if (!spec.ok()) return console.Fail(ExitCode::kBadInput, spec.status(), "");

  v1::Study sweep, smoke, parity;
  parity.mutable_parity()->set_reference_device(options.against);
  for (auto* thresholds : {sweep.mutable_batch_sweep()->mutable_thresholds(),
                           smoke.mutable_smoke()->mutable_thresholds(),
                           parity.mutable_parity()->mutable_thresholds()}) {
    absl::Status added = AddThresholds(options.study.thresholds, thresholds);
    if (!added.ok()) return console.Fail(ExitCode::kBadInput, added, "");
  }

  const absl::Status written = MakeOutputFolder("--output", options.output);
  if (!written.ok()) {
    return console.Fail(ExitCode::kBadInput, written, "Nothing was looked at.");
  }

  Steps steps(options, console);
  v1::Runbook& runbook = steps.runbook();
  runbook.set_name(spec->name);
  runbook.set_model(spec->model);
  runbook.set_server(console.daemon.address().target);
  const absl::Time now = console.terminal.clock->Now();
  runbook.mutable_time()->set_seconds(absl::ToUnixSeconds(now));
  const ExitCode taken = steps.Take(
      {{"doctor", [&] { return steps.Doctor(); },
        [&] { return runbook.doctor().verdict(); }},
       {"plan", [&] { return steps.Plan(*job); },
        [&] { return runbook.plan().verdict(); }},
       {"sweep",
        [&] { return steps.Study(sweep, runbook.mutable_batch_sweep()); },
        [&] { return runbook.batch_sweep().verdict(); }},
       {"smoke", [&] { return steps.Study(smoke, runbook.mutable_smoke()); },
        [&] { return runbook.smoke().verdict(); }},
       {"parity", [&] { return steps.Study(parity, runbook.mutable_parity()); },
        [&] { return runbook.parity().verdict(); }}});
  JudgeRunbook(&runbook);
  const ExitCode told = Tell(options, runbook, console);
  if (told != ExitCode::kOk) return told;
  return taken != ExitCode::kOk ? taken : ForVerdict(runbook.verdict());
}

}  // namespace

void AddRunbook(CLI::App& app, Action* action) {
  auto options = std::make_shared<RunbookOptions>();
  CLI::App* verb = app.add_subcommand(
      "runbook", "Doctor, plan, sweep, smoke and parity in a row, and a page");
  DeclareStudy(*verb, &options->study);
  verb->remove_option(verb->get_option("--detach"));
  verb->add_option("--output", options->output,
                   "The folder for runbook.html, .md and .json")
      ->type_name("DIR")
      ->check(Given)
      ->capture_default_str();
  verb->add_option("--against", options->against,
                   "The device that parity compares with")
      ->type_name("DEVICE")
      ->check(CLI::IsMember({"cpu", "cuda", "mps"}))
      ->capture_default_str();
  verb->add_option("--skip", options->left_out,
                   "Leave a step out; repeatable; the page says so")
      ->type_name("STEP")
      ->check(CLI::IsMember({"doctor", "plan", "sweep", "smoke", "parity"}))
      ->allow_extra_args(false);
  verb->add_flag("--keep-going", options->keep_going,
                 "Go on after a step that says no");
  verb->callback([=] {
    *action = [=](const Console& console) {
      return RunRunbook(*options, console);
    };
  });
}

}  // namespace mpsd::client
