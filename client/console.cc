// SPDX-License-Identifier: Apache-2.0
#include "client/console.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/base/certificates.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "core/base/units.h"

namespace mpsd::client {

std::string ReadStandardInput(size_t most) {
  std::string text;
  char piece[512];
  while (text.size() <= most) {
    const ssize_t n = read(STDIN_FILENO, piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(piece, static_cast<size_t>(n));
  }
  return text;
}

absl::Status FillWhen(const char* option, const std::string& text,
                      const Terminal& terminal,
                      google::protobuf::Timestamp* stamp) {
  const absl::StatusOr<absl::Time> time =
      base::ParseWhen(text, terminal.clock->Now(), terminal.zone);
  if (!time.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, " ", time.status().message()));
  }
  const int64_t seconds = absl::ToUnixSeconds(*time);
  stamp->set_seconds(seconds);
  stamp->set_nanos(static_cast<int32_t>(
      absl::ToInt64Nanoseconds(*time - absl::FromUnixSeconds(seconds))));
  return absl::OkStatus();
}

bool IsUtf8Locale(const char* lc_all, const char* lc_ctype, const char* lang) {
  for (const char* value : {lc_all, lc_ctype, lang}) {
    const absl::string_view name = value == nullptr ? "" : value;
    if (name.empty()) continue;
    const std::string lower = absl::AsciiStrToLower(name);
    return absl::StrContains(lower, "utf-8") ||
           absl::StrContains(lower, "utf8");
  }
  return false;
}

Interrupt::Listener::Listener(Interrupt* interrupt, std::function<void()> wake)
    : interrupt_(interrupt) {
  if (interrupt_ == nullptr) return;
  absl::MutexLock lock(&interrupt_->mutex_);
  outer_ = std::exchange(interrupt_->wake_, std::move(wake));
}

Interrupt::Listener::~Listener() {
  if (interrupt_ == nullptr) return;
  absl::MutexLock lock(&interrupt_->mutex_);
  interrupt_->wake_ = std::move(outer_);
}

bool Interrupt::Listener::raised() const {
  return interrupt_ != nullptr && interrupt_->raised();
}

bool Interrupt::Raise() {
  absl::MutexLock lock(&mutex_);
  if (raised_ || wake_ == nullptr) return false;
  raised_ = true;
  wake_();
  return true;
}

bool Interrupt::raised() const {
  absl::MutexLock lock(&mutex_);
  return raised_;
}

namespace {

constexpr size_t kLongestLine = 4096;
constexpr char kCtrlC = 3, kCtrlD = 4, kBackspace = 8, kCtrlU = 21,
               kDelete = 127;

// What the signal handler restores.
int hidden_fd = -1;
termios hidden_before;

void RestoreAndEnd(int signal) {
  tcsetattr(hidden_fd, TCSANOW, &hidden_before);
  ::signal(signal, SIG_DFL);
  raise(signal);
}

// While it exists the terminal does not echo input, and delivers each character
// at once. One at a time.
class Hidden {
 public:
  explicit Hidden(int fd) {
    tcgetattr(fd, &hidden_before);
    hidden_fd = fd;
    struct sigaction action = {};
    action.sa_handler = RestoreAndEnd;
    sigaction(SIGTERM, &action, &term_);
    sigaction(SIGHUP, &action, &hup_);
    termios quiet = hidden_before;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO | ECHONL | ICANON | ISIG);
    quiet.c_cc[VMIN] = 1;
    quiet.c_cc[VTIME] = 0;
    tcsetattr(fd, TCSAFLUSH, &quiet);
  }
  ~Hidden() {
    tcsetattr(hidden_fd, TCSAFLUSH, &hidden_before);
    sigaction(SIGTERM, &term_, nullptr);
    sigaction(SIGHUP, &hup_, nullptr);
  }
  Hidden(const Hidden&) = delete;
  Hidden& operator=(const Hidden&) = delete;

 private:
  struct sigaction term_, hup_;
};

