// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/inputs.h"
#include "client/job_id.h"
#include "client/job_labels.h"
#include "client/send_job.h"
#include "client/text/format.h"
#include "client/upload.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

struct SubmitOptions {
  std::string job_file;
  bool detach = false;
  std::string idempotency_key;
  int32_t priority = 0;
  std::vector<std::string> job_labels, after;
  bool anyway = false;
  bool rehash = false;
  bool hold = false;
};

v1::SubmitRequest MakeRequest(const SubmitOptions& options,
                              const PreparedJob& job) {
  v1::SubmitRequest request = RequestOf(job);
  request.set_priority(options.priority);
  request.set_idempotency_key(options.idempotency_key);
  request.set_anyway(options.anyway);
  request.set_held(options.hold);
  return request;
}

ExitCode Submit(const SubmitOptions& options, const Console& console) {
  absl::StatusOr<PreparedJob> job =
      PrepareJob(options.job_file, Hashing(console, options.rehash));
  if (!job.ok()) {
    return console.Fail(ExitCode::kBadInput, job.status(),
                        "Nothing was submitted.");
  }
  for (const std::string& warning : job->warnings) {
    console.err << "warning: " << options.job_file << ": " << Printable(warning)
                << '\n';
  }
  v1::SubmitRequest request = MakeRequest(options, *job);
  ExitCode code = ExitCode::kOk;
  const auto after = ResolveJobIds(console, options.after, &code,
                                   FewestIdCharacters::kChanges);
  if (!after) return code;
  for (const std::string& id : *after) request.add_after(id);
  absl::Status added =
      AddJobLabels(options.job_labels, request.mutable_labels());
  if (!added.ok()) return console.Fail(ExitCode::kBadInput, added, "");

  const auto upload = [&] { return Upload(console, job->files); };
  grpc::Status status = upload();
  if (!status.ok()) return console.Fail(status);
  return SendJob(console, std::move(request), upload, options.detach);
}

}  // namespace

void AddSubmit(Command& app, Action* action) {
  auto options = std::make_shared<SubmitOptions>();
  Command* verb = app.add_subcommand(
      "submit", "Upload what a job.json names, queue it and watch it");
  verb->add_option("JOB", options->job_file, "The job.json")
      ->required()
      ->type_name("");
  verb->add_flag("--detach", options->detach, "Do not watch: exit once queued");
  verb->add_option("--idempotency-key", options->idempotency_key,
                   "The same key and job give the job there is;\n"
                   "default: a key of this call alone")
      ->type_name("KEY");
  verb->add_option("--priority", options->priority,
                   "Higher runs first, equals in turn")
      ->type_name("N")
      ->capture_default_str();
  verb->add_option("--after", options->after,
                   "Start once this job has succeeded; repeatable")
      ->type_name(kJobIdName)
      ->allow_extra_args(false);
  verb->add_flag("--anyway", options->anyway,
                 "Queue it though it needs more memory than the machine has");
  verb->add_flag("--rehash", options->rehash,
                 "Read every file again, also those that have not changed\n"
                 "since mpsctl read them last");
  verb->add_flag("--hold", options->hold,
                 "Queue it held: it starts after `mpsctl release`");
  verb->add_option("--label", options->job_labels,
                   "To find the job by; repeatable")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  verb->callback([=] {
    *action = [=](const Console& console) { return Submit(*options, console); };
  });
}

}  // namespace mpsd::client
