// SPDX-License-Identifier: Apache-2.0
#include "server/store/job_list.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/printable.h"
#include "server/store/job_row.h"

namespace mpsd::store {
namespace {

constexpr size_t kShownFault = 300;  // bytes

// Cuts long texts, and says which columns could not be read.
void Summarise(JobRow& row) {
  if (!row.fault.ok()) {
    const std::string fault = base::Printable(std::string(row.fault.message()));
    row.job.message = absl::StrCat(
        "not all of this job can be read: ",
        base::Shortened(fault, kShownFault),
        row.job.message.empty() ? "" : "; its message: ", row.job.message);
  }
  Shorten(row.job);
}

using Label = std::pair<const std::string, std::string>;

// Counts the jobs with the label, up to a bound, to choose the label to begin
// with.
int64_t CountLabelled(Connection& c, const Label& label)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  constexpr int kEnough = 1000;
  Query query(c,
              "SELECT count(*) FROM (SELECT 1 FROM labels "
              "WHERE key = ? AND value = ? LIMIT ?)",
              label.first, label.second, kEnough);
  query.Next();
  return query.Int();
}

// The labels of a filter, the rarest first.
std::vector<Label> RarestFirst(Connection& c, const jobs::ListFilter& filter)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(c.mutex()) {
  std::vector<std::pair<int64_t, const Label*>> counted;
  counted.reserve(filter.labels.size());
  for (const Label& label : filter.labels) {
    counted.emplace_back(filter.labels.size() > 1 ? CountLabelled(c, label) : 0,
                         &label);
  }
  std::stable_sort(
      counted.begin(), counted.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Label> labels;
  labels.reserve(counted.size());
  for (const auto& [count, label] : counted) labels.push_back(*label);
  return labels;
}

// Sorts by id, for which there is an index; with a label by the order in which
// the jobs came, which is the order of the labels' index.
std::string ListSql(const jobs::ListFilter& filter) {
  std::vector<std::string> where;
  const bool labelled = !filter.labels.empty();
  if (!filter.before_id.empty()) {
    where.push_back(labelled ? "first.job < coalesce("
                               "(SELECT number FROM jobs WHERE id = ?1), "
                               "(SELECT number + 1 FROM jobs WHERE id < ?1 "
                               "ORDER BY id DESC LIMIT 1), 0)"
                             : "id < ?1");
  }
  if (labelled) where.push_back("first.key = ? AND first.value = ?");
  for (size_t i = 1; i < filter.labels.size(); ++i) {
    where.push_back(
        "EXISTS (SELECT 1 FROM labels AS more WHERE more.job = first.job "
        "AND more.key = ? AND more.value = ?)");
  }
  if (!filter.states.empty()) {
    const std::vector<std::string> states(filter.states.size(), "?");
    where.push_back(
        absl::StrCat("state IN (", absl::StrJoin(states, ", "), ")"));
  }
  if (!filter.owner.empty()) where.push_back("owner = ?");
  return absl::StrCat(
      "SELECT ", filter.summaries ? SummaryColumns() : WholeColumns(),
      labelled ? " FROM labels AS first CROSS JOIN jobs ON number = first.job"
               : " FROM jobs",
      where.empty() ? "" : " WHERE ", absl::StrJoin(where, " AND "),
      " ORDER BY ", labelled ? "first.job" : "id", " DESC LIMIT ?");
}

void BindList(Query& query, const jobs::ListFilter& filter,
              const std::vector<Label>& labels) {
  if (!filter.before_id.empty()) query.Bind(filter.before_id);
  for (const auto& [key, value] : labels) {
    query.Bind(key);
    query.Bind(value);
  }
  for (jobs::State state : filter.states) query.Bind(static_cast<int>(state));
  if (!filter.owner.empty()) query.Bind(filter.owner);
  query.Bind(filter.limit);
}

}  // namespace

absl::StatusOr<std::vector<jobs::Job>> ListJobs(
    Connection& c, const jobs::ListFilter& filter) {
  std::vector<jobs::Job> listed;
  const std::vector<Label> labels = RarestFirst(c, filter);
  Query query(c, ListSql(filter));
  BindList(query, filter, labels);
  while (query.Next()) {
    JobRow row = ReadWhatCanBe(query);
    if (!filter.summaries && !row.fault.ok()) return row.fault;
    ReadLabels(c, row);
    if (filter.summaries) Summarise(row);
    listed.push_back(std::move(row.job));
  }
  return listed;
}

}  // namespace mpsd::store
