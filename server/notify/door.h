// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_NOTIFY_DOOR_H_
#define MPSD_SERVER_NOTIFY_DOOR_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "server/notify/notice.h"

namespace mpsd::notify {

// How one try to deliver a notice ended.
struct Delivery {
  enum class Outcome {
    kSent,
    kRefused,  // another try would end the same way
    kLater,    // another try may succeed
  };
  Outcome outcome = Outcome::kSent;
  std::string why = {};  // unless sent; a clause for people, without secrets
  // The least wait before the next try, where the receiver named one.
  std::optional<absl::Duration> wait = std::nullopt;

  static Delivery Sent() { return {}; }
  static Delivery Refused(std::string why) {
    return {Outcome::kRefused, std::move(why)};
  }
  static Delivery Later(std::string why) {
    return {Outcome::kLater, std::move(why)};
  }
};

// One way by which notices reach people.
class Door {
 public:
  virtual ~Door() = default;
  // "webhook", "command" or "desktop": a label of metrics.
  virtual const char* name() const = 0;
  // Blocks for seconds at most. One thread at a time.
  virtual Delivery Deliver(const Notice& notice) = 0;
  // Makes a Deliver under way, and each later one, return at once with kLater.
  // Any thread.
  virtual void Interrupt() = 0;
};

}  // namespace mpsd::notify

#endif  // MPSD_SERVER_NOTIFY_DOOR_H_
