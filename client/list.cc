// SPDX-License-Identifier: Apache-2.0
#include "client/list.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "client/command_line.h"
#include "client/job_id.h"
#include "client/text/format.h"
#include "client/text/json.h"
#include "client/verbs.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/report/metrics.h"

namespace mpsd::client {

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using Json = nlohmann::ordered_json;

constexpr char kAge[] = "age";
// Short names, each with its field.
constexpr std::pair<std::string_view, std::string_view> kShort[] = {
    {"step", "progress.step"},
    {"loss", "progress.loss"},
    {"eval_loss", "eval_loss_after"}};

// Omitted from a list.
constexpr std::string_view kNeverListed[] = {"spec_json", "warnings",
                                             "confusion_matrix_json"};

std::string FieldOf(const std::string& name) {
  for (const auto& [brief, field] : kShort) {
    if (name == brief) return std::string(field);
  }
  return name;
}

bool IsTime(const FieldDescriptor& field) {
  return field.message_type() != nullptr &&
         field.message_type()->full_name() == "google.protobuf.Timestamp";
}

bool HasFields(const FieldDescriptor& field) {
  return field.message_type() != nullptr && !field.is_repeated() &&
         !IsTime(field);
}

// Adds the names of the message's fields that fit in a cell.
void AddNames(const Descriptor& type, const std::string& prefix,
              std::vector<std::string>& names) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string name(field.name());
    if (prefix.empty() && std::count(std::begin(kNeverListed),
                                     std::end(kNeverListed), name) > 0) {
      continue;
    }
    if (HasFields(field)) {
      AddNames(*field.message_type(), absl::StrCat(prefix, name, "."), names);
    } else {
      names.push_back(prefix + name);
    }
  }
}

// Whether the name is that of an entry of a map ("labels.team").
bool IsOfMap(const std::string& name) {
  const std::vector<std::string> parts =
      absl::StrSplit(name, absl::MaxSplits('.', 1));
  const FieldDescriptor* field =
      v1::Job::descriptor()->FindFieldByName(parts[0]);
  return parts.size() == 2 && !parts[1].empty() && field != nullptr &&
         field->is_map();
}

// The value at a path; the rest after a map's name is the whole key, which may
// contain points.
Json ValueAt(const Json& object, const std::string& path) {
  const Json* at = &object;
  std::string rest = path;
  while (at->is_object()) {
    if (const auto whole = at->find(rest); whole != at->end()) return *whole;
    const size_t point = rest.find('.');
    if (point == std::string::npos) return nullptr;
    const auto next = at->find(rest.substr(0, point));
    if (next == at->end()) return nullptr;
    at = &*next;
    rest = rest.substr(point + 1);
  }
  return nullptr;
}

std::string NumberText(const std::string& name, double value) {
  if (absl::EndsWith(name, "_bytes")) {
    return Bytes(static_cast<int64_t>(value));
  }
  if (absl::EndsWith(name, "_seconds")) return Seconds(value);
  if (absl::StrContains(name, "loss")) return Loss(value);
  return absl::StrCat(value);
}

std::string TimeText(const std::string& text, absl::TimeZone zone) {
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, text, &time, &error)) return text;
  return DateTime(time, zone);
}

std::string ListText(const Json& list) {
  std::vector<std::string> texts;
  for (const Json& one : list) {
    texts.push_back(one.is_string() ? one.get<std::string>() : one.dump());
  }
  return absl::StrJoin(texts, ", ");
}

std::string ObjectText(const Json& object) {
  std::vector<std::string> texts;
  for (const auto& [key, value] : object.items()) {
    texts.push_back(absl::StrCat(
        key, "=", value.is_string() ? value.get<std::string>() : value.dump()));
  }
  return absl::StrJoin(texts, ", ");
}

double Age(const ListRow& row) {
  const absl::Duration age = row.now - ToTime(row.job.create_time());
  return std::max(0.0, absl::ToDoubleSeconds(age));
}

std::string StateText(const v1::Job& job) {
  const bool cancels = job.cancel_requested() && !IsFinal(job.state());
  return absl::StrCat(StateName(job.state()),
                      cancels                             ? " (cancelling)"
                      : job.held() || !job.hold().empty() ? " (held)"
                                                          : "");
}

}  // namespace

