// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/command_line.h"
#include "client/hash_files.h"
#include "client/model_advice.h"
#include "client/model_files.h"
#include "client/model_verbs.h"
#include "client/retry_pause.h"
#include "client/text/format.h"
#include "client/upload.h"

namespace mpsd::client {
namespace {

constexpr size_t kShownNames = 8;
// Attempts of the last call, which changes nothing where it is made again.
constexpr int kTries = 5;

struct PushOptions {
  std::string folder;
  std::string name;
  bool rehash = false;
};

void SayWhatIsLeftOut(const LocalModel& model, const Console& console) {
  if (model.left_out.empty()) return;
  console.err << "left out, as mpsd reads no such files:";
  for (size_t i = 0; i < model.left_out.size() && i < kShownNames; ++i) {
    console.err << (i == 0 ? " " : ", ") << Printable(model.left_out[i]);
  }
  if (model.left_out.size() > kShownNames) {
    console.err << " and " << model.left_out.size() - kShownNames << " more";
  }
  console.err << '\n' << std::flush;
}

// Asks mpsd about the name before gigabytes are hashed and sent.
grpc::Status CheckName(const std::string& name, const Console& console) {
  grpc::ClientContext context;
  SetDeadline(context);
  v1::ListModelsRequest request;
  request.set_name(name);
  v1::ListModelsResponse response;
  return console.daemon.models().ListModels(&context, request, &response);
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

bool LacksBlob(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::FAILED_PRECONDITION &&
         absl::StrContains(status.error_message(), "has not been uploaded");
}

// Uploads and pushes. What is on the daemon is not sent again, so that a try
// after a broken connection goes on.
grpc::Status Send(const v1::PushModelRequest& request,
                  const std::vector<LocalFile>& files, const Console& console,
                  v1::PushModelResponse* response) {
  RetryPause pause(console);
  grpc::Status status;
  for (int i = 0; i < kTries; ++i) {
    status = Upload(console, files);
    if (!status.ok()) return status;
    grpc::ClientContext context;
    Interrupt::Listener listener(console.terminal.interrupt,
                                 [&context] { context.TryCancel(); });
    // No deadline: the daemon waits for its drive.
    status = console.daemon.models().Push(&context, request, response);
    const bool again = LacksBlob(status) ||
                       status.error_code() == grpc::StatusCode::UNAVAILABLE;
    if (!again || listener.raised()) return status;
    pause.Wait();
  }
  return status;
}

void PrintPushed(const v1::PushModelResponse& response,
                 const Console& console) {
  if (console.json) return console.PrintJson(response);
  const v1::Model& model = response.model();
  console.out << "Model " << Printable(model.name())
              << (response.existed() ? " was there before: " : " is there: ")
              << ModelText(model) << '\n';
  if (const std::string fit = FitText(model); !fit.empty()) {
    console.out << "  " << fit << '\n';
  }
  if (!model.problem().empty()) {
    console.out << "  " << Printable(model.problem()) << '\n';
  }
  console.out << "Name it in job.json: \"model\": \"" << Printable(model.name())
              << "\"\n"
              << std::flush;
}

ExitCode Push(const PushOptions& options, const Console& console) {
  absl::StatusOr<LocalModel> model = ReadLocalModel(options.folder);
  if (!model.ok()) {
    return console.Fail(ExitCode::kBadInput, model.status(),
                        "Nothing was sent.");
  }
  const std::string name =
      options.name.empty() ? ModelNameOf(options.folder) : options.name;
  if (grpc::Status named = CheckName(name, console); !named.ok()) {
    if (named.error_code() != grpc::StatusCode::INVALID_ARGUMENT) {
      return console.Fail(named);
    }
    return console.Fail(ExitCode::kBadInput, named.error_message(),
                        "Choose a name with --name. Nothing was sent.");
  }
  SayWhatIsLeftOut(*model, console);
  absl::Status hashed =
      HashFiles(model->files, Hashing(console, options.rehash));
  if (!hashed.ok()) {
    return console.Fail(ExitCode::kBadInput, hashed, "Nothing was sent.");
  }
  v1::PushModelResponse response;
  const grpc::Status sent =
      Send(MakeRequest(name, model->files), model->files, console, &response);
  if (sent.error_code() == grpc::StatusCode::CANCELLED) {
    return console.Fail(ExitCode::kDetached, "interrupted",
                        "Push it again: what was sent is not sent twice.");
  }
  if (!sent.ok()) return console.Fail(sent);
  PrintPushed(response, console);
  return ExitCode::kOk;
}

}  // namespace

void AddModelPush(Command& model, Action* action) {
  auto options = std::make_shared<PushOptions>();
  Command* verb = model.add_subcommand(
      "push", "Send a model's folder, so that jobs can name the model");
  verb->add_option("FOLDER", options->folder,
                   "The folder, in Hugging Face layout")
      ->required()
      ->type_name("");
  verb->add_option("--name", options->name,
                   "What job.json calls the model: NAME or ORG/NAME;\n"
                   "default: the folder's name")
      ->type_name("NAME");
  verb->add_flag("--rehash", options->rehash,
                 "Read every file, whatever the cache of hashes has");
  verb->callback([=] {
    *action = [=](const Console& console) { return Push(*options, console); };
  });
}

}  // namespace mpsd::client
