// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>

#include "client/token/token_options.h"
#include "client/token/token_text.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

TokenView ViewOf(const Console& console) {
  const Terminal& terminal = console.terminal;
  return {console.out,
          console.err,
          console.json,
          terminal.is_tty ? terminal.columns() : 0,
          terminal.clock->Now(),
          terminal.zone,
          "mpsctl"};
}

ExitCode Create(const TokenOptions& options, const Console& console) {
  const TokenView view = ViewOf(console);
  absl::StatusOr<v1::CreateTokenRequest> request =
      CreateRequest(options, view.now, view.zone);
  if (!request.ok()) {
    return console.Fail(ExitCode::kBadInput, request.status(), "");
  }
  grpc::ClientContext context;
  SetDeadline(context);
  v1::CreateTokenResponse response;
  grpc::Status status =
      console.daemon.access().CreateToken(&context, *request, &response);
  if (!status.ok()) return console.Fail(status);
  PrintCreated(view, response);
  return ExitCode::kOk;
}

ExitCode List(const Console& console) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::ListTokensResponse response;
  grpc::Status status =
      console.daemon.access().ListTokens(&context, {}, &response);
  if (!status.ok()) return console.Fail(status);
  PrintTokens(ViewOf(console), response);
  return ExitCode::kOk;
}

ExitCode RevokeOne(const std::string& id, const Console& console) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::RevokeTokenRequest request;
  request.set_id(id);
  v1::RevokeTokenResponse response;
  grpc::Status status =
      console.daemon.access().RevokeToken(&context, request, &response);
  if (status.error_code() == grpc::StatusCode::NOT_FOUND) {
    return console.Fail(ExitCode::kNotFound, status.error_message(),
                        "See the tokens there are with `mpsctl token list`.");
  }
  if (!status.ok()) return console.Fail(status);
  PrintRevoked(ViewOf(console), id, response);
  return ExitCode::kOk;
}

ExitCode Revoke(const TokenOptions& options, const Console& console) {
  const absl::Status checked = CheckTokenIds(options);
  if (!checked.ok()) return console.Fail(ExitCode::kBadInput, checked, "");
  ExitCode code = ExitCode::kOk;
  for (const std::string& id : options.ids) {
    const ExitCode one = RevokeOne(id, console);
    if (code == ExitCode::kOk) code = one;
  }
  return code;
}

ExitCode Run(const TokenOptions& options, const Console& console) {
  switch (options.verb) {
    case TokenOptions::Verb::kCreate:
      return Create(options, console);
    case TokenOptions::Verb::kList:
      return List(console);
    case TokenOptions::Verb::kRevoke:
      return Revoke(options, console);
  }
  return ExitCode::kOther;
}

}  // namespace

void AddToken(Command& app, Action* action) {
  auto options = std::make_shared<TokenOptions>();
  Command* verb = app.add_subcommand(
      "token", "Make, list and revoke the tokens by which clients log in");
  AddTokenVerbs(*verb, options.get());
  for (Command* one : verb->verbs()) one->fallthrough();
  verb->callback([=] {
    *action = [=](const Console& console) { return Run(*options, console); };
  });
}

}  // namespace mpsd::client
