// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/import/import_job.h"
#include "client/text/format.h"
#include "client/verbs.h"
#include "core/base/file.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct ImportOptions {
  std::string arguments;
  std::string output;
  bool force = false;
};

// Rewrites relative paths: on a command line they count from the current
// folder, in job.json from the file's own folder.
PathWriter WriterFor(const fs::path& output) {
  std::error_code error;
  const fs::path here = fs::current_path(error);
  const fs::path folder =
      output.empty() ? here : fs::absolute(output, error).parent_path();
  return [here, folder](const std::string& path) {
    if (fs::path(path).is_absolute() || folder == here) return path;
    return (here / path).lexically_relative(folder).generic_string();
  };
}

absl::StatusOr<ImportedJob> Read(const ImportOptions& options) {
  absl::StatusOr<std::string> text = base::ReadFile(options.arguments);
  if (!text.ok()) return text.status();
  absl::StatusOr<RunArguments> run = ParseRunArguments(*text);
  absl::StatusOr<ImportedJob> job =
      run.ok() ? ImportJob(*run, WriterFor(options.output)) : run.status();
  if (job.ok()) return job;
  return absl::InvalidArgumentError(
      absl::StrCat(options.arguments, ": ", job.status().message()));
}

void PrintNotes(const ImportOptions& options, const ImportedJob& job,
                std::ostream& err) {
  if (job.notes.empty()) return;
  err << "What job.json does not say as " << options.arguments << " does:\n";
  for (const ImportNote& note : job.notes) {
    err << "  " << Printable(note.subject) << ": " << Printable(note.text)
        << '\n';
  }
}

void PrintJson(const ImportOptions& options, const ImportedJob& job,
               std::ostream& out) {
  Json object = {{"output", options.output},
                 {"job", Json::parse(job.spec_json)},
                 {"notes", Json::array()}};
  for (const ImportNote& note : job.notes) {
    object["notes"].push_back({{"subject", note.subject}, {"text", note.text}});
  }
  out << object.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
}

ExitCode Import(const ImportOptions& options, const Console& console) {
  const std::string nothing = "Nothing was written.";
  absl::StatusOr<ImportedJob> job = Read(options);
  if (!job.ok())
    return console.Fail(ExitCode::kBadInput, job.status(), nothing);
  std::error_code error;
  if (!options.output.empty()) {
    if (fs::exists(options.output, error) && !options.force) {
      return console.Fail(ExitCode::kBadInput,
                          absl::StrCat(options.output, " exists"),
                          "Name another --output, or replace it with --force.");
    }
    absl::Status written = base::WriteFileAtomic(
        fs::absolute(options.output, error), job->spec_json);
    if (!written.ok()) {
      return console.Fail(ExitCode::kOther, written, nothing);
    }
  }
  if (console.json) {
    PrintJson(options, *job, console.out);
    return ExitCode::kOk;
  }
  PrintNotes(options, *job, console.err);
  if (options.output.empty()) {
    console.out << job->spec_json;
  } else {
    console.out << "Submit it with `mpsctl submit " << options.output << "`.\n";
  }
  return ExitCode::kOk;
}

}  // namespace

void AddImport(Command& app, Action* action) {
  auto options = std::make_shared<ImportOptions>();
  Command* verb = app.add_subcommand(
      "import", "Make a job.json of run_glue.py's arguments");
  verb->add_option("ARGUMENTS", options->arguments,
                   "A file with the command line or the JSON of run_glue.py,\n"
                   "run_classification.py or run_image_classification.py")
      ->required()
      ->type_name("");
  verb->add_option("-o,--output", options->output,
                   "The job.json to make; default: print it")
      ->type_name("FILE");
  verb->add_flag("--force", options->force,
                 "Replace the output where it exists");
  verb->callback([=] {
    *action = [=](const Console& console) { return Import(*options, console); };
  });
}

}  // namespace mpsd::client
