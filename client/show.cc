// SPDX-License-Identifier: Apache-2.0
#include "client/show.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iomanip>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <type_traits>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/app.h"
#include "client/jobs.h"
#include "client/study.h"
#include "client/submit.h"
#include "client/text/format.h"
#include "client/watch.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/report/metrics.h"
#include "core/spec/fields.h"
#include "core/spec/generation.h"
#include "core/spec/train_spec.h"

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
    {"eval", "eval_loss_after"},
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
    return base::BytesText(value);
  }
  if (absl::EndsWith(name, "_seconds")) {
    const bool brief = value >= 0 && value < 10;
    return brief ? absl::StrFormat("%.3gs", value) : Seconds(value);
  }
  if (absl::EndsWith(name, "_ratio")) return Percent(value, 0);
  if (absl::EndsWith(name, "_per_second")) return Count(value);
  if (absl::StrContains(name, "loss")) return Loss(value);
  return absl::StrFormat("%.*g", absl::EndsWith(name, "epoch") ? 3 : 6, value);
}

std::string TimeText(const std::string& text, absl::TimeZone zone) {
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, text, &time, &error)) return text;
  return DateTime(time, zone);
}

// "a, b" of a list, "a=1, b=2" of an object.
std::string ListText(const Json& list) {
  std::vector<std::string> texts;
  for (const auto& [key, value] : list.items()) {
    texts.push_back(absl::StrCat(
        list.is_object() ? key + "=" : "",
        value.is_string() ? value.get<std::string>() : value.dump()));
  }
  return absl::StrJoin(texts, ", ");
}

double Age(const ListRow& row) {
  const absl::Duration age = row.now - ToTime(row.job.create_time());
  return std::max(0.0, absl::ToDoubleSeconds(age));
}

std::string StateText(const v1::Job& job) {
  const bool cancels = job.cancel_requested() && !IsFinal(job.state());
  const std::string state = ShownState(job);
  if (job.past()) return state + " (deleted)";
  if (cancels) return state + " (cancelling)";
  if (job.held()) return state + " (held)";
  if (!job.hold().empty()) return state + " (waits)";
  if (state == StateName(job.state())) return state;
  return absl::StrCat(state, " (", PauseReasonText(job.pause()), ")");
}

// A human-readable form of a value of ToJson, by the name of its field; "" for
// none.
std::string FieldText(const std::string& field, const Json& value,
                      absl::TimeZone zone) {
  if (value.is_null()) return "";
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_float() || absl::EndsWith(field, "_bytes")) {
    return NumberText(field, value.get<double>());
  }
  if (value.is_number()) return value.dump();
  if (value.is_structured()) return ListText(value);
  const std::string text = value.get<std::string>();
  return absl::EndsWith(field, "_time") ? TimeText(text, zone) : text;
}

// A deleted job's record keeps three members of its last progress: the others
// are unknown, not 0.
Json JobJson(const v1::Job& job) {
  Json json = ToJson(job);
  if (!job.past() || !job.has_progress()) return json;
  const Json last = json["progress"];
  json["progress"] = {{"step", last["step"]},
                      {"total_steps", last["total_steps"]},
                      {"device", last["device"]}};
  return json;
}

}  // namespace

ListRow::ListRow(const v1::Job& job, absl::Time now)
    : job(job), json(JobJson(job)), now(now) {}

