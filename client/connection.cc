// SPDX-License-Identifier: Apache-2.0
#include "client/connection.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/console.h"
#include "client/daemons/trust.h"
#include "client/text/format.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Address OfSocket(const std::string& path) {
  std::error_code error;
  const std::string absolute = fs::absolute(path, error).lexically_normal();
  return {absl::StrCat("unix:", absolute), absolute};
}

Address OfStateDir(const std::string& state_dir) {
  return OfSocket((fs::path(state_dir) / "mpsd.sock").string());
}

Address OfServer(const std::string& server) {
  for (const char* start : {"/", "./", "../"}) {
    if (absl::StartsWith(server, start)) return OfSocket(server);
  }
  if (absl::StartsWith(server, "unix://")) return OfSocket(server.substr(7));
  if (absl::StartsWith(server, "unix:")) return OfSocket(server.substr(5));
  if (IsBehindSsh(server)) {
    return {server, "", std::make_shared<ssh::Tunnel>(server)};
  }
  return {server, ""};
}

}  // namespace

bool IsBehindSsh(const std::string& server) {
  return absl::StartsWith(server, "ssh://");
}

Address FindAddress(const std::string& server, const std::string& state_dir) {
  if (!server.empty()) return OfServer(server);
  if (!state_dir.empty()) return OfStateDir(state_dir);
  if (std::string s = Environment("MPSD_SERVER"); !s.empty()) {
    return OfServer(s);
  }
  if (std::string s = Environment("MPSD_STATE_DIR"); !s.empty()) {
    return OfStateDir(s);
  }
  return OfStateDir(base::DefaultStateDir().string());
}

namespace {

v1::Finding MakeFinding(const char* name, v1::Verdict verdict,
                        std::string found, const char* advice = "") {
  v1::Finding finding;
  finding.set_name(name);
  finding.set_verdict(verdict);
  finding.set_found(std::move(found));
  if (verdict != v1::VERDICT_PASS) finding.set_advice(advice);
  return finding;
}

// WARN if `value` is out of bounds.
v1::Finding Compared(const char* name, std::string found, bool good,
                     double value, double threshold, const char* unit,
                     const char* advice) {
  v1::Finding finding =
      MakeFinding(name, good ? v1::VERDICT_PASS : v1::VERDICT_WARN,
                  std::move(found), advice);
  finding.set_value(value);
  finding.set_threshold(threshold);
  finding.set_unit(unit);
  return finding;
}

}  // namespace

v1::Finding ReachableGate(const std::string& target, const std::string& why) {
  if (why.empty()) {
    return MakeFinding("daemon.reachable", v1::VERDICT_PASS,
                       absl::StrCat("mpsd answers at ", target));
  }
  return MakeFinding(
      "daemon.reachable", v1::VERDICT_FAIL,
      absl::StrCat("no answer at ", target, ": ", why),
      "Check that mpsd runs there (launchctl, systemctl), and that "
      "this is its address: --server, --context or --state-dir.");
}

v1::Finding VersionGate(const std::string& mpsctl,
                        const v1::InfoResponse& info) {
  const std::string found =
      absl::StrCat("mpsctl ", mpsctl, ", mpsd ", info.version());
  return MakeFinding(
      "client.version",
      mpsctl == info.version() ? v1::VERDICT_PASS : v1::VERDICT_WARN, found,
      "Install the same release of both.");
}