void Show(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

absl::StatusOr<std::string> ReadLine(int fd, Echo echo) {
  std::string line;
  while (true) {
    char c = 0;
    const ssize_t n = read(fd, &c, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return absl::CancelledError("nothing was entered");
    if (c == '\n' || c == '\r') return line;
    if (echo == Echo::kOff) {
      if (c == kCtrlC) return absl::CancelledError("interrupted");
      if (c == kCtrlD && line.empty()) {
        return absl::CancelledError("nothing was entered");
      }
      if (c == kBackspace || c == kDelete) {
        if (!line.empty()) line.pop_back();
        continue;
      }
      if (c == kCtrlU) {
        line.clear();
        continue;
      }
    }
    // The rest of a line that is too long is read and dropped.
    if (line.size() < kLongestLine) line += c;
  }
}

}  // namespace

absl::StatusOr<std::string> Ask(const std::string& question, Echo echo,
                                const char* device) {
  const int fd = open(device, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (fd < 0 || isatty(fd) == 0) {
    if (fd >= 0) close(fd);
    return absl::FailedPreconditionError("cannot ask without a terminal");
  }
  Show(fd, base::Printable(question, base::Breaks::kKeep));
  absl::StatusOr<std::string> line;
  if (echo == Echo::kOff) {
    const Hidden hidden(fd);
    line = ReadLine(fd, echo);
  } else {
    line = ReadLine(fd, echo);
  }
  if (echo == Echo::kOff) Show(fd, "\n");
  close(fd);
  return line;
}

namespace {

constexpr int kShortestSparkline = 4;
// The percentage, a bar of 6, a space, and the column that stays free.
constexpr int kColumnsBesideText = 5 + 6 + 1 + 1;

std::string LossText(const v1::Progress& progress) {
  return absl::StrCat("step ", progress.step(), "/", progress.total_steps(),
                      "  loss ", Loss(progress.loss()));
}

std::string SpeedText(const v1::Progress& progress) {
  std::string text;
  if (progress.tokens_per_second() > 0) {
    absl::StrAppend(&text, "  ", Count(progress.tokens_per_second()), " tok/s");
  }
  if (progress.step() < progress.total_steps()) {
    absl::StrAppend(&text, "  ETA ", Seconds(progress.eta_seconds()));
  }
  return text;
}

}  // namespace

std::string StepText(const v1::Progress& progress) {
  return LossText(progress) + SpeedText(progress);
}

std::string StepText(const v1::Progress& progress,
                     const std::vector<double>& losses,
                     const Terminal& terminal) {
  const std::string loss = LossText(progress);
  const std::string speed = SpeedText(progress);
  const int room =
      terminal.columns() - kColumnsBesideText - Width(loss) - Width(speed) - 1;
  if (std::min<int64_t>(room, std::ssize(losses)) < kShortestSparkline) {
    return loss + speed;
  }
  return absl::StrCat(loss, " ", Sparkline(losses, room, terminal.utf8), speed);
}

void ProgressLine::Draw(int64_t done, int64_t total, const std::string& text) {
  // Leaves one column free: a full line would wrap on some terminals.
  Draw(Bar(done, total, text, console_.terminal.columns() - 1,
           console_.terminal.utf8));
}

void ProgressLine::Draw(const std::string& text) {
  if (!console_.terminal.is_tty || console_.json) return;
  drawn_ =
      Fitted(text, console_.terminal.columns() - 1, console_.terminal.utf8);
  console_.out << "\r" << drawn_ << "\x1b[K" << std::flush;
}

void ProgressLine::PrintAbove(const std::string& line) {
  if (!drawn_.empty()) console_.out << "\r\x1b[K";
  console_.out << line << '\n' << drawn_ << std::flush;
}

void ProgressLine::Clear() {
  if (!drawn_.empty()) console_.out << "\r\x1b[K" << std::flush;
  drawn_.clear();
}

std::string ExitCodeHelp() {
  return R"(Exit codes:
  0    success; the watched job, or all that were waited for, SUCCEEDED
  1    the watched job, or one that was waited for, FAILED
  2    bad usage or bad input: command line, job.json, data, output folder
  3    the daemon cannot be reached
  4    no such job, checkpoint, output or predictions
  5    the watched job, or one that was waited for, was CANCELLED
  6    any other error
  7    the daemon is there, but did not answer in time or cannot do it now;
       the request may have been carried out; or `wait` timed out
  8    access denied: the daemon does not know you, your role may not do this,
       or the daemon's certificate is not trusted
  10   the verdict of a study or a plan is FAIL
  11   the verdict of a study is WARN: change something first
       (`doctor` has its own codes: 0 ok, 1 warnings, 2 something is wrong)
  130  interrupted by Ctrl-C; a watched job keeps running)";
}

ExitCode ForStatus(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      return ExitCode::kOk;
    case grpc::StatusCode::UNAVAILABLE:
      return ExitCode::kUnreachable;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return ExitCode::kTryAgain;
    case grpc::StatusCode::NOT_FOUND:
      return ExitCode::kNotFound;
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
      return ExitCode::kNotLetIn;
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::ALREADY_EXISTS:
    case grpc::StatusCode::OUT_OF_RANGE:
      return ExitCode::kBadInput;
    default:
      return ExitCode::kOther;
  }
}

