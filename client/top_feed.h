// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TOP_FEED_H_
#define MPSD_CLIENT_TOP_FEED_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/address.h"
#include "client/top/update.h"
#include "core/base/clock.h"

namespace mpsd::client {

// What the daemon tells `mpsctl top`, fetched by threads of its own: the state
// of the daemon and its running jobs once a second, the list of jobs as often
// as it is cheap, the events and the log that are asked for as they come. A
// connection that breaks is made anew, for as long as the feed lives.
class TopFeed : public top::Source {
 public:
  // The jobs of a list, at most.
  static constexpr size_t kMostJobs = 20'000;
  static constexpr int kMostEndedJobs = 200;
  // The updates that wait for Take, at most; streams wait behind them.
  static constexpr size_t kMostUpdates = 10'000;

  // Calls `wake`, on another thread, when Take has something again. `clock`
  // must outlive the feed.
  TopFeed(const Address& address, const base::Clock& clock,
          std::function<void()> wake);
  // Breaks off the calls that are under way.
  ~TopFeed() override;
  TopFeed(const TopFeed&) = delete;
  TopFeed& operator=(const TopFeed&) = delete;

  std::vector<top::Update> Take() override;
  void ShowJob(const std::string& id) override;
  void ShowLog(const std::string& id) override;
  void Cancel(const std::string& id) override;

 private:
  class Shared;
  class Poll;
  class Events;
  class Log;
  class Cancels;

  std::unique_ptr<Shared> shared_;
  std::unique_ptr<Poll> poll_;
  std::unique_ptr<Events> events_;
  std::unique_ptr<Log> log_;
  std::unique_ptr<Cancels> cancels_;
};

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TOP_FEED_H_
