// SPDX-License-Identifier: Apache-2.0
#include "client/model.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/text/format.h"
#include "client/watch.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/base/units.h"
#include "core/spec/fields.h"
#include "core/spec/model_folder.h"

namespace mpsd::client {

namespace fs = std::filesystem;

std::string ModelNameOf(const fs::path& folder) {
  std::error_code error;
  fs::path real = fs::weakly_canonical(folder, error);
  if (error) real = fs::absolute(folder, error).lexically_normal();
  if (!real.has_filename()) real = real.parent_path();
  if (real.parent_path().filename() == "snapshots") {
    const fs::path repository = real.parent_path().parent_path().filename();
    const std::string id = spec::IdOfRepository(repository.string());
    if (!id.empty()) return id;
  }
  return real.filename().string();
}

std::string ModelAdvice(const std::string& spec_json,
                        const grpc::Status& status) {
  const bool of_model =
      status.error_code() == grpc::StatusCode::FAILED_PRECONDITION &&
      absl::StartsWith(status.error_message(), "model: ");
  if (!of_model) return "";
  const auto spec = base::ParseTree<nlohmann::json>(spec_json);
  if (!spec.is_object()) return "";
  const auto model = spec.find("model");
  if (model == spec.end() || !model->is_string()) return "";
  const std::string folder = model->get<std::string>();
  std::error_code error;
  if (!fs::path(folder).is_absolute() ||
      !fs::is_regular_file(fs::path(folder) / "config.json", error)) {
    return "";
  }
  const std::string name = ModelNameOf(folder);
  return absl::StrCat("The folder is on this machine: send it with `mpsctl ",
                      "model push ", Printable(folder),
                      "`, and write \"model\": \"", Printable(name),
                      "\" into job.json.");
}

namespace {

// The only subfolder that a model may have.
constexpr char kTemplates[] = "additional_chat_templates";

absl::StatusOr<std::set<std::string>> NamesIn(const fs::path& folder) {
  std::set<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    names.insert(entry->path().filename().string());
  }
  if (error) return base::ErrnoStatus(error.value(), folder.string());
  return names;
}

bool IsWeights(const std::string& name) {
  return absl::EndsWith(name, ".safetensors") ||
         absl::EndsWith(name, ".safetensors.index.json");
}

}  // namespace

absl::StatusOr<LocalModel> ReadLocalModel(const fs::path& folder) {
  ASSIGN_OR_RETURN(std::set<std::string> names, NamesIn(folder));
  const absl::StatusOr<spec::ModelFolder> read = spec::ReadModelFolder(folder);
  if (!read.ok()) {
    return absl::Status(
        read.status().code(),
        absl::StrCat(folder.string(), ": ", read.status().message()));
  }
  if (read->config.family != spec::Family::kVision &&
      !names.contains("tokenizer.json")) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder.string(),
        ": has no tokenizer.json, and a job could not read its texts: copy it "
        "from the model that this one was made from, or save it with "
        "AutoTokenizer.from_pretrained(MODEL).save_pretrained(FOLDER)"));
  }
  if (names.contains(kTemplates)) {
    ASSIGN_OR_RETURN(std::set<std::string> templates,
                     NamesIn(folder / kTemplates));
    names.erase(kTemplates);
    for (const std::string& name : templates) {
      names.insert(absl::StrCat(kTemplates, "/", name));
    }
  }
  // The index is useful only with the files that it names.
  const bool sharded =
      read->weights.size() > 1 || !read->weights.contains("model.safetensors");
  LocalModel model;
  for (const std::string& name : names) {
    const bool is_index = absl::EndsWith(name, ".index.json");
    const bool wanted = spec::IsModelFile(name) &&
                        (!IsWeights(name) ||
                         (is_index ? sharded : read->weights.contains(name)));
    std::error_code error;
    if (!wanted || !fs::is_regular_file(folder / name, error)) {
      model.left_out.push_back(name);
      continue;
    }
    LocalFile file;
    file.path = name;
    file.local = folder / name;
    model.files.push_back(std::move(file));
  }
  return model;
}