absl::StatusOr<ListColumn> ListColumn::Parse(const std::string& name) {
  const std::vector<std::string> names = Names();
  if (IsOfMap(name) || std::count(names.begin(), names.end(), name) > 0) {
    return ListColumn(name);
  }
  const auto near = spec::NearestName(
      name, std::vector<std::string_view>(names.begin(), names.end()));
  return absl::InvalidArgumentError(absl::StrCat(
      "--columns: no column ", base::Quotable(name), "; ",
      near ? absl::StrCat("did you mean ", std::string(*near), "?")
           : absl::StrCat("the columns are labels.NAME, metrics.NAME and ",
                          absl::StrJoin(names, ", "))));
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

using SortValue = std::optional<std::variant<int64_t, double, std::string>>;

// The names of run_glue.py's metrics (core/report).
constexpr const char* kMetrics[] = {
    "accuracy",  "f1",        "f1_macro", "f1_micro", "matthews_correlation",
    "pearson",   "spearmanr", "mse",      "mae",      "combined_score",
    "perplexity"};
constexpr char kMetricPrefix[] = "metrics.";

SortValue Finite(bool has, double value) {
  return has && std::isfinite(value) ? SortValue(value) : std::nullopt;
}

SortValue MetricOf(const v1::Job& job, const std::string& metric) {
  if (metric == kTrainLoss) {
    return Finite(job.has_train_loss(), job.train_loss());
  }
  const auto found = job.metrics().find(metric);
  return found == job.metrics().end() ? std::nullopt
                                      : Finite(true, found->second);
}

SortValue ValueOf(const v1::Job& job, const SortKey& key) {
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
  const SortValue left = ValueOf(a, key), right = ValueOf(b, key);
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
  std::vector<std::string> names = ValueNames(*v1::JobOrder_descriptor());
  for (std::string& name : names) absl::AsciiStrToLower(&name);
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

namespace {

// Whether `a` comes before `b`; without keys, whether it was created later.
bool ComesBefore(const v1::Job& a, const v1::Job& b,
                 absl::Span<const SortKey> keys) {
  if (keys.empty()) return Compare(a, b, SortKey()) < 0;
  for (const SortKey& key : keys) {
    const int order = Compare(a, b, key);
    if (order != 0) return order < 0;
  }
  return false;
}

}  // namespace

void SortBy(absl::Span<const SortKey> keys, std::vector<v1::Job>& jobs) {
  std::stable_sort(jobs.begin(), jobs.end(),
                   [keys](const v1::Job& a, const v1::Job& b) {
                     return ComesBefore(a, b, keys);
                   });
}

namespace {

v1::JobState StateOf(const std::string& name) {
  v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
  v1::JobState_Parse(absl::StrCat("JOB_STATE_", absl::AsciiStrToUpper(name)),
                     &state);
  return state;
}

}  // namespace

void AddJobFilter(Command* verb, JobFilter* filter) {
  verb->add_list("--state", filter->states, "Only this state; repeatable")
      ->check(IsMember(ValueNames(*v1::JobState_descriptor()),
                       /*ignore_case=*/true));
  verb->add_option("--owner NAME", filter->owner, "Only this owner's");
  verb->add_list("--label NAME=VALUE", filter->job_labels,
                 "Only with this label; repeatable, all must match");
  verb->add_list("--tag WORD", filter->tags,
                 "Only with this tag; repeatable, all must match");
  verb->add_option("--text TEXT", filter->text,
                   "Only with this text in id, name, owner, model, message,\n"
                   "labels or notes, ignoring case");
  verb->add_option("--model MODEL", filter->model, "Only of this model");
  verb->add_option("--since WHEN", filter->since,
                   "Submitted since: 2w, 7d, 12h or 30m ago, or a date");
  verb->add_option("--until WHEN", filter->until, "Submitted before");
  verb->add_option("--ended-since WHEN", filter->ended_since, "Ended since");
  verb->add_option("--ended-until WHEN", filter->ended_until, "Ended before");
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
  RETURN_IF_ERROR(AddJobLabels(filter.job_labels, request.mutable_labels()));
  using List = v1::ListJobsRequest;
  RETURN_IF_ERROR(SetWhen("--since", filter.since, terminal, request,
                          &List::mutable_create_time_from));
  RETURN_IF_ERROR(SetWhen("--until", filter.until, terminal, request,
                          &List::mutable_create_time_to));
  RETURN_IF_ERROR(SetWhen("--ended-since", filter.ended_since, terminal,
                          request, &List::mutable_end_time_from));
  return SetWhen("--ended-until", filter.ended_until, terminal, request,
                 &List::mutable_end_time_to);
}

namespace {

// --- List --------------------------------------------------------------------

constexpr char kTableColumns[] = "id,state,step,loss,eval_loss,owner,age,name";
constexpr char kCsvColumns[] =
    "id,name,state,owner,priority,model,create_time,start_time,end_time,step,"
    "loss,eval_loss,device_seconds,stored_bytes";

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
  bool mine = false;

  // The jobs to show, from `first` on.
  int64_t first() const { return all ? 0 : (page - 1) * limit; }
  int64_t end() const {
    return all ? std::numeric_limits<int64_t>::max() : page * limit;
  }
};

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
          sorts_here_ ? kMostListed
                      : std::min<int64_t>(kMostListed, most_ - fetched_)));
      v1::ListJobsResponse response;
      status_ = daemon_.Call(&JobStub::List, request_, &response);
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
        table_(
            OfEach([](const ListColumn& column) { return column.heading(); })) {
    if (options_.csv && !options_.quiet) {
      console_.out << CsvLine(OfEach(
          [](const ListColumn& column) -> Json { return column.name(); }));
    }
  }

  void Print(const v1::Job& job) {
    ++printed_;
    const absl::Time now = console_.terminal.clock->Now();
    if (options_.quiet) {
      console_.out << job.id() << '\n';
    } else if (options_.csv) {
      console_.out << CsvLine(
          OfEach([row = ListRow(job, now)](const ListColumn& column) {
            return column.Value(row);
          }));
    } else if (console_.json && options_.columns.empty()) {
      console_.PrintJson(JobJson(job));
    } else if (console_.json) {
      PrintObject(ListRow(job, now));
    } else {
      const ListRow row(job, now);
      table_.Add(OfEach([&](const ListColumn& column) {
        return column.name() == "id" ? ShortJobId(job.id())
                                     : column.Cell(row, console_.terminal.zone);
      }));
    }
  }

  void Finish(const v1::ListJobsRequest& request, bool more) {
    if (options_.quiet || options_.csv || console_.json) return;
    if (printed_ == 0) return PrintNone(request);
    console_.Print(table_);
    if (more && console_.terminal.is_tty) {
      console_.err << "There are more: --page " << options_.page + 1
                   << ", --limit or --all.\n";
    }
  }

 private:
  // The values of `get` for each column.
  template <typename Get>
  std::vector<std::invoke_result_t<Get, const ListColumn&>> OfEach(
      const Get& get) const {
    std::vector<std::invoke_result_t<Get, const ListColumn&>> values;
    for (const ListColumn& column : columns_) values.push_back(get(column));
    return values;
  }

  void PrintObject(const ListRow& row) {
    nlohmann::ordered_json object;
    for (const ListColumn& column : columns_) {
      object[column.name()] = column.Value(row);
    }
    console_.PrintJson(object);
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
    v1::ListJobsResponse response;
    const grpc::Status status =
        console.daemon.Call(&JobStub::List, request, &response);
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

ExitCode ShowJobs(const ListOptions& options,
                  const v1::ListJobsRequest& request,
                  const std::vector<SortKey>& keys,
                  std::vector<ListColumn> columns, const Console& console) {
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
    return console.BadInput(status);
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
  absl::StatusOr<v1::ListJobsRequest> request =
      Request(options, *keys, console.terminal);
  if (!request.ok()) return fail(request.status());
  if (options.mine) {
    ExitCode code = ExitCode::kOk;
    const auto user = CallerName(console, &code);
    if (!user) return code;
    request->set_owner(*user);
  }
  if (options.count) return CountJobs(*request, options.past, console);
  return ShowJobs(options, *request, *keys, *std::move(columns), console);
}

void AddShape(Command* verb, ListOptions* options) {
  verb->add_option("--sort KEYS", options->sort,
                   "Sort by these, comma-separated; in reverse with -\n"
                   "before one: -eval_loss,name. By a metric (accuracy,\n"
                   "metrics.NAME) the best come first");
  verb->add_option("--columns NAMES", options->columns,
                   "Show these, comma-separated: the fields of\n"
                   "--json, labels.NAME, metrics.NAME, step, loss, age …");
  Option* limit =
      verb->add_option("-n,--limit N", options->limit, "At most this many")
          ->check(Range(1, 1000000))
          ->capture_default_str();
  Option* page = verb->add_option("--page N", options->page,
                                  "Which page, of --limit jobs each")
                     ->check(Range(1, 1000000));
  verb->add_flag("--all", options->all, "All of them")
      ->excludes(limit)
      ->excludes(page);
  verb->add_flag("--count", options->count, "Only how many there are");
  verb->add_flag("--csv", options->csv, "Print comma-separated values");
  verb->add_flag("--past", options->past, "Deleted jobs, too");
  verb->add_flag("-q,--quiet", options->quiet, "Only the ids");
}

void DeclareList(Command& verb, ListOptions& options) {
  AddJobFilter(&verb, &options.filter);
  verb.add_flag("--mine", options.mine, "Only your own")
      ->excludes(verb.get_option("--owner"));
  AddShape(&verb, &options);
}

// --- Show --------------------------------------------------------------------

constexpr int kLabelColumns = 24;  // a longer label is cut

std::map<std::string, double> ByName(const MetricMap& metrics) {
  return {metrics.begin(), metrics.end()};
}

struct Matrix {
  std::vector<std::string> labels;
  std::vector<std::vector<int64_t>> counts;
};

std::optional<Matrix> ParseMatrix(const std::string& text) {
  const auto json = base::ParseTree<nlohmann::json>(text);
  Matrix matrix;
  try {
    matrix.labels = json.at("labels").get<std::vector<std::string>>();
    json.at("matrix").get_to(matrix.counts);
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  bool square =
      !matrix.labels.empty() && matrix.counts.size() == matrix.labels.size();
  for (const auto& row : matrix.counts) {
    square = square && row.size() == matrix.labels.size();
  }
  if (!square) return std::nullopt;
  return matrix;
}

}  // namespace

std::string MetricsText(const MetricMap& metrics) {
  std::string text;
  for (const auto& [name, value] : ByName(metrics)) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", Printable(name), " ",
                    Loss(value));
  }
  return text;
}

