// SPDX-License-Identifier: Apache-2.0
#include "client/submit.h"

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "client/event_printer.h"
#include "client/inputs.h"
#include "client/job_id.h"
#include "client/model.h"
#include "client/text/format.h"
#include "client/upload.h"
#include "client/verbs.h"
#include "client/watch.h"

namespace mpsd::client {

namespace {

constexpr absl::Duration kLongest = absl::Minutes(10);  // as the proto says

// `took`: how long the answer took.
grpc::Status AskInfo(const Console& console, absl::Duration* took) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::InfoResponse info;
  const absl::Duration begin = console.terminal.clock->Monotonic();
  const grpc::Status status =
      console.daemon.daemon().Info(&context, v1::InfoRequest(), &info);
  *took = console.terminal.clock->Monotonic() - begin;
  return status;
}

}  // namespace

grpc::Status Reach(const Console& console, v1::SubmitRequest* request) {
  absl::Duration first, second;
  const grpc::Status status = AskInfo(console, &first);
  if (!status.ok()) return status;
  // The first call may have opened the connection, which takes several round
  // trips.
  const absl::Duration took =
      AskInfo(console, &second).ok() ? std::min(first, second) : first;
  request->set_round_trip_seconds(
      absl::ToDoubleSeconds(std::clamp(took, absl::ZeroDuration(), kLongest)));
  return status;
}

namespace {

constexpr absl::Duration kPatience = absl::Minutes(10);
// The time of one attempt that counts at most: a daemon may have been busy for
// long before it became unreachable.
constexpr absl::Duration kOneAttempt = absl::Minutes(1);
// Prints a remark if an answer takes longer.
constexpr absl::Duration kSoon = absl::Seconds(10);

// Whether Submit may have created a job although it ended with `status`.
bool LeavesOpen(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
      return true;
    case grpc::StatusCode::UNKNOWN:
      // gRPC reports some broken connections with this text.
      return status.error_message() == "Stream removed";
    default:
      return false;
  }
}

bool LacksInput(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::FAILED_PRECONDITION &&
         absl::StrContains(status.error_message(), "has not been uploaded");
}

class SureSubmit {
 public:
  SureSubmit(const Console& console, v1::SubmitRequest* request,
             const std::function<grpc::Status()>& upload)
      : console_(console),
        request_(*request),
        upload_(upload),
        pause_(console) {}

  ExitCode Run(v1::SubmitResponse* response) {
    // A failure here cannot have queued a job.
    grpc::Status status = Reach(console_, &request_);
    if (!status.ok()) return console_.Fail(status);
    Interrupt::Listener listener(console_.terminal.interrupt,
                                 [this] { CancelAttempt(); });
    while (true) {
      const absl::Duration begin = console_.terminal.clock->Monotonic();
      status = Attempt(response);
      const absl::Duration took = console_.terminal.clock->Monotonic() - begin;
      if (status.ok()) return ExitCode::kOk;
      if (listener.raised()) {
        return NotKnown(ExitCode::kDetached, "interrupted");
      }
      if (LacksInput(status) && !std::exchange(uploaded_again_, true)) {
        status = upload_();
        if (status.ok()) continue;
      }
      if (!LeavesOpen(status)) return Refused(status);
      if (waited_ >= kPatience) {
        return NotKnown(
            ExitCode::kTryAgain,
            absl::StrCat("no answer from mpsd: ", status.error_message()));
      }
      Pause();
      waited_ += std::min(took, kOneAttempt);
    }
  }

 private:
  grpc::Status Attempt(v1::SubmitResponse* response) {
    grpc::ClientContext context;
    SetAttempt(&context);
    grpc::Status status;
    absl::Notification done;
    console_.daemon.jobs().async()->Submit(&context, &request_, response,
                                           [&](grpc::Status ended) {
                                             status = std::move(ended);
                                             done.Notify();
                                           });
    if (!done.WaitForNotificationWithTimeout(kSoon)) RemarkUpon();
    done.WaitForNotification();
    SetAttempt(nullptr);
    return status;
  }

