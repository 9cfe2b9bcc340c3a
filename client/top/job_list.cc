// SPDX-License-Identifier: Apache-2.0
#include "client/top/job_list.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace mpsd::client::top {
namespace {

constexpr const char* kSortNames[] = {"queue", "age",      "name",
                                      "owner", "progress", "loss"};
constexpr int kSortKeys = std::size(kSortNames);

// Running jobs, then the queue, then those that have ended.
int Group(const JobRow& row) {
  if (row.state == v1::JOB_STATE_RUNNING) return 0;
  return row.is_final() ? 2 : 1;
}

// Ids begin with the time of their job, so that a greater one is newer.
bool InQueue(const JobRow& a, const JobRow& b) {
  if (Group(a) != Group(b)) return Group(a) < Group(b);
  if (Group(a) == 1 && a.queue_position != b.queue_position) {
    return a.queue_position < b.queue_position;
  }
  return Group(a) == 2 ? a.id > b.id : a.id < b.id;
}

// A number that is not known comes last.
int Compare(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) - std::isnan(b);
  return a < b ? -1 : a > b;
}

}  // namespace

std::string SortName(SortKey key) { return kSortNames[static_cast<int>(key)]; }

void JobList::Replace(std::vector<JobRow> rows, bool more) {
  rows_ = std::move(rows);
  more_ = more;
  Arrange();
}

JobRow* JobList::Find(const std::string& id) {
  const auto it = std::find_if(rows_.begin(), rows_.end(),
                               [&](const JobRow& row) { return row.id == id; });
  return it == rows_.end() ? nullptr : &*it;
}

void JobList::Update(const JobRow& row) {
  if (JobRow* const there = Find(row.id); there != nullptr) {
    *there = row;
  } else {
    rows_.push_back(row);
  }
  Arrange();
}

void JobList::Refresh(const JobRow& row) {
  if (JobRow* const there = Find(row.id); there != nullptr) *there = row;
}

void JobList::ChangeOrder(int by) {
  order_ = static_cast<SortKey>((static_cast<int>(order_) + by + kSortKeys) %
                                kSortKeys);
  Arrange();
}

void JobList::Reverse() {
  reversed_ = !reversed_;
  Arrange();
}

void JobList::SetFilter(const std::string& filter) {
  filter_ = filter;
  words_ = absl::StrSplit(absl::AsciiStrToLower(filter), ' ',
                          absl::SkipWhitespace());
  Arrange();
}

void JobList::HideEnded(bool hide) {
  hides_ended_ = hide;
  Arrange();
}

const JobRow* JobList::selected() const {
  return shown_.empty() ? nullptr : &at(selected_index_);
}

void JobList::Move(int by) {
  if (shown_.empty()) return;
  const int last = static_cast<int>(shown_.size()) - 1;
  const int to = static_cast<int>(selected_index_) + by;
  selected_index_ = static_cast<size_t>(std::clamp(to, 0, last));
  // At the top the selection stays there, with whatever job comes first.
  selected_id_ = selected_index_ == 0 ? "" : at(selected_index_).id;
}

void JobList::Select(const std::string& id) {
  selected_id_ = id;
  Arrange();
}

bool JobList::Matches(const JobRow& row) const {
  if (hides_ended_ && row.is_final()) return false;
  if (words_.empty()) return true;
  const std::string text = absl::AsciiStrToLower(absl::StrCat(
      row.id, "\n", row.name, "\n", row.owner, "\n", StateText(row)));
  return std::all_of(
      words_.begin(), words_.end(),
      [&](const std::string& word) { return absl::StrContains(text, word); });
}

bool JobList::Before(const JobRow& a, const JobRow& b) const {
  int order = 0;
  switch (order_) {
    case SortKey::kQueue:
      break;
    case SortKey::kAge:
      order = a.created < b.created ? 1 : a.created > b.created ? -1 : 0;
      break;
    case SortKey::kName:
      order = a.name.compare(b.name);
      break;
    case SortKey::kOwner:
      order = a.owner.compare(b.owner);
      break;
    case SortKey::kProgress:
      order = Compare(b.share(), a.share());
      break;
    case SortKey::kLoss:
      order = Compare(a.loss, b.loss);
      break;
  }
  return order == 0 ? InQueue(a, b) : order < 0;
}

void JobList::Arrange() {
  shown_.clear();
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (Matches(rows_[i])) shown_.push_back(i);
  }
  std::sort(shown_.begin(), shown_.end(), [&](size_t a, size_t b) {
    return reversed_ ? Before(rows_[b], rows_[a]) : Before(rows_[a], rows_[b]);
  });
  const auto it = std::find_if(shown_.begin(), shown_.end(), [&](size_t i) {
    return rows_[i].id == selected_id_;
  });
  if (it != shown_.end()) {
    selected_index_ = static_cast<size_t>(it - shown_.begin());
    return;
  }
  if (selected_id_.empty()) selected_index_ = 0;
  const size_t last = shown_.empty() ? 0 : shown_.size() - 1;
  selected_index_ = std::min(selected_index_, last);
  if (!selected_id_.empty() && !shown_.empty() && selected_index_ > 0) {
    selected_id_ = at(selected_index_).id;
  }
}

}  // namespace mpsd::client::top
