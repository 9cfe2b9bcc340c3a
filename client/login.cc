// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/connection.h"
#include "client/console.h"
#include "client/daemons/context_store.h"
#include "client/text/format.h"
#include "client/text/host_text.h"
#include "client/daemons/trust.h"
#include "client/verbs.h"
#include "core/base/sha256.h"
#include "core/base/limits.h"
#include "core/base/text.h"
#include "core/base/file.h"
#include "core/base/certificates.h"

namespace mpsd::client {

namespace {

using certificates::CertificateFacts;
using certificates::FactsOf;

struct LoginOptions {
  std::string server;
  std::string name;
  std::string token_file;
  std::string fingerprint;
};

constexpr char kCompare[] =
    "Compare the fingerprint with what `mpsd tls show` prints on that machine, "
    "or ask its admin for it.";

std::string Trimmed(const std::string& text) {
  return std::string(absl::StripAsciiWhitespace(text));
}

absl::StatusOr<std::string> ReadStandardInput() {
  std::string text;
  char piece[512];
  while (text.size() <= limits::kTokenBytes) {
    const ssize_t n = read(STDIN_FILENO, piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(piece, static_cast<size_t>(n));
  }
  return text;
}

// One `mpsctl login`, step by step. A failed step has printed why, and returns
// the exit code.
class Login {
 public:
  Login(const Console& console, LoginOptions options)
      : console_(console), options_(std::move(options)) {}

  ExitCode Run() {
    using Step = std::optional<ExitCode> (Login::*)();
    for (Step step : {&Login::ReadPlace, &Login::Probe, &Login::Trust,
                      &Login::TakeToken, &Login::AskDaemon, &Login::Keep}) {
      if (const auto code = (this->*step)()) return *code;
    }
    return ExitCode::kOk;
  }

 private:
  using Failed = std::optional<ExitCode>;

  Failed Fail(const Refusal& refusal) const {
    return console_.Fail(refusal.code, refusal.what, refusal.next);
  }
  Failed BadInput(const absl::Status& status, const std::string& next) const {
    return console_.Fail(ExitCode::kBadInput, status, next);
  }

  Failed ReadPlace() {
    const absl::StatusOr<HostPort> place = ParseHostPort(options_.server);
    if (!place.ok()) {
      return BadInput(place.status(),
                      "A socket and ssh://… need no login: there the machine "
                      "itself identifies you.");
    }
    place_ = *place;
    context_.server = place_.Text();
    context_.name =
        options_.name.empty() ? NameForHost(place_.host) : options_.name;
    if (absl::Status s = CheckContextName(context_.name); !s.ok()) {
      return BadInput(s, "");
    }
    const absl::StatusOr<Context> former = contexts_.Find(context_.name);
    if (former.ok() && former->server != context_.server &&
        options_.name.empty()) {
      return console_.Fail(
          ExitCode::kBadInput,
          absl::StrCat("the context ", context_.name, " is for ",
                       former->server),
          absl::StrCat("Choose another name with --name, or replace it with "
                       "--name ",
                       context_.name, "."));
    }
    return std::nullopt;
  }

  Failed Probe() {
    probe_ = ProbeServer(place_);
    if (probe_.found == Found::kNoTls && IsLoopback(place_.host)) {
      // A daemon of this machine, or the end of the user's own tunnel.
      context_.tls = false;
      return std::nullopt;
    }
    if (const auto refusal = WhyNoTls(place_, probe_)) return Fail(*refusal);
    return std::nullopt;
  }

  Failed Trust() {
    if (!context_.tls) return std::nullopt;
    const absl::Time now = console_.terminal.clock->Now();
    if (options_.fingerprint.empty()) {
      const absl::StatusOr<std::string> roots = SystemRoots();
      if (roots.ok()) {
        const Verdict verdict = Judge(probe_.chain, *roots, place_.host, now);
        if (verdict.trust == Trust::kTrusted) return std::nullopt;
      }
    }
    return Pin(now);
  }

  // Trusts the last certificate of the chain, if it is suitable and the user
  // agrees.
  Failed Pin(absl::Time now) {
    X509* authority = probe_.chain.back().get();
    const auto facts = FactsOf(*probe_.chain.front());
    const auto pinned = FactsOf(*authority);
    const auto pem = certificates::CertificatePem(*authority);
    for (const absl::Status& s :
         {facts.status(), pinned.status(), pem.status()}) {
      if (!s.ok()) return console_.Fail(ExitCode::kNotLetIn, s, "");
    }
    const Verdict verdict =
        Judge(probe_.chain, std::vector<X509*>{authority}, place_.host, now);
    if (verdict.trust == Trust::kOtherAuthority) {
      return console_.Fail(
          ExitCode::kNotLetIn,
          absl::StrCat("the certificates of mpsd at ", context_.server,
                       " do not chain up to the last of them: ", verdict.why),
          "Its admin can inspect them with `mpsd tls show`.");
    }
    if (const auto refusal =
            WhyNoTrust(place_, probe_.chain, verdict, *pem, "")) {
      return Fail(*refusal);
    }
    if (probe_.chain.size() == 1 &&
        !certificates::IsIssuedBy(*authority, *authority)) {
      return console_.Fail(
          ExitCode::kNotLetIn,
          absl::StrCat("mpsd at ", context_.server,
                       " sends its certificate without the authority's, so "
                       "that there is nothing lasting to trust"),
          "Its certificate's file (--tls-cert) should hold the authority's "
          "certificate after its own.");
    }
    if (auto code = Confirm(*facts, *pinned, now)) return code;
    context_.ca_pem = *pem;
    return std::nullopt;
  }

  Failed Confirm(const CertificateFacts& facts, const CertificateFacts& pinned,
                 absl::Time now) {
    if (!options_.fingerprint.empty()) {
      const absl::StatusOr<std::string> wanted =
          base::ParseFingerprint(options_.fingerprint);
      if (!wanted.ok()) return BadInput(wanted.status(), "");
      if (*wanted == pinned.fingerprint) return std::nullopt;
      return console_.Fail(
          ExitCode::kNotLetIn,
          absl::StrCat("the authority of mpsd at ", context_.server,
                       " has the fingerprint ", pinned.fingerprint,
                       ", expected ", *wanted),
          *wanted == facts.fingerprint
              ? "That one is the server's own certificate: give its "
                "authority's, which stays the same when it is renewed."
              : "Either someone is intercepting the connection, or mpsd has a "
                "new authority: ask its admin (`mpsd tls show`).");
    }
    console_.err << "mpsd at " << context_.server
                 << " has an authority that this machine does not know:\n"
                 << "  authority    "
                 << (pinned.subject.empty() ? "-" : pinned.subject)
                 << "\n  fingerprint  " << pinned.fingerprint
                 << "\n  names        " << absl::StrJoin(facts.names, ", ")
                 << "\n  certificate  " << CertificateText(facts.expiry, now)
                 << "\n"
                 << kCompare << "\n"
                 << std::flush;
    const absl::StatusOr<std::string> answer =
        console_.terminal.ask("Trust it? (yes/no) ", Echo::kOn);
    if (absl::IsFailedPrecondition(answer.status())) {
      return console_.Fail(ExitCode::kBadInput,
                           "cannot ask without a terminal whether to trust it",
                           "Give the fingerprint with --fingerprint, once you "
                           "have compared it.");
    }
    if (answer.ok() && absl::AsciiStrToLower(Trimmed(*answer)) == "yes") {
      return std::nullopt;
    }
    return console_.Fail(ExitCode::kNotLetIn, "not trusted; nothing was stored",
                         "");
  }

  Failed TakeToken() {
    absl::StatusOr<std::string> token;
    std::string from = "the token";
    if (options_.token_file == "-") {
      from = "standard input";
      token = ReadStandardInput();
    } else if (!options_.token_file.empty()) {
      from = options_.token_file;
      token =
          base::ReadSecretFile(options_.token_file, limits::kTokenBytes + 2);
    } else if (const char* own = std::getenv("MPSD_TOKEN");
               own != nullptr && *own != 0) {
      from = "MPSD_TOKEN";
      token = std::string(own);
    } else {
      token = console_.terminal.ask(
          absl::StrCat("Token for ", context_.server, ": "), Echo::kOff);
      if (absl::IsFailedPrecondition(token.status())) {
        return console_.Fail(
            ExitCode::kBadInput, "cannot ask for the token without a terminal",
            "Give it with --token-file FILE, --token-file - or MPSD_TOKEN.");
      }
    }
    if (absl::IsCancelled(token.status())) {
      return console_.Fail(ExitCode::kDetached, token.status(), "");
    }
    if (!token.ok()) return BadInput(token.status(), "");
    context_.token = Trimmed(*token);
    if (absl::Status s = CheckToken(context_.token); !s.ok()) {
      return BadInput(
          absl::InvalidArgumentError(absl::StrCat(from, ": ", s.message())),
          "");
    }
    return std::nullopt;
  }

  Failed AskDaemon() {
    absl::StatusOr<Address> address = AddressOf(context_);
    if (!address.ok()) return BadInput(address.status(), "");
    address->credentials.context.clear();  // not stored yet
    Connection connection(*address);
    const Console console{console_.out, console_.err, console_.terminal,
                          connection, console_.json};
    grpc::ClientContext call;
    SetDeadline(call);
    const grpc::Status status = connection.access().WhoAmI(&call, {}, &who_);
    if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
      return console_.Fail(
          ExitCode::kNotLetIn,
          absl::StrCat("mpsd at ", context_.server,
                       " does not let you in: ", status.error_message()),
          "Nothing was stored. An admin makes a token with `mpsctl token "
          "create`.");
    }
    if (!status.ok()) return console.Fail(status);
    context_.user = base::Shortened(who_.user(), limits::kUserBytes);
    return std::nullopt;
  }

  Failed Keep() {
    absl::Status status = contexts_.Save(context_);
    if (status.ok()) status = contexts_.Use(context_.name);
    if (!status.ok()) return console_.Fail(ExitCode::kOther, status, "");
    if (console_.json) {
      console_.PrintJson(who_);
      return std::nullopt;
    }
    const std::string token =
        context_.token.empty() ? "-" : contexts_.FileOf(context_.name).string();
    const absl::Time now = console_.terminal.clock->Now();
    console_.out
        << "Logged in at " << context_.server << ".\n"
        << "  you          " << IdentityText(who_, now) << "\n  certificate  "
        << CertificateDays(now) << "\n  context      " << context_.name
        << ", the current one\n  token        " << token
        << "\n`mpsctl submit job.json` now goes there; `mpsctl context use "
           "local` switches back to this machine's own daemon.\n";
    return std::nullopt;
  }

  std::string CertificateDays(absl::Time now) const {
    if (!context_.tls) return "none: this machine's loopback without TLS";
    const auto facts = FactsOf(*probe_.chain.front());
    return facts.ok() ? CertificateText(facts->expiry, now) : "-";
  }

  const Console& console_;
  const LoginOptions options_;
  const ContextStore contexts_{ContextStore::DefaultFolder()};
  HostPort place_;
  Context context_;
  client::Probe probe_;
  v1::WhoAmIResponse who_;
};

}  // namespace

void AddLogin(Command& app, Action* action) {
  auto options = std::make_shared<LoginOptions>();
  Command* verb = app.add_subcommand(
      "login", "Log in to a daemon on a port, with TLS and a token");
  verb->add_option("SERVER", options->server, "HOST:PORT of its --listen")
      ->type_name("")
      ->required();
  verb->add_option("--name", options->name,
                   "The context's name (else made from HOST)")
      ->type_name("NAME");
  verb->add_option("--token-file", options->token_file,
                   "Read the token there; -: standard input\n"
                   "(else MPSD_TOKEN, else mpsctl asks)")
      ->type_name("FILE");
  verb->add_option("--fingerprint", options->fingerprint,
                   "Trust the authority with this fingerprint, without asking")
      ->type_name("SHA256:HEX");
  verb->callback([=] {
    *action = [=](const Console& console) {
      return Login(console, *options).Run();
    };
  });
}

namespace {

ExitCode Logout(const Console& console, std::string name) {
  const ContextStore contexts(ContextStore::DefaultFolder());
  if (name.empty()) {
    const absl::StatusOr<std::string> current = contexts.Current();
    if (!current.ok()) {
      return console.Fail(ExitCode::kBadInput, current.status(), "");
    }
    if (current->empty()) {
      return console.Fail(ExitCode::kBadInput, "there is no current context",
                          "Name one; `mpsctl context list` shows them.");
    }
    name = *current;
  }
  const absl::Status status = contexts.Remove(name);
  if (!status.ok()) {
    return console.Fail(
        absl::IsNotFound(status) ? ExitCode::kNotFound : ExitCode::kBadInput,
        status, "");
  }
  console.out << "Removed the context " << name
              << " with its token from this machine. The daemon still accepts "
                 "the token: `mpsctl token revoke` revokes it.\n";
  return ExitCode::kOk;
}

}  // namespace

void AddLogout(Command& app, Action* action) {
  auto name = std::make_shared<std::string>();
  Command* verb = app.add_subcommand(
      "logout", "Forget a daemon that you logged in to, and its token");
  verb->add_option(kContextName, *name, "Which one (else the current one)")
      ->type_name("");
  verb->callback([=] {
    *action = [=](const Console& console) { return Logout(console, *name); };
  });
}

namespace {

ExitCode Failed(const Console& console, const absl::Status& status) {
  return console.Fail(
      absl::IsNotFound(status) ? ExitCode::kNotFound : ExitCode::kBadInput,
      status, "");
}

// A context for --json: everything that is not secret.
nlohmann::ordered_json JsonOf(const Context& context, bool is_current) {
  return {{"name", context.name},
          {"server", context.server},
          {"user", context.user},
          {"tls", context.tls},
          {"has_token", !context.token.empty()},
          {"is_current", is_current}};
}

void PrintLine(const Console& console, const nlohmann::ordered_json& json) {
  console.out << json.dump(-1, ' ', true,
                           nlohmann::json::error_handler_t::replace)
              << '\n';
}

ExitCode List(const Console& console, bool quiet) {
  const ContextStore contexts(ContextStore::DefaultFolder());
  const absl::StatusOr<std::vector<std::string>> names = contexts.Names();
  if (!names.ok()) return Failed(console, names.status());
  const absl::StatusOr<std::string> current = contexts.Current();
  if (!current.ok()) return Failed(console, current.status());
  Table table({"CURRENT", "NAME", "USER", "SERVER"});
  if (quiet) console.out << kLocalContext << '\n';
  table.Add({current->empty() ? "*" : "", kLocalContext, "",
             "this machine's own daemon"});
  for (const std::string& name : *names) {
    const absl::StatusOr<Context> context = contexts.Find(name);
    const bool is_current = name == *current;
    if (quiet) {
      console.out << name << '\n';
    } else if (!console.json) {
      table.Add({is_current ? "*" : "", name,
                 context.ok() ? context->user : "-",
                 context.ok()
                     ? context->server
                     : absl::StrCat("broken: ", context.status().message())});
    } else if (context.ok()) {
      PrintLine(console, JsonOf(*context, is_current));
    } else {
      PrintLine(console, {{"name", name},
                          {"error", std::string(context.status().message())},
                          {"is_current", is_current}});
    }
  }
  if (!quiet && !console.json) {
    table.Print(console.out,
                console.terminal.is_tty ? console.terminal.columns() : 0);
  }
  return ExitCode::kOk;
}

ExitCode Use(const Console& console, const std::string& name) {
  const ContextStore contexts(ContextStore::DefaultFolder());
  if (const absl::Status s = contexts.Use(name); !s.ok()) {
    return Failed(console, s);
  }
  console.out << "mpsctl goes to "
              << (name == kLocalContext ? "this machine's own daemon"
                                        : contexts.Find(name)->server)
              << " now.\n";
  return ExitCode::kOk;
}

// The authority of the daemon's certificate.
std::string AuthorityText(const Context& context, absl::Time now) {
  if (IsBehindSsh(context.server))
    return "none: ssh leads to " + context.socket;
  if (!context.tls) return "none: this machine's loopback without TLS";
  if (context.ca_pem.empty()) return "those that this machine trusts";
  const auto chain = certificates::ParseCertificates(context.ca_pem);
  if (!chain.ok()) return std::string(chain.status().message());
  const auto facts = certificates::FactsOf(*chain->front());
  if (!facts.ok()) return std::string(facts.status().message());
  return absl::StrCat(facts->fingerprint, ", ",
                      CertificateText(facts->expiry, now));
}

ExitCode Show(const Console& console, std::string name) {
  const ContextStore contexts(ContextStore::DefaultFolder());
  const absl::StatusOr<std::string> current = contexts.Current();
  if (!current.ok()) return Failed(console, current.status());
  if (name.empty()) name = current->empty() ? kLocalContext : *current;
  if (name == kLocalContext) {
    console.out << "name         local\nserver       this machine's own "
                   "daemon\n";
    return ExitCode::kOk;
  }
  const absl::StatusOr<Context> context = contexts.Find(name);
  if (!context.ok()) return Failed(console, context.status());
  if (console.json) {
    PrintLine(console, JsonOf(*context, name == *current));
    return ExitCode::kOk;
  }
  console.out << "name         " << name
              << (name == *current ? ", the current one" : "")
              << "\nserver       " << Printable(context->server)
              << "\nuser         " << Printable(context->user)
              << "\nauthority    "
              << AuthorityText(*context, console.terminal.clock->Now())
              << "\nfile         " << contexts.FileOf(name).string()
              << "\ntoken        "
              << (context->token.empty() ? "none" : "in the file") << '\n';
  return ExitCode::kOk;
}

ExitCode Remove(const Console& console, const std::string& name) {
  const ContextStore contexts(ContextStore::DefaultFolder());
  if (const absl::Status s = contexts.Remove(name); !s.ok()) {
    return Failed(console, s);
  }
  console.out << "Removed the context " << name << ".\n";
  return ExitCode::kOk;
}

// Adds a verb below `context` that takes a context's name.
void AddWithName(
    Command& verb, Action* action, const char* name, const char* description,
    bool is_required,
    const std::function<ExitCode(const Console&, const std::string&)>& run) {
  auto chosen = std::make_shared<std::string>();
  Command* below = verb.add_subcommand(name, description);
  below->fallthrough();
  below->add_option(kContextName, *chosen, "The context's name")
      ->type_name("")
      ->required(is_required);
  below->callback([=] {
    *action = [=](const Console& console) { return run(console, *chosen); };
  });
}

}  // namespace

void AddContext(Command& app, Action* action) {
  Command* verb = app.add_subcommand(
      "context", "The daemons that you logged in to: list, use, show, remove");
  verb->require_subcommand(1);
  auto quiet = std::make_shared<bool>(false);
  Command* list = verb->add_subcommand("list", "List the contexts");
  list->fallthrough();
  list->add_flag("-q,--quiet", *quiet, "Print only the names");
  list->callback([=] {
    *action = [=](const Console& console) { return List(console, *quiet); };
  });
  AddWithName(*verb, action, "use", "Make a context the current one", true,
              Use);
  AddWithName(*verb, action, "show", "Show a context (else the current one)",
              false, Show);
  AddWithName(*verb, action, "remove", "Forget a context, and its token", true,
              Remove);
}

}  // namespace mpsd::client