  void SetAttempt(grpc::ClientContext* context) {
    absl::MutexLock lock(&mutex_);
    attempt_ = context;
    if (attempt_ != nullptr && cancelled_) attempt_->TryCancel();
  }

  void CancelAttempt() {
    absl::MutexLock lock(&mutex_);
    cancelled_ = true;
    if (attempt_ != nullptr) attempt_->TryCancel();
  }

  void RemarkUpon() {
    if (std::exchange(remarked_, true)) return;
    console_.err << "mpsctl: mpsd is still storing the job, which has "
                 << request_.inputs_size()
                 << (request_.inputs_size() == 1 ? " file" : " files")
                 << "; waiting for it\n"
                 << std::flush;
  }

  ExitCode Refused(const grpc::Status& status) const {
    const std::string next = ModelAdvice(request_.spec_json(), status);
    if (next.empty()) return console_.Fail(status);
    return console_.Fail(ForStatus(status), Printable(status.error_message()),
                         next);
  }

  void Pause() {
    if (waited_ == absl::ZeroDuration()) {
      console_.err << "mpsctl: no answer from mpsd yet; sending the job again "
                      "under the same key, for "
                   << Seconds(absl::ToDoubleSeconds(kPatience)) << '\n'
                   << std::flush;
    }
    waited_ += pause_.Wait();
  }

  ExitCode NotKnown(ExitCode code, const std::string& why) const {
    return console_.Fail(
        code, absl::StrCat(why, "; the job may have been queued"),
        absl::StrCat("Submit it with --idempotency-key ",
                     request_.idempotency_key(),
                     " to get that job, or to queue it if there is none; "
                     "`mpsctl list` shows the latest."));
  }

  const Console& console_;
  v1::SubmitRequest& request_;
  const std::function<grpc::Status()>& upload_;
  bool uploaded_again_ = false;
  bool remarked_ = false;
  RetryPause pause_;
  absl::Duration waited_ = absl::ZeroDuration();

  absl::Mutex mutex_;
  grpc::ClientContext* attempt_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;  // by Ctrl-C
};

}  // namespace

std::string NewIdempotencyKey() {
  std::random_device random;
  std::string key = "mpsctl-";
  for (int i = 0; i < 4; ++i) {
    absl::StrAppend(&key, absl::StrFormat("%08x", random()));
  }
  return key;
}

ExitCode SubmitSurely(const Console& console, v1::SubmitRequest* request,
                      const std::function<grpc::Status()>& upload,
                      v1::SubmitResponse* response) {
  return SureSubmit(console, request, upload).Run(response);
}

namespace {

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
  // Why it will not start: another job or a user has to act first.
  if (!IsFinal(job.state()) && (job.held() || !job.after().empty()) &&
      !job.hold().empty()) {
    console.out << (job.held() ? "It is held: " : "It ")
                << Printable(job.hold()) << '\n';
  }
  if (detach) {
    console.out << "Follow it with `mpsctl watch " << job.id() << "`.\n";
  }
  console.out << std::flush;
}

}  // namespace

ExitCode SendJob(const Console& console, v1::SubmitRequest request,
                 const std::function<grpc::Status()>& upload, bool detach,
                 std::string* job_id) {
  const bool own_key = request.idempotency_key().empty();
  if (own_key) request.set_idempotency_key(NewIdempotencyKey());
  v1::SubmitResponse response;
  const ExitCode code = SubmitSurely(console, &request, upload, &response);
  if (code != ExitCode::kOk) return code;
  if (job_id != nullptr) *job_id = response.job().id();
  // With a generated key, an existing job comes from an earlier attempt of this
  // call.
  if (own_key) response.set_existed(false);
  PrintSubmitted(console, response, detach);
  if (detach) return ExitCode::kOk;
  return Watch(console, {.id = response.job().id()});
}

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
                   "The same key and job return the existing job;\n"
                   "default: a key unique to this call")
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
                 "Queue it even if it needs more memory than the machine has");
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
