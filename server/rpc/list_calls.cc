// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/list_calls.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/limits.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "server/rpc/check.h"
#include "server/rpc/convert.h"
#include "server/rpc/job_calls.h"

namespace mpsd::rpc {
namespace {

// A place's value in a page token: a letter for its type, and the value.
std::string ValueText(const jobs::ListPlace& place) {
  return std::visit(
      [](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, int64_t>) {
          return absl::StrCat("i", value);
        } else if constexpr (std::is_same_v<T, double>) {
          return absl::StrCat("d", std::bit_cast<int64_t>(value));  // exact
        } else if constexpr (std::is_same_v<T, std::string>) {
          return absl::StrCat("t", absl::WebSafeBase64Escape(value));
        } else {
          return "";
        }
      },
      place.value);
}

// nullopt for a text that ValueText does not make.
std::optional<jobs::ListPlace> PlaceFrom(const std::string& id,
                                         const std::string& text) {
  jobs::ListPlace place{id, {}};
  const std::string value = text.substr(std::min<size_t>(1, text.size()));
  int64_t integer = 0;
  std::string bytes;
  if (text.starts_with("i") && absl::SimpleAtoi(value, &integer)) {
    place.value = integer;
  } else if (text.starts_with("d") && absl::SimpleAtoi(value, &integer)) {
    place.value = std::bit_cast<double>(integer);
  } else if (text.starts_with("t") &&
             absl::WebSafeBase64Unescape(value, &bytes)) {
    place.value = bytes;
  }
  if (id.empty() || ValueText(place) != text) return std::nullopt;
  return place;
}

// The filter, as a unique text.
std::string Identity(const jobs::ListFilter& filter) {
  std::string text;
  const auto add = [&text](const std::string& part) {
    absl::StrAppend(&text, "|", part.size(), ":", part);
  };
  const auto add_time = [&add](const std::optional<absl::Time>& time) {
    add(time ? absl::StrCat(absl::ToUnixMicros(*time)) : "");
  };
  const auto add_flag = [&add](const std::optional<bool>& flag) {
    add(flag ? absl::StrCat(*flag) : "");
  };
  for (jobs::State state : filter.states) add(std::string(jobs::Name(state)));
  add(filter.owner);
  for (const auto& [key, value] : filter.labels) {
    add(key);
    add(value);
  }
  add(filter.text);
  add(filter.model);
  add_time(filter.created_from);
  add_time(filter.created_to);
  add_time(filter.ended_from);
  add_time(filter.ended_to);
  add_flag(filter.pinned);
  add_flag(filter.held);
  for (const std::string& tag : filter.tags) add(absl::StrCat("tag ", tag));
  add(filter.past ? "past" : "");
  add(absl::StrCat(static_cast<int>(filter.order), filter.ascending));
  return text;
}

// "<id>.<digest of place and filter>.<value>"
std::string PageToken(const jobs::ListPlace& place,
                      const jobs::ListFilter& filter) {
  const std::string value = ValueText(place);
  const std::string digest =
      base::Sha256Hex(absl::StrCat(place.id, ".", value, Identity(filter)));
  return absl::StrCat(place.id, ".", digest.substr(0, kPageDigestDigits), ".",
                      value);
}

absl::Status ReadStates(const v1::ListJobsRequest& request,
                        jobs::ListFilter& filter) {
  std::set<jobs::State> states;
  for (int i = 0; i < request.states().size(); ++i) {
    const std::optional<jobs::State> state = FromProto(request.states(i));
    if (!state.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("states[", i, "]: ", static_cast<int>(request.states(i)),
                       " is not a job state"));
    }
    states.insert(*state);
  }
  filter.states.assign(states.begin(), states.end());
  return absl::OkStatus();
}

absl::Status ReadOrder(const v1::ListJobsRequest& request,
                       jobs::ListFilter& filter) {
  filter.ascending = request.ascending();
  if (request.order() == v1::JOB_ORDER_UNSPECIFIED) return absl::OkStatus();
  filter.order = static_cast<jobs::ListOrder>(request.order());
  const auto* end = std::end(jobs::kAllListOrders);
  if (std::find(jobs::kAllListOrders, end, filter.order) != end) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "order: ", static_cast<int>(request.order()), " is not a job order"));
}

absl::Status ReadTime(const char* field,
                      const google::protobuf::Timestamp& from,
                      std::optional<absl::Time>& time) {
  // Those of year 1 to 9999, as google.protobuf.Timestamp defines them.
  constexpr int64_t kFirst = -62'135'596'800, kLast = 253'402'300'799;
  if (from.seconds() < kFirst || from.seconds() > kLast || from.nanos() < 0 ||
      from.nanos() > 999'999'999) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": is not a time in the years 1 to 9999"));
  }
  time = FromProto(from);
  return absl::OkStatus();
}