ExitCode ForTunnel(const absl::Status& status) {
  // Both have the same numbers.
  return ForStatus(
      grpc::Status(static_cast<grpc::StatusCode>(status.code()), ""));
}

ExitCode ForVerdict(v1::Verdict verdict) {
  switch (verdict) {
    case v1::VERDICT_FAIL:
      return ExitCode::kVerdictFail;
    case v1::VERDICT_WARN:
      return ExitCode::kVerdictWarn;
    default:
      return ExitCode::kOk;
  }
}

ExitCode ForJobState(v1::JobState state) {
  switch (state) {
    case v1::JOB_STATE_FAILED:
      return ExitCode::kJobFailed;
    case v1::JOB_STATE_CANCELLED:
      return ExitCode::kJobCancelled;
    default:
      return ExitCode::kOk;
  }
}

namespace {

using certificates::CertificateFacts;
using certificates::FactsOf;

constexpr absl::Duration kProbePatience = absl::Seconds(5);
constexpr size_t kMostNames = 20;

bool IsPort(const Address& address) {
  return address.socket_path.empty() && address.tunnel == nullptr;
}

std::string Day(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d", time, absl::UTCTimeZone());
}

std::string Names(const CertificateFacts& facts) {
  if (facts.names.empty()) return "no host at all";
  std::vector<std::string> some = facts.names;
  const bool more = some.size() > kMostNames;
  if (more) some.resize(kMostNames);
  return absl::StrCat(absl::StrJoin(some, ", "), more ? ", …" : "");
}

std::string FingerprintOf(const std::string& pem) {
  const auto chain = certificates::ParseCertificates(pem);
  if (!chain.ok()) return "-";
  const auto facts = FactsOf(*chain->front());
  return facts.ok() ? facts->fingerprint : "-";
}

Refusal OtherAuthority(const HostPort& place, const CertificateFacts& authority,
                       const std::string& roots_pem,
                       const std::string& context) {
  const std::string at = place.Text();
  if (context.empty()) {
    return {
        ExitCode::kNotLetIn,
        absl::StrCat("the certificate of mpsd at ", at,
                     " is not signed by an authority that this machine trusts"),
        absl::StrCat("`mpsctl login ", at,
                     "` shows its fingerprint and asks whether to trust "
                     "it.")};
  }
  return {
      ExitCode::kNotLetIn,
      absl::StrCat("the certificate of mpsd at ", at,
                   " is not signed by the authority that the context ", context,
                   " trusts: its fingerprint is ", authority.fingerprint,
                   ", expected ", FingerprintOf(roots_pem)),
      absl::StrCat("Either someone is intercepting the connection, or mpsd has "
                   "a new authority: ask its admin for the fingerprint (`mpsd "
                   "tls show`). If it is the new one: `mpsctl login ",
                   at, " --name ", context, "`.")};
}

}  // namespace

