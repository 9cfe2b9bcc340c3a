// SPDX-License-Identifier: Apache-2.0
#include "client/app.h"

#include <CLI/CLI.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/address.h"
#include "client/connection.h"
#include "client/console.h"
#include "client/exit_code.h"
#include "client/verbs.h"

namespace mpsd::client {
namespace {

struct GlobalOptions {
  std::string server;
  std::string state_dir;
  bool json = false;
};

void AddGlobalOptions(CLI::App& app, GlobalOptions* options) {
  app.add_option("--server", options->server,
                 "HOST:PORT, unix:PATH or /PATH of the daemon\n"
                 "(else MPSD_SERVER, else by its state folder)")
      ->type_name("ADDRESS");
  app.add_option("--state-dir", options->state_dir,
                 "The daemon's state folder, which holds its socket\n"
                 "(else MPSD_STATE_DIR, else mpsd's default)")
      ->type_name("DIR");
  app.add_flag("--json", options->json, "Print JSON, one object a line");
  app.set_version_flag("--version", "mpsctl " MPSD_VERSION);
}

void AddVerbs(CLI::App& app, Action* action) {
  AddSubmit(app, action);
  AddList(app, action);
  AddShow(app, action);
  AddWatch(app, action);
  AddPlot(app, action);
  AddReport(app, action);
  AddTop(app, action);
  AddLogs(app, action);
  AddCancel(app, action);
  AddRetry(app, action);
  AddDelete(app, action);
  AddCheckpoints(app, action);
  AddDownload(app, action);
  AddImport(app, action);
  AddMerge(app, action);
  AddSchema(app, action);
  AddInfo(app, action);
  AddCompletion(app, action);
  for (CLI::App* verb : app.get_subcommands({})) {
    verb->fallthrough();
    verb->group("Verbs");
  }
  app.require_subcommand(1);
  app.get_formatter()->label("SUBCOMMAND", "VERB");
}

// CLI11's complaint, in our words where CLI11's would not help.
std::string Complaint(const CLI::App& app, const CLI::ParseError& error,
                      const std::vector<std::string>& args) {
  if (!app.get_subcommands().empty()) return error.what();
  for (const std::string& arg : args) {
    if (absl::StartsWith(arg, "-")) continue;
    if (error.get_name() == "ExtrasError" ||
        error.get_name() == "RequiredError") {
      std::string verbs;
      for (const CLI::App* verb :
           app.get_subcommands([](const CLI::App*) { return true; })) {
        absl::StrAppend(&verbs, verbs.empty() ? "" : ", ", verb->get_name());
      }
      return absl::StrCat("there is no verb '", arg, "'; the verbs are ",
                          verbs);
    }
  }
  return error.get_name() == "RequiredError" ? "no verb given" : error.what();
}

int UsageError(const CLI::App& app, const CLI::ParseError& error,
               const std::vector<std::string>& args, std::ostream& err) {
  const auto chosen = app.get_subcommands();
  err << "mpsctl: " << Complaint(app, error, args) << "\nSee `mpsctl "
      << (chosen.empty() ? "" : absl::StrCat(chosen[0]->get_name(), " "))
      << "--help`.\n";
  return static_cast<int>(ExitCode::kBadInput);
}

int RunVerb(const std::vector<std::string>& args, std::ostream& out,
            std::ostream& err, const Terminal& terminal) {
  CLI::App app("Queue fine-tuning jobs at mpsd and follow them.", "mpsctl");
  app.footer(ExitCodeHelp());
  GlobalOptions options;
  Action action;
  AddGlobalOptions(app, &options);
  AddVerbs(app, &action);
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::Success& help) {  // --help, --version
    return app.exit(help, out, err);
  } catch (const CLI::ParseError& error) {
    return UsageError(app, error, args, err);
  }
  Connection daemon(FindAddress(options.server, options.state_dir));
  const Console console{out, err, terminal, daemon, options.json};
  return static_cast<int>(action(console));
}

}  // namespace

int Run(const std::vector<std::string>& args, std::ostream& out,
        std::ostream& err, const Terminal& terminal) {
  const int code = RunVerb(args, out, err, terminal);
  out.flush();
  if (out.good() || code != 0) return code;
  err << "mpsctl: cannot write all of the output: is its disk full, or was it "
         "closed?\n";
  return static_cast<int>(ExitCode::kOther);
}

}  // namespace mpsd::client
