// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/command_line.h"
#include "client/log_verbs.h"
#include "client/output_file.h"
#include "client/record_lines.h"
#include "client/record_pages.h"
#include "client/text/format.h"
#include "core/base/atomic_file.h"

namespace mpsd::client {
namespace {

struct ExportOptions {
  bool csv = false, jsonl = false, markdown = false;
  std::string query;
  std::string file;
};

RecordFormat FormatOf(const ExportOptions& options) {
  if (options.csv) return RecordFormat::kCsv;
  return options.markdown ? RecordFormat::kMarkdown : RecordFormat::kJsonLines;
}

using Put = std::function<absl::Status(const std::string&)>;

absl::Status CannotWrite(const std::string& what) {
  return absl::UnavailableError(
      absl::StrCat(what, ": cannot be written: is its disk full?"));
}

Put ToStream(std::ostream& out, const std::string& what) {
  return [&out, what](const std::string& text) {
    out << text;
    return out.good() ? absl::OkStatus() : CannotWrite(what);
  };
}

// Writes as the pages come, so that a large logbook needs little memory.
ExitCode Write(const Console& console, const ExportOptions& options,
               const Put& put) {
  const RecordFormat format = FormatOf(options);
  absl::Status written = put(RecordHeader(format));
  int64_t count = 0;
  const grpc::Status status = ForEachRecord(
      console, options.query, INT64_MAX, [&](const v1::Record& record) {
        ++count;
        written = put(RecordLine(record, format, console.terminal.zone));
        return written.ok();
      });
  if (!status.ok()) return console.Fail(status);
  if (!written.ok()) return console.Fail(ExitCode::kBadInput, written, "");
  if (count == 0 && !options.query.empty()) {
    // Whoever gives the file alone has given a query.
    console.err << "No record matches '" << Printable(options.query)
                << "'; for all records in a file: `mpsctl log export --csv '' "
                   "FILE`.\n";
  }
  return ExitCode::kOk;
}

// Into a terminal, a pipe or a device.
ExitCode WriteStream(const Console& console, const ExportOptions& options) {
  std::ofstream out(options.file, std::ios::binary);
  const std::string what = Printable(options.file);
  if (!out.good()) {
    return console.Fail(ExitCode::kBadInput, CannotWrite(what), "");
  }
  const ExitCode code = Write(console, options, ToStream(out, what));
  out.flush();
  if (code != ExitCode::kOk || out.good()) return code;
  return console.Fail(ExitCode::kBadInput, CannotWrite(what), "");
}

// A query that is wrong, or a daemon that goes, leaves the earlier file.
ExitCode WriteFile(const Console& console, const ExportOptions& options) {
  auto file = base::AtomicFile::Create(options.file);
  if (!file.ok()) {
    return console.Fail(ExitCode::kBadInput, file.status(), "");
  }
  const ExitCode code = Write(console, options, [&](const std::string& text) {
    return (*file)->Append(text);
  });
  if (code != ExitCode::kOk) return code;
  const absl::Status committed = (*file)->Commit();
  return committed.ok() ? code
                        : console.Fail(ExitCode::kBadInput, committed, "");
}

ExitCode Export(const Console& console, const ExportOptions& options) {
  if (options.file.empty()) {
    return Write(console, options, ToStream(console.out, "the output"));
  }
  std::error_code error;
  const auto kind = std::filesystem::status(options.file, error).type();
  if (kind == std::filesystem::file_type::fifo ||
      kind == std::filesystem::file_type::character) {
    return WriteStream(console, options);
  }
  const absl::Status there = CheckOutputFile("FILE", options.file);
  if (!there.ok()) return console.Fail(ExitCode::kBadInput, there, "");
  return WriteFile(console, options);
}

}  // namespace

void AddLogExport(Command& log, Action* action) {
  auto options = std::make_shared<ExportOptions>();
  Command* verb = log.add_subcommand(
      "export", "Write all records, or those that a query finds");
  verb->fallthrough();
  auto* format = verb->add_option_group("format");
  format->add_flag("--csv", options->csv, "A table for spreadsheets");
  format->add_flag("--jsonl", options->jsonl,
                   "JSON Lines, with all of each record");
  format->add_flag("--markdown", options->markdown, "A table in Markdown");
  format->require_option(1);
  verb->add_option("QUERY", options->query,
                   "As for `mpsctl log search`; '' for all records")
      ->type_name("");
  verb->add_option("FILE", options->file, "In the place of the output")
      ->type_name("");
  verb->callback([=] {
    *action = [=](const Console& console) { return Export(console, *options); };
  });
}

}  // namespace mpsd::client
