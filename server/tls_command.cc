// SPDX-License-Identifier: Apache-2.0
#include "server/tls_command.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/certificates.h"
#include "core/base/status_macros.h"
#include "server/config.h"
#include "server/rpc/pki.h"

namespace mpsd {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

// sysexits.h: EX_USAGE, EX_UNAVAILABLE.
constexpr int kExitUsage = 64;
constexpr int kExitUnavailable = 69;

// The port of the examples.
constexpr char kPort[] = "7433";

constexpr char kTlsFooter[] = R"(
The files are in the state folder:
  tls/ca.crt, ca.key          this machine's own certificate authority; clients
                              know it by its fingerprint
  tls/server.crt, server.key  the certificate that mpsd serves
Anyone who has ca.key or server.key can impersonate this machine.
)";

struct TlsOptions {
  std::string state_dir, config;
  std::vector<std::string> names;
  int server_days = pki::kServerDays;
  bool force = false;
  bool json = false;
};

// A command's action on the options, once the state folder is known.
struct Command {
  const TlsOptions& options;
  fs::path state_dir;
  std::vector<std::string> listen;  // the file's
  // In seconds, the precision of certificates.
  absl::Time now = absl::FromUnixSeconds(absl::ToUnixSeconds(absl::Now()));
  std::ostream& out;
};

std::string Day(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d", time, absl::UTCTimeZone());
}

std::string Span(const certificates::CertificateFacts& facts, absl::Time now) {
  return absl::StrCat("until ", Day(facts.expiry), " (",
                      certificates::DaysLeft(facts.expiry, now), " days)");
}

void PrintFacts(const Command& command, const pki::TlsState& state) {
  command.out << "  folder       "
              << pki::FilesOf(command.state_dir).folder.string()
              << "\n  names        " << absl::StrJoin(state.server.names, ", ")
              << "\n  certificate  " << Span(state.server, command.now)
              << "\n  authority    " << Span(state.authority, command.now)
              << "\n  fingerprint  " << state.authority.fingerprint << "\n";
  for (const std::string& problem : state.problems) {
    command.out << "  to fix       " << problem << "\n";
  }
}

// A running daemon reads its certificate again at SIGHUP.
void PrintReload(std::ostream& out) {
  out << "\nA running daemon loads it at SIGHUP, and no stream is lost:\n"
#ifdef __APPLE__
         "  launchctl kill HUP gui/$(id -u)/org.mpsd.agent   (a LaunchAgent)\n"
         "  sudo launchctl kill HUP system/org.mpsd.daemon   (a LaunchDaemon)\n"
#else
         "  systemctl reload mpsd   (with --user for a user's own service)\n"
#endif
         "  kill -HUP PID           (PID is in the state folder's file lock)\n";
}

// The address by which clients most likely reach this machine: the first name
// that is not a single label, which only some networks complete.
std::string ServerAddress(const certificates::CertificateFacts& server,
                          const std::string& port) {
  std::string best = "HOST";
  for (const std::string& name : server.names) {
    const bool is_6 = name.find(':') != name.npos;
    if (!is_6 && name.find('.') == name.npos) continue;
    best = is_6 ? absl::StrCat("[", name, "]") : name;
    break;
  }
  return absl::StrCat(best, ":", port);
}

// The given options by which another command of mpsd finds the same folder.
std::string GivenOptions(const TlsOptions& o) {
  const auto given = [](const char* name, const std::string& path) {
    return path.empty() ? "" : absl::StrCat(name, fs::absolute(path).string());
  };
  return absl::StrCat(given(" --config ", o.config),
                      given(" --state-dir ", o.state_dir));
}

void PrintNextSteps(const Command& command, const pki::TlsState& state) {
  const std::string& file = command.options.config;
  const std::string given = GivenOptions(command.options);
  std::string port = kPort;
  std::string listens;  // on a port, by the file
  for (const std::string& address : command.listen) {
    if (absl::StartsWith(address, "unix:")) continue;
    listens = address;
    port = address.substr(address.rfind(':') + 1);
  }
  command.out << "\nNext:\n"
              << (!listens.empty()
                      ? absl::StrCat("  1. restart mpsd, which ", file,
                                     " lets listen on ", listens, "\n")
                      : absl::StrCat("  1. let mpsd listen: mpsd", given,
                                     " --listen 0.0.0.0:", kPort, ", or in ",
                                     file.empty() ? "mpsd.toml" : file,
                                     "\n       listen = [\"0.0.0.0:", kPort,
                                     "\"]\n     and restart it\n"))
              << "  2. for each person: mpsctl"
              << (given.empty() ? ""
                                : " --state-dir " + command.state_dir.string())
              << " admin token create --user NAME --role user --expires 90d\n"
                 "  3. on the person's machine, with the token at hand:\n"
                 "       mpsctl login "
              << ServerAddress(state.server, port)
              << " \\\n         --fingerprint " << state.authority.fingerprint
              << "\n";
}

pki::ServerOrder ServerOrderOf(const Command& command) {
  return {command.options.names, command.options.server_days,
          pki::ThisMachine(), command.now, command.options.force};
}