std::optional<Refusal> WhyNoTls(const HostPort& place, const Probe& probe) {
  const std::string at = place.Text();
  const std::string cannot = absl::StrCat("cannot reach mpsd at ", at, ": ");
  switch (probe.found) {
    case Found::kUnknownHost:
      return Refusal{ExitCode::kUnreachable,
                     absl::StrCat(cannot, "there is no host named '",
                                  place.host, "' (", probe.why, ")"),
                     "Check the name and this machine's network."};
    case Found::kUnreachable:
      return Refusal{ExitCode::kUnreachable, absl::StrCat(cannot, probe.why),
                     "Check that mpsd runs there with --listen on this port, "
                     "and that no firewall blocks it."};
    case Found::kSilent:
      return Refusal{
          ExitCode::kUnreachable, absl::StrCat(cannot, probe.why),
          "Something accepts connections there but does not answer: is it "
          "mpsd, and is it hung? See log/mpsd.log in its state folder."};
    case Found::kNoTls:
      return Refusal{
          ExitCode::kUnreachable,
          absl::StrCat(cannot, "the server there does not speak TLS 1.3 (",
                       probe.why, ")"),
          "mpsctl connects to other machines over TLS only. Check that this is "
          "the port of mpsd's --listen and that mpsd has certificates (`mpsd "
          "tls init`)."};
    case Found::kTls:
      break;
  }
  return std::nullopt;
}

std::optional<Refusal> WhyNoTrust(const HostPort& place, const Chain& chain,
                                  const Verdict& verdict,
                                  const std::string& roots_pem,
                                  const std::string& context) {
  if (verdict.trust == Trust::kTrusted) return std::nullopt;
  const std::string of =
      absl::StrCat("the certificate of mpsd at ", place.Text(), " ");
  Refusal broken = {ExitCode::kNotLetIn,
                    absl::StrCat(of, "is not valid: ", verdict.why),
                    "Its admin can inspect it with `mpsd tls show`."};
  if (chain.empty()) return broken;
  const auto facts = FactsOf(*chain.front());
  const auto authority = FactsOf(*chain.back());
  if (!facts.ok() || !authority.ok()) return broken;
  const bool begins_later = verdict.trust == Trust::kNotYetValid;
  switch (verdict.trust) {
    case Trust::kOtherAuthority:
      return OtherAuthority(place, *authority, roots_pem, context);
    case Trust::kExpired:
    case Trust::kNotYetValid:
      return Refusal{
          ExitCode::kNotLetIn,
          begins_later
              ? absl::StrCat(of, "is valid from ", Day(facts->begin), " on")
              : absl::StrCat(of, "expired on ",
                             Day(std::min(facts->expiry, authority->expiry))),
          "Its admin renews it with `mpsd tls renew`; or this machine's clock "
          "is wrong."};
    case Trust::kWrongName:
      return Refusal{
          ExitCode::kNotLetIn,
          absl::StrCat(of, "is not for '", place.host, "', but for ",
                       Names(*facts)),
          absl::StrCat("Use one of these names, or have the admin add this one "
                       "(`mpsd tls renew --name ",
                       place.host, "`).")};
    default:
      return broken;
  }
}

std::optional<Refusal> WhyUnreachable(const Address& address, absl::Time now) {
  if (!IsPort(address)) return std::nullopt;
  const absl::StatusOr<HostPort> place = ParseHostPort(address.target);
  if (!place.ok()) return std::nullopt;
  const Credentials& own = address.credentials;
  const Probe probe = ProbeServer(*place, kProbePatience);
  if (!own.tls) {
    if (probe.found != Found::kTls) return std::nullopt;
    return Refusal{
        ExitCode::kNotLetIn,
        absl::StrCat(
            "mpsd at ", place->Text(),
            " uses TLS, and no context says which authority to trust there"),
        absl::StrCat("Log in first: `mpsctl login ", place->Text(), "`.")};
  }
  if (auto refusal = WhyNoTls(*place, probe)) return refusal;
  const Verdict verdict = Judge(probe.chain, own.roots_pem, place->host, now);
  return WhyNoTrust(*place, probe.chain, verdict, own.roots_pem, own.context);
}

