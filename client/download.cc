// SPDX-License-Identifier: Apache-2.0
#include "client/download.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/app.h"
#include "client/connection.h"
#include "client/jobs.h"
#include "client/text/format.h"
#include "client/watch.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/base/units.h"
#include "core/report/run_events.h"
#include "core/report/run_page.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;
using File = v1::DownloadResponse::File;
using Files = std::map<std::string, std::string>;

absl::Status CheckFolder(const std::string& option, const fs::path& folder) {
  const std::string what = absl::StrCat(option, ": ", folder.string());
  std::error_code error;
  const bool is_folder = fs::is_directory(folder, error);
  if (error) return base::ErrnoStatus(error.value(), what);
  if (!is_folder) {
    return absl::InvalidArgumentError(absl::StrCat(what, " is not a folder"));
  }
  if (access(folder.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return base::ErrnoStatus(errno, what);
}

}  // namespace

absl::Status CheckOutputFile(const std::string& option, const fs::path& path) {
  if (path.empty()) return absl::OkStatus();
  std::error_code ignored;
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored)) {
    return absl::InvalidArgumentError(absl::StrCat(
        option, ": ", path.string(), " exists and is not a regular file"));
  }
  const fs::path folder = path.parent_path();
  return CheckFolder(option, folder.empty() ? "." : folder);
}

namespace {

bool IsMissing(const grpc::Status& status) {
  const grpc::StatusCode code = status.error_code();
  return code == grpc::StatusCode::NOT_FOUND ||
         code == grpc::StatusCode::FAILED_PRECONDITION;
}

void Fetch(const Console& console, const v1::DownloadRequest& request,
           Files& files) {
  run_page::FilePicker picker(files);
  const grpc::Status status = console.daemon.Read(
      &ArtifactStub::Download, request, nullptr,
      [&](const v1::DownloadResponse& part) {
        return part.has_file()
                   ? picker.Begin(part.file().path(), part.file().size_bytes())
                   : picker.Append(part.data());
      },
      kCallPatience);
  picker.Cut();
  if (status.ok() || IsMissing(status)) return;
  picker.Drop();
  console.err << "mpsctl: some files of job " << request.job_id()
              << " are left out: " << Printable(status.error_message()) << '\n';
}

}  // namespace

Files ReadRunFiles(const Console& console, const std::string& job_id) {
  Files files;
  v1::DownloadRequest request;
  request.set_job_id(job_id);
  request.set_manifest(true);
  Fetch(console, request, files);
  request.set_predictions(true);
  Fetch(console, request, files);
  return files;
}

namespace {

void PrintTable(const Console& console,
                const v1::CheckpointsResponse& response) {
  if (response.checkpoints().empty()) {
    console.out << "No checkpoints.\n";
    return;
  }
  Table table({"STEP", "CREATED", "SIZE", "PATH"});
  for (const v1::Checkpoint& checkpoint : response.checkpoints()) {
    table.Add({absl::StrCat(checkpoint.step()),
               DateTime(checkpoint.create_time(), console.terminal.zone),
               base::BytesText(checkpoint.size_bytes()), checkpoint.path()});
  }
  table.Print(console.out, 0);
}

ExitCode Checkpoints(const std::string& id, const Console& console) {
  v1::CheckpointsRequest request;
  request.set_id(id);
  v1::CheckpointsResponse response;
  grpc::Status status =
      console.daemon.Call(&JobStub::Checkpoints, request, &response);
  if (!status.ok()) return console.Fail(status);
  return console.ShowEach(response.checkpoints(),
                          [&] { PrintTable(console, response); });
}

struct DownloadOptions {
  std::string id;
  std::optional<int64_t> checkpoint;
  bool predictions = false;
  bool curves = false;
  bool merged = false;
  bool checkpoints = false;
  std::string output;
};

// Writes the files of a Download stream below a folder, and checks each file
// against its announced size and hash.
class Receiver {
 public:
  Receiver(const Console& console, fs::path folder)
      : folder_(std::move(folder)), line_(console) {}