std::string FieldText(const std::string& field, const Json& value,
                      absl::TimeZone zone) {
  if (value.is_null()) return "";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_float()) return NumberText(field, value.get<double>());
  if (value.is_number()) {
    return absl::EndsWith(field, "_bytes") ? Bytes(value.get<int64_t>())
                                           : value.dump();
  }
  if (value.is_array()) return ListText(value);
  if (value.is_object()) return ObjectText(value);
  const std::string text = value.get<std::string>();
  return absl::EndsWith(field, "_time") ? TimeText(text, zone) : text;
}

ListRow::ListRow(const v1::Job& job, absl::Time now)
    : job(job), json(ToJson(job)), now(now) {}

absl::StatusOr<ListColumn> ListColumn::Parse(const std::string& name) {
  const std::vector<std::string> names = Names();
  if (IsOfMap(name) || std::count(names.begin(), names.end(), name) > 0) {
    return ListColumn(name);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--columns ", base::Quotable(name),
      ": is not a column; the columns are labels.NAME, metrics.NAME and ",
      absl::StrJoin(names, ", ")));
}

std::vector<std::string> ListColumn::Names() {
  std::vector<std::string> names;
  AddNames(*v1::Job::descriptor(), "", names);
  for (const auto& [brief, field] : kShort) names.emplace_back(brief);
  names.emplace_back(kAge);
  std::sort(names.begin(), names.end());
  return names;
}

std::string ListColumn::heading() const {
  return name_ == "eval_loss" ? "EVAL" : absl::AsciiStrToUpper(name_);
}

Json ListColumn::Value(const ListRow& row) const {
  if (name_ == kAge) return static_cast<int64_t>(Age(row));
  return ValueAt(row.json, FieldOf(name_));
}

std::string ListColumn::Cell(const ListRow& row, absl::TimeZone zone) const {
  const v1::Job& job = row.job;
  if (name_ == kAge) return Seconds(Age(row));
  if (name_ == "state") return StateText(job);
  if (name_ == "step") {
    if (!job.has_progress()) return "-";
    return absl::StrCat(job.progress().step(), "/",
                        job.progress().total_steps());
  }
  if (name_ == "name" && IsStudy(job.kind())) {
    return absl::StrCat(job.name(), job.name().empty() ? "" : " ", "(",
                        KindName(job.kind()), ")");
  }
  const std::string text = FieldText(FieldOf(name_), Value(row), zone);
  return text.empty() && name_ != "name" ? "-" : text;
}

absl::StatusOr<std::vector<ListColumn>> ParseColumns(const std::string& names) {
  std::vector<ListColumn> columns;
  for (const auto& name : absl::StrSplit(names, ',')) {
    ASSIGN_OR_RETURN(
        ListColumn column,
        ListColumn::Parse(std::string(absl::StripAsciiWhitespace(name))));
    columns.push_back(std::move(column));
  }
  return columns;
}

namespace {

constexpr char kPrefix[] = "JOB_ORDER_";

using Value = std::optional<std::variant<int64_t, double, std::string>>;

// The names of run_glue.py's metrics (core/report).
constexpr const char* kMetrics[] = {
    "accuracy",  "f1",        "f1_macro", "f1_micro", "matthews_correlation",
    "pearson",   "spearmanr", "mse",      "mae",      "combined_score",
    "perplexity"};
constexpr char kMetricPrefix[] = "metrics.";

Value Finite(bool has, double value) {
  return has && std::isfinite(value) ? Value(value) : std::nullopt;
}

Value MetricOf(const v1::Job& job, const std::string& metric) {
  if (metric == kTrainLoss) {
    return Finite(job.has_train_loss(), job.train_loss());
  }
  const auto found = job.metrics().find(metric);
  return found == job.metrics().end() ? std::nullopt
                                      : Finite(true, found->second);
}

Value ValueOf(const v1::Job& job, const SortKey& key) {
  if (!key.metric.empty()) return MetricOf(job, key.metric);
  switch (key.order) {
    case v1::JOB_ORDER_END_TIME:
      if (!job.has_end_time()) return std::nullopt;
      return absl::ToUnixMicros(ToTime(job.end_time()));
    case v1::JOB_ORDER_NAME:
      return absl::AsciiStrToLower(job.name());
    case v1::JOB_ORDER_OWNER:
      return job.owner();
    case v1::JOB_ORDER_STATE:
      return int64_t{job.state()};
    case v1::JOB_ORDER_PRIORITY:
      return int64_t{job.priority()};
    case v1::JOB_ORDER_EVAL_LOSS:
      if (!job.has_eval_loss_after() || std::isnan(job.eval_loss_after())) {
        return std::nullopt;
      }
      return job.eval_loss_after();
    case v1::JOB_ORDER_DEVICE_SECONDS:
      return job.device_seconds();
    case v1::JOB_ORDER_STORED_BYTES:
      return int64_t{job.stored_bytes()};
    default:
      return absl::ToUnixMicros(ToTime(job.create_time()));
  }
}

// Negative where `a` comes first.
int Compare(const v1::Job& a, const v1::Job& b, const SortKey& key) {
  const Value left = ValueOf(a, key), right = ValueOf(b, key);
  if (left == right) return 0;
  if (!left.has_value() || !right.has_value()) return left ? -1 : 1;
  return (*left < *right) == key.ascending ? -1 : 1;
}

// The metric that a word of --sort means; "" for none.
std::string MetricNamed(absl::string_view word) {
  absl::ConsumePrefix(&word, "-");
  if (absl::ConsumePrefix(&word, kMetricPrefix)) return std::string(word);
  const bool known = word == kTrainLoss ||
                     std::count(std::begin(kMetrics), std::end(kMetrics), word);
  return known ? std::string(word) : "";
}

}  // namespace

