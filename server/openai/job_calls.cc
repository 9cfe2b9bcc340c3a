// SPDX-License-Identifier: Apache-2.0
#include "server/openai/job_calls.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/json_depth.h"
#include "core/base/sha256.h"
#include "server/openai/file_calls.h"
#include "server/openai/job_order.h"
#include "server/openai/objects.h"
#include "server/rpc/audit_detail.h"
#include "server/rpc/convert.h"
#include "server/rpc/job_calls.h"
#include "server/rpc/queue_calls.h"

namespace mpsd::openai {
namespace {

constexpr absl::Duration kSameTry = absl::Minutes(10);

http::Response Shown(const Desk& desk, const v1::Job& job) {
  return JsonAnswer(JobObject(job, ResultFileIds(desk, job), absl::Now()));
}

// The file that the order names, as one of the caller's own.
absl::Status Find(const Desk& desk, const std::string& user, const char* field,
                  const std::string& id, jobs::NamedFile& file) {
  absl::StatusOr<jobs::NamedFile> found = desk.backend().files.Get(user, id);
  if (found.ok()) {
    file = *std::move(found);
    return absl::OkStatus();
  }
  if (!absl::IsNotFound(found.status())) return found.status();
  // The request is wrong, and not its address.
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", found.status().message()));
}

// The job whose result the order's model is.
absl::Status FindPrior(const Desk& desk, const rpc::Call& call,
                       const JobOrder& order, std::optional<PriorJob>& prior) {
  const std::string id = JobOfModel(order.model);
  if (id.empty()) return absl::OkStatus();
  v1::GetJobRequest get;
  get.set_id(id);
  v1::Job job;
  absl::Status found =
      rpc::GetJob(desk.backend().reader, call.rights, get, job);
  if (found.ok() && job.spec_json().empty()) {
    found = absl::NotFoundError(absl::StrCat("job ", id, " is not yours"));
  }
  if (!found.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("model: ", found.message()));
  }
  const auto spec = base::ParseTree<nlohmann::json>(job.spec_json());
  prior = PriorJob{
      id, job.model(),
      spec.is_object() && spec.value("fine_tune_type", "lora") == "lora",
      spec.is_object() ? spec.value("lora", nlohmann::json::object())
                       : nlohmann::json::object()};
  return absl::OkStatus();
}

// Whether the user made `job` by this request a moment ago.
absl::StatusOr<bool> MadeBefore(const Desk& desk, const access::Rights& rights,
                                const std::string& hash, v1::Job& job) {
  jobs::ListFilter filter;
  filter.owner = rights.caller().user;
  filter.labels[kRequestLabel] = hash;
  filter.limit = 1;
  const absl::StatusOr<std::vector<jobs::Job>> found =
      desk.backend().reader.List(filter);
  if (!found.ok()) return found.status();
  if (found->empty() || found->front().create_time < absl::Now() - kSameTry) {
    return false;
  }
  rpc::FillJob(desk.backend().reader, rights, found->front(), job);
  return true;
}

// The order with its files, and with the job that it goes on from.
absl::StatusOr<v1::SubmitRequest> Completed(const Desk& desk,
                                            const rpc::Call& call,
                                            const JobOrder& order) {
  const std::string& user = call.rights.caller().user;
  jobs::NamedFile training, validation;
  absl::Status found =
      Find(desk, user, "training_file", order.training_file, training);
  const bool has_validation = !order.validation_file.empty();
  if (found.ok() && has_validation) {
    found =
        Find(desk, user, "validation_file", order.validation_file, validation);
  }
  std::optional<PriorJob> prior;
  if (found.ok()) found = FindPrior(desk, call, order, prior);
  if (!found.ok()) return found;
  return ToSubmit(order, training, has_validation ? &validation : nullptr,
                  prior ? &*prior : nullptr);
}

// The number behind the last '-' of an id of this door; InvalidArgument for an
// id that `spelled` would not make of it.
template <typename Spelled>
absl::StatusOr<int64_t> NumberOf(const std::string& id, Spelled spelled) {
  int64_t number = 0;
  if (absl::SimpleAtoi(id.substr(id.rfind('-') + 1), &number) && number >= 0 &&
      spelled(number) == id) {
    return number;
  }
  return absl::InvalidArgumentError("after: is no id of this list");
}

// The last `limit` events before sequence `end`, newest first. Sequences have
// gaps, so a window may hold fewer: it grows.
absl::StatusOr<std::vector<jobs::Event>> EventsBefore(jobs::JobReader& reader,
                                                      const std::string& id,
                                                      int64_t end,
                                                      size_t limit) {
  std::vector<jobs::Event> newest;  // first
  for (auto window = static_cast<int64_t>(limit); end > 1; window *= 4) {
    // JobReader gives at most 1,000 events at a time.
    const int64_t after =
        std::max<int64_t>(0, end - 1 - std::min<int64_t>(window, 1000));
    absl::StatusOr<std::vector<jobs::Event>> events = reader.Events(id, after);
    if (!events.ok()) return events.status();
    for (auto event = events->rbegin(); event != events->rend(); ++event) {
      if (event->sequence >= end) continue;
      newest.push_back(std::move(*event));
      if (newest.size() == limit) return newest;
    }
    end = after + 1;
  }
  return newest;
}

}  // namespace

