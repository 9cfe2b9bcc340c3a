// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/list_jobs.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/sha256.h"
#include "server/rpc/check.h"
#include "server/rpc/convert.h"
#include "server/rpc/job_calls.h"

namespace mpsd::rpc {
namespace {

constexpr size_t kDigestDigits = 12;

// "<id>.<digest of id and filter>"
std::string PageToken(const std::string& last_id,
                      const jobs::ListFilter& filter) {
  std::string text = last_id;
  const auto add = [&](const std::string& part) {
    absl::StrAppend(&text, "|", part.size(), ":", part);
  };
  for (jobs::State state : filter.states) {
    add(std::string(jobs::Name(state)));
  }
  add(filter.owner);
  for (const auto& [key, value] : filter.labels) {
    add(key);
    add(value);
  }
  return absl::StrCat(last_id, ".",
                      base::Sha256Hex(text).substr(0, kDigestDigits));
}

absl::Status ReadStates(const v1::ListJobsRequest& request,
                        jobs::ListFilter& filter) {
  std::set<jobs::State> states;
  for (int i = 0; i < request.states().size(); ++i) {
    const std::optional<jobs::State> state = FromProto(request.states(i));
    if (!state.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("states[", i, "]: ", static_cast<int>(request.states(i)),
                       " is no state of a job"));
    }
    states.insert(*state);
  }
  filter.states.assign(states.begin(), states.end());
  return absl::OkStatus();
}

absl::Status ReadPage(const v1::ListJobsRequest& request,
                      jobs::ListFilter& filter) {
  if (request.page_size() < 0 || request.page_size() > limits::kPageSize) {
    return absl::InvalidArgumentError(absl::StrCat("page_size: must be 0 to ",
                                                   limits::kPageSize, ", is ",
                                                   request.page_size()));
  }
  filter.limit =
      request.page_size() == 0 ? limits::kDefaultPageSize : request.page_size();
  const std::string& token = request.page_token();
  if (token.empty()) return absl::OkStatus();
  const std::string last_id = token.substr(0, token.find('.'));
  if (last_id.empty() || token != PageToken(last_id, filter)) {
    return absl::InvalidArgumentError(
        "page_token: is not one that List gave for this filter");
  }
  filter.before_id = last_id;
  return absl::OkStatus();
}

absl::StatusOr<jobs::ListFilter> ReadFilter(
    const v1::ListJobsRequest& request) {
  absl::Status checked = CheckList(request);
  if (!checked.ok()) return checked;
  jobs::ListFilter filter;
  filter.summaries = true;
  absl::Status states = ReadStates(request, filter);
  if (!states.ok()) return states;
  filter.owner = request.owner();
  filter.labels.insert(request.labels().begin(), request.labels().end());
  absl::Status page = ReadPage(request, filter);
  if (!page.ok()) return page;
  return filter;
}

}  // namespace

absl::Status ListJobs(jobs::JobReader& reader,
                      const v1::ListJobsRequest& request,
                      v1::ListJobsResponse& response) {
  absl::StatusOr<jobs::ListFilter> filter = ReadFilter(request);
  if (!filter.ok()) return filter.status();
  const size_t page_size = filter->limit;
  ++filter->limit;  // one more tells whether there is a next page
  absl::StatusOr<std::vector<jobs::Job>> listed = reader.List(*filter);
  if (!listed.ok()) return listed.status();
  size_t bytes = 0;
  for (size_t i = 0; i < listed->size(); ++i) {
    if (i == page_size || bytes > limits::kPageBytes) {
      response.set_next_page_token(PageToken((*listed)[i - 1].id, *filter));
      break;
    }
    v1::Job& out = *response.add_jobs();
    FillJob(reader, (*listed)[i], out);
    out.clear_spec_json();
    out.clear_confusion_matrix_json();
    out.clear_warnings();
    bytes += out.ByteSizeLong();
  }
  return absl::OkStatus();
}

}  // namespace mpsd::rpc
