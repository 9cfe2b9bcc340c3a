// SPDX-License-Identifier: Apache-2.0
#include "client/access.h"

#include <google/protobuf/message.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/app.h"
#include "client/command_line.h"
#include "client/connection.h"
#include "client/daemons/context_store.h"
#include "client/daemons/trust.h"
#include "client/jobs.h"
#include "client/text/format.h"
#include "core/base/api_token.h"
#include "core/base/certificates.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/sha256.h"
#include "core/base/text.h"
#include "core/base/units.h"

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

// Warns of a variable that decides, before the current context, which daemon
// verbs call. Returns whether there is one and it leads elsewhere.
bool WarnOfVariable(const Console& console, const std::string& context,
                    const std::string& server) {
  for (const char* name : {"MPSD_SERVER", "MPSD_CONTEXT", "MPSD_STATE_DIR"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == 0) continue;
    if (value == context || value == server) return false;
    console.err << "warning: " << name << "=" << Printable(value)
                << " is set in your environment and has precedence over the "
                   "context: until you `unset "
                << name << "`, give --context " << context << ".\n";
    return true;
  }
  return false;
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
    return console_.BadInput(status, next);
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
      return console_.BadInput(
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
      if (!s.ok()) return console_.Fail(ExitCode::kNotLetIn, s);
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
      return console_.BadInput(
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
      token = ReadStandardInput(limits::kTokenBytes);
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
        return console_.BadInput(
            "cannot ask for the token without a terminal",
            "Give it with --token-file FILE, --token-file - or MPSD_TOKEN.");
      }
    }
    if (absl::IsCancelled(token.status())) {
      return console_.Fail(ExitCode::kDetached, token.status());
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
    const grpc::Status status = connection.Call(&AccessStub::WhoAmI, {}, &who_);
    if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
      return console_.Fail(
          ExitCode::kNotLetIn,
          absl::StrCat("mpsd at ", context_.server,
                       " does not let you in: ", status.error_message()),
          "Nothing was stored. An admin makes a token with `mpsctl admin token "
          "create`.");
    }
    if (!status.ok()) return console.Fail(status);
    context_.user = base::Shortened(who_.user(), limits::kUserBytes);
    return std::nullopt;
  }

  Failed Keep() {
    absl::Status status = contexts_.Save(context_);
    if (status.ok()) status = contexts_.Use(context_.name);
    if (!status.ok()) return console_.Fail(ExitCode::kOther, status);
    const bool elsewhere =
        WarnOfVariable(console_, context_.name, context_.server);
    if (console_.json) {
      console_.PrintJson(who_);
      return std::nullopt;
    }
    const std::string token =
        context_.token.empty() ? "-" : contexts_.FileOf(context_.name).string();
    const absl::Time now = console_.terminal.clock->Now();
    console_.out << "Logged in at " << context_.server << ".\n"
                 << "  you          " << IdentityText(who_, now)
                 << "\n  certificate  " << CertificateDays(now)
                 << "\n  context      " << context_.name
                 << ", the current one\n  token        " << token << '\n';
    if (elsewhere) return std::nullopt;
    console_.out
        << "`mpsctl submit job.json` now goes there; `mpsctl context use "
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

void DeclareLogin(Command& verb, LoginOptions& options) {
  verb.add_argument("SERVER", options.server, "HOST:PORT of its --listen");
  verb.add_option("--name NAME", options.name,
                  "The context's name (else made from HOST)");
  verb.add_option("--token-file FILE", options.token_file,
                  "Read the token there; -: standard input\n"
                  "(else MPSD_TOKEN, else mpsctl asks)");
  verb.add_option("--fingerprint SHA256:HEX", options.fingerprint,
                  "Trust the authority with this fingerprint, without asking");
}

ExitCode RunLogin(const LoginOptions& options, const Console& console) {
  return Login(console, options).Run();
}

// A failure with the contexts.
ExitCode Failed(const Console& console, const absl::Status& status) {
  return console.Fail(
      absl::IsNotFound(status) ? ExitCode::kNotFound : ExitCode::kBadInput,
      status);
}

ExitCode Logout(const std::string& chosen, const Console& console) {
  const ContextStore contexts(ContextStore::DefaultFolder());
  std::string name = chosen;
  if (name.empty()) {
    const absl::StatusOr<std::string> current = contexts.Current();
    if (!current.ok()) return Failed(console, current.status());
    if (current->empty()) {
      return console.BadInput("there is no current context",
                              "Name one; `mpsctl context list` shows them.");
    }
    name = *current;
  }
  if (const absl::Status s = contexts.Remove(name); !s.ok()) {
    return Failed(console, s);
  }
  console.out << "Removed the context " << name
              << " with its token from this machine. The daemon still accepts "
                 "the token: `mpsctl admin token revoke` revokes it.\n";
  return ExitCode::kOk;
}

void DeclareLogout(Command& verb, std::string& name) {
  verb.add_option(kContextName, name, "Which one (else the current one)");
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

ExitCode ListContexts(const bool& quiet, const Console& console) {
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
  if (!quiet && !console.json) console.Print(table);
  return ExitCode::kOk;
}

ExitCode Use(const std::string& name, const Console& console) {
  const ContextStore contexts(ContextStore::DefaultFolder());
  if (const absl::Status s = contexts.Use(name); !s.ok()) {
    return Failed(console, s);
  }
  const std::string place = name == kLocalContext ? "this machine's own daemon"
                                                  : contexts.Find(name)->server;
  if (!WarnOfVariable(console, name, place)) {
    console.out << "mpsctl goes to " << place << " now.\n";
  }
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

ExitCode ShowContext(const std::string& chosen, const Console& console) {
  const ContextStore contexts(ContextStore::DefaultFolder());
  const absl::StatusOr<std::string> current = contexts.Current();
  if (!current.ok()) return Failed(console, current.status());
  std::string name = chosen;
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

ExitCode RemoveContext(const std::string& name, const Console& console) {
  const ContextStore contexts(ContextStore::DefaultFolder());
  if (const absl::Status s = contexts.Remove(name); !s.ok()) {
    return Failed(console, s);
  }
  console.out << "Removed the context " << name << ".\n";
  return ExitCode::kOk;
}

void DeclareQuiet(Command& verb, bool& quiet) {
  verb.add_flag("-q,--quiet", quiet, "Print only the names");
}

void DeclareContext(Command& verb, std::string& name) {
  verb.add_argument(kContextName, name, "The context's name");
}

void DeclareOptionalContext(Command& verb, std::string& name) {
  verb.add_option(kContextName, name, "The context's name");
}

// --- Tokens ------------------------------------------------------------------

std::string Minute(const google::protobuf::Timestamp& stamp,
                   const Console& console) {
  return absl::FormatTime("%Y-%m-%d %H:%M", ToTime(stamp),
                          console.terminal.zone);
}

absl::Duration Left(const v1::Token& token, const Console& console) {
  return ToTime(token.expire_time()) - console.terminal.clock->Now();
}

std::string Expiry(const v1::Token& token, const Console& console) {
  if (!token.has_expire_time()) return "never";
  const absl::Duration left = Left(token, console);
  return absl::StrCat(Minute(token.expire_time(), console),
                      left <= absl::ZeroDuration()
                          ? " EXPIRED"
                          : absl::StrCat(" (", DaysText(left), ")"));
}

std::vector<std::string> TokenRow(const v1::Token& token,
                                  const Console& console) {
  return {token.id(),
          token.user(),
          RoleName(token.role()),
          Minute(token.create_time(), console),
          OrDash(token.created_by()),
          Expiry(token, console),
          token.has_last_use_time() ? Minute(token.last_use_time(), console)
                                    : "never",
          token.note()};
}

std::string Life(const v1::Token& token, const Console& console) {
  if (!token.has_expire_time()) return "It never expires.";
  return absl::StrCat("It expires on ", Minute(token.expire_time(), console),
                      ", in ", DaysText(Left(token, console)), ".");
}

// A longer span is a typing error; "never" is the way to say it.
constexpr absl::Duration kLongestSpan = absl::Hours(24 * 365 * 100);

std::optional<absl::Time> EndOfDay(const std::string& text,
                                   absl::TimeZone zone) {
  // ParseCivilTime accepts other forms, too.
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') {
    return std::nullopt;
  }
  absl::CivilDay day;
  if (!absl::ParseCivilTime(text, &day)) return std::nullopt;
  return absl::FromCivil(day + 1, zone);
}

}  // namespace

absl::StatusOr<std::optional<absl::Time>> ParseExpiry(const std::string& text,
                                                      absl::Time now,
                                                      absl::TimeZone zone) {
  if (text == "never") return std::optional<absl::Time>();
  const absl::Duration span =
      base::ParseSpan(text, "hdw").value_or(absl::ZeroDuration());
  if (span > kLongestSpan) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", base::Quotable(text),
                     "' is more than 100 years; use never instead"));
  }
  if (span > absl::ZeroDuration()) return std::optional(now + span);
  const std::optional<absl::Time> end = EndOfDay(text, zone);
  if (!end.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", base::Quotable(text),
                     "' is not a time: expected a span such as 90d, 12h or 2w, "
                     "a day such as 2027-01-31, or never"));
  }
  if (*end > now) return end;
  return absl::InvalidArgumentError(absl::StrCat("the day ", text, " is over"));
}

