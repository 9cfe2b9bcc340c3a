// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TOP_JOB_LIST_H_
#define MPSD_CLIENT_TOP_JOB_LIST_H_

#include <cstddef>
#include <string>
#include <vector>

#include "client/top/job_row.h"

namespace mpsd::client::top {

enum class SortKey { kQueue, kAge, kName, kOwner, kProgress, kLoss };

// "queue", "age" …
std::string SortName(SortKey key);

// The jobs as a list on the screen: sorted, filtered, one of them selected. The
// selection stays with its job whatever happens around it.
class JobList {
 public:
  // `more`: there are further jobs, which `rows` leaves out.
  void Replace(std::vector<JobRow> rows, bool more);
  // Takes a newer row of one job; a job that is not in the list is added.
  void Update(const JobRow& row);
  // Takes a newer row of one job, which keeps its place for now; does nothing
  // for a job that is not in the list. For rows that change all the time.
  void Refresh(const JobRow& row);
  // The next order (by -1 the one before).
  void ChangeOrder(int by);
  void Reverse();
  // Shows only jobs that have every word of `filter` in their id, name, owner
  // or state, in either case of letters.
  void SetFilter(const std::string& filter);
  void HideEnded(bool hide);

  SortKey order() const { return order_; }
  bool reversed() const { return reversed_; }
  const std::string& filter() const { return filter_; }
  bool hides_ended() const { return hides_ended_; }
  bool more() const { return more_; }
  size_t total() const { return rows_.size(); }

  // What is shown, in its order. Valid until the next call that changes the
  // list.
  size_t size() const { return shown_.size(); }
  const JobRow& at(size_t index) const { return rows_[shown_[index]]; }
  // Null where no job is shown.
  const JobRow* selected() const;
  // The place of the selected job; 0 where no job is shown.
  size_t selected_index() const { return selected_index_; }
  // Moves the selection, as far as the list goes.
  void Move(int by);
  void Select(const std::string& id);

 private:
  // Sorts and filters anew, and finds the selected job again; if the job is
  // gone, the one in its place is selected.
  void Arrange();
  JobRow* Find(const std::string& id);
  bool Matches(const JobRow& row) const;
  bool Before(const JobRow& a, const JobRow& b) const;

  std::vector<JobRow> rows_;
  std::vector<size_t> shown_;  // indices of rows_
  SortKey order_ = SortKey::kQueue;
  bool reversed_ = false;
  bool hides_ended_ = false;
  bool more_ = false;
  std::string filter_;
  std::vector<std::string> words_;  // the filter's, in lower case
  std::string selected_id_;         // empty: the first job
  size_t selected_index_ = 0;
};

}  // namespace mpsd::client::top

#endif  // MPSD_CLIENT_TOP_JOB_LIST_H_