  absl::Status Accept(const v1::DownloadResponse& part) {
    if (part.has_file()) {
      absl::Status status = CloseFile();
      return status.ok() ? OpenFile(part.file()) : status;
    }
    if (files_.empty()) return Broken("data came before any file");
    const std::string& data = part.data();
    out_.write(data.data(), static_cast<std::streamsize>(data.size()));
    hash_->Update(data);
    received_ += static_cast<int64_t>(data.size());
    line_.Draw(received_, files_.back().size_bytes(),
               absl::StrCat("receiving ", Printable(files_.back().path())));
    return absl::OkStatus();
  }

  absl::Status Finish() {
    line_.Clear();
    if (files_.empty()) return Broken("there are no files in it");
    return CloseFile();
  }

  const std::vector<File>& files() const { return files_; }

 private:
  static absl::Status Broken(const std::string& what) {
    return absl::DataLossError(
        absl::StrCat("the daemon's answer is broken: ", what));
  }

  absl::Status OpenFile(const File& file) {
    const fs::path relative = fs::path(file.path()).lexically_normal();
    if (relative.empty() || relative.is_absolute() ||
        *relative.begin() == ".." || relative == ".") {
      return Broken(absl::StrCat("'", file.path(), "' is not a relative path"));
    }
    const fs::path path = folder_ / relative;
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    out_.open(path, std::ios::binary | std::ios::trunc);
    if (error || !out_) {
      return absl::InternalError(absl::StrCat("cannot write ", path.string()));
    }
    files_.push_back(file);
    hash_ = std::make_unique<base::Sha256>();
    received_ = 0;
    return absl::OkStatus();
  }

  absl::Status CloseFile() {
    if (files_.empty()) return absl::OkStatus();
    const File& file = files_.back();
    out_.close();
    if (!out_) {
      return absl::InternalError(
          absl::StrCat("cannot write all of ", file.path(), ": disk full?"));
    }
    if (received_ != file.size_bytes() || hash_->FinishHex() != file.sha256()) {
      return Broken(absl::StrCat(
          file.path(),
          " arrived with a different hash or size than announced"));
    }
    return absl::OkStatus();
  }

  const fs::path folder_;
  ProgressLine line_;
  std::ofstream out_;
  std::unique_ptr<base::Sha256> hash_;
  int64_t received_ = 0;  // bytes of the last of files_
  std::vector<File> files_;
};

// The destination of the received files: a folder for all, or one file.
struct Destination {
  fs::path path;
  std::string only;  // "predictions.tsv"; "": `path` is a folder for all
};

// The received files, under a temporary name next to their destination.
struct Staged {
  fs::path path;
  base::StagedFolder folder;  // will be renamed to `path`
};

// Reports a failed call to Download; a missing job and a missing output are
// both kNotFound.
ExitCode FailedCall(const Console& console, const std::string& id,
                    const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::FAILED_PRECONDITION) {
    return console.Fail(status);
  }
  v1::Job job;
  const bool ended = GetJob(console, id, &job).ok() && IsFinal(job.state());
  const bool none = job.has_checkpoint_step() && job.checkpoint_step() == 0;
  return console.Fail(
      ExitCode::kNotFound, status.error_message(),
      absl::StrCat(
          ended ? ""
                : absl::StrCat("Wait for it with `mpsctl watch ", id, "`. "),
          none ? ""
               : absl::StrCat("Its checkpoints: `mpsctl download ", id,
                              " --checkpoints`.")));
}