std::string HowToBeLetIn(const Address& address, grpc::StatusCode code) {
  if (code == grpc::StatusCode::PERMISSION_DENIED) {
    return "`mpsctl info` shows who you are; an admin gives a higher role.";
  }
  if (!IsPort(address)) return "";
  const Credentials& own = address.credentials;
  if (own.token.empty()) {
    return absl::StrCat(
        "Log in first: `mpsctl login ", address.target,
        "`, with a token that an admin makes (`mpsctl admin token "
        "create`).");
  }
  return absl::StrCat(
      own.context.empty()
          ? "The token in MPSD_TOKEN"
          : absl::StrCat("The token of the context ", own.context),
      " has expired or was revoked: ask an admin for a new one (`mpsctl admin "
      "token "
      "create --user NAME`), then `mpsctl login ",
      address.target, own.context.empty() ? "" : " --name ", own.context, "`.");
}

namespace {

constexpr char kSeeLog[] = "See log/mpsd.log in the daemon's state folder.";
constexpr size_t kLongestSocketPath = sizeof(sockaddr_un::sun_path) - 1;

// The process, if it lives, that locked the state folder last, or 0.
int HolderOf(const std::string& dir) {
  const absl::StatusOr<std::string> pid = base::ReadFile(dir + "/lock");
  int holder = 0;
  if (!pid.ok() || !absl::SimpleAtoi(*pid, &holder) || holder <= 0) return 0;
  return kill(holder, 0) == 0 || errno == EPERM ? holder : 0;
}

std::string HowToReach(const Address& address) {
  const std::string& path = address.socket_path;
  if (address.tunnel != nullptr) {
    return "ssh connects, but mpsd does not answer: check that it runs there.";
  }
  if (path.empty()) {
    return absl::StrCat("Check that mpsd runs and listens on ", address.target,
                        ", or name another with --server ADDRESS or "
                        "MPSD_SERVER.");
  }
  const std::string dir = std::filesystem::path(path).parent_path().string();
  if (path.size() > kLongestSocketPath) {
    return absl::StrCat("The socket's path has ", path.size(),
                        " characters, the system allows ", kLongestSocketPath,
                        ": choose a shorter --state-dir.");
  }
  const int holder = HolderOf(dir);
  if (holder <= 0 && !absl::EndsWith(path, "/mpsd.sock")) {
    return absl::StrCat("Check the path: mpsd's socket is mpsd.sock in its ",
                        "state folder; or name another with --server ADDRESS, "
                        "MPSD_SERVER or --state-dir DIR.");
  }
  return absl::StrCat(holder > 0
                          ? absl::StrCat("If process ", holder,
                                         " is mpsd, the file of its socket was "
                                         "removed: restart it. Else start it")
                          : "Start it",
                      " with `mpsd --state-dir ", dir,
                      "`, log in to another machine's with `mpsctl login "
                      "HOST:PORT`, or name one with --server ADDRESS, "
                      "MPSD_SERVER or --state-dir DIR.");
}

}  // namespace

std::string WhyNoAnswer(const Connection& daemon, const grpc::Status& status) {
  const std::string& path = daemon.address().socket_path;
  std::error_code error;
  if (!path.empty() && !std::filesystem::exists(path, error)) {
    return "there is no such socket";
  }
  // gRPC's words.
  if (absl::StrContains(status.error_message(), "failed to connect")) {
    return "nothing accepts connections there";
  }
  return status.error_message();
}