http::Response JobCalls::Create(const http::Request& request,
                                const std::string& body) {
  const absl::StatusOr<JobOrder> order = ReadJobOrder(body);
  v1::SubmitRequest said;  // for the audit
  said.set_spec_json(body);
  v1::Job job;
  const absl::Status made = desk_.Call(
      request,
      {"JobService.Submit", "",
       absl::StrCat("by /v1/fine_tuning/jobs, ", rpc::AuditDetail(said))},
      [&](rpc::Call& call) {
        if (!order.ok()) return order.status();
        return Make(request, *order, base::Sha256Hex(body).substr(0, 32), call,
                    job);
      });
  return made.ok() ? Shown(desk_, job) : ErrorAnswer(made);
}

absl::Status JobCalls::Make(const http::Request& request, const JobOrder& order,
                            const std::string& hash, rpc::Call& call,
                            v1::Job& job) {
  absl::MutexLock lock(&creates_);
  if (!request.retry_count.empty() && request.retry_count != "0") {
    const absl::StatusOr<bool> before =
        MadeBefore(desk_, call.rights, hash, job);
    if (!before.ok()) return before.status();
    if (*before) return absl::OkStatus();
  }
  absl::StatusOr<v1::SubmitRequest> submit = Completed(desk_, call, order);
  if (!submit.ok()) return submit.status();
  (*submit->mutable_labels())[kRequestLabel] = hash;
  submit->set_idempotency_key(request.idempotency_key);
  const Backend& backend = desk_.backend();
  call.limits = backend.accounts.LimitsOf(call.rights);
  v1::SubmitResponse response;
  absl::Status submitted =
      rpc::Submit(backend.manager, backend.reader, backend.accounts.ledger,
                  *submit, call, response);
  job = response.job();
  return submitted;
}

http::Response JobCalls::List(const http::Request& request,
                              const Page& page) const {
  Json::array_t listed;
  bool more = false;
  const absl::Status made =
      desk_.Call(request, {"JobService.List"}, [&](rpc::Call& call) {
        jobs::ListFilter filter;
        filter.owner = call.rights.caller().user;
        filter.labels = page.metadata;
        filter.limit = page.limit + 1;
        if (!page.after.empty()) filter.after = jobs::ListPlace{page.after, {}};
        absl::StatusOr<std::vector<jobs::Job>> found =
            desk_.backend().reader.List(filter);
        if (!found.ok()) return found.status();
        more = found->size() > static_cast<size_t>(page.limit);
        if (more) found->pop_back();
        for (const jobs::Job& job : *found) {
          v1::Job shown;
          rpc::FillJob(desk_.backend().reader, call.rights, job, shown);
          listed.push_back(
              JobObject(shown, ResultFileIds(desk_, shown), absl::Now()));
        }
        return absl::OkStatus();
      });
  return made.ok() ? ListAnswer(std::move(listed), more) : ErrorAnswer(made);
}

http::Response JobCalls::Get(const http::Request& request,
                             const std::string& id) const {
  v1::Job job;
  const absl::Status made =
      desk_.Call(request, {"JobService.Get", id}, [&](rpc::Call& call) {
        v1::GetJobRequest get;
        get.set_id(id);
        return rpc::GetJob(desk_.backend().reader, call.rights, get, job);
      });
  return made.ok() ? Shown(desk_, job) : ErrorAnswer(made);
}

