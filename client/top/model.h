// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TOP_MODEL_H_
#define MPSD_CLIENT_TOP_MODEL_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/plot/history.h"
#include "client/top/job_list.h"
#include "client/top/log_lines.h"
#include "client/top/screen.h"
#include "client/top/update.h"

namespace mpsd::client::top {

// The job whose curve is drawn.
struct Watched {
  // Enough points for the widest screens.
  static constexpr size_t kMostSteps = 4096;
  static constexpr size_t kLastSteps = 64;

  explicit Watched(std::string job_id) : id(std::move(job_id)) {}

  std::string id;
  bool known = false;  // `job` has come
  v1::Job job;
  History losses{"loss", kMostSteps};
  std::deque<double> step_seconds;  // of the last steps
  std::deque<double> tokens_per_second;
};

// A log that is read.
struct OpenLog {
  explicit OpenLog(std::string job_id) : id(std::move(job_id)) {}

  std::string id;
  LogLines log;
  // Lines of the log below the last one on the screen; 0: new lines are
  // followed.
  size_t below = 0;
  std::string error;  // empty: the log goes on
};

// Everything that `mpsctl top` shows, and what keys and the daemon's answers
// make of it. Draws nothing, waits for nothing, asks nobody.
class Model {
 public:
  enum class Mode { kList, kFilter, kQuestion, kLog, kHelp };

  // What a key asks of others.
  struct Wish {
    // kAnswer: the next key answers a question, which those typed before it
    // do not.
    enum Kind {
      kNone,
      kQuit,
      kInterrupt,
      kSuspend,
      kRedraw,
      kAnswer,
      kCancel,
    };
    Kind kind = kNone;
    std::string id;  // of kCancel
  };

  // `target`: the daemon's address, for people.
  Model(std::string target, absl::Time now);

  void Apply(const Update& update);
  Wish Press(const Key& key);
  // How many lines of the list, or of the log, the screen has: a page.
  void set_page(int lines) { page_ = lines; }

  // The job that a Source should show: the one that was chosen, else the
  // running one, else the one that ran last; empty where there was none.
  std::string shown_id() const;
  // The job whose log a Source should show; empty: none.
  std::string log_id() const { return log_ ? log_->id : ""; }

  Mode mode() const { return mode_; }
  const std::string& target() const { return target_; }
  const std::optional<v1::InfoResponse>& info() const { return info_; }
  // When the daemon answered last, and why it does not now (empty: it does).
  absl::Time answered() const { return answered_; }
  const std::string& lost() const { return lost_; }
  const JobList& list() const { return list_; }
  bool listed() const { return listed_; }
  const Watched* watched() const { return watched_ ? &*watched_ : nullptr; }
  bool pinned() const { return !pinned_.empty(); }
  const OpenLog* log() const { return log_ ? &*log_ : nullptr; }
  const std::string& typed() const { return typed_; }  // of the filter
  const JobRow& asked() const { return asked_; }       // of the question
  // What the daemon said to a cancel; empty once a key was pressed.
  const std::string& message() const { return message_; }
  bool message_is_good() const { return message_is_good_; }

 private:
  void ApplyAnswer(const Answered& answer);
  void ApplyEvent(const ShownEvent& event);
  void Follow();
  Wish PressInList(const Key& key);
  void PressInFilter(const Key& key);
  Wish PressInQuestion(const Key& key);
  void PressInLog(const Key& key);
  bool MoveBy(const Key& key, int* by) const;

  const std::string target_;
  Mode mode_ = Mode::kList;
  int page_ = 10;
  std::optional<v1::InfoResponse> info_;
  absl::Time answered_;
  std::string lost_;
  JobList list_;
  bool listed_ = false;
  std::string pinned_;
  std::string last_running_;
  std::optional<Watched> watched_;
  std::optional<OpenLog> log_;
  std::string typed_;
  JobRow asked_;
  std::string message_;
  bool message_is_good_ = true;
};

}  // namespace mpsd::client::top

#endif  // MPSD_CLIENT_TOP_MODEL_H_
