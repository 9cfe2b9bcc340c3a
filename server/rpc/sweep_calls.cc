// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/sweep_calls.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "server/rpc/check.h"
#include "server/rpc/job_calls.h"
#include "server/rpc/sweep_convert.h"

namespace mpsd::rpc {
namespace {

constexpr int kDefaultPage = 50;

absl::Status Describe(sweeps::SweepBook& book, const sweeps::Sweep& sweep,
                      bool with_children, v1::Sweep& out) {
  const absl::StatusOr<sweeps::JobsById> jobs = book.JobsOf(sweep.id);
  if (!jobs.ok()) return jobs.status();
  ToProto(sweep, *jobs, with_children, out);
  return absl::OkStatus();
}

absl::Status NotYours(const std::string& id, const std::string& what) {
  return absl::PermissionDeniedError(
      absl::StrCat("sweep ", id, " is another user's: ", what));
}

absl::StatusOr<int> PageSize(int32_t asked) {
  if (asked >= 0 && asked <= limits::kSweepPage) {
    return asked == 0 ? kDefaultPage : asked;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "page_size: must be 0 to ", limits::kSweepPage, ", is ", asked));
}

absl::Status CheckIds(const v1::ListSweepsRequest& request) {
  if (request.ids_size() > limits::kSweepPage) {
    return absl::InvalidArgumentError(
        absl::StrCat("ids: has ", request.ids_size(), " entries, at most ",
                     limits::kSweepPage, " are allowed"));
  }
  for (int i = 0; i < request.ids_size(); ++i) {
    absl::Status checked =
        CheckId(absl::StrCat("ids[", i, "]"), request.ids(i));
    if (!checked.ok()) return checked;
  }
  return CheckLength("page_token", request.page_token(), limits::kIdBytes);
}

}  // namespace

absl::Status CreateSweep(sweeps::SweepBook& book, jobs::JobReader& reader,
                         jobs::UserLedger* ledger,
                         const v1::CreateSweepRequest& request, Call& call,
                         v1::Sweep& response) {
  sweeps::SweepBook::Request asked;
  absl::Status checked = MakeSubmission(reader, ledger, request.submission(),
                                        call, asked.submission);
  if (!checked.ok()) return checked;
  absl::StatusOr<sweeps::Plan> plan = PlanFrom(request);
  if (!plan.ok()) return plan.status();
  asked.plan = *std::move(plan);
  if (request.has_greater_is_better()) {
    asked.greater_is_better = request.greater_is_better();
  }
  const absl::StatusOr<sweeps::SweepBook::Made> made = book.Create(asked);
  if (!made.ok()) return made.status();
  response.set_existed(made->existed);
  return Describe(book, made->sweep, /*with_children=*/true, response);
}

absl::Status GetSweep(sweeps::SweepBook& book, const access::Rights& rights,
                      const v1::GetSweepRequest& request, v1::Sweep& response) {
  absl::Status checked = CheckId("id", request.id());
  if (!checked.ok()) return checked;
  const absl::StatusOr<sweeps::Sweep> sweep = book.Get(request.id());
  if (!sweep.ok()) return sweep.status();
  if (!rights.MayRead(sweep->owner)) {
    return NotYours(request.id(),
                    "this daemon hides jobs of others (--private-jobs)");
  }
  return Describe(book, *sweep, /*with_children=*/true, response);
}

absl::Status ListSweeps(sweeps::SweepBook& book, const access::Rights& rights,
                        const v1::ListSweepsRequest& request,
                        v1::ListSweepsResponse& response) {
  absl::Status checked = CheckIds(request);
  if (!checked.ok()) return checked;
  const absl::StatusOr<int> page = PageSize(request.page_size());
  if (!page.ok()) return page.status();
  sweeps::SweepFilter filter;
  if (rights.sees_own_alone()) filter.owner = rights.caller().user;
  filter.ids.assign(request.ids().begin(), request.ids().end());
  filter.before = request.page_token();
  filter.limit = *page + 1;  // one more tells whether there is a next page
  const absl::StatusOr<std::vector<sweeps::Sweep>> listed = book.List(filter);
  if (!listed.ok()) return listed.status();
  size_t bytes = 0;
  for (const sweeps::Sweep& sweep : *listed) {
    if (response.sweeps_size() == *page || bytes > limits::kPageBytes) {
      response.set_next_page_token(response.sweeps().rbegin()->id());
      break;
    }
    v1::Sweep& out = *response.add_sweeps();
    absl::Status described =
        Describe(book, sweep, /*with_children=*/false, out);
    if (!described.ok()) return described;
    bytes += out.ByteSizeLong();
  }
  return absl::OkStatus();
}

absl::Status CancelSweep(sweeps::SweepBook& book, const access::Rights& rights,
                         const v1::CancelSweepRequest& request,
                         v1::Sweep& response) {
  absl::Status checked = CheckId("id", request.id());
  if (!checked.ok()) return checked;
  const absl::StatusOr<sweeps::Sweep> sweep = book.Get(request.id());
  if (!sweep.ok()) return sweep.status();
  if (!rights.MayChange(sweep->owner)) {
    return NotYours(request.id(), "its owner or an admin cancels it");
  }
  absl::Status cancelled = book.Cancel(request.id());
  if (!cancelled.ok()) return cancelled;
  return Describe(book, *sweep, /*with_children=*/true, response);
}

}  // namespace mpsd::rpc