absl::Status Init(const Command& command) {
  const absl::StatusOr<pki::Initialized> made =
      pki::Init(command.state_dir, ServerOrderOf(command));
  if (absl::IsAlreadyExists(made.status())) {
    const auto state = pki::Look(command.state_dir, command.now);
    if (!state.ok()) {
      return absl::FailedPreconditionError(absl::StrCat(
          made.status().message(), ", and ",
          std::string(state.status().message()),
          "; --force makes new ones and keeps that folder under another name"));
    }
    command.out << "These certificates exist; nothing was changed.\n";
    PrintFacts(command, *state);
    const std::string given = GivenOptions(command.options);
    command.out << "\n`mpsd tls renew" << given
                << "` makes the next certificate, with other names too "
                   "(--name);\n`mpsd tls init --force"
                << given
                << "` another authority, which every client has to log in to "
                   "again.\n";
    return absl::OkStatus();
  }
  if (!made.ok()) return made.status();
  command.out << "Made a certificate authority for this machine, and a "
                 "certificate for its names.\n";
  PrintFacts(command, made->state);
  if (made->former.empty()) {
    PrintNextSteps(command, made->state);
    return absl::OkStatus();
  }
  command.out << "  former ones  " << made->former.string()
              << "\n\nEvery client has to log in again, with this "
                 "fingerprint.\n";
  PrintReload(command.out);
  return absl::OkStatus();
}

absl::Status Renew(const Command& command) {
  ASSIGN_OR_RETURN(const pki::TlsState state,
                   pki::Renew(command.state_dir, ServerOrderOf(command)));
  command.out << "Made the next certificate, by the same authority: clients "
                 "are not affected.\n";
  PrintFacts(command, state);
  PrintReload(command.out);
  return absl::OkStatus();
}

Json ToJson(const certificates::CertificateFacts& facts, absl::Time now) {
  const auto time = [](absl::Time t) {
    return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", t, absl::UTCTimeZone());
  };
  Json json{{"subject", facts.subject},
            {"not_before", time(facts.begin)},
            {"not_after", time(facts.expiry)},
            {"days_left", certificates::DaysLeft(facts.expiry, now)},
            {"serial", facts.serial},
            {"fingerprint", facts.fingerprint}};
  if (!facts.names.empty()) json["names"] = facts.names;
  return json;
}

absl::Status Show(const Command& command) {
  ASSIGN_OR_RETURN(const pki::TlsState state,
                   pki::Look(command.state_dir, command.now));
  if (!command.options.json) {
    PrintFacts(command, state);
    return absl::OkStatus();
  }
  const Json json{{"folder", pki::FilesOf(command.state_dir).folder.string()},
                  {"fingerprint", state.authority.fingerprint},
                  {"authority", ToJson(state.authority, command.now)},
                  {"server", ToJson(state.server, command.now)},
                  {"problems", state.problems}};
  command.out << json.dump(2, ' ', false, Json::error_handler_t::replace)
              << "\n";
  return absl::OkStatus();
}

// The settings, with the folder as the daemon finds it: by the option, the
// file, MPSD_STATE_DIR, or the default.
absl::StatusOr<Config> ConfigOf(const TlsOptions& options) {
  std::vector<std::string> args;
  if (!options.state_dir.empty()) args = {"--state-dir", options.state_dir};
  if (!options.config.empty()) {
    // Without certificates the file's own ports would be refused.
    args.insert(args.end(), {"--config", options.config, "--tls-cert",
                             "/dev/null", "--tls-key", "/dev/null"});
  }
  ASSIGN_OR_RETURN(auto parsed, ParseConfig(args));
  return std::get<Config>(std::move(parsed));
}

using Action = absl::Status (*)(const Command&);

// Declares the verbs; the one that the command line names goes to `action`.
void Declare(CLI::App& app, TlsOptions& o, Action& action) {
  app.require_subcommand(1);
  app.footer(kTlsFooter);
  const auto verb = [&](const char* name, const char* what, Action run) {
    CLI::App* sub = app.add_subcommand(name, what);
    sub->callback([&action, run] { action = run; });
    sub->add_option("--state-dir", o.state_dir, "mpsd's state folder");
    sub->add_option("--config", o.config,
                    "mpsd's TOML file, which may name the state folder");
    return sub;
  };
  const auto server = [&](CLI::App* sub, const char* names) {
    sub->add_option("--name", o.names, names)->allow_extra_args(false);
    sub->add_option("--days", o.server_days, "Days that it is valid")
        ->check(CLI::Range(1, pki::kServerDays))
        ->capture_default_str();
  };
  CLI::App* init = verb("init",
                        "Make a certificate authority and a certificate for "
                        "this machine's names, once",
                        Init);
  server(init,
         "DNS name or address that clients use, in addition to this machine's "
         "own; may be repeated");
  init->add_flag(
      "--force", o.force,
      "Make new ones where some exist; those are kept under another name");
  server(
      verb("renew",
           "Make the next certificate by the same authority, for the same "
           "names",
           Renew),
      "Use this machine's current names and this one instead; may be repeated");
  CLI::App* show = verb(
      "show", "Show names, dates, the fingerprint, and what has to be fixed",
      Show);
  show->add_flag("--json", o.json, "Print JSON");
}

int Complain(const absl::Status& status, std::ostream& err) {
  err << "mpsd tls: " << status.message() << "\n";
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitUnavailable;
}

}  // namespace

int TlsCommand(const std::vector<std::string>& args, std::ostream& out,
               std::ostream& err) {
  CLI::App app("Certificates for an mpsd that listens on a port.", "mpsd tls");
  TlsOptions options;
  Action action = nullptr;
  Declare(app, options, action);
  try {
    // CLI11 takes the arguments in reverse order.
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    out << app.help();
    return 0;
  } catch (const CLI::ParseError& e) {
    err << "mpsd tls: " << e.what() << "; mpsd tls --help lists the options\n";
    return kExitUsage;
  }
  const absl::StatusOr<Config> config = ConfigOf(options);
  if (!config.ok()) return Complain(config.status(), err);
  const absl::Status status = action({.options = options,
                                      .state_dir = config->state_dir,
                                      .listen = config->listen,
                                      .out = out});
  if (!status.ok()) return Complain(status, err);
  if (out.flush()) return 0;
  return Complain(absl::DataLossError("the output could not be written"), err);
}

}  // namespace mpsd
