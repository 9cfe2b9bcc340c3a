// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/message.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/connection.h"
#include "client/daemons/trust.h"
#include "client/text/format.h"
#include "core/base/clock.h"
#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client {

// Ctrl-C, for verbs that can end cleanly on it. Thread-safe.
class Interrupt {
 public:
  // While a listener exists, an interrupt calls `wake` (on the raising thread)
  // instead of ending the process. Of several, the newest is woken; they are
  // destroyed in the reverse order of their creation.
  class Listener {
   public:
    // A null `interrupt` never raises.
    Listener(Interrupt* interrupt, std::function<void()> wake);
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    bool raised() const;

   private:
    Interrupt* const interrupt_;
    std::function<void()> outer_;  // the place that this listener took
  };

  // Wakes the listener. False if there is no listener or it was woken before;
  // the caller then ends the process as the signal would have.
  bool Raise();
  bool raised() const;

 private:
  mutable absl::Mutex mutex_;
  std::function<void()> wake_ ABSL_GUARDED_BY(mutex_);
  bool raised_ ABSL_GUARDED_BY(mutex_) = false;
};

enum class Echo {
  kOn,
  kOff,  // for secrets: input is not shown
};

// Asks the user for one line on the terminal `device`, as standard input and
// output may be files. The line excludes its end. Without echo the terminal is
// restored on every way out, including Ctrl-C, SIGTERM and SIGHUP.
// FailedPrecondition if there is no terminal; Cancelled for Ctrl-C without
// echo, and at the end of the input.
absl::StatusOr<std::string> Ask(const std::string& question, Echo echo,
                                const char* device = "/dev/tty");

// The environment of a run of mpsctl, which tests replace.
struct Terminal {
  // Output goes to a screen whose last line can be redrawn
  bool is_tty = false;
  std::function<int()> columns = [] { return 80; };
  absl::TimeZone zone = absl::UTCTimeZone();
  const base::Clock* clock = &base::Clock::Real();
  std::function<void(absl::Duration)> sleep = absl::SleepFor;
  Interrupt* interrupt = nullptr;  // may be null: Ctrl-C ends the process
  std::function<int()> rows = [] { return 24; };
  bool utf8 = true;  // the screen shows more than ASCII
  // Asks the user for a line; the errors are Ask's.
  std::function<absl::StatusOr<std::string>(const std::string& question, Echo)>
      ask = [](const std::string& question, Echo echo) {
        return Ask(question, echo);
      };
};

// Sets *stamp to the time that an option's text means (ParseWhen).
// InvalidArgument names the option.
absl::Status FillWhen(const char* option, const std::string& text,
                      const Terminal& terminal,
                      google::protobuf::Timestamp* stamp);
// Sets a field of `message`, by its mutable_…(), unless `text` is empty.
template <typename Message>
absl::Status SetWhen(const char* option, const std::string& text,
                     const Terminal& terminal, Message& message,
                     google::protobuf::Timestamp* (Message::*stamp)()) {
  if (text.empty()) return absl::OkStatus();
  return FillWhen(option, text, terminal, (message.*stamp)());
}

// Whether a locale's characters are UTF-8, by the values of LC_ALL, LC_CTYPE
// and LANG (null: not set): the first non-empty one decides; without one they
// are ASCII.
bool IsUtf8Locale(const char* lc_all, const char* lc_ctype, const char* lang);

// "step 12/100  loss 1.2345  812 tok/s  ETA 1m20s".
std::string StepText(const v1::Progress& progress);
// The same with a sparkline of `losses` after the loss, if `terminal` has the
// columns for at least four of them next to a short bar.
std::string StepText(const v1::Progress& progress,
                     const std::vector<double>& losses,
                     const Terminal& terminal);

// The exit codes of mpsctl. Scripts rely on the numbers: they never change
// meaning.
enum class ExitCode {
  kOk = 0,
  kJobFailed = 1,     // the watched job FAILED
  kBadInput = 2,      // command line, job.json, data files, output
  kUnreachable = 3,   // no daemon is there, or it was away for too long
  kNotFound = 4,      // no such job, checkpoint, output or predictions
  kJobCancelled = 5,  // the watched job was CANCELLED
  kOther = 6,         // any other error, of the daemon or this machine
  // A daemon is there, but it did not answer in time or could not execute the
  // request now; the request may still have taken effect.
  kTryAgain = 7,
  // The daemon does not know the caller, or the caller may not do this; or the
  // client does not trust the daemon's certificate.
  kNotLetIn = 8,
  // The verdict of a study or a plan (v1::Verdict).
  kVerdictFail = 10,
  kVerdictWarn = 11,
  kDetached = 130,  // Ctrl-C while watching; the job keeps running
};

// The table above, as `mpsctl --help` prints it.
std::string ExitCodeHelp();

// The code of a failed call: UNAVAILABLE is kUnreachable, DEADLINE_EXCEEDED
// kTryAgain, NOT_FOUND kNotFound, UNAUTHENTICATED and PERMISSION_DENIED
// kNotLetIn, and an error that the caller can fix kBadInput.
ExitCode ForStatus(const grpc::Status& status);

// The code of a tunnel that did not open: InvalidArgument, a wrong URL, is
// kBadInput, Internal, an error of this machine, kOther; a refusal has the code
// of a call refused with the same status.
ExitCode ForTunnel(const absl::Status& status);