http::Response JobCalls::Cancel(const http::Request& request,
                                const std::string& id) const {
  v1::Job job;
  const absl::Status made =
      desk_.Call(request, {"JobService.Cancel", id}, [&](rpc::Call& call) {
        v1::CancelRequest cancel;
        cancel.set_id(id);
        return rpc::CancelJob(desk_.backend().manager, desk_.backend().reader,
                              cancel, call, job);
      });
  return made.ok() ? Shown(desk_, job) : ErrorAnswer(made);
}

http::Response JobCalls::Pause(const http::Request& request,
                               const std::string& id) const {
  v1::Job job;
  const absl::Status made =
      desk_.Call(request, {"JobService.Hold", id}, [&](rpc::Call& call) {
        v1::HoldRequest hold;
        hold.set_id(id);
        hold.set_reason("paused by OpenAI's API");
        return rpc::HoldJob(desk_.backend().manager, desk_.backend().reader,
                            hold, call, job);
      });
  return made.ok() ? Shown(desk_, job) : ErrorAnswer(made);
}

http::Response JobCalls::Resume(const http::Request& request,
                                const std::string& id) const {
  v1::Job job;
  const absl::Status made =
      desk_.Call(request, {"JobService.Release", id}, [&](rpc::Call& call) {
        v1::ReleaseRequest release;
        release.set_id(id);
        return rpc::ReleaseJob(desk_.backend().manager, desk_.backend().reader,
                               release, call, job);
      });
  return made.ok() ? Shown(desk_, job) : ErrorAnswer(made);
}

http::Response JobCalls::Events(const http::Request& request,
                                const std::string& id, const Page& page) const {
  Json::array_t listed;
  bool more = false;
  const absl::Status made = desk_.Call(
      request, {"JobService.Watch", id}, [&](rpc::Call&) -> absl::Status {
        jobs::JobReader& reader = desk_.backend().reader;
        const absl::StatusOr<int64_t> last = reader.LastSequence(id);
        if (!last.ok()) return last.status();
        absl::StatusOr<int64_t> end = *last + 1;
        if (!page.after.empty()) {
          end = NumberOf(page.after,
                         [&](int64_t number) { return EventId(id, number); });
        }
        if (!end.ok()) return end.status();
        absl::StatusOr<std::vector<jobs::Event>> events =
            EventsBefore(reader, id, std::min(*end, *last + 1),
                         static_cast<size_t>(page.limit) + 1);
        if (!events.ok()) return events.status();
        more = events->size() > static_cast<size_t>(page.limit);
        if (more) events->pop_back();
        for (const jobs::Event& event : *events) {
          v1::JobEvent shown;
          rpc::ToProto(event, shown);
          listed.push_back(EventObject(id, shown));
        }
        return absl::OkStatus();
      });
  return made.ok() ? ListAnswer(std::move(listed), more) : ErrorAnswer(made);
}

http::Response JobCalls::Checkpoints(const http::Request& request,
                                     const std::string& id,
                                     const Page& page) const {
  Json::array_t listed;
  bool more = false;
  const absl::Status made = desk_.Call(
      request, {"JobService.Checkpoints", id}, [&](rpc::Call&) -> absl::Status {
        v1::CheckpointsRequest list;
        list.set_id(id);
        v1::CheckpointsResponse found;
        absl::Status read =
            rpc::ListCheckpoints(desk_.backend().reader, list, found);
        absl::StatusOr<int64_t> end = INT64_MAX;
        if (read.ok() && !page.after.empty()) {
          end = NumberOf(page.after, [&](int64_t number) {
            return CheckpointId(id, number);
          });
          read = end.status();
        }
        if (!read.ok()) return read;
        for (int i = found.checkpoints_size() - 1; i >= 0 && !more; --i) {
          if (found.checkpoints(i).step() >= *end) continue;
          more = listed.size() == static_cast<size_t>(page.limit);
          if (more) break;
          listed.push_back(CheckpointObject(id, found.checkpoints(i)));
        }
        return absl::OkStatus();
      });
  return made.ok() ? ListAnswer(std::move(listed), more) : ErrorAnswer(made);
}

}  // namespace mpsd::openai
