// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_NOTIFY_COMMAND_DOOR_H_
#define MPSD_SERVER_NOTIFY_COMMAND_DOOR_H_

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/notify/door.h"

namespace mpsd::notify {

// A program to run once: without a shell, in a process group of its own.
struct CommandCall {
  std::vector<std::string> argv;                   // argv[0]: an absolute path
  std::map<std::string, std::string> environment;  // the whole
  std::string input;       // what its standard input holds
  absl::Duration timeout;  // then the group is killed
};
struct CommandEnd {
  int wait_status = 0;     // as waitpid gives it
  bool timed_out = false;  // or interrupted
  std::string output;      // the beginning of what the program wrote
};
// Runs a program to its end, at most until `timeout`, or until *interrupted
// becomes true. An error where the program could not be started.
using CommandRunner = std::function<absl::StatusOr<CommandEnd>(
    const CommandCall& call, const std::atomic<bool>& interrupted)>;

// Gives a notice to a program: the body on its standard input; event, title and
// text in MPSD_EVENT, MPSD_TITLE and MPSD_TEXT of an environment that has
// little else. Exit status 0 means sent, 75 (EX_TEMPFAIL of sysexits.h) later.
class CommandDoor : public Door {
 public:
  struct Options {
    std::vector<std::string> argv;
    // mpsd's environment, of which the program gets what names its user, its
    // language and its folders.
    std::map<std::string, std::string> environment;
    absl::Duration timeout = absl::Seconds(30);
  };
  CommandDoor(Options options, CommandRunner run)
      : options_(std::move(options)), run_(std::move(run)) {}

  const char* name() const override { return "command"; }
  Delivery Deliver(const Notice& notice) override;
  void Interrupt() override { interrupted_ = true; }

 private:
  virtual std::vector<std::string> ArgvFor(const Notice&) const {
    return options_.argv;
  }

  const Options options_;
  const CommandRunner run_;
  std::atomic<bool> interrupted_ = false;
};

// Shows a notice as a notification of macOS. Texts reach the script as its
// arguments, never as part of the script.
class DesktopDoor final : public CommandDoor {
 public:
  // `argv` of the options is ignored.
  DesktopDoor(Options options, CommandRunner run)
      : CommandDoor(std::move(options), std::move(run)) {}
  const char* name() const override { return "desktop"; }

 private:
  std::vector<std::string> ArgvFor(const Notice& notice) const override;
};

}  // namespace mpsd::notify

#endif  // MPSD_SERVER_NOTIFY_COMMAND_DOOR_H_