void PrintReceived(const Console& console, const std::string& id,
                   const Destination& to, std::vector<File> files) {
  std::erase_if(files, [&](const File& file) {
    return !to.only.empty() && file.path() != to.only;
  });
  if (console.json) {
    nlohmann::ordered_json object = {{"job_id", id},
                                     {"output", to.path.string()},
                                     {"files", nlohmann::json::array()}};
    for (const File& file : files) {
      object["files"].push_back({{"path", file.path()},
                                 {"size_bytes", file.size_bytes()},
                                 {"sha256", file.sha256()}});
    }
    return console.PrintJson(object);
  }
  int64_t bytes = 0;
  for (const File& file : files) bytes += file.size_bytes();
  console.out << files.size() << (files.size() == 1 ? " file, " : " files, ")
              << base::BytesText(bytes) << " in " << to.path.string() << '\n';
}

// AlreadyExists unless nothing exists there, or an empty folder for all files.
absl::Status CheckDestination(const Destination& to) {
  std::error_code error;
  const fs::file_status there = fs::symlink_status(to.path, error);
  if (there.type() == fs::file_type::not_found) return absl::OkStatus();
  const bool folder = fs::is_directory(there);
  if (folder && to.only.empty() && fs::is_empty(to.path, error)) {
    return absl::OkStatus();
  }
  return absl::AlreadyExistsError(
      absl::StrCat(to.path.string(),
                   folder && to.only.empty() ? " is not empty" : " exists"));
}

absl::Status PlaceFile(const base::StagedFolder& folder, const Destination& to,
                       const std::string& id) {
  std::error_code error;
  if (!fs::exists(folder.staging() / to.only, error)) {
    return absl::NotFoundError(absl::StrCat("job ", id, " has no ", to.only));
  }
  fs::rename(folder.staging() / to.only, to.path, error);
  return error ? base::ErrnoStatus(error.value(), to.path.string())
               : absl::OkStatus();
}

// Renames the folder to its final name, so that it appears complete.
absl::Status PlaceFolder(const fs::path& fresh, const fs::path& output) {
  // rename succeeds only if nothing, or an empty folder, exists there.
  if (rename(fresh.c_str(), output.c_str()) == 0) {
    return base::SyncPath(output.parent_path(), O_RDONLY | O_DIRECTORY);
  }
  const absl::Status status = base::ErrnoStatus(errno, output.string());
  std::error_code ignored;
  fs::remove_all(fresh, ignored);
  return status;
}

absl::Status Place(Staged& staged, const Destination& to,
                   const std::string& id) {
  absl::Status status = CheckDestination(to);
  if (!status.ok()) return status;
  if (!to.only.empty()) return PlaceFile(staged.folder, to, id);
  status = staged.folder.Commit();
  return status.ok() ? PlaceFolder(staged.path, to.path) : status;
}

ExitCode FailedPlace(const Console& console, const absl::Status& status,
                     const std::string& next) {
  switch (status.code()) {
    case absl::StatusCode::kAlreadyExists:
      return console.BadInput(status,
                              "Name another --output, or remove it first.");
    case absl::StatusCode::kNotFound:
      return console.Fail(ExitCode::kNotFound, status, next);
    default:
      return console.Fail(ExitCode::kOther, status, next);
  }
}

ExitCode Receive(const Console& console, const v1::DownloadRequest& request,
                 const Destination& to) {
  const std::string next = "Nothing was written.";
  const fs::path path = base::TemporaryBeside(to.path);
  auto folder = base::StagedFolder::Create(path);
  if (!folder.ok()) {
    return console.Fail(ExitCode::kOther, folder.status(), next);
  }
  Staged staged{path, *std::move(folder)};
  Receiver receiver(console, staged.folder.staging());
  absl::Status written;
  bool interrupted = false;
  const grpc::Status status =
      console.daemon.Read(&ArtifactStub::Download, request, &interrupted,
                          [&](const v1::DownloadResponse& part) {
                            written = receiver.Accept(part);
                            return written.ok();
                          });
  if (interrupted) {
    return console.Fail(ExitCode::kDetached, "interrupted", next);
  }
  if (written.ok() && !status.ok()) {
    return request.merged() || !request.export_format().empty()
               ? console.Fail(status)
               : FailedCall(console, request.job_id(), status);
  }
  if (written.ok()) written = receiver.Finish();
  if (written.ok()) {
    written = Place(staged, to, request.job_id());
  }
  if (!written.ok()) return FailedPlace(console, written, next);
  PrintReceived(console, request.job_id(), to, receiver.files());
  return ExitCode::kOk;
}

}  // namespace