std::string ModelText(const v1::Model& model) {
  std::vector<std::string> parts = {base::BytesText(model.size_bytes())};
  if (!model.family().empty()) parts.push_back(Printable(model.family()));
  if (model.parameters() > 0) {
    parts.push_back(absl::StrCat(Count(static_cast<double>(model.parameters())),
                                 " parameters"));
  }
  if (!model.tasks().empty()) {
    parts.push_back(
        absl::StrCat("for ", absl::StrJoin(model.tasks(), " and ")));
  }
  return absl::StrJoin(parts, ", ");
}

std::string FitText(const v1::Model& model) {
  if (model.least_memory_bytes() <= 0) return "";
  std::string text =
      absl::StrCat("LoRA takes ", base::BytesText(model.least_memory_bytes()),
                   " of memory at least");
  if (model.has_fits()) {
    absl::StrAppend(&text, model.fits() ? ", and mpsd's machine has it"
                                        : ", and mpsd's machine has less");
  }
  return text;
}

namespace {

std::string LastUse(const v1::Model& model, const Console& console) {
  if (model.unfinished_jobs() > 0) {
    return absl::StrCat(model.unfinished_jobs(),
                        model.unfinished_jobs() == 1 ? " job" : " jobs");
  }
  if (!model.has_last_use_time()) return "-";
  const absl::Duration ago =
      console.terminal.clock->Now() - ToTime(model.last_use_time());
  return absl::StrCat(Seconds(std::max(0.0, absl::ToDoubleSeconds(ago))),
                      " ago");
}

std::string Fits(const v1::Model& model) {
  if (!model.has_fits()) return "-";
  return model.fits() ? "yes" : "no";
}

std::string Parameters(const v1::Model& model) {
  if (model.parameters() <= 0) return "-";
  return Count(static_cast<double>(model.parameters()));
}

void Print(const v1::ListModelsResponse& listed, const Console& console) {
  Table table({"NAME", "SIZE", "FAMILY", "PARAMETERS", "TASKS", "MEMORY",
               "FITS", "USED", "FROM"});
  for (const v1::Model& model : listed.models()) {
    table.Add({model.name(), base::BytesText(model.size_bytes()),
               OrDash(model.family()), Parameters(model),
               model.tasks().empty() ? "-" : absl::StrJoin(model.tasks(), ","),
               model.least_memory_bytes() > 0
                   ? base::BytesText(model.least_memory_bytes())
                   : "-",
               Fits(model), LastUse(model, console),
               model.pulled() ? "the hub" : model.owner()});
  }
  console.Print(table);
  for (const v1::Model& model : listed.models()) {
    if (model.problem().empty()) continue;
    console.out << Printable(model.name()) << ": " << Printable(model.problem())
                << '\n';
  }
}

// With a name, at most the model of this name.
grpc::Status ListModels(const Console& console, const std::string& name,
                        v1::ListModelsResponse* response) {
  v1::ListModelsRequest request;
  request.set_name(name);
  return console.daemon.Call(&ModelStub::ListModels, request, response);
}

ExitCode FailWithoutModel(const Console& console, const std::string& name) {
  v1::ListModelsResponse all;
  std::vector<std::string_view> names;
  if (ListModels(console, "", &all).ok()) {
    for (const v1::Model& model : all.models()) names.push_back(model.name());
  }
  const auto nearest = spec::NearestName(name, names);
  return console.Fail(
      ExitCode::kNotFound,
      absl::StrCat("mpsd has no model ", Printable(name),
                   nearest ? "; did you mean " : "",
                   nearest ? Printable(std::string(*nearest)) + "?" : ""),
      "See those it has with `mpsctl model list`.");
}

ExitCode List(const std::string& name, const Console& console) {
  v1::ListModelsResponse response;
  const grpc::Status status = ListModels(console, name, &response);
  if (!status.ok()) return console.Fail(status);
  if (!name.empty() && response.models().empty()) {
    return FailWithoutModel(console, name);
  }
  console.ShowEach(response.models(), [&] {
    if (response.models().empty()) {
      console.out << "mpsd has no models yet: send one with `mpsctl model push "
                     "FOLDER`.\n";
    } else {
      Print(response, console);
    }
  });
  console.out << std::flush;
  return ExitCode::kOk;
}

void DeclareModelList(Command& verb, std::string& name) {
  verb.add_option(kModelName, name, "Only this one");
}

constexpr size_t kShownNames = 8;
// Attempts of the last call, which is idempotent.
constexpr int kPullTries = 5;

struct PushOptions {
  std::string folder;
  std::string name;
  bool rehash = false;
};

void SayWhatIsLeftOut(const LocalModel& model, const Console& console) {
  if (model.left_out.empty()) return;
  console.err << "left out, as mpsd does not read such files:";
  for (size_t i = 0; i < model.left_out.size() && i < kShownNames; ++i) {
    console.err << (i == 0 ? " " : ", ") << Printable(model.left_out[i]);
  }
  if (model.left_out.size() > kShownNames) {
    console.err << " and " << model.left_out.size() - kShownNames << " more";
  }
  console.err << '\n' << std::flush;
}

v1::PushModelRequest MakeRequest(const std::string& name,
                                 const std::vector<LocalFile>& files) {
  v1::PushModelRequest request;
  request.set_name(name);
  for (const LocalFile& file : files) {
    v1::PushModelRequest::File* added = request.add_files();
    added->set_path(file.path);
    added->set_sha256(file.sha256);
    added->set_size_bytes(file.size_bytes);
  }
  return request;
}

// Uploads and pushes. Files that the daemon has are not sent again, so that
// another attempt after a broken connection resumes.
grpc::Status Send(const v1::PushModelRequest& request,
                  const std::vector<LocalFile>& files, const Console& console,
                  v1::PushModelResponse* response) {
  RetryPause pause(console);
  grpc::Status status;
  for (int i = 0; i < kPullTries; ++i) {
    status = Upload(console, files);
    if (!status.ok()) return status;
    bool interrupted = false;
    status = console.daemon.CallLong(&ModelStub::Push, request, response,
                                     &interrupted);
    const bool again = LacksUpload(status) ||
                       status.error_code() == grpc::StatusCode::UNAVAILABLE;
    if (!again || interrupted) return status;
    pause.Wait();
  }
  return status;
}

// What else is known of a model that is there, and how a job names it.
void PrintUse(const v1::Model& model, const std::string& name,
              const Console& console) {
  if (const std::string fit = FitText(model); !fit.empty()) {
    console.out << "  " << fit << '\n';
  }
  if (!model.problem().empty()) {
    console.out << "  " << Printable(model.problem()) << '\n';
  }
  console.out << "Name it in job.json: \"model\": \"" << Printable(name)
              << "\"\n"
              << std::flush;
}

void PrintPushed(const v1::PushModelResponse& response,
                 const Console& console) {
  if (console.json) return console.PrintJson(response);
  const v1::Model& model = response.model();
  console.out << "Model " << Printable(model.name())
              << (response.existed() ? " was already there: " : " is there: ")
              << ModelText(model) << '\n';
  PrintUse(model, model.name(), console);
}

ExitCode Push(const PushOptions& options, const Console& console) {
  absl::StatusOr<LocalModel> model = ReadLocalModel(options.folder);
  if (!model.ok()) return console.BadInput(model.status(), "Nothing was sent.");
  const std::string name =
      options.name.empty() ? ModelNameOf(options.folder) : options.name;
  // Checks the name with mpsd before gigabytes are hashed and sent.
  v1::ListModelsResponse listed;
  if (grpc::Status named = ListModels(console, name, &listed); !named.ok()) {
    if (named.error_code() != grpc::StatusCode::INVALID_ARGUMENT) {
      return console.Fail(named);
    }
    return console.BadInput(named.error_message(),
                            "Choose a name with --name. Nothing was sent.");
  }
  SayWhatIsLeftOut(*model, console);
  absl::Status hashed =
      HashFiles(model->files, Hashing(console, options.rehash));
  if (!hashed.ok()) return console.BadInput(hashed, "Nothing was sent.");
  v1::PushModelResponse response;
  const grpc::Status sent =
      Send(MakeRequest(name, model->files), model->files, console, &response);
  if (sent.error_code() == grpc::StatusCode::CANCELLED) {
    return console.Fail(
        ExitCode::kDetached, "interrupted",
        "Push it again: files that arrived are not sent again.");
  }
  if (!sent.ok()) return console.Fail(sent);
  PrintPushed(response, console);
  return ExitCode::kOk;
}

void DeclareModelPush(Command& verb, PushOptions& options) {
  verb.add_argument("FOLDER", options.folder,
                    "The folder, in Hugging Face layout");
  verb.add_option("--name NAME", options.name,
                  "What job.json calls the model: NAME or ORG/NAME;\n"
                  "default: the folder's name");
  verb.add_flag("--rehash", options.rehash,
                "Read every file, ignoring the cache of hashes");
}

struct PullOptions {
  std::string name;  // ID[@REVISION]
  bool detach = false;
  bool cancel = false;
  int64_t patience_seconds = 120;
};

// How often progress is printed without a terminal.
constexpr absl::Duration kLineInterval = absl::Seconds(10);

// Whether the pull itself ended, as reported by a daemon that is there: a new
// call would begin another one.
bool IsEndOfPull(const grpc::Status& status) {
  return absl::StrContains(status.error_message(), "is just ending") ||
         absl::StrContains(status.error_message(), "cancelled the pull");
}

// The percentage in a line of hf's progress bar; 0 without one.
int PercentIn(const std::string& note) {
  const size_t end = note.find('%');
  size_t begin = end == std::string::npos ? 0 : end;
  while (begin > 0 && absl::ascii_isdigit(note[begin - 1])) --begin;
  return end == std::string::npos ? 0 : std::atoi(note.c_str() + begin);
}

class Puller {
 public:
  Puller(const Console& console, const PullOptions& options)
      : console_(console),
        options_(options),
        line_(console),
        reconnect_(console, absl::Seconds(options.patience_seconds)) {
    const size_t at = options.name.find('@');
    request_.set_id(options.name.substr(0, at));
    if (at != std::string::npos) {
      request_.set_revision(options.name.substr(at + 1));
    }
  }

