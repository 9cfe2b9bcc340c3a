// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/model_calls.h"

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/host/machine.h"
#include "server/models/pushed_models.h"
#include "server/rpc/check.h"
#include "server/rpc/convert.h"

namespace mpsd::rpc {
namespace {

jobs::MachineMemory Memory(jobs::JobReader& reader) {
  const jobs::QueueInfo info = reader.Info();
  return {host::PhysicalMemoryBytes(), info.device,
          info.memory.recommended_max_bytes.value_or(0)};
}

void Fill(const models::ListedModel& model, const access::Rights& rights,
          v1::Model& out) {
  out.set_name(model.name);
  out.set_revision(ValidUtf8(model.revision));
  out.set_pulled(model.pulled);
  out.set_owner(ValidUtf8(model.owner));
  out.set_size_bytes(model.size_bytes);
  out.set_family(ValidUtf8(model.facts->family));
  out.set_parameters(model.facts->parameters);
  for (const std::string& task : model.facts->tasks) out.add_tasks(task);
  out.set_problem(ValidUtf8(model.facts->problem));
  out.set_least_memory_bytes(model.facts->least_memory_bytes);
  out.set_max_row_tokens(model.facts->max_row_tokens);
  if (model.fits) out.set_fits(*model.fits);
  ToProto(model.create_time, *out.mutable_create_time());
  if (rights.sees_own_alone()) return;
  if (model.use.last_start) {
    ToProto(*model.use.last_start, *out.mutable_last_use_time());
  }
  out.set_unfinished_jobs(model.use.unfinished);
}

}  // namespace

absl::Status PushModel(models::ModelBook& book, jobs::JobReader& reader,
                       jobs::Blobs& blobs, const UserAccounts& accounts,
                       const v1::PushModelRequest& request, const Call& call,
                       v1::PushModelResponse& response) {
  RETURN_IF_ERROR(models::CheckModelName("name", request.name()));
  RETURN_IF_ERROR(
      CheckCount("files", request.files_size(), limits::kFilesOfModel));
  models::PushedModels::Request push;
  push.name = request.name();
  push.user = call.rights.caller().user;
  push.is_admin = call.rights.is_admin();
  push.wanted = call.wanted;
  std::set<std::string> hashes;
  for (const v1::PushModelRequest::File& file : request.files()) {
    push.files.push_back({file.path(), file.sha256(), file.size_bytes()});
    hashes.insert(file.sha256());
  }
  RETURN_IF_ERROR(models::CheckFileList(push.files));
  push.count = [&] {
    return accounts.ledger->Use(
        push.user,
        jobs::UploadCheckOf(push.user, accounts.LimitsOf(call.rights)), hashes);
  };
  ASSIGN_OR_RETURN(const models::ModelBook::Pushed pushed,
                   book.Push(push, blobs, Memory(reader)));
  Fill(pushed.model, call.rights, *response.mutable_model());
  response.set_existed(pushed.existed);
  return absl::OkStatus();
}

absl::Status ListModels(models::ModelBook& book, jobs::JobReader& reader,
                        const access::Rights& rights,
                        const v1::ListModelsRequest& request,
                        v1::ListModelsResponse& response) {
  if (!request.name().empty()) {
    RETURN_IF_ERROR(models::CheckModelName("name", request.name()));
  }
  ASSIGN_OR_RETURN(const std::vector<models::ListedModel> listed,
                   book.List(request.name(), Memory(reader)));
  for (const models::ListedModel& model : listed) {
    Fill(model, rights, *response.add_models());
  }
  response.set_can_pull(book.CanPull());
  return absl::OkStatus();
}

absl::Status RemoveModel(models::ModelBook& book, const access::Rights& rights,
                         const v1::RemoveModelRequest& request,
                         v1::RemoveModelResponse& response) {
  RETURN_IF_ERROR(models::CheckModelName("name", request.name()));
  ASSIGN_OR_RETURN(
      const int64_t freed,
      book.Remove(request.name(), rights.caller().user, rights.is_admin()));
  response.set_freed_bytes(freed);
  return absl::OkStatus();
}

namespace {

// The default revision of the hub's own tools.
constexpr char kDefaultRevision[] = "main";

template <typename Request>
absl::StatusOr<models::PullRequest> Checked(const access::Rights& rights,
                                            const Request& request) {
  models::PullRequest checked;
  checked.id = request.id();
  checked.revision =
      request.revision().empty() ? kDefaultRevision : request.revision();
  checked.user = rights.caller().user;
  checked.is_admin = rights.is_admin();
  RETURN_IF_ERROR(models::CheckModelName("id", checked.id));
  RETURN_IF_ERROR(models::CheckRevision("revision", checked.revision));
  return checked;
}

class PullSource : public Source<v1::PullModelProgress> {
 public:
  PullSource(models::ModelBook& book, jobs::JobReader& reader,
             models::Puller& puller, const access::Rights& rights,
             const jobs::UserLimits& limits,
             const v1::PullModelRequest& request, Wake wake)
      : book_(book),
        reader_(reader),
        puller_(puller),
        rights_(rights),
        limits_(limits),
        request_(request),
        wake_(std::move(wake)) {}

  absl::StatusOr<Pull> Next(v1::PullModelProgress& message) override {
    if (done_) return Pull::kEnd;
    RETURN_IF_ERROR(BeginOnce());
    ASSIGN_OR_RETURN(std::optional<models::PullNews> news, watch_->Next());
    if (!news) return Pull::kWait;
    message.set_received_bytes(news->received_bytes);
    message.set_note(news->note);
    done_ = news->done;
    if (!done_) return Pull::kMessage;
    const auto listed = book_.List(request_.id(), Memory(reader_));
    if (listed.ok() && !listed->empty()) {
      Fill(listed->front(), rights_, *message.mutable_model());
    }
    return Pull::kMessage;
  }

 private:
  absl::Status BeginOnce() {
    if (watch_ != nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(models::PullRequest checked, Checked(rights_, request_));
    if (request_.revision().empty()) {
      RETURN_IF_ERROR(book_.CheckMayPull(checked.id));
    }
    checked.limits = limits_;
    ASSIGN_OR_RETURN(watch_, puller_.Pull(checked, wake_));
    return absl::OkStatus();
  }

  models::ModelBook& book_;
  jobs::JobReader& reader_;
  models::Puller& puller_;
  const access::Rights rights_;
  const jobs::UserLimits limits_;
  const v1::PullModelRequest request_;
  const Wake wake_;
  std::unique_ptr<models::PullWatch> watch_;  // null before the first Next
  bool done_ = false;
};

}  // namespace

std::unique_ptr<Source<v1::PullModelProgress>> MakePullSource(
    models::ModelBook& book, jobs::JobReader& reader, models::Puller& puller,
    const access::Rights& rights, const jobs::UserLimits& limits,
    const v1::PullModelRequest& request, Wake wake) {
  return std::make_unique<PullSource>(book, reader, puller, rights, limits,
                                      request, std::move(wake));
}

absl::Status CancelPull(models::Puller& puller, const access::Rights& rights,
                        const v1::CancelPullRequest& request) {
  ASSIGN_OR_RETURN(models::PullRequest checked, Checked(rights, request));
  return puller.Cancel(checked);
}

}  // namespace mpsd::rpc
