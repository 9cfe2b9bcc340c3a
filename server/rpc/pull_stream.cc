// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/pull_stream.h"

#include <optional>
#include <utility>

#include "core/base/status_macros.h"
#include "server/models/pushed_models.h"
#include "server/rpc/check.h"

namespace mpsd::rpc {
namespace {

// The default revision of the hub's own tools.
constexpr char kDefaultRevision[] = "main";

absl::Status PullsAreOff() {
  return absl::FailedPreconditionError(
      "this mpsd pulls no models: push the model's folder (mpsctl model push)");
}

template <typename Request>
absl::StatusOr<models::PullRequest> Checked(const access::Rights& rights,
                                            const Request& request) {
  models::PullRequest checked;
  checked.id = request.id();
  checked.revision =
      request.revision().empty() ? kDefaultRevision : request.revision();
  checked.user = rights.caller().user;
  checked.is_admin = rights.is_admin();
  absl::Status status = models::CheckModelName("id", checked.id);
  if (status.ok()) status = models::CheckRevision("revision", checked.revision);
  if (!status.ok()) return status;
  return checked;
}

class PullSource : public Source<v1::PullModelProgress> {
 public:
  PullSource(models::Puller* puller, const access::Rights& rights,
             const jobs::UserLimits& limits,
             const v1::PullModelRequest& request, DescribeModel describe,
             Wake wake)
      : puller_(puller),
        rights_(rights),
        limits_(limits),
        request_(request),
        describe_(std::move(describe)),
        wake_(std::move(wake)) {}

  absl::StatusOr<Pull> Next(v1::PullModelProgress& message) override {
    if (done_) return Pull::kEnd;
    RETURN_IF_ERROR(BeginOnce());
    ASSIGN_OR_RETURN(std::optional<models::PullNews> news, watch_->Next());
    if (!news) return Pull::kWait;
    message.set_received_bytes(news->received_bytes);
    message.set_note(news->note);
    done_ = news->done;
    if (done_) describe_(request_.id(), *message.mutable_model());
    return Pull::kMessage;
  }

 private:
  absl::Status BeginOnce() {
    if (watch_ != nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(models::PullRequest checked, Checked(rights_, request_));
    if (puller_ == nullptr) return PullsAreOff();
    checked.limits = limits_;
    ASSIGN_OR_RETURN(std::unique_ptr<models::PullWatch> watch,
                     puller_->Pull(checked, wake_));
    watch_ = std::move(watch);
    return absl::OkStatus();
  }

  models::Puller* const puller_;
  const access::Rights rights_;
  const jobs::UserLimits limits_;
  const v1::PullModelRequest request_;
  const DescribeModel describe_;
  const Wake wake_;
  std::unique_ptr<models::PullWatch> watch_;  // null before the first Next
  bool done_ = false;
};

}  // namespace

std::unique_ptr<Source<v1::PullModelProgress>> MakePullSource(
    models::Puller* puller, const access::Rights& rights,
    const jobs::UserLimits& limits, const v1::PullModelRequest& request,
    DescribeModel describe, Wake wake) {
  return std::make_unique<PullSource>(puller, rights, limits, request,
                                      std::move(describe), std::move(wake));
}

absl::Status CancelPull(models::Puller* puller, const access::Rights& rights,
                        const v1::CancelPullRequest& request) {
  ASSIGN_OR_RETURN(models::PullRequest checked, Checked(rights, request));
  return puller == nullptr ? PullsAreOff() : puller->Cancel(checked);
}

}  // namespace mpsd::rpc