std::vector<std::string> SortNames() {
  std::vector<std::string> names;
  for (int i = v1::JobOrder_MIN + 1; i <= v1::JobOrder_MAX; ++i) {
    const std::string name(v1::JobOrder_Name(static_cast<v1::JobOrder>(i)));
    names.push_back(absl::AsciiStrToLower(name.substr(sizeof(kPrefix) - 1)));
  }
  names.emplace_back(kTrainLoss);
  names.insert(names.end(), std::begin(kMetrics), std::end(kMetrics));
  return names;
}

absl::StatusOr<std::vector<SortKey>> ParseSort(const std::string& words) {
  std::vector<SortKey> keys;
  for (const auto& part : absl::StrSplit(words, ',')) {
    const std::string word(absl::StripAsciiWhitespace(part));
    SortKey key{v1::JOB_ORDER_UNSPECIFIED, word[0] != '-', MetricNamed(word)};
    const std::string name =
        absl::AsciiStrToUpper(key.ascending ? word : word.substr(1));
    if (!key.metric.empty()) {
      // The best come first.
      if (metrics::GreaterIsBetter(key.metric)) key.ascending = !key.ascending;
    } else if (!v1::JobOrder_Parse(kPrefix + name, &key.order) ||
               key.order == v1::JOB_ORDER_UNSPECIFIED) {
      return absl::InvalidArgumentError(
          absl::StrCat("--sort ", base::Quotable(word), ": jobs are sorted by ",
                       absl::StrJoin(SortNames(), ", "),
                       ", metrics.NAME; with - before it in reverse"));
    }
    keys.push_back(key);
  }
  return keys;
}

bool AreEqual(const v1::Job& a, const v1::Job& b, const SortKey& key) {
  return Compare(a, b, key) == 0;
}

bool ComesBefore(const v1::Job& a, const v1::Job& b,
                 absl::Span<const SortKey> keys) {
  if (keys.empty()) return Compare(a, b, SortKey()) < 0;
  for (const SortKey& key : keys) {
    const int order = Compare(a, b, key);
    if (order != 0) return order < 0;
  }
  return false;
}

void SortBy(absl::Span<const SortKey> keys, std::vector<v1::Job>& jobs) {
  std::stable_sort(jobs.begin(), jobs.end(),
                   [keys](const v1::Job& a, const v1::Job& b) {
                     return ComesBefore(a, b, keys);
                   });
}

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
        base::ParseWhen(text, terminal.clock->Now(), terminal.zone);
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
                   "labels or notes, ignoring case")
      ->type_name("TEXT");
  verb->add_option("--model", filter->model, "Only of this model")
      ->type_name("MODEL");
  const char* when = "WHEN";
  verb->add_option("--since", filter->since,
                   "Submitted since: 2w, 7d, 12h or 30m ago, or a date")
      ->type_name(when);
  verb->add_option("--until", filter->until, "Submitted before")
      ->type_name(when);
  verb->add_option("--ended-since", filter->ended_since, "Ended since")
      ->type_name(when);
  verb->add_option("--ended-until", filter->ended_until, "Ended before")
      ->type_name(when);
  verb->add_flag("--held", filter->held, "Only those that are held");
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