void PrintCreated(const Console& console,
                  const v1::CreateTokenResponse& response) {
  if (console.json) {
    console.PrintJson(response);
  } else {
    console.out << Printable(response.secret()) << '\n' << std::flush;
  }
  const v1::Token& token = response.token();
  const std::string user = Printable(token.user());
  const std::string id = Printable(token.id());
  console.err
      << "Made token " << id << " of " << user << ", with the role "
      << RoleName(token.role()) << ". " << Life(token, console)
      << "\nIt cannot be shown again: mpsd keeps only its SHA-256. Send it to "
      << user
      << " securely;\nit is typed or piped into\n  mpsctl login HOST:PORT\n"
         "Revoke a token that others may have seen:\n  mpsctl admin token "
         "revoke "
      << id << "\n";
}

void PrintTokens(const Console& console,
                 const v1::ListTokensResponse& response) {
  console.ShowEach(response.tokens(), [&] {
    if (response.tokens().empty()) {
      console.out
          << "No tokens. Make one with `mpsctl admin token create --user NAME "
             "--role ROLE`.\n";
      return;
    }
    Table table(
        {"ID", "USER", "ROLE", "CREATED", "BY", "EXPIRES", "LAST USE", "NOTE"});
    for (const v1::Token& token : response.tokens()) {
      table.Add(TokenRow(token, console));
    }
    console.Print(table);
  });
}