  ExitCode Run() {
    while (true) {
      const grpc::Status status = Stream();
      line_.Clear();
      if (last_.has_model()) return Done();
      if (interrupted_) return Interrupted();
      if (detached_) return Detached();
      const bool again = !IsEndOfPull(status) && reconnect_.ShouldRetry(status);
      if (!again) return GiveUp(status);
    }
  }

  ExitCode Cancel() {
    v1::CancelPullRequest request;
    request.set_id(request_.id());
    request.set_revision(request_.revision());
    v1::CancelPullResponse response;
    const grpc::Status status =
        console_.daemon.Call(&ModelStub::CancelPull, request, &response);
    if (!status.ok()) return console_.Fail(status);
    return console_.Show(request, [this](const auto&) {
      console_.out
          << "The pull of " << Shown()
          << " is cancelled; what arrived stays in the cache, where the "
          << "next one resumes.\n"
          << std::flush;
    });
  }

 private:
  // Prints the pull's progress until the stream ends.
  grpc::Status Stream() {
    return console_.daemon.Read(&ModelStub::Pull, request_, &interrupted_,
                                [this](const v1::PullModelProgress& news) {
                                  reconnect_.Received();
                                  last_ = news;
                                  Print(news);
                                  detached_ =
                                      options_.detach && !news.has_model();
                                  return !detached_;
                                });
  }