absl::Duration Median(std::vector<absl::Duration> times) {
  const auto middle = times.begin() + static_cast<long>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

v1::Finding RoundTripGate(std::vector<absl::Duration> times,
                          const runbook::Thresholds& thresholds) {
  const size_t count = times.size();
  const double seconds = absl::ToDoubleSeconds(Median(std::move(times)));
  const double most = thresholds.Get("doctor.round_trip");
  return Compared(
      "client.round_trip",
      absl::StrFormat("%.1f ms, the median of %d calls", 1000 * seconds, count),
      seconds <= most, seconds, most, "s",
      "The connection to the daemon is slow: uploading many files will take "
      "long; put them in one archive, or use a faster connection.");
}

v1::Finding ClockGate(absl::Time daemon, absl::Time arrived,
                      absl::Duration round_trip,
                      const runbook::Thresholds& thresholds) {
  const double skew =
      absl::ToDoubleSeconds(daemon - (arrived - round_trip / 2));
  const double size = skew < 0 ? -skew : skew;
  const double most = thresholds.Get("doctor.clock_skew");
  const std::string found =
      size < 0.05 ? "the clocks agree"
                  : absl::StrFormat("the daemon's clock is %.1f s %s", size,
                                    skew > 0 ? "ahead" : "behind");
  return Compared("client.clock", found, size <= most, size, most, "s",
                  "Synchronize both clocks (NTP): times of logs, tokens and "
                  "certificates are compared.");
}

std::optional<v1::Finding> CertificateGate(
    const v1::WhoAmIResponse& who, absl::Time now,
    const runbook::Thresholds& thresholds) {
  if (!who.has_certificate_expire_time()) return std::nullopt;
  const double days =
      absl::ToDoubleHours(ToTime(who.certificate_expire_time()) - now) / 24;
  const double least = thresholds.Get("doctor.certificate");
  const char* const renew =
      "On the daemon's machine: `mpsd tls renew`, or put a new certificate in "
      "its place, then SIGHUP.";
  if (days < 0) {
    v1::Finding ended = Compared("daemon.certificate", "it has expired", false,
                                 days, least, "days", renew);
    ended.set_verdict(v1::VERDICT_FAIL);
    return ended;
  }
  return Compared("daemon.certificate",
                  absl::StrFormat("valid for %.0f days", days), days >= least,
                  days, least, "days", renew);
}

namespace {

// The name of the context for HOST:PORT; empty where there is none.
absl::StatusOr<std::string> ContextAt(const std::string& server,
                                      const ContextStore& contexts) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, contexts.Names());
  const absl::StatusOr<std::string> current = contexts.Current();
  std::vector<std::string> fitting;
  for (const std::string& name : names) {
    const absl::StatusOr<Context> context = contexts.Find(name);
    // A broken context does not block the others.
    if (!context.ok() || context->server != server) continue;
    if (current.ok() && *current == name) return name;
    fitting.push_back(name);
  }
  if (fitting.empty()) return std::string();
  if (fitting.size() == 1) return fitting[0];
  return absl::FailedPreconditionError(
      absl::StrCat("several contexts are for ", server, ": ",
                   absl::StrJoin(fitting, ", "), "; name one with --context"));
}

// The daemon at an ssh `url`. A context stores where its socket is.
absl::StatusOr<Address> BehindSsh(const std::string& url,
                                  const ContextStore& contexts) {
  ASSIGN_OR_RETURN(const std::string name, ContextAt(url, contexts));
  Context context;
  if (!name.empty()) context = contexts.Find(name).value_or(context);
  if (context.name.empty()) context.name = NameForHost("ssh-" + url.substr(6));
  context.server = url;
  context.tls = false;
  const auto keep = [contexts, context](const std::string& socket) {
    const absl::StatusOr<Context> former = contexts.Find(context.name);
    if (former.ok() && former->server != context.server) return;
    Context found = context;
    found.socket = socket;
    contexts.Save(found).IgnoreError();  // the next program asks again
  };
  return Address{url, "",
                 std::make_shared<ssh::Tunnel>(url, context.socket, keep)};
}

absl::StatusOr<Address> InContext(const std::string& name,
                                  const ContextStore& contexts) {
  if (name == kLocalContext)
    return FindAddress("", base::DefaultStateDir().string());
  ASSIGN_OR_RETURN(const Context context, contexts.Find(name));
  if (IsBehindSsh(context.server)) return BehindSsh(context.server, contexts);
  return AddressOf(context);
}

// An address as --server takes it.
absl::StatusOr<Address> AtServer(const Address& plain,
                                 const ContextStore& contexts) {
  if (!plain.socket_path.empty()) return plain;
  if (plain.tunnel != nullptr) return BehindSsh(plain.target, contexts);
  ASSIGN_OR_RETURN(const HostPort place, ParseHostPort(plain.target));
  ASSIGN_OR_RETURN(const std::string context,
                   ContextAt(place.Text(), contexts));
  if (!context.empty()) return InContext(context, contexts);
  Context unknown;
  unknown.server = place.Text();
  unknown.tls = !IsLoopback(place.host);
  unknown.token = Environment("MPSD_TOKEN");
  if (!unknown.token.empty()) {
    if (absl::Status status = CheckToken(unknown.token); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("MPSD_TOKEN: ", status.message()));
    }
  }
  return AddressOf(unknown);
}

}  // namespace

std::string DaemonChoiceHelp() {
  return R"(Which daemon, the first of these that is given:
  --server, --context, --state-dir, MPSD_SERVER, MPSD_CONTEXT, MPSD_STATE_DIR,
  the current context (`mpsctl context list`), this machine's own daemon.
  HOST:PORT uses CA and token of the context that is logged in there, else
  the token MPSD_TOKEN.)";
}

absl::StatusOr<Address> AddressOf(const Context& context) {
  ASSIGN_OR_RETURN(const HostPort place, ParseHostPort(context.server));
  Address address{place.Text(), ""};
  Credentials& own = address.credentials;
  own.context = context.name;
  own.token = context.token;
  own.tls = context.tls;
  if (!own.tls) return address;
  own.roots_pem = context.ca_pem;
  if (own.roots_pem.empty()) {
    ASSIGN_OR_RETURN(std::string roots, SystemRoots());
    own.roots_pem = std::move(roots);
  }
  return address;
}