ExitCode FetchOutputFile(const Console& console, const std::string& id,
                         const std::string& name, const fs::path& path) {
  v1::DownloadRequest request;
  request.set_job_id(id);
  request.set_output(true);
  return Receive(console, request, {fs::absolute(path), name});
}

namespace {

// The path without the slash at its end.
fs::path WholePath(const std::string& output) {
  std::error_code error;
  const fs::path path = fs::absolute(output, error).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

// --predictions with a .jsonl or .tsv as the output downloads only that file.
std::string WantedFile(const DownloadOptions& options, const fs::path& output) {
  const std::string extension = output.extension().string();
  if (!options.predictions || (extension != ".jsonl" && extension != ".tsv")) {
    return "";
  }
  return "predictions" + extension;
}

ExitCode Download(const DownloadOptions& options, const Console& console) {
  ExitCode code;
  if (options.checkpoints) {
    const auto id = ResolveJobId(console, options.id, &code);
    return id ? Checkpoints(*id, console) : code;
  }
  if (options.output.empty()) {
    return console.BadInput("download: --output is required: a folder",
                            "See `mpsctl download --help`.");
  }
  const fs::path output = WholePath(options.output);
  const Destination to{output, WantedFile(options, output)};
  absl::Status free = CheckDestination(to);
  if (!free.ok()) return FailedPlace(console, free, "");
  auto id = ResolveJobId(console, options.id, &code);
  if (!id) return code;
  v1::DownloadRequest request;
  request.set_job_id(*id);
  if (options.checkpoint) {
    request.set_checkpoint_step(*options.checkpoint);
  } else if (options.predictions) {
    request.set_predictions(true);
  } else if (options.curves) {
    request.set_curves(true);
  } else if (options.merged) {
    request.set_merged(true);
    if (console.terminal.is_tty) {
      console.err << "mpsd merges the adapter into its model; that takes "
                     "minutes for a large one.\n"
                  << std::flush;
    }
  } else {
    request.set_output(true);
  }
  return Receive(console, request, to);
}

void DeclareDownload(Command& verb, DownloadOptions& options) {
  verb.add_argument(kJobIdName, options.id, "The job");
  Option* checkpoint =
      verb.add_option("--checkpoint STEP", options.checkpoint,
                      "A checkpoint instead of the final output");
  Option* predictions =
      verb.add_flag("--predictions", options.predictions,
                    "The predictions for dataset.predict and the confusion\n"
                    "matrix; to a .jsonl or .tsv, only the predictions")
          ->excludes(checkpoint);
  Option* merged =
      verb.add_flag("--merged", options.merged,
                    "The model with the adapter merged into it by mpsd")
          ->excludes(checkpoint)
          ->excludes(predictions);
  verb.add_flag("--curves", options.curves,
                "metrics.jsonl, eval.jsonl, run.json and TensorBoard's runs/;\n"
                "also while the job runs")
      ->excludes(checkpoint)
      ->excludes(predictions)
      ->excludes(merged);
  Option* output = verb.add_option("-o,--output DIR", options.output,
                                   "The folder to create, or an empty one");
  verb.add_flag("--checkpoints", options.checkpoints,
                "List the checkpoints instead")
      ->excludes(output)
      ->excludes(checkpoint)
      ->excludes(predictions)
      ->excludes(merged);
}

struct ExportOptions {
  std::string id, format, output;
  std::string type = "q8_0";
};

ExitCode Export(const ExportOptions& options, const Console& console) {
  const fs::path output = WholePath(options.output);
  const Destination to{output, ""};
  const absl::Status free = CheckDestination(to);
  if (!free.ok()) return FailedPlace(console, free, "");
  ExitCode code;
  const auto id = ResolveJobId(console, options.id, &code);
  if (!id) return code;
  v1::DownloadRequest request;
  request.set_job_id(*id);
  const bool gguf = options.format == "gguf";
  request.set_export_format(gguf ? absl::StrCat("gguf-", options.type)
                                 : options.format);
  code = Receive(console, request, to);
  if (code != ExitCode::kOk || console.json) return code;
  if (gguf) {
    console.out << "Next: `ollama create NAME -f "
                << (output / "Modelfile").string()
                << "`, or open the .gguf in llama.cpp or LM Studio.\n";
  } else if (options.format == "mlx-adapter") {
    console.out << "Next: `mlx_lm.generate --model MODEL --adapter-path "
                << output.string() << " --prompt TEXT`\n";
  }
  return code;
}

void DeclareExport(Command& verb, ExportOptions& options) {
  verb.add_argument(kJobIdName, options.id, "The job");
  verb.add_option("--format FORMAT", options.format,
                  "merged: the whole model, for Transformers, vLLM, mlx-lm;\n"
                  "gguf: one file for llama.cpp, Ollama, LM Studio;\n"
                  "mlx-adapter: the adapter for mlx-lm")
      ->check(IsMember({"merged", "gguf", "mlx-adapter"}))
      ->required();
  verb.add_option("--type TYPE", options.type, "Of a GGUF file's matrices")
      ->check(IsMember({"f16", "bf16", "q8_0"}))
      ->capture_default_str();
  verb.add_option("-o,--output DIR", options.output,
                  "The folder to create, or an empty one")
      ->required();
}

constexpr size_t kMostPlottedJobs = 20;
// Steps of all jobs together, some 700 bytes each; a job has its share of them,
// but enough to draw its curves.
constexpr size_t kMostPlottedSteps = 8000;
constexpr size_t kFewestSteps = 1000;
constexpr int64_t kLogBytes = 64 << 10;

struct ReportOptions {
  NamedJobs jobs;
  std::string output = "report.html";
  bool force = false;
};

// The first bytes of a file; empty where they cannot be read.
std::string Head(const fs::path& path) {
  std::string head(run_page::kHeadBytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(file.gcount()));
  return head;
}

// Whether a report may be written to `path`: if no file exists or, with
// `force`, an earlier report.
absl::Status CheckOutput(const fs::path& path, bool force) {
  std::error_code error;
  const fs::file_status there = fs::symlink_status(path, error);
  if (there.type() == fs::file_type::not_found) return absl::OkStatus();
  if (!force) {
    return absl::AlreadyExistsError(absl::StrCat(path.string(), " exists"));
  }
  if (!fs::is_regular_file(there) || !run_page::BeginsLikeRunPage(Head(path))) {
    return absl::FailedPreconditionError(
        absl::StrCat(path.string(), " is not a report, and would be lost"));
  }
  return absl::OkStatus();
}

class Reporting {
 public:
  Reporting(const Console& console, const ReportOptions& options)
      : console_(console),
        named_(options.jobs),
        output_(fs::absolute(options.output).lexically_normal()),
        force_(options.force) {}

  ExitCode Run() {
    if (absl::Status s = CheckOutput(output_, force_); !s.ok()) {
      return BadOutput(s);
    }
    ExitCode code = ExitCode::kOk;
    const auto ids = ResolveNamed(console_, named_, {}, &code);
    if (!ids) return code;
    const size_t count = std::max(named_.texts.size(), ids->size());
    if (count > kMostPlottedJobs) {
      return console_.BadInput(
          absl::StrCat(count, " jobs for one report"),
          absl::StrCat("Name at most ", kMostPlottedJobs,
                       ": `mpsctl list -q --label "
                       "NAME=VALUE --sort eval_loss --limit ",
                       kMostPlottedJobs, "` prints the ids of the best."));
    }
    std::vector<run_page::RunData> runs;
    for (const std::string& id : *ids) {
      bool interrupted = false;
      const grpc::Status status = Collect(id, StepsOfEach(ids->size()),
                                          runs.emplace_back(), &interrupted);
      if (interrupted) {
        return console_.Fail(ExitCode::kDetached, "interrupted",
                             "Nothing was written.");
      }
      if (!status.ok()) return console_.Fail(status);
    }
    const std::string page = run_page::RunPage(run_page::RunDocument(runs));
    // The file may have been created meanwhile.
    absl::Status written = CheckOutput(output_, force_);
    if (!written.ok()) return BadOutput(written);
    written = base::WriteFileAtomic(output_, page);
    if (!written.ok()) {
      return console_.Fail(ExitCode::kOther, written, "Nothing was written.");
    }
    Print(*ids, page.size());
    return ExitCode::kOk;
  }

 private:
  static size_t StepsOfEach(size_t jobs) {
    return std::max(kFewestSteps, kMostPlottedSteps / jobs);
  }

  grpc::Status Collect(const std::string& id, size_t most_steps,
                       run_page::RunData& run, bool* interrupted) {
    v1::Job job;
    grpc::Status status = GetJob(console_, id, &job);
    if (!status.ok()) return status;
    run.job = ProtoJson(job);
    run_page::KeptEvents<v1::JobEvent> events(most_steps);
    status = ReadEvents(
        console_, job, [&](const v1::JobEvent& event) { events.Add(event); },
        interrupted);
    if (!status.ok() || *interrupted) return status;
    events.Finish(ProtoJson, &run);
    LogTail log;
    status = ReadLogTail(console_, id, kLogBytes, &log);
    run.log = std::move(log.text);
    run.left_out.log_bytes = log.before_bytes;
    if (status.ok()) run.files = ReadRunFiles(console_, id);
    return status;
  }

  ExitCode BadOutput(const absl::Status& status) const {
    return console_.BadInput(
        status,
        status.code() == absl::StatusCode::kAlreadyExists
            ? "Name another --output, or replace it with --force."
            : "Name another --output: --force replaces earlier reports only.");
  }

  void Print(const std::vector<std::string>& ids, size_t bytes) const {
    if (console_.json) {
      return console_.PrintJson(
          nlohmann::ordered_json{{"job_ids", ids},
                                 {"output", output_.string()},
                                 {"size_bytes", bytes}});
    }
    console_.out << ids.size() << (ids.size() == 1 ? " run, " : " runs, ")
                 << base::BytesText(bytes) << " in " << output_.string()
                 << '\n';
  }

  const Console& console_;
  const NamedJobs named_;
  const fs::path output_;
  const bool force_;
};

ExitCode Report(const ReportOptions& options, const Console& console) {
  return Reporting(console, options).Run();
}

void DeclareReport(Command& verb, ReportOptions& options) {
  AddNamedJobs(&verb, &options.jobs);
  verb.add_option("-o,--output FILE", options.output,
                  "The page to write: one self-contained file")
      ->capture_default_str();
  verb.add_flag("--force", options.force,
                "Replace an earlier report, and nothing else");
}

}  // namespace

std::vector<Verb> DownloadVerbs() {
  return {
      {"download", "Fetch an adapter, a model, a checkpoint, curves",
       Takes(DeclareDownload, Download),
       "mpsctl download moods --output adapter/\n"
       "mpsctl download moods --checkpoints\n"
       "mpsctl download moods --checkpoint 500 --output step-500/"},
      {"export", "Fetch a result for llama.cpp, Ollama or mlx-lm",
       Takes(DeclareExport, Export),
       "mpsctl export moods --format gguf --output moods/\n"
       "mpsctl export moods --format mlx-adapter --output moods-mlx/"},
      {"report", "Write an HTML report of a job, or of several",
       Takes(DeclareReport, Report),
       "mpsctl report moods -o moods.html\n"
       "mpsctl report --label sweep=ranks"},
  };
}

}  // namespace mpsd::client