void PrintMetrics(const v1::Job& job, std::ostream& out) {
  if (job.metrics().empty()) return;
  const bool final = job.state() == v1::JOB_STATE_SUCCEEDED;
  const v1::Evaluated& best = job.best_evaluation();
  const bool with_best = !best.metrics().empty();
  std::vector<std::string> header = {"metric", final ? "final" : "latest"};
  if (with_best) header.push_back(absl::StrCat("best, at step ", best.step()));
  Table table(header);
  for (const auto& [name, value] : ByName(job.metrics())) {
    const auto found = best.metrics().find(name);
    std::vector<std::string> row = {
        name, Loss(value),
        found == best.metrics().end() ? "-" : Loss(found->second)};
    row.resize(header.size());
    table.Add(std::move(row));
  }
  table.PrintNumbers(out);
}

void PrintConfusionMatrix(const std::string& json, std::ostream& out) {
  const std::optional<Matrix> matrix = ParseMatrix(json);
  if (!matrix) return;
  std::vector<std::string> header = {"true \\ predicted"};
  for (const std::string& label : matrix->labels) {
    header.push_back(Cut(Printable(label), kLabelColumns));
  }
  Table table(header);
  for (size_t i = 0; i < matrix->labels.size(); ++i) {
    std::vector<std::string> row = {header[i + 1]};
    for (int64_t count : matrix->counts[i]) row.push_back(absl::StrCat(count));
    table.Add(std::move(row));
  }
  table.PrintNumbers(out);
}