absl::StatusOr<Address> ChooseDaemon(const DaemonChoice& choice,
                                     const ContextStore& contexts) {
  if (!choice.server.empty()) {
    return AtServer(FindAddress(choice.server, ""), contexts);
  }
  if (!choice.context.empty()) return InContext(choice.context, contexts);
  if (!choice.state_dir.empty()) return FindAddress("", choice.state_dir);
  if (!Environment("MPSD_SERVER").empty()) {
    return AtServer(FindAddress("", ""), contexts);
  }
  if (std::string name = Environment("MPSD_CONTEXT"); !name.empty()) {
    return InContext(name, contexts);
  }
  if (!Environment("MPSD_STATE_DIR").empty()) return FindAddress("", "");
  ASSIGN_OR_RETURN(const std::string current, contexts.Current());
  return InContext(current.empty() ? kLocalContext : current, contexts);
}

namespace {

// Gives the token to every call of a channel: gRPC asks this object for each
// call, so that no verb can forget the token.
class Bearer final : public grpc::MetadataCredentialsPlugin {
 public:
  explicit Bearer(const std::string& token)
      : value_(absl::StrCat("Bearer ", token)) {}
  bool IsBlocking() const override { return false; }
  const char* GetType() const override { return "mpsd-token"; }
  grpc::Status GetMetadata(
      grpc::string_ref, grpc::string_ref, const grpc::AuthContext&,
      std::multimap<std::string, std::string>* metadata) override {
    metadata->emplace("authorization", value_);
    return grpc::Status::OK;
  }

 private:
  const std::string value_;
};

std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(
    const Address& address) {
  if (!address.socket_path.empty() || address.tunnel != nullptr) {
    return grpc::InsecureChannelCredentials();
  }
  const Credentials& own = address.credentials;
  std::shared_ptr<grpc::ChannelCredentials> channel;
  // The minimum security of a connection for gRPC to send a token over it.
  grpc_security_level level = GRPC_PRIVACY_AND_INTEGRITY;
  if (own.tls) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = own.roots_pem;
    channel = grpc::SslCredentials(options);
  } else {
    // Checks the connection's address, not the host's name, and sends nothing
    // to another machine.
    channel = grpc::experimental::LocalCredentials(LOCAL_TCP);
    level = GRPC_SECURITY_NONE;
  }
  if (own.token.empty()) return channel;
  return grpc::CompositeChannelCredentials(
      channel, grpc::experimental::MetadataCredentialsFromPlugin(
                   std::make_unique<Bearer>(own.token), level));
}

}  // namespace

Connection::Connection(Address address, Interrupt* interrupt)
    : address_(std::move(address)), interrupt_(interrupt) {
  MakeChannel();
}

absl::Status Connection::Connect() {
  if (address_.tunnel == nullptr) return absl::OkStatus();
  const Interrupt::Listener listener(
      interrupt_, [tunnel = address_.tunnel] { tunnel->Break(); });
  const absl::Status opened = address_.tunnel->Open();
  MakeChannel();
  return opened;
}

absl::Status Connection::tunnel_status() const {
  return address_.tunnel == nullptr ? absl::OkStatus()
                                    : address_.tunnel->status();
}

void Connection::Reset() {
  // A failed tunnel leads nowhere: the next call fails.
  if (address_.tunnel != nullptr) {
    Connect().IgnoreError();
  } else {
    MakeChannel();
  }
}

void Connection::MakeChannel() {
  grpc::ChannelArguments arguments;
  // Proxies are for the web. A subchannel shared with an earlier connection
  // would keep that connection's back-off.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(64 << 20);
  // Ends a call without a deadline once the daemon's machine is gone.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 20'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  auto channel = grpc::CreateCustomChannel(
      address_.tunnel == nullptr ? address_.target : address_.tunnel->target(),
      CredentialsOf(address_), arguments);
  stubs_ = {v1::JobService::NewStub(channel),
            v1::ArtifactService::NewStub(channel),
            v1::DaemonService::NewStub(channel),
            v1::AccessService::NewStub(channel),
            v1::ModelService::NewStub(channel),
            v1::RunbookService::NewStub(channel)};
}

grpc::Status Connection::Interruptibly(
    grpc::ClientContext& context, bool* interrupted,
    const std::function<grpc::Status()>& call) {
  if (interrupted == nullptr) return call();
  const Interrupt::Listener listener(interrupt_,
                                     [&context] { context.TryCancel(); });
  if (listener.raised()) context.TryCancel();
  grpc::Status status = call();
  *interrupted = listener.raised();
  return status;
}

void SetDeadline(grpc::ClientContext& context, absl::Duration patience) {
  if (patience == absl::InfiniteDuration()) return;
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoMilliseconds(patience));
}

}  // namespace mpsd::client