// The code of a study's verdict; a verdict that is unknown is kOk.
ExitCode ForVerdict(v1::Verdict verdict);

// The code for a job that ended in `state`; kOk for a state that is not final.
ExitCode ForJobState(v1::JobState state);

// Calls run(name) for each name, even after one fails, until Ctrl-C; returns
// the first code that is not kOk.
template <typename Run>
ExitCode ForEach(const std::vector<std::string>& names, const Run& run) {
  ExitCode code = ExitCode::kOk;
  for (const std::string& name : names) {
    const ExitCode one = run(name);
    if (code == ExitCode::kOk) code = one;
    if (one == ExitCode::kDetached) break;
  }
  return code;
}

struct Refusal {
  ExitCode code = ExitCode::kUnreachable;
  std::string what;
  std::string next;  // what to do
};

// Explains why no connection to a daemon's port can be made, which gRPC does
// not: what prevents TLS at `place`; nullopt for Found::kTls.
std::optional<Refusal> WhyNoTls(const HostPort& place, const Probe& probe);

// Why the chain of `place` is not trusted; nullopt for Trust::kTrusted.
// `roots_pem` are those that judged it, of the context named `context` unless
// that is empty.
std::optional<Refusal> WhyNoTrust(const HostPort& place, const Chain& chain,
                                  const Verdict& verdict,
                                  const std::string& roots_pem,
                                  const std::string& context);

// Probes the port after a call failed with UNAVAILABLE. nullopt if `address` is
// not a port, or if no fault is found. Takes at most 5 s and the look-up of the
// host's name.
std::optional<Refusal> WhyUnreachable(const Address& address, absl::Time now);

// Why a call failed with UNAVAILABLE, in words of users.
std::string WhyNoAnswer(const Connection& daemon, const grpc::Status& status);

// What to do about UNAUTHENTICATED or PERMISSION_DENIED at `address`.
std::string HowToBeLetIn(const Address& address, grpc::StatusCode code);

// What standard input holds, up to `most` bytes and a piece more.
std::string ReadStandardInput(size_t most);

// The daemon to call and the streams to print to; every verb gets them.
struct Console {
  std::ostream& out;  // for results
  std::ostream& err;  // for errors and hints
  const Terminal& terminal;
  Connection& daemon;
  bool json = false;  // print results as JSON, one object per line

  // Prints `message` as one line of JSON.
  void PrintJson(const google::protobuf::Message& message) const;
  void PrintJson(const nlohmann::ordered_json& json) const;

  // Prints "mpsctl: <what>" and, unless empty, what to do next; returns `code`.
  ExitCode Fail(ExitCode code, const std::string& what,
                const std::string& next = "") const;
  // Reports a failed call: the daemon's message, or that no daemon can be
  // reached and how to start one. The code is ForStatus(status).
  ExitCode Fail(const grpc::Status& status) const;
  // Reports a failed tunnel to the daemon (Connection::Connect).
  ExitCode FailToReach(const absl::Status& tunnel) const;
  // Reports a local failure, of a file or of the input.
  ExitCode Fail(ExitCode code, const absl::Status& status,
                const std::string& next = "") const;

  ExitCode BadInput(const std::string& what,
                    const std::string& next = "") const {
    return Fail(ExitCode::kBadInput, what, next);
  }
  ExitCode BadInput(const absl::Status& status,
                    const std::string& next = "") const {
    return Fail(ExitCode::kBadInput, status, next);
  }

  // Prints `message`: as JSON, or by print(message). Returns kOk.
  template <typename Message, typename Print>
  ExitCode Show(const Message& message, const Print& print) const {
    if (json) {
      PrintJson(message);
    } else {
      print(message);
    }
    return ExitCode::kOk;
  }
  // Makes a call (Connection::Call) and shows its response.
  template <typename Stub, typename Request, typename Response, typename Print>
  ExitCode Ask(grpc::Status (Stub::*method)(grpc::ClientContext*,
                                            const Request&, Response*),
               const std::type_identity_t<Request>& request,
               const Print& print) const {
    Response response;
    const grpc::Status status = daemon.Call(method, request, &response);
    return status.ok() ? Show(response, print) : Fail(status);
  }
  // Shows a list: as a line of JSON each, or by print().
  template <typename List, typename Print>
  ExitCode ShowEach(const List& list, const Print& print) const {
    if (!json) print();
    for (const auto& one : list) {
      if (json) PrintJson(one);
    }
    return ExitCode::kOk;
  }
  // Prints a table, not wider than a terminal.
  void Print(const Table& table) const;
};

// The last line of the screen, redrawn in place. Does nothing if the output is
// not a terminal, or is JSON. The destructor clears the line.
class ProgressLine {
 public:
  explicit ProgressLine(const Console& console) : console_(console) {}
  ~ProgressLine() { Clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void Draw(int64_t done, int64_t total, const std::string& text);
  void Draw(const std::string& text);  // without a bar
  // Prints a whole line, above the bar if there is one.
  void PrintAbove(const std::string& line);
  void Clear();

 private:
  const Console& console_;
  std::string drawn_;  // the text on the screen, empty for none
};

}  // namespace mpsd::client