namespace {

constexpr const char* kSections[] = {"environment", "shape",    "memory",
                                     "fallbacks",   "data",     "conditions",
                                     "pauses",      "durations"};
constexpr const char* kResults[] = {
    "state",     "exit_reason", "verdict",
    "steps",     "train_loss",  "eval_loss_before",
    "eval_loss", "metrics",     "best_evaluation"};

// "user active" for user_active_seconds, whose value says the unit.
std::string Title(const std::string& field) {
  std::string title = field;
  for (const char* unit : {"_bytes", "_seconds", "_ratio"}) {
    if (absl::EndsWith(title, unit)) title.resize(title.rfind('_'));
  }
  return absl::StrReplaceAll(title, {{"_", " "}});
}

// A row for a value; one per entry of an object or a list of files.
void AddRows(const std::string& name, const std::string& field,
             const Json& value, absl::TimeZone zone, RecordSection& section) {
  const bool files = value.is_array() && !value.empty() && value[0].is_object();
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, one] : value.items()) {
      AddRows(absl::StrCat(name, " ", key), absl::StrCat(field, ".", key), one,
              zone, section);
    }
  } else if (files) {
    for (const Json& file : value) {
      section.rows.emplace_back(
          Printable(absl::StrCat(name, " ", file.value("path", ""))),
          Printable(file.value("sha256", "")));
    }
  } else {
    section.rows.emplace_back(Printable(name),
                              OrDash(Printable(FieldText(field, value, zone))));
  }
}

void PrintAttempts(const Console& console, const v1::JobRecord& record) {
  if (record.attempts_size() < 2) return;
  console.out << '\n';
  Table table({"ATTEMPT", "BEGAN", "STEPS", "DEVICE", "PAUSED", "ENDED AS"});
  int number = record.attempt_count() - record.attempts_size();
  for (const v1::RunAttempt& attempt : record.attempts()) {
    table.Add({absl::StrCat(++number),
               DateTime(attempt.start_time(), console.terminal.zone),
               absl::StrCat(attempt.steps()), OrDash(attempt.device()),
               Seconds(attempt.pauses().seconds()), attempt.exit_reason()});
  }
  console.Print(table);
}

}  // namespace

std::vector<RecordSection> DescribeRecord(const v1::JobRecord& record,
                                          bool results, absl::TimeZone zone) {
  const Json json = ToJson(record);
  std::vector<RecordSection> all;
  for (const char* part : kSections) {
    const Json& object = json[part];
    if (!object.is_object()) continue;
    RecordSection section{absl::AsciiStrToUpper(part), {}};
    for (const auto& [field, value] : object.items()) {
      AddRows(Title(field), field, value, zone, section);
    }
    all.push_back(std::move(section));
  }
  if (!results) return all;
  RecordSection section{"RESULTS", {}};
  for (const char* field : kResults) {
    AddRows(Title(field), field, json[field], zone, section);
  }
  all.push_back(std::move(section));
  return all;
}