namespace {

constexpr char kTableColumns[] = "id,state,step,loss,eval_loss,owner,age,name";
constexpr char kCsvColumns[] =
    "id,name,state,owner,priority,model,create_time,start_time,end_time,step,"
    "loss,eval_loss,device_seconds,stored_bytes";
constexpr int64_t kPageSize = 500;  // the most that the daemon sends at once

struct ListOptions {
  JobFilter filter;
  std::string sort;
  std::string columns;
  int64_t limit = 50;
  int64_t page = 1;
  bool all = false;
  bool count = false;
  bool csv = false;
  bool quiet = false;
  bool past = false;

  // The jobs to show, from `first` on.
  int64_t first() const { return all ? 0 : (page - 1) * limit; }
  int64_t end() const {
    return all ? std::numeric_limits<int64_t>::max() : page * limit;
  }
};

// --- The question ------------------------------------------------------------

absl::StatusOr<v1::ListJobsRequest> Request(const ListOptions& options,
                                            const std::vector<SortKey>& keys,
                                            const Terminal& terminal) {
  v1::ListJobsRequest request;
  RETURN_IF_ERROR(FillFilter(options.filter, terminal, request));
  if (!keys.empty() && keys[0].metric.empty()) {
    request.set_order(keys[0].order);
    request.set_ascending(keys[0].ascending);
  }
  return request;
}

// --- The answer --------------------------------------------------------------

// Returns jobs one by one, over as many pages as needed, in the order of all
// keys: the daemon sorts by the first one, and jobs equal in it are sorted
// here. The daemon does not sort by metrics: then all jobs are sorted here.
class Jobs {
 public:
  // `most`: the jobs that will be requested.
  Jobs(Connection& daemon, v1::ListJobsRequest request,
       std::vector<SortKey> keys, int64_t most)
      : daemon_(daemon),
        request_(std::move(request)),
        keys_(std::move(keys)),
        sorts_here_(keys_.size() > 1 ||
                    (keys_.size() == 1 && !keys_[0].metric.empty())),
        most_(most) {}

  // False after the last job, and where a call failed: see status().
  bool Next(v1::Job* job) {
    if (at_ == ready_.size() && !Prepare()) return false;
    *job = std::move(ready_[at_++]);
    return true;
  }
  const grpc::Status& status() const { return status_; }
  // Whether Next would return another one, as far as known without a call.
  bool has_more() const {
    return at_ < ready_.size() || !coming_.empty() || !is_last_;
  }

 private:
  // Prepares the next jobs: a page, or the jobs of one value.
  bool Prepare() {
    ready_.clear();
    at_ = 0;
    if (coming_.empty() && !Fetch()) return false;
    if (!sorts_here_) {
      ready_.swap(coming_);
      return true;
    }
    size_t equal = 0;
    for (;;) {
      while (equal < coming_.size() &&
             (!keys_[0].metric.empty() ||
              AreEqual(coming_[0], coming_[equal], keys_[0]))) {
        ++equal;
      }
      if (equal < coming_.size() || is_last_) break;
      if (!Fetch()) return false;
    }
    ready_.assign(std::make_move_iterator(coming_.begin()),
                  std::make_move_iterator(coming_.begin() + equal));
    coming_.erase(coming_.begin(), coming_.begin() + equal);
    SortBy(keys_, ready_);
    return true;
  }

  // Appends a page to coming_. False after the last one.
  bool Fetch() {
    while (!is_last_) {
      request_.set_page_size(static_cast<int32_t>(
          sorts_here_ ? kPageSize : std::min(kPageSize, most_ - fetched_)));
      grpc::ClientContext context;
      SetDeadline(context);
      v1::ListJobsResponse response;
      status_ = daemon_.jobs().List(&context, request_, &response);
      if (!status_.ok()) return false;
      request_.set_page_token(response.next_page_token());
      fetched_ += response.jobs_size();
      is_last_ = request_.page_token().empty();
      if (response.jobs().empty()) continue;
      coming_.insert(coming_.end(),
                     std::make_move_iterator(response.mutable_jobs()->begin()),
                     std::make_move_iterator(response.mutable_jobs()->end()));
      return true;
    }
    return false;
  }

  Connection& daemon_;
  v1::ListJobsRequest request_;
  const std::vector<SortKey> keys_;
  const bool sorts_here_;
  const int64_t most_;
  std::vector<v1::Job> ready_, coming_;
  size_t at_ = 0;
  int64_t fetched_ = 0;
  bool is_last_ = false;
  grpc::Status status_;
};

// The jobs and, with `past`, the deleted ones in one order.
class WithPast {
 public:
  WithPast(Connection& daemon, v1::ListJobsRequest request,
           const std::vector<SortKey>& keys, int64_t most, bool past)
      : keys_(keys) {
    streams_.reserve(2);
    streams_.emplace_back(daemon, request, keys, most);
    request.set_past(true);
    if (past) streams_.emplace_back(daemon, request, keys, most);
    heads_.resize(streams_.size());
  }