  void Print(const v1::PullModelProgress& news) {
    if (console_.json) return console_.PrintJson(news);
    const std::string note = Printable(news.note());
    if (note.empty() || news.has_model()) return;
    const std::string line =
        absl::StrCat(base::BytesText(news.received_bytes()), "  ", note);
    if (console_.terminal.is_tty) {
      return line_.Draw(PercentIn(note), 100, line);
    }
    const absl::Duration now = base::Clock::Real().Monotonic();
    if (now - printed_ < kLineInterval) return;
    printed_ = now;
    line_.PrintAbove(line);
  }

  ExitCode Done() {
    if (console_.json) return ExitCode::kOk;
    const v1::Model& model = last_.model();
    console_.out << "Model " << Printable(model.name())
                 << " is there: " << ModelText(model) << '\n';
    PrintUse(model, options_.name, console_);
    return ExitCode::kOk;
  }

  ExitCode Detached() {
    if (!console_.json) {
      console_.out << "mpsd pulls " << Shown() << ".\n"
                   << "Follow it with `mpsctl model pull " << options_.name
                   << "`, stop it with `mpsctl model pull --cancel "
                   << options_.name << "`.\n"
                   << std::flush;
    }
    return ExitCode::kOk;
  }

  ExitCode Interrupted() {
    console_.err << "mpsctl: Detached; mpsd still pulls " << Shown() << ".\n"
                 << "Follow it again with `mpsctl model pull " << options_.name
                 << "`, stop it with `mpsctl model pull --cancel "
                 << options_.name << "`.\n";
    return ExitCode::kDetached;
  }

