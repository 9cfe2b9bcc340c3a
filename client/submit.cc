// SPDX-License-Identifier: Apache-2.0
#include <pwd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/inputs.h"
#include "client/job_labels.h"
#include "client/sure_submit.h"
#include "client/text/format.h"
#include "client/upload.h"
#include "client/verbs.h"
#include "client/watch.h"

namespace mpsd::client {
namespace {

struct SubmitOptions {
  std::string job_file;
  bool detach = false;
  std::string idempotency_key;
  int32_t priority = 0;
  std::string owner;
  std::vector<std::string> job_labels;
  bool anyway = false;
};

std::string UserName() {
  if (const char* user = std::getenv("USER"); user != nullptr) return user;
  const passwd* entry = getpwuid(getuid());
  return entry == nullptr ? "" : entry->pw_name;
}

v1::SubmitRequest MakeRequest(const SubmitOptions& options,
                              const PreparedJob& job) {
  v1::SubmitRequest request;
  request.set_spec_json(job.spec_json);
  for (const LocalFile& file : job.files) {
    v1::InputFile* input = request.add_inputs();
    input->set_path(file.path);
    input->set_sha256(file.sha256);
  }
  request.set_priority(options.priority);
  request.set_owner(options.owner.empty() ? UserName() : options.owner);
  request.set_idempotency_key(options.idempotency_key.empty()
                                  ? NewIdempotencyKey()
                                  : options.idempotency_key);
  request.set_anyway(options.anyway);
  return request;
}

void PrintSubmitted(const Console& console, const v1::SubmitResponse& response,
                    bool detach) {
  const v1::Job& job = response.job();
  if (console.json) return console.PrintJson(job);
  console.out << "Job " << job.id()
              << (response.existed() ? " was submitted before: "
                                     : " submitted: ")
              << StateName(job.state());
  if (job.has_queue_position() && job.queue_position() > 0) {
    console.out << ", " << job.queue_position() << " ahead of it";
  }
  console.out << '\n';
  if (detach) {
    console.out << "Follow it with `mpsctl watch " << job.id() << "`.\n";
  }
  console.out << std::flush;
}

ExitCode Submit(const SubmitOptions& options, const Console& console) {
  absl::StatusOr<PreparedJob> job = PrepareJob(options.job_file);
  if (!job.ok()) {
    return console.Fail(ExitCode::kBadInput, job.status(),
                        "Nothing was submitted.");
  }
  for (const std::string& warning : job->warnings) {
    console.err << "warning: " << options.job_file << ": " << Printable(warning)
                << '\n';
  }
  v1::SubmitRequest request = MakeRequest(options, *job);
  absl::Status added =
      AddJobLabels(options.job_labels, request.mutable_labels());
  if (!added.ok()) return console.Fail(ExitCode::kBadInput, added, "");

  const auto upload = [&] { return Upload(console, job->files); };
  grpc::Status status = upload();
  if (!status.ok()) return console.Fail(status);
  v1::SubmitResponse response;
  const ExitCode code = SubmitSurely(console, request, upload, &response);
  if (code != ExitCode::kOk) return code;
  // Under a key of our own, an earlier job comes from an earlier try of this
  // call.
  if (options.idempotency_key.empty()) response.set_existed(false);
  PrintSubmitted(console, response, options.detach);
  if (options.detach) return ExitCode::kOk;
  return Watch(console, {.id = response.job().id()});
}

}  // namespace

void AddSubmit(CLI::App& app, Action* action) {
  auto options = std::make_shared<SubmitOptions>();
  CLI::App* verb = app.add_subcommand(
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
  verb->add_flag("--anyway", options->anyway,
                 "Queue it though it needs more memory than the machine has");
  verb->add_option("--owner", options->owner,
                   "Who asks; default: the user's name")
      ->type_name("NAME");
  verb->add_option("--label", options->job_labels,
                   "To find the job by; repeatable")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  verb->callback([=] {
    *action = [=](const Console& console) { return Submit(*options, console); };
  });
}

}  // namespace mpsd::client
