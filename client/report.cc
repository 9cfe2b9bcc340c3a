// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/download.h"
#include "client/event_printer.h"
#include "client/job_id.h"
#include "client/logs.h"
#include "client/run/kept_events.h"
#include "client/text/format.h"
#include "client/verbs.h"
#include "core/base/file.h"
#include "core/report/run_page.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostJobs = 20;
// Steps of all jobs together, some 700 bytes each; a job has its share of them,
// but enough to draw its curves.
constexpr size_t kMostSteps = 8000;
constexpr size_t kFewestSteps = 1000;
constexpr int64_t kLogBytes = 64 << 10;

struct ReportOptions {
  NamedJobs jobs;
  std::string output = "report.html";
  bool force = false;
};

// The first bytes of a file; empty where they cannot be read.
std::string Head(const fs::path& path) {
  std::string head(run_page::kHeadBytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(file.gcount()));
  return head;
}

// Whether a report may be written to `path`: if no file exists or, with
// `force`, an earlier report.
absl::Status CheckOutput(const fs::path& path, bool force) {
  std::error_code error;
  const fs::file_status there = fs::symlink_status(path, error);
  if (there.type() == fs::file_type::not_found) return absl::OkStatus();
  if (!force) {
    return absl::AlreadyExistsError(absl::StrCat(path.string(), " exists"));
  }
  if (!fs::is_regular_file(there) || !run_page::BeginsLikeRunPage(Head(path))) {
    return absl::FailedPreconditionError(
        absl::StrCat(path.string(), " is not a report, and would be lost"));
  }
  return absl::OkStatus();
}

class Reporting {
 public:
  Reporting(const Console& console, const ReportOptions& options)
      : console_(console),
        named_(options.jobs),
        output_(fs::absolute(options.output).lexically_normal()),
        force_(options.force) {}

  ExitCode Run() {
    if (absl::Status s = CheckOutput(output_, force_); !s.ok()) {
      return BadOutput(s);
    }
    ExitCode code = ExitCode::kOk;
    const auto ids =
        ResolveNamed(console_, named_, {}, &code, FewestIdCharacters::kLooks);
    if (!ids) return code;
    const size_t count = std::max(named_.texts.size(), ids->size());
    if (count > kMostJobs) {
      return console_.Fail(
          ExitCode::kBadInput, absl::StrCat(count, " jobs for one report"),
          absl::StrCat("Name at most ", kMostJobs,
                       ": `mpsctl list -q --label "
                       "NAME=VALUE --sort eval_loss --limit ",
                       kMostJobs, "` prints the ids of the best."));
    }
    std::vector<run_page::RunData> runs;
    for (const std::string& id : *ids) {
      bool interrupted = false;
      const grpc::Status status = Collect(id, StepsOfEach(ids->size()),
                                          runs.emplace_back(), &interrupted);
      if (interrupted) {
        return console_.Fail(ExitCode::kDetached, "interrupted",
                             "Nothing was written.");
      }
      if (!status.ok()) return console_.Fail(status);
    }
    const std::string page = run_page::RunPage(run_page::RunDocument(runs));
    // The file may have been created meanwhile.
    absl::Status written = CheckOutput(output_, force_);
    if (!written.ok()) return BadOutput(written);
    written = base::WriteFileAtomic(output_, page);
    if (!written.ok()) {
      return console_.Fail(ExitCode::kOther, written, "Nothing was written.");
    }
    Print(*ids, page.size());
    return ExitCode::kOk;
  }

 private:
  static size_t StepsOfEach(size_t jobs) {
    return std::max(kFewestSteps, kMostSteps / jobs);
  }

  grpc::Status Collect(const std::string& id, size_t most_steps,
                       run_page::RunData& run, bool* interrupted) {
    v1::Job job;
    grpc::Status status = GetJob(console_, id, &job);
    if (!status.ok()) return status;
    run.job = ProtoJson(job);
    KeptEvents events(most_steps);
    status = ReadEvents(
        console_, job, [&](v1::JobEvent& event) { events.Add(event); },
        interrupted);
    if (!status.ok() || *interrupted) return status;
    events.Finish(&run);
    LogTail log;
    status = ReadLogTail(console_, id, kLogBytes, &log);
    run.log = std::move(log.text);
    run.left_out.log_bytes = log.before_bytes;
    if (status.ok()) run.files = ReadRunFiles(console_, id);
    return status;
  }

  ExitCode BadOutput(const absl::Status& status) const {
    return console_.Fail(
        ExitCode::kBadInput, status,
        status.code() == absl::StatusCode::kAlreadyExists
            ? "Name another --output, or replace it with --force."
            : "Name another --output: --force replaces earlier reports only.");
  }

  void Print(const std::vector<std::string>& ids, size_t bytes) const {
    if (console_.json) {
      const nlohmann::ordered_json object = {{"job_ids", ids},
                                             {"output", output_.string()},
                                             {"size_bytes", bytes}};
      console_.out << object.dump(-1, ' ', false,
                                  nlohmann::json::error_handler_t::replace)
                   << '\n';
      return;
    }
    console_.out << ids.size() << (ids.size() == 1 ? " run, " : " runs, ")
                 << Bytes(static_cast<int64_t>(bytes)) << " in "
                 << output_.string() << '\n';
  }

  const Console& console_;
  const NamedJobs named_;
  const fs::path output_;
  const bool force_;
};

}  // namespace

void AddReport(Command& app, Action* action) {
  auto options = std::make_shared<ReportOptions>();
  Command* verb = app.add_subcommand(
      "report", "Write an HTML report of a job, or of several, compared");
  AddNamedJobs(verb, &options->jobs);
  verb->add_option("-o,--output", options->output,
                   "The page to write: one self-contained file")
      ->type_name("FILE")
      ->capture_default_str();
  verb->add_flag("--force", options->force,
                 "Replace an earlier report, and nothing else");
  verb->callback([=] {
    *action = [=](const Console& console) {
      return Reporting(console, *options).Run();
    };
  });
}

}  // namespace mpsd::client
