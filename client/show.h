// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/map.h>
#include <grpcpp/support/status.h>

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "client/command_line.h"
#include "client/console.h"
#include "mpsd/v1/jobs.pb.h"

// Jobs and their records as `list`, `queue`, `show` and `diff` print them.

namespace mpsd::client {

// A job for a row.
struct ListRow {
  ListRow(const v1::Job& job, absl::Time now);

  const v1::Job& job;
  nlohmann::ordered_json json;  // as --json has it
  absl::Time now;
};

// A column of `mpsctl list`: a field of a job as `--json` names it, those of a
// message, of labels or of metrics after a point ("progress.loss",
// "labels.team", "metrics.f1"), or one of the short names "step", "loss",
// "eval_loss" and "age".
class ListColumn {
 public:
  // InvalidArgument, naming the text and the columns, for no column.
  static absl::StatusOr<ListColumn> Parse(const std::string& name);
  // All names except those of labels and metrics, which are arbitrary.
  static std::vector<std::string> Names();

  const std::string& name() const { return name_; }
  std::string heading() const;  // of a table
  // Human-readable; "-" for a job without a value.
  std::string Cell(const ListRow& row, absl::TimeZone zone) const;
  // Machine-readable; null for a job without a value.
  nlohmann::ordered_json Value(const ListRow& row) const;

 private:
  explicit ListColumn(std::string name) : name_(std::move(name)) {}

  std::string name_;
};

// The columns of comma-separated names.
absl::StatusOr<std::vector<ListColumn>> ParseColumns(const std::string& names);

inline constexpr char kTrainLoss[] = "train_loss";

// One word of `mpsctl list --sort`: "name" for A first, "-name" for Z first;
// "accuracy" for the best first, "-accuracy" for the worst.
struct SortKey {
  v1::JobOrder order = v1::JOB_ORDER_CREATE_TIME;
  bool ascending = false;
  // A metric of the last evaluation, or kTrainLoss, by which the daemon does
  // not sort; "": by `order`.
  std::string metric = {};

  bool operator==(const SortKey&) const = default;
};

// "create_time", "name", "accuracy" …: the sort keys, besides "metrics." with
// any name.
std::vector<std::string> SortNames();

// The keys of "-eval_loss,name". InvalidArgument, naming the word and the valid
// ones, for an unknown one.
absl::StatusOr<std::vector<SortKey>> ParseSort(const std::string& words);

// Whether the key ranks both jobs equally.
bool AreEqual(const v1::Job& a, const v1::Job& b, const SortKey& key);

// Sorts by the keys, the most significant first; jobs without a value come
// last, and jobs equal in all keys keep their order.
void SortBy(absl::Span<const SortKey> keys, std::vector<v1::Job>& jobs);

// The options by which a verb selects many jobs.
struct JobFilter {
  std::vector<std::string> states;
  std::string owner;
  std::vector<std::string> job_labels;
  std::vector<std::string> tags;
  std::string since, until, ended_since, ended_until;
  std::string text;
  std::string model;
  bool pinned = false;
  bool held = false;

  bool operator==(const JobFilter&) const = default;
};

// `filter` must outlive the parse.
void AddJobFilter(Command* verb, JobFilter* filter);

// Sets the fields that filter in `request`. InvalidArgument names the option.
absl::Status FillFilter(const JobFilter& filter, const Terminal& terminal,
                        v1::ListJobsRequest& request);

std::string OutputName(const v1::Job& job);  // "adapter", "model", "result"

// What to do with the job next, as a sentence with the verb.
std::string NextStep(const v1::Job& job);

using MetricMap = google::protobuf::Map<std::string, double>;

// "accuracy 0.8750, f1 0.8333", by name.
std::string MetricsText(const MetricMap& metrics);

// Prints a header and one line per metric: the latest evaluation, and the best
// one if that is another. Prints nothing for a job without metrics.
void PrintMetrics(const v1::Job& job, std::ostream& out);

// Prints Job.confusion_matrix_json as a table, true labels down and predicted
// labels across. Prints nothing for an empty text or another JSON.
void PrintConfusionMatrix(const std::string& json, std::ostream& out);

// A part of a record in words: names and values, "-" for unknown.
struct RecordSection {
  std::string title;  // "ENVIRONMENT"
  std::vector<std::pair<std::string, std::string>> rows;
};

// The record except notes, tags and the spec. `results`: including how it
// ended, which the job's own lines also show.
std::vector<RecordSection> DescribeRecord(const v1::JobRecord& record,
                                          bool results, absl::TimeZone zone);

}  // namespace mpsd::client
