// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/job_filter.h"
#include "client/list_columns.h"
#include "client/list_order.h"
#include "client/text/csv.h"
#include "client/text/format.h"
#include "client/text/table.h"
#include "client/verbs.h"

namespace mpsd::client {
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
  absl::Status filled = FillFilter(options.filter, terminal, request);
  if (!filled.ok()) return filled;
  if (!keys.empty() && keys[0].metric.empty()) {
    request.set_order(keys[0].order);
    request.set_ascending(keys[0].ascending);
  }
  return request;
}

// --- The answer --------------------------------------------------------------

// Gives jobs one after the other, over as many pages as needed, in the order of
// all keys: the daemon sorts by the first one, and jobs that are equal in it
// are sorted here. It does not sort by metrics: then all jobs are.
class Jobs {
 public:
  // `most`: the jobs that will be asked for.
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
  // Whether Next would give another one, as far as is known without a call.
  bool has_more() const {
    return at_ < ready_.size() || !coming_.empty() || !is_last_;
  }

 private:
  // Makes the next jobs ready: a page, or the jobs of one value.
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

  // Adds a page to coming_. False after the last one.
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

// The jobs and, where `past`, the deleted ones in one order.
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

// Prints jobs one by one. Finish prints what has to wait for the last one.
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

// ",metrics.accuracy": what a table sorted by metrics shows besides.
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
  verb->add_option(
          "--sort", options->sort,
          "Sort by these, with commas between them; from the end\n"
          "with - before one: -eval_loss,name. By a metric (accuracy,\n"
          "metrics.NAME) the best come first")
      ->type_name("KEYS");
  verb->add_option("--columns", options->columns,
                   "Show these, with commas between them: the fields of\n"
                   "--json, labels.NAME, metrics.NAME, step, loss, age …")
      ->type_name("NAMES");
  Option* limit = verb->add_option("--limit", options->limit, "At most so many")
                      ->check(Range(1, 1000000))
                      ->type_name("N")
                      ->capture_default_str();
  Option* page =
      verb->add_option("--page", options->page,
                       "The page of this number, each of --limit jobs")
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