  bool Next(v1::Job* job) {
    std::optional<v1::Job>* first = nullptr;
    for (size_t i = 0; i < streams_.size(); ++i) {
      v1::Job next;
      if (!heads_[i] && streams_[i].Next(&next)) heads_[i] = std::move(next);
      if (!streams_[i].status().ok()) return false;
      if (!heads_[i]) continue;
      if (first == nullptr || ComesBefore(*heads_[i], **first, keys_)) {
        first = &heads_[i];
      }
    }
    if (first == nullptr) return false;
    *job = *std::exchange(*first, std::nullopt);
    return true;
  }
  grpc::Status status() const {
    for (const Jobs& jobs : streams_) {
      if (!jobs.status().ok()) return jobs.status();
    }
    return grpc::Status::OK;
  }
  bool has_more() const {
    for (size_t i = 0; i < streams_.size(); ++i) {
      if (heads_[i] || streams_[i].has_more()) return true;
    }
    return false;
  }

 private:
  const std::vector<SortKey> keys_;
  std::vector<Jobs> streams_;
  std::vector<std::optional<v1::Job>> heads_;  // the next of each
};

// Prints jobs one by one. Finish prints what needs all of them.
class Printer {
 public:
  Printer(const ListOptions& options, std::vector<ListColumn> columns,
          const Console& console)
      : options_(options),
        columns_(std::move(columns)),
        console_(console),
        table_(Headings()) {
    if (options_.csv && !options_.quiet) {
      std::vector<nlohmann::ordered_json> names;
      names.reserve(columns_.size());
      for (const ListColumn& column : columns_) names.push_back(column.name());
      console_.out << CsvLine(names);
    }
  }

  void Print(const v1::Job& job) {
    ++printed_;
    const absl::Time now = console_.terminal.clock->Now();
    if (options_.quiet) {
      console_.out << job.id() << '\n';
    } else if (options_.csv) {
      const ListRow row(job, now);
      std::vector<nlohmann::ordered_json> values;
      values.reserve(columns_.size());
      for (const ListColumn& column : columns_) {
        values.push_back(column.Value(row));
      }
      console_.out << CsvLine(values);
    } else if (console_.json && options_.columns.empty()) {
      console_.PrintJson(job);
    } else if (console_.json) {
      PrintObject(ListRow(job, now));
    } else {
      std::vector<std::string> cells;
      cells.reserve(columns_.size());
      const ListRow row(job, now);
      for (const ListColumn& column : columns_) {
        cells.push_back(column.Cell(row, console_.terminal.zone));
      }
      table_.Add(std::move(cells));
    }
  }

  void Finish(const v1::ListJobsRequest& request, bool more) {
    if (options_.quiet || options_.csv || console_.json) return;
    if (printed_ == 0) return PrintNone(request);
    table_.Print(console_.out,
                 console_.terminal.is_tty ? console_.terminal.columns() : 0);
    if (more && console_.terminal.is_tty) {
      console_.err << "There are more: --page " << options_.page + 1
                   << ", --limit or --all.\n";
    }
  }

 private:
  std::vector<std::string> Headings() const {
    std::vector<std::string> headings;
    headings.reserve(columns_.size());
    for (const ListColumn& column : columns_) {
      headings.push_back(column.heading());
    }
    return headings;
  }

  void PrintObject(const ListRow& row) {
    nlohmann::ordered_json object;
    for (const ListColumn& column : columns_) {
      object[column.name()] = column.Value(row);
    }
    console_.out << object.dump(
                        -1, ' ', false,
                        nlohmann::ordered_json::error_handler_t::replace)
                 << '\n';
  }

  void PrintNone(v1::ListJobsRequest request) {
    request.clear_order();
    request.clear_ascending();
    const bool filters = request.ByteSizeLong() > 0;
    console_.out << (filters || options_.page > 1
                         ? "No such jobs.\n"
                         : "No jobs. Queue one with `mpsctl submit "
                           "job.json`.\n");
  }