void PrintRevoked(const Console& console, const std::string& id,
                  const v1::RevokeTokenResponse& response) {
  const int streams = response.ended_streams();
  if (console.json) {
    return console.PrintJson(
        nlohmann::ordered_json{{"id", id}, {"ended_streams", streams}});
  }
  console.out << "Token " << id << " is revoked";
  if (streams > 0) {
    console.out << "; " << streams
                << (streams == 1 ? " open stream" : " open streams")
                << " of it ended";
  }
  console.out << ".\n" << std::flush;
}

namespace {

struct TokenOptions {
  std::string user;
  std::string role;
  std::string expires = "90d";
  std::string note;
};

void DeclareCreate(Command& verb, TokenOptions& options) {
  std::vector<std::string> roles = ValueNames(*v1::Role_descriptor());
  for (std::string& role : roles) absl::AsciiStrToLower(&role);
  verb.add_argument("--user NAME", options.user, "The token's user");
  verb.add_argument("--role", options.role,
                    "viewer reads; user submits, and changes what is the "
                    "user's own; admin changes everything")
      ->check(IsMember(std::move(roles)));
  verb.add_option("--expires WHEN", options.expires,
                  "After 90d, 12h or 2w, at the end of the day 2027-01-31, "
                  "or never")
      ->capture_default_str();
  verb.add_option("--note TEXT", options.note, "What it is for, as 'laptop'");
}

void DeclareRevoke(Command& verb, std::vector<std::string>& ids) {
  verb.add_argument("ID", ids, "As `list` shows it");
}

absl::StatusOr<v1::CreateTokenRequest> CreateRequest(
    const TokenOptions& options, absl::Time now, absl::TimeZone zone) {
  v1::CreateTokenRequest request;
  request.set_user(options.user);
  v1::Role role = v1::ROLE_UNSPECIFIED;
  v1::Role_Parse(absl::StrCat("ROLE_", absl::AsciiStrToUpper(options.role)),
                 &role);
  request.set_role(role);
  request.set_note(options.note);
  absl::StatusOr<std::optional<absl::Time>> expiry =
      ParseExpiry(options.expires, now, zone);
  if (!expiry.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--expires: ", expiry.status().message()));
  }
  if (expiry->has_value()) {
    request.mutable_expire_time()->set_seconds(absl::ToUnixSeconds(**expiry));
  }
  return request;
}

// InvalidArgument if `revoke` got a token instead of its id; the error does not
// quote it, and no daemon is called.
absl::Status CheckTokenIds(const std::vector<std::string>& ids) {
  for (const std::string& id : ids) {
    if (!absl::StartsWith(id, std::string(base::kApiTokenPrefix))) continue;
    return absl::InvalidArgumentError(
        "that is a token, not its id; it is in this shell's history now, so "
        "revoke it by its id, which `admin token list` shows");
  }
  return absl::OkStatus();
}

ExitCode Create(const TokenOptions& options, const Console& console) {
  const absl::StatusOr<v1::CreateTokenRequest> request = CreateRequest(
      options, console.terminal.clock->Now(), console.terminal.zone);
  if (!request.ok()) return console.BadInput(request.status());
  v1::CreateTokenResponse response;
  const grpc::Status status =
      console.daemon.Call(&AccessStub::CreateToken, *request, &response);
  if (!status.ok()) return console.Fail(status);
  PrintCreated(console, response);
  return ExitCode::kOk;
}

ExitCode ListTokens(const Console& console) {
  v1::ListTokensResponse response;
  const grpc::Status status =
      console.daemon.Call(&AccessStub::ListTokens, {}, &response);
  if (!status.ok()) return console.Fail(status);
  PrintTokens(console, response);
  return ExitCode::kOk;
}

ExitCode RevokeOne(const std::string& id, const Console& console) {
  v1::RevokeTokenRequest request;
  request.set_id(id);
  v1::RevokeTokenResponse response;
  grpc::Status status =
      console.daemon.Call(&AccessStub::RevokeToken, request, &response);
  if (status.error_code() == grpc::StatusCode::NOT_FOUND) {
    return console.Fail(ExitCode::kNotFound, status.error_message(),
                        "List the tokens with `mpsctl admin token list`.");
  }
  if (!status.ok()) return console.Fail(status);
  PrintRevoked(console, id, response);
  return ExitCode::kOk;
}

ExitCode Revoke(const std::vector<std::string>& ids, const Console& console) {
  const absl::Status checked = CheckTokenIds(ids);
  if (!checked.ok()) return console.BadInput(checked);
  return ForEach(ids,
                 [&](const std::string& id) { return RevokeOne(id, console); });
}

// --- Audit -------------------------------------------------------------------

struct AuditOptions {
  std::string user;
  std::string job;
  std::string method;
  std::string since;
  std::string until;
  bool refused = false;
  int limit = 50;
};

// Fetches up to `limit` entries, over as many pages as needed.
grpc::Status Fetch(const Console& console, v1::ListAuditRequest request,
                   int limit, std::vector<v1::AuditEntry>* all) {
  do {
    request.set_page_size(std::min(500, limit - static_cast<int>(all->size())));
    v1::ListAuditResponse response;
    const grpc::Status status =
        console.daemon.Call(&AccessStub::ListAudit, request, &response);
    if (!status.ok()) return status;
    all->insert(all->end(), response.entries().begin(),
                response.entries().end());
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty() &&
           static_cast<int>(all->size()) < limit);
  return grpc::Status::OK;
}

// The outcome of the request, and its details.
std::string Outcome(const v1::AuditEntry& entry) {
  std::string text = entry.detail();
  if (!entry.message().empty()) {
    absl::StrAppend(&text, text.empty() ? "" : ": ", entry.message());
  }
  return text;
}

std::vector<std::string> AuditRow(const v1::AuditEntry& entry,
                                  const Terminal& terminal) {
  return {DateTime(entry.time(), terminal.zone), OrDash(entry.user()),
          OrDash(entry.credential()), OrDash(entry.origin()),
          entry.method().substr(entry.method().find('.') + 1),
          OrDash(entry.job_id()),
          // A call that mpsd did not survive has no result.
          entry.result().empty() ? "?" : entry.result(), Outcome(entry)};
}

void PrintTable(const Console& console,
                const std::vector<v1::AuditEntry>& entries) {
  if (entries.empty()) {
    console.out << "No audit entries.\n";
    return;
  }
  Table table({"TIME", "USER", "BY", "FROM", "WHAT", "JOB", "RESULT", ""});
  for (const v1::AuditEntry& entry : entries) {
    table.Add(AuditRow(entry, console.terminal));
  }
  console.Print(table);
}

ExitCode Audit(const AuditOptions& options, const Console& console) {
  v1::ListAuditRequest request;
  request.set_user(options.user);
  // A deleted job still has entries.
  if (!options.job.empty()) {
    ExitCode code;
    auto id = ResolveJobId(console, options.job, &code, PastJobs::kToo);
    if (!id) return code;
    request.set_job_id(*id);
  }
  request.set_method(options.method);
  request.set_refused(options.refused);
  absl::Status read = SetWhen("--since", options.since, console.terminal,
                              request, &v1::ListAuditRequest::mutable_since);
  if (read.ok()) {
    read = SetWhen("--until", options.until, console.terminal, request,
                   &v1::ListAuditRequest::mutable_until);
  }
  if (!read.ok()) return console.BadInput(read);
  std::vector<v1::AuditEntry> entries;
  grpc::Status status = Fetch(console, request, options.limit, &entries);
  if (!status.ok()) return console.Fail(status);
  return console.ShowEach(entries, [&] { PrintTable(console, entries); });
}

void DeclareAudit(Command& verb, AuditOptions& options) {
  verb.add_option("--user NAME", options.user, "Only this user's requests");
  verb.add_option("--job ID", options.job, "Only what concerns this job");
  verb.add_option("--method NAME", options.method,
                  "Only this call: Submit, Cancel, JobService.Delete …");
  verb.add_flag("--refused", options.refused,
                "Only what was refused or failed");
  verb.add_option("--since WHEN", options.since,
                  "Since: 2w, 7d, 12h or 30m ago, or a date");
  verb.add_option("--until WHEN", options.until, "Before then; likewise");
  verb.add_option("--limit N", options.limit, "At most this many")
      ->check(Range(1, 1000000))
      ->capture_default_str();
}

}  // namespace

