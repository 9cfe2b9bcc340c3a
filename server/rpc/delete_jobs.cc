// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/delete_jobs.h"

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "server/rpc/check.h"
#include "server/rpc/list_jobs.h"
#include "server/rpc/status.h"

namespace mpsd::rpc {
namespace {

// Deletes jobs one by one, or reports what would happen to them.
class Deletion {
 public:
  Deletion(const Gate& gate, jobs::JobManager& manager, const Call& call,
           bool dry_run, v1::DeleteJobsResponse& response)
      : gate_(gate),
        manager_(manager),
        call_(call),
        dry_run_(dry_run),
        response_(response) {}

  // `stored_bytes`: of the job's folder, as last measured.
  void Take(const std::string& id, int64_t stored_bytes) {
    const absl::StatusOr<int64_t> freed =
        dry_run_ ? Try(id, stored_bytes) : Delete(id);
    if (freed.ok()) {
      response_.set_matched(response_.matched() + 1);
      response_.set_freed_bytes(response_.freed_bytes() + *freed);
      if (response_.deleted_size() < kMost) response_.add_deleted(id);
    } else if (response_.kept_size() < kMost) {
      v1::DeleteJobsResponse::Kept& kept = *response_.add_kept();
      kept.set_id(ValidUtf8(id));
      kept.set_why(ValidUtf8(std::string(freed.status().message())));
    }
  }
  int64_t matched() const { return response_.matched(); }

 private:
  static constexpr int kMost = static_cast<int>(limits::kDeletedJobs);

  absl::StatusOr<int64_t> Delete(const std::string& id) {
    const Asked asked{"JobService.Delete", id, "by DeleteJobs"};
    ASSIGN_OR_RETURN(const int64_t entry, gate_.Begin(asked, call_.rights));
    absl::StatusOr<int64_t> freed = manager_.Delete(id);
    gate_.End(entry, freed.status(), "");
    return freed;
  }
  absl::StatusOr<int64_t> Try(const std::string& id, int64_t stored_bytes) {
    absl::Status may = gate_.CheckJob({"JobService.Delete", id}, call_.rights);
    if (may.ok()) may = manager_.MayDelete(id);
    if (!may.ok()) return may;
    return stored_bytes;
  }

  const Gate& gate_;
  jobs::JobManager& manager_;
  const Call& call_;
  const bool dry_run_;
  v1::DeleteJobsResponse& response_;
};

absl::Status DeleteListed(jobs::JobReader& reader,
                          const v1::DeleteJobsRequest& request,
                          const Call& call, Deletion& deletion) {
  for (const std::string& id : request.ids()) {
    if (!jobs::StillWanted(call.wanted).ok()) return absl::OkStatus();
    int64_t bytes = 0;
    if (request.dry_run()) {
      const absl::StatusOr<jobs::Job> job = reader.Get(id);
      if (job.ok()) bytes = job->stored_bytes;
    }
    deletion.Take(id, bytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<jobs::ListFilter> FilterOf(const v1::DeleteJobsRequest& request,
                                          const Call& call) {
  absl::StatusOr<jobs::ListFilter> filter =
      ReadListFilter(call.rights, request.filter());
  if (!filter.ok()) return filter;
  // Unfinished jobs cannot be deleted: a caller who did not name them gets no
  // result for each.
  if (filter->states.empty()) {
    filter->states = {jobs::State::kSucceeded, jobs::State::kFailed,
                      jobs::State::kCancelled};
  }
  if (!call.rights.is_admin()) filter->owner = call.rights.caller().user;
  filter->ascending = true;
  filter->limit = limits::kPageSize;
  return filter;
}

absl::Status DeleteFound(jobs::JobReader& reader,
                         const v1::DeleteJobsRequest& request, const Call& call,
                         Deletion& deletion, v1::DeleteJobsResponse& response) {
  ASSIGN_OR_RETURN(jobs::ListFilter filter, FilterOf(request, call));
  const std::string& owner = request.filter().owner();
  if (!owner.empty() && filter.owner != owner) return absl::OkStatus();
  const int64_t asked = request.filter().page_size();
  const int64_t most = asked == 0 ? limits::kDefaultPageSize : asked;
  while (true) {
    ASSIGN_OR_RETURN(const std::vector<jobs::Job> page, reader.List(filter));
    for (const jobs::Job& job : page) {
      if (!jobs::StillWanted(call.wanted).ok()) return absl::OkStatus();
      // A dry run counts them all.
      if (!request.dry_run() && deletion.matched() == most) {
        response.set_more(true);
        return absl::OkStatus();
      }
      deletion.Take(job.id, job.stored_bytes);
    }
    if (static_cast<int>(page.size()) < filter.limit) return absl::OkStatus();
    filter.after = jobs::PlaceOf(page.back(), filter.order);
  }
}

}  // namespace

absl::Status DeleteJobs(const Gate& gate, jobs::JobManager& manager,
                        jobs::JobReader& reader,
                        const v1::DeleteJobsRequest& request, const Call& call,
                        v1::DeleteJobsResponse& response) {
  RETURN_IF_ERROR(CheckDeleteJobs(request));
  Deletion deletion(gate, manager, call, request.dry_run(), response);
  return request.has_filter()
             ? DeleteFound(reader, request, call, deletion, response)
             : DeleteListed(reader, request, call, deletion);
}

}  // namespace mpsd::rpc