  const ListOptions& options_;
  const std::vector<ListColumn> columns_;
  const Console& console_;
  Table table_;
  int64_t printed_ = 0;
};

ExitCode CountJobs(v1::ListJobsRequest request, bool past,
                   const Console& console) {
  request.set_count(true);
  request.set_page_size(1);
  int64_t total = 0;
  for (const bool of_past : {false, true}) {
    if (of_past && !past) break;
    request.set_past(of_past);
    grpc::ClientContext context;
    SetDeadline(context);
    v1::ListJobsResponse response;
    const grpc::Status status =
        console.daemon.jobs().List(&context, request, &response);
    if (!status.ok()) return console.Fail(status);
    total += response.total();
  }
  if (console.json) {
    console.out << "{\"total\":" << total << "}\n";
  } else {
    console.out << total << '\n';
  }
  return ExitCode::kOk;
}

ExitCode Show(const ListOptions& options, const v1::ListJobsRequest& request,
              const std::vector<SortKey>& keys, std::vector<ListColumn> columns,
              const Console& console) {
  Printer printer(options, std::move(columns), console);
  WithPast jobs(console.daemon, request, keys, options.end(), options.past);
  v1::Job job;
  int64_t given = 0;
  for (; given < options.end() && jobs.Next(&job); ++given) {
    if (given >= options.first()) printer.Print(job);
  }
  if (!jobs.status().ok()) return console.Fail(jobs.status());
  printer.Finish(request, jobs.has_more());
  return ExitCode::kOk;
}

// ",metrics.accuracy": the extra columns of a table sorted by metrics.
std::string MetricColumns(const std::vector<SortKey>& keys) {
  std::string columns;
  for (const SortKey& key : keys) {
    if (key.metric.empty()) continue;
    absl::StrAppend(&columns, ",", key.metric == kTrainLoss ? "" : "metrics.",
                    key.metric);
  }
  return columns;
}

ExitCode List(const ListOptions& options, const Console& console) {
  const auto fail = [&console](const absl::Status& status) {
    return console.Fail(ExitCode::kBadInput, status, "");
  };
  if (options.csv && console.json) {
    return fail(
        absl::InvalidArgumentError("--csv and --json exclude one another"));
  }
  absl::StatusOr<std::vector<SortKey>> keys = std::vector<SortKey>();
  if (!options.sort.empty()) keys = ParseSort(options.sort);
  if (!keys.ok()) return fail(keys.status());
  absl::StatusOr<std::vector<ListColumn>> columns =
      ParseColumns(!options.columns.empty()
                       ? options.columns
                       : absl::StrCat(options.csv ? kCsvColumns : kTableColumns,
                                      MetricColumns(*keys)));
  if (!columns.ok()) return fail(columns.status());
  const absl::StatusOr<v1::ListJobsRequest> request =
      Request(options, *keys, console.terminal);
  if (!request.ok()) return fail(request.status());
  if (options.count) return CountJobs(*request, options.past, console);
  return Show(options, *request, *keys, *std::move(columns), console);
}

// --- The verb ----------------------------------------------------------------

void AddShape(Command* verb, ListOptions* options) {
  verb->add_option("--sort", options->sort,
                   "Sort by these, comma-separated; in reverse with -\n"
                   "before one: -eval_loss,name. By a metric (accuracy,\n"
                   "metrics.NAME) the best come first")
      ->type_name("KEYS");
  verb->add_option("--columns", options->columns,
                   "Show these, comma-separated: the fields of\n"
                   "--json, labels.NAME, metrics.NAME, step, loss, age …")
      ->type_name("NAMES");
  Option* limit =
      verb->add_option("--limit", options->limit, "At most this many")
          ->check(Range(1, 1000000))
          ->type_name("N")
          ->capture_default_str();
  Option* page =
      verb->add_option("--page", options->page,
                       "The page of this number, with --limit jobs each")
          ->check(Range(1, 1000000))
          ->type_name("N");
  verb->add_flag("--all", options->all, "All of them")
      ->excludes(limit)
      ->excludes(page);
  verb->add_flag("--count", options->count, "Only how many there are");
  verb->add_flag("--csv", options->csv, "Print comma-separated values");
  verb->add_flag("--past", options->past, "Deleted jobs, too");
  verb->add_flag("-q,--quiet", options->quiet, "Only the ids");
}

}  // namespace

void AddList(Command& app, Action* action) {
  auto options = std::make_shared<ListOptions>();
  Command* verb = app.add_subcommand(
      "list", "Show jobs, newest first unless --sort says otherwise");
  AddJobFilter(verb, &options->filter);
  AddShape(verb, options.get());
  verb->callback([=] {
    *action = [=](const Console& console) { return List(*options, console); };
  });
}

}  // namespace mpsd::client