std::vector<Verb> AccessVerbs() {
  return {
      {"login", "Log in to a daemon on a port, with TLS and a token",
       Takes(DeclareLogin, RunLogin), "mpsctl login studio.local:7433",
       /*calls_daemon=*/false},
      {"logout", "Forget a login and its token", Takes(DeclareLogout, Logout),
       "mpsctl logout studio",
       /*calls_daemon=*/false},
      {"token",
       "The tokens of clients: create, list, revoke",
       nullptr,
       "mpsctl admin token create --user ann --role user",
       /*calls_daemon=*/true,
       {{"create", "Make a token and print it once",
         Takes(DeclareCreate, Create),
         "mpsctl admin token create --user ann --role user --expires 30d"},
        {"list", "Show the tokens; for others than admins their own",
         TakesNothing(ListTokens), "mpsctl admin token list"},
        {"revoke", "Revoke tokens and end the streams they opened",
         Takes(DeclareRevoke, Revoke),
         "mpsctl admin token revoke 0a1b2c3d4e5f"}}},
      {"context",
       "Your logins: list, use, show, remove",
       nullptr,
       "mpsctl context list\n"
       "mpsctl context use studio",
       /*calls_daemon=*/false,
       {{"list", "List the contexts", Takes(DeclareQuiet, ListContexts),
         "mpsctl context list"},
        {"use", "Make a context the current one", Takes(DeclareContext, Use),
         "mpsctl context use studio"},
        {"show", "Show a context (else the current one)",
         Takes(DeclareOptionalContext, ShowContext), "mpsctl context show"},
        {"remove", "Forget a context, and its token",
         Takes(DeclareContext, RemoveContext),
         "mpsctl context remove studio"}}},
      {"audit", "Show who requested which change, newest first",
       Takes(DeclareAudit, Audit), "mpsctl admin audit --user ann --since 7d"},
  };
}

}  // namespace mpsd::client
