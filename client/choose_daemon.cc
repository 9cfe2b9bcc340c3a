// SPDX-License-Identifier: Apache-2.0
#include "client/choose_daemon.h"

#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/tls/host_port.h"
#include "client/tls/system_roots.h"

namespace mpsd::client {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The name of the context for HOST:PORT; empty where there is none.
absl::StatusOr<std::string> ContextAt(const std::string& server,
                                      const ContextStore& contexts) {
  const absl::StatusOr<std::vector<std::string>> names = contexts.Names();
  if (!names.ok()) return names.status();
  const absl::StatusOr<std::string> current = contexts.Current();
  std::vector<std::string> fitting;
  for (const std::string& name : *names) {
    const absl::StatusOr<Context> context = contexts.Find(name);
    // Another context that is broken is no obstacle.
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

// The daemon behind ssh at `url`. A context keeps where its socket is.
absl::StatusOr<Address> BehindSsh(const std::string& url,
                                  const ContextStore& contexts) {
  const absl::StatusOr<std::string> name = ContextAt(url, contexts);
  if (!name.ok()) return name.status();
  Context context;
  if (!name->empty()) context = contexts.Find(*name).value_or(context);
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
  if (name == kLocalContext) return FindAddress("", DefaultStateDir());
  const absl::StatusOr<Context> context = contexts.Find(name);
  if (!context.ok()) return context.status();
  if (IsBehindSsh(context->server)) return BehindSsh(context->server, contexts);
  return AddressOf(*context);
}

// An address as --server gives it.
absl::StatusOr<Address> AtServer(const Address& plain,
                                 const ContextStore& contexts) {
  if (!plain.socket_path.empty()) return plain;
  if (plain.tunnel != nullptr) return BehindSsh(plain.target, contexts);
  const absl::StatusOr<HostPort> place = ParseHostPort(plain.target);
  if (!place.ok()) return place.status();
  const absl::StatusOr<std::string> context =
      ContextAt(place->Text(), contexts);
  if (!context.ok()) return context.status();
  if (!context->empty()) return InContext(*context, contexts);
  Context unknown;
  unknown.server = place->Text();
  unknown.tls = !IsLoopback(place->host);
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
  HOST:PORT takes CA and token of the context that was logged in there, else
  the token MPSD_TOKEN.)";
}

absl::StatusOr<Address> AddressOf(const Context& context) {
  const absl::StatusOr<HostPort> place = ParseHostPort(context.server);
  if (!place.ok()) return place.status();
  Address address{place->Text(), ""};
  Credentials& own = address.credentials;
  own.context = context.name;
  own.token = context.token;
  own.tls = context.tls;
  if (!own.tls) return address;
  own.roots_pem = context.ca_pem;
  if (own.roots_pem.empty()) {
    absl::StatusOr<std::string> roots = SystemRoots();
    if (!roots.ok()) return roots.status();
    own.roots_pem = *std::move(roots);
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
  const absl::StatusOr<std::string> current = contexts.Current();
  if (!current.ok()) return current.status();
  return InContext(current->empty() ? kLocalContext : *current, contexts);
}

}  // namespace mpsd::client
