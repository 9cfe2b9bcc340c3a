// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TOP_UPDATE_H_
#define MPSD_CLIENT_TOP_UPDATE_H_

#include <string>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "client/top/job_row.h"
#include "mpsd/v1/daemon.pb.h"
#include "mpsd/v1/jobs.pb.h"

// What the daemon tells `mpsctl top`.
namespace mpsd::client::top {

struct Answered {  // the daemon is there
  v1::InfoResponse info;
  absl::Time time;
  std::vector<v1::Job> running;
};

struct Listed {
  std::vector<JobRow> rows;  // all that have not ended, and the last that have
  bool more = false;         // `rows` leaves some out
};

struct Lost {  // the daemon does not answer; asking goes on
  std::string why;
};

// The job that is shown (Source::ShowJob), as it is when its events begin.
struct ShownJob {
  v1::Job job;
};
struct ShownEvent {
  std::string id;
  v1::JobEvent event;
};
struct NotShown {  // there is no such job any more
  std::string id;
};

struct LogData {
  std::string id;
  std::string data;
};
struct LogEnded {  // by an error: the rest of the log cannot be had
  std::string id;
  std::string why;
};

struct Cancelled {  // the daemon's answer to Source::Cancel
  bool good = false;
  std::string text;
};

using Update = std::variant<Answered, Listed, Lost, ShownJob, ShownEvent,
                            NotShown, LogData, LogEnded, Cancelled>;

// Where the updates come from. The functions return at once.
class Source {
 public:
  virtual ~Source() = default;

  // The updates since the last call.
  virtual std::vector<Update> Take() = 0;
  // From now on sends the events of this job, from the first on, instead of
  // those of the job before; an empty id: of none.
  virtual void ShowJob(const std::string& id) = 0;
  // The same for a job's log, from its beginning on.
  virtual void ShowLog(const std::string& id) = 0;
  virtual void Cancel(const std::string& id) = 0;
};

}  // namespace mpsd::client::top

#endif  // MPSD_CLIENT_TOP_UPDATE_H_