absl::Status ReadTimes(const v1::ListJobsRequest& request,
                       jobs::ListFilter& filter) {
  if (request.has_create_time_from()) {
    RETURN_IF_ERROR(ReadTime("create_time_from", request.create_time_from(),
                             filter.created_from));
  }
  if (request.has_create_time_to()) {
    RETURN_IF_ERROR(ReadTime("create_time_to", request.create_time_to(),
                             filter.created_to));
  }
  if (request.has_end_time_from()) {
    RETURN_IF_ERROR(
        ReadTime("end_time_from", request.end_time_from(), filter.ended_from));
  }
  if (request.has_end_time_to()) {
    RETURN_IF_ERROR(
        ReadTime("end_time_to", request.end_time_to(), filter.ended_to));
  }
  return absl::OkStatus();
}

absl::Status ReadPage(const v1::ListJobsRequest& request,
                      jobs::ListFilter& filter) {
  RETURN_IF_ERROR(
      CheckPageSize("page_size", request.page_size(), limits::kPageSize));
  filter.limit =
      request.page_size() == 0 ? limits::kDefaultPageSize : request.page_size();
  const std::string& token = request.page_token();
  if (token.empty()) return absl::OkStatus();
  const std::vector<std::string> parts = absl::StrSplit(token, '.');
  if (parts.size() == 3) filter.after = PlaceFrom(parts[0], parts[2]);
  if (!filter.after || token != PageToken(*filter.after, filter)) {
    return absl::InvalidArgumentError(
        "page_token: is not one that List gave for this filter");
  }
  return absl::OkStatus();
}

// Whether the result would reveal private data of jobs: which of them have a
// label, or which has the smaller loss.
bool AsksForPrivate(const jobs::ListFilter& filter) {
  return !filter.labels.empty() || !filter.tags.empty() ||
         !filter.model.empty() || filter.pinned || filter.held || filter.past ||
         filter.order == jobs::ListOrder::kName ||
         filter.order == jobs::ListOrder::kEvalLoss ||
         filter.order == jobs::ListOrder::kStoredBytes;
}

// Such a caller finds only own jobs.
bool MayFilter(const access::Rights& rights, const jobs::ListFilter& filter) {
  if (!rights.sees_own_alone() || !AsksForPrivate(filter)) return true;
  const std::string& user = rights.caller().user;
  return !user.empty() && filter.owner == user;
}

absl::Status ListPast(records::JobRecords& records, jobs::ListFilter filter,
                      bool count, v1::ListJobsResponse& response) {
  if (count) {
    ASSIGN_OR_RETURN(const int64_t total, records.past().Count(filter));
    response.set_total(total);
  }
  const size_t page_size = filter.limit;
  ++filter.limit;
  ASSIGN_OR_RETURN(const std::vector<jobs::PastJob> listed,
                   records.past().List(filter));
  size_t bytes = 0;
  for (size_t i = 0; i < listed.size(); ++i) {
    const jobs::PastJob& past = listed[i];
    if (i == page_size || bytes > limits::kPageBytes) {
      response.set_next_page_token(PageToken(listed[i - 1].place, filter));
      break;
    }
    v1::JobRecord record;
    record.ParseFromString(past.body);
    record.set_id(past.place.id);
    if (record.name().empty()) record.set_name(ValidUtf8(past.name));
    ASSIGN_OR_RETURN(const std::vector<std::string> tags,
                     records.past().TagsOf(past.place.id));
    for (const std::string& tag : tags) record.add_tags(ValidUtf8(tag));
    v1::Job& out = *response.add_jobs();
    out = records::JobOf(record);
    out.clear_spec_json();
    out.clear_warnings();
    bytes += out.ByteSizeLong();
  }
  return absl::OkStatus();
}

// Whether an id may begin or end with it.
bool IsIdPart(const std::string& text) {
  return text.size() >= limits::kIdPart && text.size() <= limits::kWholeId &&
         std::all_of(text.begin(), text.end(), absl::ascii_isalnum);
}

}  // namespace

absl::StatusOr<jobs::ListFilter> ReadListFilter(
    const access::Rights& rights, const v1::ListJobsRequest& request) {
  RETURN_IF_ERROR(CheckList(request));
  jobs::ListFilter filter;
  filter.summaries = true;
  filter.owner = request.owner();
  filter.labels.insert(request.labels().begin(), request.labels().end());
  filter.tags.assign(request.tags().begin(), request.tags().end());
  filter.past = request.past();
  filter.text = request.text();
  filter.model = request.model();
  if (request.has_pinned()) filter.pinned = request.pinned();
  if (request.has_held()) filter.held = request.held();
  RETURN_IF_ERROR(ReadStates(request, filter));
  RETURN_IF_ERROR(ReadTimes(request, filter));
  RETURN_IF_ERROR(ReadOrder(request, filter));
  if (rights.sees_own_alone()) {
    filter.text_of_owner = rights.caller().user;
    if (filter.owner.empty() && AsksForPrivate(filter)) {
      filter.owner = rights.caller().user;
    }
  }
  return filter;
}