namespace {

// The part of a record that `show` prints below the job's own lines.
void PrintRecord(const Console& console, const v1::GetRecordResponse& shown) {
  const v1::JobRecord& record = shown.record();
  for (const RecordSection& section :
       DescribeRecord(record, /*results=*/false, console.terminal.zone)) {
    console.out << '\n';
    Table table({section.title, ""});
    for (const auto& [name, value] : section.rows) {
      // Nothing is known of a job that has not begun.
      if (record.attempt_count() > 0 || value != "-") table.Add({name, value});
    }
    table.Print(console.out, 0);
  }
  PrintAttempts(console, record);
  if (shown.job().past() && !record.findings().empty()) {
    console.out << '\n';
    PrintFindings(record.findings(), console.out);
  }
  if (!record.notes().empty()) console.out << "\nNOTES\n";
  for (const v1::JobNote& note : record.notes()) {
    console.out << DateTime(note.time(), console.terminal.zone) << "  "
                << (note.author().empty() ? "-" : Printable(note.author()))
                << "\n  " << PrintableLines(note.text()) << '\n';
  }
}

// Fetches a job, deleted or not, and its record. If the caller may not read the
// record, the response contains only the job's public part.
grpc::Status FetchRecord(const Console& console, const std::string& id,
                         v1::GetRecordResponse* response) {
  v1::GetRecordRequest request;
  request.set_id(id);
  const grpc::Status status =
      console.daemon.Call(&JobStub::GetRecord, request, response);
  if (status.error_code() != grpc::StatusCode::NOT_FOUND) return status;
  return GetJob(console, id, response->mutable_job());
}

// Prints "  name          value"; nothing for an empty value.
void Field(std::ostream& out, const char* name, const std::string& value) {
  if (value.empty()) return;
  out << "  " << std::left << std::setw(14) << name << PrintableLines(value)
      << '\n';
}

// The lines of `show`: titles, and texts in which {FIELD} stands for a field of
// Shown. Of a text's parts, which '|' separates, those whose field is absent, 0
// or false are left out; a field that is true is the text around it.
constexpr std::pair<const char*, const char*> kLines[] = {
    {"name", "{name}"},
    {"kind", "{kind}"},
    {"model", "{model}"},
    {"data",
     "{dataset.train}|{record.data.rows} rows|SHA-256 {sha256}|evaluated on "
     "{dataset.eval}|a share of {dataset.validation_split} held out"},
    {"task", "{task}"},
    {"method",
     "{fine_tune_type}|rank {lora.r}|alpha {lora.lora_alpha}|base in 4 bits"
     "{quantization_config.load_in_4bit}|base in 8 bits"
     "{quantization_config.load_in_8bit}|{preference.trainer}|"
     "{preference.loss_type} loss|beta {preference.beta}"},
    {"learning rate", "{training.learning_rate}|{training.lr_scheduler_type}"},
    {"batch",
     "{training.per_device_train_batch_size} rows|gradient accumulation "
     "{training.gradient_accumulation_steps}"},
    {"length", "{epochs} epochs|{steps} steps|at most {tokens} tokens"},
    {"dtype", "{dtype}"},
    {"seed", "{training.seed}"},
    {"owner", "{owner}"},
    {"labels", "{labels}"},
    {"tags", "{tags}"},
    {"priority", "{priority}"},
    {"state", "{state}"},
    {"step", "{step}|epoch {progress.epoch}|ETA {eta}"},
    {"loss",
     "{progress.loss}|grad norm {progress.grad_norm}|learning rate "
     "{progress.learning_rate}"},
    {"speed",
     "{progress.step_seconds} a step|{progress.tokens_per_second} tok/s|device "
     "{progress.device_utilization_ratio} busy"},
    {"memory", "{memory}"},
    {"on the CPU", "{fallbacks}"},
    {"train loss", "{train_loss} mean"},
    {"eval loss", "{eval_loss_before} before|{eval_loss_after} latest"},
    {"created", "{create_time}"},
    {"started", "{start_time}|attempt {attempt}"},
    {"ended", "{end_time}"},
    {"took", "{took}|{device_seconds} on the device"},
    {"last exit",
     "{exit_reason}|{failures} failures in a row|{interruptions} interruptions "
     "in a row"},
};

// A text of kLines with the values of `json`.
std::string Filled(absl::string_view text, const Json& json,
                   absl::TimeZone zone) {
  std::vector<std::string> parts;
  for (absl::string_view part : absl::StrSplit(text, '|')) {
    const size_t begin = part.find('{'), end = part.find('}');
    const std::string field(part.substr(begin + 1, end - begin - 1));
    const Json value = ValueAt(json, field);
    const bool counts =
        absl::StrContains(field, "loss") || absl::EndsWith(field, "seed");
    if (value == false || (value == 0 && !counts)) continue;
    const std::string shown = FieldText(field, value, zone);
    if (shown.empty()) continue;
    parts.push_back(absl::StrCat(part.substr(0, begin),
                                 value == true ? "" : shown,
                                 part.substr(end + 1)));
  }
  return absl::StrJoin(parts, ", ");
}

// The spec as it was submitted, with every default.
std::string SpecOf(const v1::GetRecordResponse& shown) {
  const std::string& submitted = shown.record().spec_json();
  return WithDefaults(submitted.empty() ? shown.job().spec_json() : submitted);
}

// The job and its spec as --json has them, its record, and what follows from
// these.
Json Shown(const v1::GetRecordResponse& response, const Console& console) {
  const v1::Job& job = response.job();
  const v1::Progress& p = job.progress();
  Json json = base::ParseTree<Json>(SpecOf(response));
  if (!json.is_object()) json = Json::object();
  Json of_job = JobJson(job);
  if (job.model().empty()) of_job.erase("model");
  json.update(of_job);
  json["record"] = ToJson(response.record());
  json["sha256"] = response.record().data().train_sha256().substr(0, 12);
  if (ValueAt(json, "fine_tune_type") != "lora") json["lora"] = nullptr;
  if (ValueAt(json, "preference.trainer") == "sft")
    json["preference"] = nullptr;
  if (ValueAt(json, "task") != "IMAGE_CLS") {
    json["tokens"] = ValueAt(json, "record.shape.max_length");
    if (json["tokens"].is_null()) {
      json["tokens"] = ValueAt(json, "training.max_length");
    }
  }
  const Json steps = ValueAt(json, "training.max_steps");
  const bool bounded = steps.is_number() && steps > 0;
  json[bounded ? "steps" : "epochs"] =
      bounded ? steps : ValueAt(json, "training.num_train_epochs");
  const Json bf16 = ValueAt(json, "training.bf16");
  if (bf16.is_boolean()) json["dtype"] = bf16 == true ? "bf16" : "fp32";
  json["kind"] = IsStudy(job.kind()) ? KindName(job.kind()) : "";
  json["state"] = StatusText(job, console.terminal.clock->Now(),
                             console.terminal.zone, RunningEta(console, job));
  json["took"] = TookText(job);
  json["memory"] = MemoryText(p.memory());
  json["fallbacks"] = FallbackText(p);
  if (job.has_progress()) {
    json["step"] =
        absl::StrFormat("%d/%d (%d%%)", p.step(), p.total_steps(),
                        100 * p.step() / std::max<int64_t>(p.total_steps(), 1));
  }
  if (job.state() == v1::JOB_STATE_RUNNING && job.has_progress()) {
    json["eta"] = Seconds(p.eta_seconds());
  }
  return json;
}

std::string HowToFetch(const v1::Job& job) {
  std::string text =
      absl::StrCat("Fetch the ", OutputName(job), " with `mpsctl download ",
                   job.id(), " --output DIR`");
  const auto spec = spec::ParseTrainSpec(job.spec_json(), "job.json");
  if (spec.ok() && !spec->dataset.predict.empty()) {
    absl::StrAppend(&text, ", its predictions with `mpsctl download ", job.id(),
                    " --predictions --output DIR`");
  }
  return text + ".";
}

}  // namespace