namespace {

// Whether a daemon answers now, however the failed call ended.
bool Answers(Connection& daemon) {
  daemon.Reset();
  v1::InfoResponse info;
  switch (daemon.Call(&DaemonStub::Info, {}, &info, absl::Seconds(2))
              .error_code()) {
    case grpc::StatusCode::OK:
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::PERMISSION_DENIED:
      return true;
    default:
      return false;
  }
}

// Whether the message was larger than gRPC accepts, here or in the daemon.
bool IsTooLarge(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
         absl::StrContains(status.error_message(), "larger than max");
}

// Whether the daemon ran out of disk space, not of descriptors or memory.
bool IsOfDisk(const grpc::Status& status) {
  const std::string& text = status.error_message();
  return absl::StrContains(text, "disk") || absl::StrContains(text, "Disk") ||
         absl::StrContains(text, "No space");
}

std::string NextStepAfter(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return "It is busy, or waits for a slow disk. The request may have been "
             "carried out: check before you repeat it (`mpsctl list`).";
    case grpc::StatusCode::NOT_FOUND:
      return absl::StrContains(status.error_message(), "no job")
                 ? "List the jobs with `mpsctl list`."
                 : "";
    case grpc::StatusCode::UNIMPLEMENTED:
      return "mpsctl and mpsd differ in version: compare `mpsctl --version` "
             "with `mpsd --version`.";
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      if (IsTooLarge(status)) {
        return "Request less at a time (`mpsctl list --limit 20`), or name "
               "fewer files in the job.";
      }
      // A user's limit: the message says what to do.
      if (absl::StrContains(status.error_message(), "[user.")) return "";
      if (!IsOfDisk(status)) return kSeeLog;
      return "Make room on the daemon's disk; `mpsctl info` shows what is "
             "free.";
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::DATA_LOSS:
      return kSeeLog;
    default:
      return "";
  }
}

std::string MessageOf(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return "mpsd did not answer in time";
  }
  if (IsTooLarge(status)) {
    return absl::StrCat("a message is larger than gRPC may carry: ",
                        status.error_message());
  }
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return absl::StrCat("this mpsd does not support the request",
                        status.error_message().empty() ? "" : ": ",
                        status.error_message());
  }
  if (!status.error_message().empty()) return status.error_message();
  return absl::StrCat("the call failed with gRPC status ",
                      static_cast<int>(status.error_code()));
}

}  // namespace

void Console::PrintJson(const google::protobuf::Message& message) const {
  PrintJson(ToJson(message));
}

void Console::PrintJson(const nlohmann::ordered_json& json) const {
  const std::string line =
      json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  // In JSON text Printable escapes only U+007F, because JSON has escaped the
  // other control characters.
  out << (terminal.is_tty ? base::Printable(line) : line) << '\n' << std::flush;
}

void Console::Print(const Table& table) const {
  table.Print(out, terminal.is_tty ? terminal.columns() : 0);
}

ExitCode Console::Fail(ExitCode code, const std::string& what,
                       const std::string& next) const {
  err << "mpsctl: " << base::Printable(what, base::Breaks::kKeep) << '\n';
  if (!next.empty()) {
    err << base::Printable(next, base::Breaks::kKeep) << '\n';
  }
  return code;
}

ExitCode Console::Fail(const grpc::Status& status) const {
  const ExitCode code = ForStatus(status);
  if (code == ExitCode::kUnreachable) {
    if (const absl::Status s = daemon.tunnel_status(); !s.ok()) {
      return FailToReach(s);
    }
    if (Answers(daemon)) {
      return Fail(
          ExitCode::kTryAgain,
          absl::StrCat("mpsd cannot do it now: ", status.error_message()),
          "Try again in a few seconds.");
    }
    if (const auto refusal = WhyUnreachable(daemon.address(), absl::Now())) {
      return Fail(refusal->code, refusal->what, refusal->next);
    }
    return Fail(code,
                absl::StrCat("cannot reach mpsd at ", daemon.address().target,
                             ": ", WhyNoAnswer(daemon, status)),
                HowToReach(daemon.address()));
  }
  if (code == ExitCode::kNotLetIn) {
    return Fail(code, MessageOf(status),
                HowToBeLetIn(daemon.address(), status.error_code()));
  }
  return Fail(code, MessageOf(status), NextStepAfter(status));
}

ExitCode Console::FailToReach(const absl::Status& tunnel) const {
  if (absl::IsCancelled(tunnel)) {
    return Fail(ExitCode::kDetached, "interrupted", "");
  }
  return Fail(ForTunnel(tunnel),
              absl::StrCat("cannot reach mpsd at ", daemon.address().target,
                           ": ", tunnel.message()),
              "");
}

ExitCode Console::Fail(ExitCode code, const absl::Status& status,
                       const std::string& next) const {
  return Fail(code, std::string(status.message()), next);
}

}  // namespace mpsd::client