absl::Status ListJobs(jobs::JobReader& reader, records::JobRecords* records,
                      const access::Rights& rights,
                      const v1::ListJobsRequest& request,
                      v1::ListJobsResponse& response) {
  ASSIGN_OR_RETURN(jobs::ListFilter filter, ReadListFilter(rights, request));
  RETURN_IF_ERROR(ReadPage(request, filter));
  const bool may_filter = MayFilter(rights, filter);
  if (filter.past) {
    if (!may_filter || records == nullptr) return absl::OkStatus();
    return ListPast(*records, std::move(filter), request.count(), response);
  }
  if (request.count()) {
    ASSIGN_OR_RETURN(const int64_t total,
                     may_filter ? reader.CountListed(filter) : 0);
    response.set_total(total);
  }
  if (!may_filter) return absl::OkStatus();
  const size_t page_size = filter.limit;
  ++filter.limit;  // one more shows whether there is a next page
  ASSIGN_OR_RETURN(std::vector<jobs::Job> listed, reader.List(filter));
  size_t bytes = 0;
  for (size_t i = 0; i < listed.size(); ++i) {
    if (i == page_size || bytes > limits::kPageBytes) {
      response.set_next_page_token(
          PageToken(jobs::PlaceOf(listed[i - 1], filter.order), filter));
      break;
    }
    v1::Job& out = *response.add_jobs();
    FillJob(reader, rights, listed[i], out);
    out.clear_spec_json();
    out.clear_confusion_matrix_json();
    out.clear_warnings();
    bytes += out.ByteSizeLong();
  }
  return absl::OkStatus();
}

absl::Status FindJobs(jobs::JobReader& reader, records::JobRecords* records,
                      const access::Rights& rights,
                      const v1::FindJobsRequest& request,
                      v1::FindJobsResponse& response) {
  const std::string& typed = request.id_part();
  if (typed.empty()) {
    return absl::InvalidArgumentError("id_part: must not be empty");
  }
  RETURN_IF_ERROR(CheckText("id_part", typed, limits::kFilterTextBytes));
  jobs::JobText text{.name = typed};
  if (IsIdPart(typed)) text.id_part = absl::AsciiStrToUpper(typed);
  if (rights.sees_own_alone()) {
    text.owner = rights.caller().user;
    if (text.owner.empty()) text.name.clear();
  }
  ASSIGN_OR_RETURN(std::vector<jobs::FoundJob> found,
                   reader.FindByText(text, limits::kFoundJobs + 1));
  if (request.past() && records != nullptr) {
    ASSIGN_OR_RETURN(const std::vector<jobs::FoundJob> past,
                     records->past().FindByText(text, limits::kFoundJobs + 1));
    for (const jobs::FoundJob& job : past) {
      if (rights.MayRead(job.owner)) found.push_back(job);
    }
  }
  response.set_more(found.size() > limits::kFoundJobs);
  if (found.size() > limits::kFoundJobs) found.resize(limits::kFoundJobs);
  for (const jobs::FoundJob& job : found) {
    v1::Job& out = *response.add_jobs();
    out.set_id(job.id);
    if (rights.MayRead(job.owner)) out.set_name(job.name);
    out.set_state(static_cast<v1::JobState>(job.state));
  }
  return absl::OkStatus();
}

absl::Status ShowQueue(jobs::JobReader& reader, const access::Rights& rights,
                       const v1::QueueRequest&, v1::QueueResponse& response) {
  const jobs::QueueListing listing = reader.Queue(limits::kQueueEntries);
  const jobs::Pause pause =
      reader.PauseOf(listing.places.empty() ? "" : listing.places.front().id);
  if (!pause.reasons.empty()) ToProto(pause, *response.mutable_pause());
  for (const jobs::QueuePlace& place : listing.places) {
    v1::QueueResponse::Entry& out = *response.add_entries();
    out.set_id(place.id);
    out.set_owner(ValidUtf8(place.owner));
    out.set_priority(place.priority);
    out.set_state(ToProto(place.state));
    ToProto(place.since, *out.mutable_queue_time());
    out.set_why(ValidUtf8(place.why));
    if (place.not_before) ToProto(*place.not_before, *out.mutable_not_before());
    if (!rights.MayRead(place.owner)) continue;
    out.set_name(ValidUtf8(place.name));
    out.set_hold(ValidUtf8(place.hold));
  }
  response.set_more(static_cast<int32_t>(listing.more));
  for (const jobs::OwnerUse& use : listing.usage) {
    v1::QueueResponse::Usage& out = *response.add_usage();
    out.set_owner(ValidUtf8(use.owner));
    out.set_seconds(use.seconds);
  }
  response.set_half_life_seconds(absl::ToDoubleSeconds(listing.half_life));
  return absl::OkStatus();
}

}  // namespace mpsd::rpc
