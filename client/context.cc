// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/contexts/context_store.h"
#include "client/text/format.h"
#include "client/text/identity_text.h"
#include "client/text/table.h"
#include "client/verbs.h"
#include "core/certificates/certificate_facts.h"
#include "core/certificates/pem.h"

namespace mpsd::client {
namespace {

ExitCode Failed(const Console& console, const absl::Status& status) {
  return console.Fail(
      absl::IsNotFound(status) ? ExitCode::kNotFound : ExitCode::kBadInput,
      status, "");
}

// A context as programs get it: whatever is no secret.
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

// Who is trusted to have signed the daemon's certificate.
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
  list->add_flag("-q,--quiet", *quiet, "Print the names alone");
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
