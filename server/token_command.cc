// SPDX-License-Identifier: Apache-2.0
#include "server/token_command.h"

#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "client/token/token_options.h"
#include "client/token/token_text.h"
#include "core/base/printable.h"
#include "server/config.h"
#include "server/token_door.h"

namespace mpsd {
namespace {

// sysexits.h: EX_USAGE, EX_UNAVAILABLE.
constexpr int kExitUsage = 64;
constexpr int kExitUnavailable = 69;

struct Options {
  client::TokenOptions token;
  std::string state_dir;
  std::string config;
  bool json = false;
};

void Declare(CLI::App& app, Options& o) {
  client::AddTokenVerbs(app, &o.token);
  app.add_option("--state-dir", o.state_dir, "mpsd's state folder");
  app.add_option("--config", o.config,
                 "mpsd's TOML file, which may name the state folder");
  app.add_flag("--json", o.json, "Print JSON, one object a line");
  for (CLI::App* verb : app.get_subcommands({})) verb->fallthrough();
}

// The configuration as the daemon has it, as far as it tells the state folder.
absl::StatusOr<Config> ConfigOf(const Options& options) {
  std::vector<std::string> args;
  if (!options.config.empty()) {
    args.insert(args.end(), {"--config", options.config});
  }
  if (!options.state_dir.empty()) {
    args.insert(args.end(), {"--state-dir", options.state_dir});
  }
  const auto parsed = ParseConfig(args);
  if (!parsed.ok()) return parsed.status();
  return std::get<Config>(*parsed);
}

absl::Status Create(const Options& options, const Config& config,
                    const client::TokenView& view) {
  absl::StatusOr<v1::CreateTokenRequest> request =
      client::CreateRequest(options.token, view.now, view.zone);
  if (!request.ok()) return request.status();
  absl::StatusOr<std::unique_ptr<TokenDoor>> door = OpenTokenDoor(config);
  if (!door.ok()) return door.status();
  v1::CreateTokenResponse response;
  const absl::Status made = (*door)->Create(*request, response);
  if (made.ok()) client::PrintCreated(view, response);
  return made;
}

absl::Status List(const Config& config, const client::TokenView& view) {
  absl::StatusOr<std::unique_ptr<TokenDoor>> door = OpenTokenDoor(config);
  if (!door.ok()) return door.status();
  v1::ListTokensResponse response;
  const absl::Status listed = (*door)->List(response);
  if (listed.ok()) client::PrintTokens(view, response);
  return listed;
}

// Revokes what can be revoked; returns the first error.
absl::Status Revoke(const Options& options, const Config& config,
                    const client::TokenView& view) {
  absl::Status result = client::CheckTokenIds(options.token);
  if (!result.ok()) return result;
  absl::StatusOr<std::unique_ptr<TokenDoor>> door = OpenTokenDoor(config);
  if (!door.ok()) return door.status();
  for (const std::string& id : options.token.ids) {
    v1::RevokeTokenRequest request;
    request.set_id(id);
    v1::RevokeTokenResponse response;
    const absl::Status revoked = (*door)->Revoke(request, response);
    if (revoked.ok()) client::PrintRevoked(view, id, response);
    result.Update(revoked);
  }
  return result;
}

absl::Status Run(const Options& options, const client::TokenView& view) {
  const absl::StatusOr<Config> config = ConfigOf(options);
  if (!config.ok()) return config.status();
  switch (options.token.verb) {
    case client::TokenOptions::Verb::kCreate:
      return Create(options, *config, view);
    case client::TokenOptions::Verb::kList:
      return List(*config, view);
    case client::TokenOptions::Verb::kRevoke:
      return Revoke(options, *config, view);
  }
  return absl::InternalError("a verb that nobody wrote");
}

int Complain(const absl::Status& status, std::ostream& err) {
  err << "mpsd token: "
      << base::Printable(std::string(status.message()), base::Breaks::kKeep)
      << "\n";
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitUnavailable;
}

}  // namespace

int TokenCommand(const std::vector<std::string>& args, std::ostream& out,
                 std::ostream& err) {
  CLI::App app("The tokens by which clients prove who they are.", "mpsd token");
  Options options;
  Declare(app, options);
  try {
    // CLI11 takes the arguments in reverse order.
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::Success& help) {
    return app.exit(help, out, err);
  } catch (const CLI::ParseError& e) {
    err << "mpsd token: " << base::Printable(e.what())
        << "; mpsd token --help lists the verbs and options\n";
    return kExitUsage;
  }
  // gRPC would print its own complaints about a connection beside ours.
  setenv("GRPC_VERBOSITY", "NONE", 0);
  const client::TokenView view{.out = out,
                               .err = err,
                               .json = options.json,
                               .now = absl::Now(),
                               .zone = absl::LocalTimeZone(),
                               .program = "mpsd"};
  const absl::Status status = Run(options, view);
  if (!status.ok()) return Complain(status, err);
  if (out.flush()) return 0;
  return Complain(absl::DataLossError("the output could not be written: is the "
                                      "disk full, or was it closed?"),
                  err);
}

}  // namespace mpsd
