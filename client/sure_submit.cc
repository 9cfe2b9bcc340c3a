// SPDX-License-Identifier: Apache-2.0
#include "client/sure_submit.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "client/model_advice.h"
#include "client/retry_pause.h"
#include "client/round_trip.h"
#include "client/text/format.h"

namespace mpsd::client {
namespace {

constexpr absl::Duration kPatience = absl::Minutes(10);
// The most time of one attempt that counts: a daemon may have been at work for
// long before it went away.
constexpr absl::Duration kOneAttempt = absl::Minutes(1);
// Prints a remark when an answer takes longer.
constexpr absl::Duration kSoon = absl::Seconds(10);

// Whether Submit may have made a job although it ended with `status`.
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

}  // namespace mpsd::client