std::string OutputName(const v1::Job& job) {
  if (IsStudy(job.kind())) return "result";
  return job.output_kind() == v1::OUTPUT_KIND_MODEL ? "model" : "adapter";
}

std::string NextStep(const v1::Job& job) {
  if (job.past()) return "It was deleted: this is its record.";
  switch (job.state()) {
    case v1::JOB_STATE_SUCCEEDED:
      return IsStudy(job.kind())
                 ? absl::StrCat("See what it found with `mpsctl show ",
                                job.id(), "`.")
                 : HowToFetch(job);
    case v1::JOB_STATE_FAILED:
      return absl::StrCat("Read its log with `mpsctl logs ", job.id(), "`. ",
                          AdviceAfterFailure(job));
    case v1::JOB_STATE_CANCELLED:
      return absl::StrCat("`mpsctl retry ", job.id(), "` ", ResumeText(job),
                          ".");
    default:
      return absl::StrCat("Follow it with `mpsctl watch ", job.id(), "`.");
  }
}

namespace {

std::vector<spec::Prompt> SamplePromptsOf(const v1::Job& job) {
  const auto spec = spec::ParseTrainSpec(job.spec_json(), "job.json");
  return spec.ok() ? spec->training.sample_prompts
                   : std::vector<spec::Prompt>();
}

// What the model said first and last.
std::vector<v1::Sampled> SamplesOf(const v1::Job& job, const Console& console) {
  std::vector<v1::Sampled> samples;
  if (job.past() || SamplePromptsOf(job).empty()) return samples;
  bool interrupted = false;
  const auto take = [&](const v1::JobEvent& event) {
    if (!event.has_sampled()) return;
    if (event.sampled().step() == 0) samples.clear();  // a run started over
    samples.resize(std::min<size_t>(samples.size(), 1));
    samples.push_back(event.sampled());
  };
  const grpc::Status read = ReadEvents(console, job, take, &interrupted);
  if (!read.ok()) {
    console.err << "mpsctl: the job's samples cannot be read: "
                << Printable(read.error_message()) << '\n';
  }
  return samples;
}

void PrintSamples(const v1::Job& job, const Console& console) {
  const std::vector<spec::Prompt> prompts = SamplePromptsOf(job);
  for (const v1::Sampled& sampled : SamplesOf(job, console)) {
    console.out << (sampled.step() == 0
                        ? "BEFORE TRAINING"
                        : absl::StrCat("AT STEP ", sampled.step()))
                << '\n';
    for (size_t i = 0; i < prompts.size(); ++i) {
      if (i >= static_cast<size_t>(sampled.completions_size())) break;
      Field(console.out, "prompt", spec::ShownText(prompts[i]));
      Field(console.out, "answer", sampled.completions(static_cast<int>(i)));
    }
  }
}

void PrintJob(const v1::GetRecordResponse& shown, const Console& console) {
  const v1::Job& job = shown.job();
  std::ostream& out = console.out;
  out << "Job " << job.id() << '\n';
  const Json json = Shown(shown, console);
  for (const auto& [title, text] : kLines) {
    Field(out, title, Printable(Filled(text, json, console.terminal.zone)));
  }
  Field(out, "message", job.message());
  for (const std::string& warning : job.warnings()) {
    Field(out, "warning", Printable(warning));
  }
  Field(out, "output", job.output_path());
  PrintMetrics(job, out);
  PrintConfusionMatrix(job.confusion_matrix_json(), out);
  PrintSamples(job, console);
}

// Shows the job with its study's result, if any, and its record.
void PrintShown(const v1::GetRecordResponse& shown, const Console& console) {
  const v1::Job& job = shown.job();
  const bool has_result = IsStudy(job.kind()) && !job.past() &&
                          job.state() == v1::JOB_STATE_SUCCEEDED;
  v1::StudyResult result;
  grpc::Status found;
  if (has_result) found = GetStudyResult(console, job.id(), &result);
  if (console.json) {
    Json json = JobJson(job);
    if (shown.has_record()) json["record"] = ToJson(shown.record());
    for (const v1::Sampled& sampled : SamplesOf(job, console)) {
      json["samples"].push_back(ToJson(sampled));
    }
    if (has_result && found.ok()) json["result"] = ToJson(result);
    console.PrintJson(json);
  } else {
    PrintJob(shown, console);
    if (has_result && found.ok()) ShowStudy(console, result, PrintAnyStudy);
    if (!has_result) console.out << NextStep(job) << '\n';
    if (shown.has_record()) PrintRecord(console, shown);
  }
  if (found.ok()) return;
  console.err << "mpsctl: the study's result cannot be read: "
              << Printable(found.error_message()) << '\n';
}

struct ShowOptions {
  std::string id;
  bool spec = false;
};

ExitCode Show(const ShowOptions& options, const Console& console) {
  ExitCode code;
  auto id = ResolveJobId(console, options.id, &code, PastJobs::kToo);
  if (!id) return code;
  v1::GetRecordResponse shown;
  const grpc::Status status = FetchRecord(console, *id, &shown);
  if (!status.ok()) return console.Fail(status);
  if (options.spec) {
    std::string spec = SpecOf(shown);
    const Json json = base::ParseTree<Json>(spec);
    if (!json.is_discarded()) spec = json.dump(2);
    console.out << (console.terminal.is_tty
                        ? base::Printable(spec, base::Breaks::kKeep)
                        : spec)
                << '\n';
  } else {
    PrintShown(shown, console);
  }
  return ExitCode::kOk;
}

void DeclareShow(Command& verb, ShowOptions& options) {
  verb.add_argument(kJobIdName, options.id, "The job");
  verb.add_flag("--spec", options.spec,
                "Only its job.json, indented, with every default");
}

// --- Queue -------------------------------------------------------------------

using Entry = v1::QueueResponse::Entry;

// Why all of several waiting jobs have their places; "" if they differ.
std::string CommonWhy(const v1::QueueResponse& queue) {
  int waiting = 0;
  std::string common;
  for (const Entry& entry : queue.entries()) {
    if (entry.state() == v1::JOB_STATE_RUNNING) continue;
    if (waiting++ == 0) common = entry.why();
    if (entry.why() != common) return "";
  }
  return waiting > 1 ? common : "";
}

// `common`: what is said of all waiting jobs.
std::string Why(const Entry& entry, const std::string& common,
                const v1::Pause& pause, const Console& console) {
  std::vector<std::string> why;
  const bool pauses = entry.state() == v1::JOB_STATE_RUNNING && pause.held();
  // First what keeps it from its turn: a narrow terminal cuts the rest.
  if (!entry.hold().empty()) why.push_back("held: " + entry.hold());
  if (entry.has_not_before()) {
    why.push_back("not before " +
                  DateTime(entry.not_before(), console.terminal.zone));
  }
  if (pauses) {
    why.push_back(PauseReasonText(pause));
  } else if (entry.why() != common) {
    why.push_back(entry.why());
  }
  return Printable(absl::StrJoin(why, "; "));
}

void PrintPlaces(const v1::QueueResponse& queue, const Console& console) {
  Table table({"PLACE", "ID", "OWNER", "PRIORITY", "WAITS", "NAME", "WHY"});
  const std::string common = CommonWhy(queue);
  const bool pauses = !queue.pause().reasons().empty();
  int place = 0;
  for (const Entry& entry : queue.entries()) {
    const bool runs = entry.state() == v1::JOB_STATE_RUNNING;
    const absl::Duration waits =
        console.terminal.clock->Now() - ToTime(entry.queue_time());
    table.Add(
        {!runs                  ? absl::StrCat(++place)
         : queue.pause().held() ? "PAUSED"
                                : "runs",
         ShortJobId(entry.id()), OrDash(entry.owner()),
         absl::StrCat(entry.priority()),
         runs ? "-" : Seconds(std::max(0.0, absl::ToDoubleSeconds(waits))),
         Printable(entry.name()), Why(entry, common, queue.pause(), console)});
  }
  console.Print(table);
  if (queue.more() > 0) {
    console.out << "and " << Count(queue.more()) << " more\n";
  }
  if (!common.empty()) {
    console.out << "All that wait: " << Printable(common) << '\n';
  }
  if (pauses && queue.entries(0).state() != v1::JOB_STATE_RUNNING) {
    console.out << "Paused: " << PauseReasonText(queue.pause()) << '\n';
  }
}

void PrintUsage(const v1::QueueResponse& queue, const Console& console) {
  if (queue.usage().empty()) return;
  console.out << "\nThese owners' recent use of the device; it halves every "
              << Seconds(queue.half_life_seconds()) << ":\n";
  Table table({"OWNER", "USED"});
  for (const auto& usage : queue.usage()) {
    table.Add({OrDash(usage.owner()), Seconds(usage.seconds())});
  }
  table.Print(console.out, 0);
}

ExitCode Queue(const Console& console) {
  return console.Ask(&JobStub::Queue, {}, [&](const v1::QueueResponse& queue) {
    if (queue.entries().empty()) {
      console.out << "No job runs or waits.\n";
      return;
    }
    PrintPlaces(queue, console);
    PrintUsage(queue, console);
  });
}

// --- Diff --------------------------------------------------------------------

using Sides = std::array<v1::GetRecordResponse, 2>;
using Pair = std::array<std::string, 2>;

constexpr char kSpecTitle[] = "SPEC", kResultsTitle[] = "RESULTS";

// What two jobs have under one name, in order of first use.
struct Part {
  std::string title;
  std::vector<std::pair<std::string, Pair>> rows;
};

// All results; of everything else only the differences.
std::vector<Part> Compare(const Sides& sides, absl::TimeZone zone) {
  std::vector<Part> parts = {{kSpecTitle, {}}};
  for (const FieldChange& change :
       CompareSpecs(SpecOf(sides[0]), SpecOf(sides[1]))) {
    parts[0].rows.push_back({change.field, {change.a, change.b}});
  }
  std::map<std::string, size_t> part_of;
  std::map<std::pair<std::string, std::string>, size_t> row_of;
  for (size_t side = 0; side < 2; ++side) {
    for (const RecordSection& section :
         DescribeRecord(sides[side].record(), /*results=*/true, zone)) {
      const auto [part, is_new] = part_of.emplace(section.title, parts.size());
      if (is_new) parts.push_back({section.title, {}});
      auto& rows = parts[part->second].rows;
      for (const auto& [name, value] : section.rows) {
        const auto [at, added] =
            row_of.emplace(std::pair(section.title, name), rows.size());
        if (added) rows.push_back({name, {"-", "-"}});
        rows[at->second].second[side] = value;
      }
    }
  }
  for (Part& part : parts) {
    if (part.title == kResultsTitle) continue;
    std::erase_if(part.rows, [](const auto& row) {
      return row.second[0] == row.second[1];
    });
  }
  return parts;
}

void Print(const Console& console, const Sides& sides,
           const std::vector<Part>& parts) {
  if (parts[0].rows.empty()) console.out << "The specs are the same.\n";
  bool first = !parts[0].rows.empty();
  for (const Part& part : parts) {
    if (part.rows.empty()) continue;
    if (!first) console.out << '\n';
    first = false;
    Table table({part.title, sides[0].job().id(), sides[1].job().id()});
    for (const auto& [name, pair] : part.rows) {
      table.Add({name, OrDash(pair[0]), OrDash(pair[1])});
    }
    console.Print(table);
  }
}

// As JSON if the text is JSON.
Json ValueOf(const std::string& text) {
  if (text.empty() || text == "-") return nullptr;
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? Json(text) : value;
}

// {"a": ID, "b": ID, "spec": {FIELD: [A, B] …}, "environment": …
//  "jobs": [JOB, JOB], "records": [RECORD, RECORD]}
Json DiffJson(const Sides& sides, const std::vector<Part>& parts) {
  Json json = {{"a", sides[0].job().id()}, {"b", sides[1].job().id()}};
  for (const Part& part : parts) {
    Json& rows = json[absl::AsciiStrToLower(part.title)] = Json::object();
    for (const auto& [field, pair] : part.rows) {
      rows[field] = {ValueOf(pair[0]), ValueOf(pair[1])};
    }
  }
  json["jobs"] = {JobJson(sides[0].job()), JobJson(sides[1].job())};
  json["records"] = {ToJson(sides[0].record()), ToJson(sides[1].record())};
  return json;
}

ExitCode Diff(const std::vector<std::string>& texts, const Console& console) {
  ExitCode code = ExitCode::kOk;
  Sides sides;
  for (size_t i = 0; i < 2; ++i) {
    const auto id = ResolveJobId(console, texts[i], &code, PastJobs::kToo);
    if (!id) return code;
    const grpc::Status status = FetchRecord(console, *id, &sides[i]);
    if (!status.ok()) return console.Fail(status);
  }
  const std::vector<Part> parts = Compare(sides, console.terminal.zone);
  if (console.json) {
    console.PrintJson(DiffJson(sides, parts));
  } else {
    Print(console, sides, parts);
  }
  return ExitCode::kOk;
}

void DeclareDiff(Command& verb, std::vector<std::string>& ids) {
  verb.add_argument(kJobIdName, ids, "The two jobs")->expected(2);
}

}  // namespace

std::vector<Verb> ShowVerbs() {
  return {
      {"list", "Show jobs, newest first", Takes(DeclareList, List),
       "mpsctl list --mine -n 10\n"
       "mpsctl list --label sweep=ranks --sort eval_loss\n"
       "mpsctl list --columns id,state,metrics.f1,name"},
      {"show", "Show one job in full, with the record of its run",
       Takes(DeclareShow, Show), "mpsctl show @last"},
      {"queue", "Show in which order the jobs will run, and why",
       TakesNothing(Queue), "mpsctl queue"},
      {"diff", "Compare two jobs: specs, environments, results",
       Takes(DeclareDiff, Diff), "mpsctl diff moods @last"},
  };
}

}  // namespace mpsd::client
