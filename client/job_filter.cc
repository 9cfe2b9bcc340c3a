// SPDX-License-Identifier: Apache-2.0
#include "client/job_filter.h"

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/command_line.h"
#include "client/job_labels.h"
#include "client/text/format.h"
#include "client/text/when.h"

namespace mpsd::client {
namespace {

std::vector<std::string> StateNames() {
  std::vector<std::string> names;
  for (int i = v1::JobState_MIN + 1; i <= v1::JobState_MAX; ++i) {
    names.push_back(StateName(static_cast<v1::JobState>(i)));
  }
  return names;
}

v1::JobState StateOf(const std::string& name) {
  v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
  v1::JobState_Parse(absl::StrCat("JOB_STATE_", absl::AsciiStrToUpper(name)),
                     &state);
  return state;
}

absl::Status SetTimes(const JobFilter& filter, const Terminal& terminal,
                      v1::ListJobsRequest& request) {
  const struct {
    const char* option;
    const std::string& text;
    google::protobuf::Timestamp* (v1::ListJobsRequest::*stamp)();
  } times[] = {
      {"--since", filter.since, &v1::ListJobsRequest::mutable_create_time_from},
      {"--until", filter.until, &v1::ListJobsRequest::mutable_create_time_to},
      {"--ended-since", filter.ended_since,
       &v1::ListJobsRequest::mutable_end_time_from},
      {"--ended-until", filter.ended_until,
       &v1::ListJobsRequest::mutable_end_time_to}};
  for (const auto& [option, text, stamp] : times) {
    if (text.empty()) continue;
    const absl::StatusOr<absl::Time> time =
        ParseWhen(text, terminal.clock->Now(), terminal.zone);
    if (!time.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(option, " ", std::string(time.status().message())));
    }
    google::protobuf::Timestamp& to = *(request.*stamp)();
    const int64_t seconds = absl::ToUnixSeconds(*time);
    to.set_seconds(seconds);
    to.set_nanos(static_cast<int32_t>(
        absl::ToInt64Nanoseconds(*time - absl::FromUnixSeconds(seconds))));
  }
  return absl::OkStatus();
}

}  // namespace

void AddJobFilter(Command* verb, JobFilter* filter) {
  verb->add_option("--state", filter->states, "Only this state; repeatable")
      ->check(IsMember(StateNames(), /*ignore_case=*/true))
      ->allow_extra_args(false);
  verb->add_option("--owner", filter->owner, "Only this owner's")
      ->type_name("NAME");
  verb->add_option("--label", filter->job_labels,
                   "Only with this label; repeatable, all must match")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  verb->add_option("--tag", filter->tags,
                   "Only with this tag; repeatable, all must match")
      ->type_name("WORD")
      ->allow_extra_args(false);
  verb->add_option("--text", filter->text,
                   "Only with this text in id, name, owner, model, message,\n"
                   "labels or notes, upper and lower case alike")
      ->type_name("TEXT");
  verb->add_option("--model", filter->model, "Only of this model")
      ->type_name("MODEL");
  const char* when = "WHEN";
  verb->add_option("--since", filter->since,
                   "Submitted from then on: 2w, 7d, 12h or 30m ago, or a date")
      ->type_name(when);
  verb->add_option("--until", filter->until, "Submitted before then")
      ->type_name(when);
  verb->add_option("--ended-since", filter->ended_since, "Ended from then on")
      ->type_name(when);
  verb->add_option("--ended-until", filter->ended_until, "Ended before then")
      ->type_name(when);
  verb->add_flag("--held", filter->held, "Only those that somebody holds");
  verb->add_flag("--pinned", filter->pinned, "Only those that are pinned");
}

absl::Status FillFilter(const JobFilter& filter, const Terminal& terminal,
                        v1::ListJobsRequest& request) {
  for (const std::string& name : filter.states) {
    request.add_states(StateOf(name));
  }
  request.set_owner(filter.owner);
  request.mutable_tags()->Assign(filter.tags.begin(), filter.tags.end());
  request.set_text(filter.text);
  request.set_model(filter.model);
  if (filter.pinned) request.set_pinned(true);
  if (filter.held) request.set_held(true);
  absl::Status status =
      AddJobLabels(filter.job_labels, request.mutable_labels());
  return status.ok() ? SetTimes(filter, terminal, request) : status;
}

}  // namespace mpsd::client