  ExitCode GiveUp(const grpc::Status& status) {
    if (!status.ok()) return console_.Fail(status);
    return console_.Fail(ExitCode::kTryAgain,
                         "mpsd ended the stream before the pull ended",
                         "Follow it again with the same command.");
  }

  std::string Shown() const { return Printable(options_.name); }

  const Console& console_;
  const PullOptions& options_;
  v1::PullModelRequest request_;
  v1::PullModelProgress last_;
  bool interrupted_ = false;
  bool detached_ = false;
  absl::Duration printed_ = -absl::InfiniteDuration();  // monotonic
  ProgressLine line_;
  Reconnect reconnect_;
};

ExitCode Pull(const PullOptions& options, const Console& console) {
  if (!options.name.empty() && options.name.back() == '@') {
    return console.BadInput(
        absl::StrCat(Printable(options.name), ": no revision follows the '@'"),
        "Name a branch, a tag or a commit, or leave the '@' out for main.");
  }
  Puller puller(console, options);
  return options.cancel ? puller.Cancel() : puller.Run();
}

void DeclareModelPull(Command& verb, PullOptions& options) {
  verb.add_argument("ID[@REVISION]", options.name,
                    "The model on the hub, ORG/NAME, at a branch, a tag or a\n"
                    "commit; default: main");
  auto* detach = verb.add_flag("--detach", options.detach,
                               "Exit once mpsd pulls; follow it with the\n"
                               "same command without --detach");
  verb.add_flag("--cancel", options.cancel,
                "End a pull that is under way; what arrived is kept")
      ->excludes(detach);
  AddPatience(verb, options.patience_seconds);
}

// Whether the model came from the hub; its files are removed at once.
bool IsPulled(const std::string& name, const Console& console) {
  v1::ListModelsResponse response;
  return ListModels(console, name, &response).ok() &&
         !response.models().empty() && response.models(0).pulled();
}

ExitCode RemoveOne(const std::string& name, const Console& console) {
  const bool pulled = IsPulled(name, console);
  v1::RemoveModelRequest request;
  request.set_name(name);
  v1::RemoveModelResponse response;
  // No deadline: a large folder takes long to remove.
  const grpc::Status status = console.daemon.Call(
      &ModelStub::RemoveModel, request, &response, absl::InfiniteDuration());
  if (status.error_code() == grpc::StatusCode::NOT_FOUND) {
    return FailWithoutModel(console, name);
  }
  if (!status.ok()) return console.Fail(status);
  if (console.json) {
    console.PrintJson(nlohmann::ordered_json{
        {"name", name}, {"freed_bytes", response.freed_bytes()}});
    return ExitCode::kOk;
  }
  console.out << "Model " << Printable(name) << " is removed, "
              << base::BytesText(response.freed_bytes())
              << (pulled ? " freed.\n"
                         : " will be freed once uploads that nothing needs "
                           "expire (mpsd --blob-grace-seconds).\n")
              << std::flush;
  return ExitCode::kOk;
}

ExitCode Remove(const std::vector<std::string>& names, const Console& console) {
  return ForEach(
      names, [&](const std::string& name) { return RemoveOne(name, console); });
}

void DeclareModelRemove(Command& verb, std::vector<std::string>& names) {
  verb.add_argument(kModelName, names, "The models");
}

}  // namespace

std::vector<Verb> ModelVerbs() {
  return {
      {"model",
       "Models that jobs can name: push, pull, list, rm",
       nullptr,
       "mpsctl model list\n"
       "mpsctl model push SmolLM2-135M-Instruct",
       /*calls_daemon=*/true,
       {{"push", "Send a model's folder, so that jobs can name the model",
         Takes(DeclareModelPush, Push),
         "mpsctl model push SmolLM2-135M-Instruct --name org/smol"},
        {"pull", "Have mpsd fetch a model with `hf download` on its machine",
         Takes(DeclareModelPull, Pull),
         "mpsctl model pull HuggingFaceTB/SmolLM2-135M-Instruct"},
        {"list", "List the models that jobs can name",
         Takes(DeclareModelList, List), "mpsctl model list"},
        {"rm", "Remove models that no unfinished job needs",
         Takes(DeclareModelRemove, Remove), "mpsctl model rm org/smol"}}}};
}

}  // namespace mpsd::client
