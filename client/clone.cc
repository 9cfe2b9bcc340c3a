// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/job_id.h"
#include "client/job_labels.h"
#include "client/send_job.h"
#include "client/spec_edit.h"
#include "client/text/format.h"
#include "client/text/table.h"
#include "client/verbs.h"
#include "core/spec/train_spec.h"
#include "nlohmann/json.hpp"

namespace mpsd::client {
namespace {

struct CloneOptions {
  std::string id;
  std::vector<std::string> set, unset, after, job_labels;
  std::string name;
  std::optional<int32_t> priority;
  bool hold = false, anyway = false, detach = false, dry_run = false;
};

std::string Shown(const std::string& json) {
  return json.empty() ? "(absent)" : json;
}

// What the clone does differently; `a` and `b` are the two specs.
void PrintChanges(const Console& console, const std::string& id,
                  const std::string& a, const std::string& b) {
  if (console.json) return;
  const std::vector<FieldChange> changes =
      CompareSpecs(WithDefaults(a), WithDefaults(b));
  if (changes.empty()) {
    console.out << "The clone has the spec of job " << id << ".\n";
    return;
  }
  Table table({"FIELD", "JOB", "CLONE"});
  for (const FieldChange& change : changes) {
    table.Add({change.field, Shown(change.a), Shown(change.b)});
  }
  table.Print(console.out,
              console.terminal.is_tty ? console.terminal.columns() : 0);
}

// Changes `request`, that of a job, to that of the clone.
absl::Status Change(const CloneOptions& options, v1::SubmitRequest& request) {
  std::vector<std::string> set = options.set;
  if (!options.name.empty()) {
    set.push_back(absl::StrCat("name=", nlohmann::json(options.name).dump()));
  }
  absl::StatusOr<std::string> spec =
      EditSpec(request.spec_json(), set, options.unset);
  if (!spec.ok()) return spec.status();
  const auto parsed = spec::ParseTrainSpec(*spec, "the clone's job.json");
  if (!parsed.ok()) return parsed.status();
  request.set_spec_json(*std::move(spec));
  DropUnusedInputs(request);
  // A label of the command line takes the place of the job's.
  google::protobuf::Map<std::string, std::string> job_labels;
  absl::Status added = AddJobLabels(options.job_labels, &job_labels);
  for (const auto& [key, value] : job_labels) {
    (*request.mutable_labels())[key] = value;
  }
  if (options.priority) request.set_priority(*options.priority);
  request.set_anyway(request.anyway() || options.anyway);
  request.set_held(options.hold);
  // What the job waited for was there when it was submitted; the clone waits
  // for what the command line says.
  request.clear_after();
  return added;
}

ExitCode Clone(const CloneOptions& options, const Console& console) {
  ExitCode code = ExitCode::kOk;
  const auto id = ResolveJobId(console, options.id, &code);
  if (!id) return code;
  const auto after = ResolveJobIds(console, options.after, &code,
                                   FewestIdCharacters::kChanges);
  if (!after) return code;

  grpc::ClientContext context;
  SetDeadline(context);
  v1::GetSubmissionRequest ask;
  ask.set_id(*id);
  v1::SubmitRequest request;
  const grpc::Status status =
      console.daemon.jobs().GetSubmission(&context, ask, &request);
  if (!status.ok()) return console.Fail(status);
  const std::string spec = request.spec_json();
  if (absl::Status s = Change(options, request); !s.ok()) {
    return console.Fail(ExitCode::kBadInput, s, "Nothing was submitted.");
  }
  for (const std::string& prior : *after) request.add_after(prior);
  PrintChanges(console, *id, spec, request.spec_json());
  if (options.dry_run) {
    if (console.json) console.PrintJson(request);
    return ExitCode::kOk;
  }
  // While the job exists, so do its inputs: nothing is sent.
  const auto no_upload = [] { return grpc::Status::OK; };
  return SendJob(console, std::move(request), no_upload, options.detach);
}

}  // namespace

void AddClone(Command& app, Action* action) {
  auto options = std::make_shared<CloneOptions>();
  Command* verb = app.add_subcommand(
      "clone", "Queue a job like another, with its data, and watch it");
  verb->add_option(kJobIdName, options->id, "The job")
      ->required()
      ->type_name("");
  verb->add_option("--set", options->set,
                   "Change a field: training.learning_rate=1e-4;\n"
                   "VALUE is JSON, or else a text; repeatable")
      ->type_name("FIELD=VALUE")
      ->allow_extra_args(false);
  verb->add_option("--unset", options->unset,
                   "Leave a field to its default; repeatable")
      ->type_name("FIELD")
      ->allow_extra_args(false);
  verb->add_option("--name", options->name, "The clone's name")
      ->type_name("NAME");
  verb->add_option("--after", options->after,
                   "Start once this job has succeeded; repeatable")
      ->type_name(kJobIdName)
      ->allow_extra_args(false);
  verb->add_option("--priority", options->priority,
                   "Higher runs first; default: the job's")
      ->type_name("N");
  verb->add_option("--label", options->job_labels,
                   "Beside the job's labels; repeatable")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  verb->add_flag("--hold", options->hold, "Queue it held");
  verb->add_flag("--anyway", options->anyway,
                 "Queue it though it needs more memory than the machine has");
  verb->add_flag("--detach", options->detach, "Do not watch: exit once queued");
  verb->add_flag("--dry-run", options->dry_run,
                 "Show what would change; with --json the request");
  verb->callback([=] {
    *action = [=](const Console& console) { return Clone(*options, console); };
  });
}

}  // namespace mpsd::client
