// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

#include "absl/strings/str_cat.h"
#include "client/verbs.h"

extern char** environ;

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;

struct MergeOptions {
  std::string adapter;
  std::string model;
  std::string output;
  std::string dtype;
  std::string max_shard_size;
  std::string worker;
};

// The mpsd-worker next to this program merges; mpsctl has no tensors.
fs::path DefaultWorker() {
#ifdef __APPLE__
  char path[4096];
  uint32_t size = sizeof(path);
  if (_NSGetExecutablePath(path, &size) != 0) return {};
  const fs::path program = path;
#else
  const fs::path program = "/proc/self/exe";
#endif
  std::error_code error;
  return fs::canonical(program, error).parent_path() / "mpsd-worker";
}

std::vector<std::string> WorkerCommand(const MergeOptions& options,
                                       const fs::path& worker) {
  std::vector<std::string> command = {worker.string(), "--merge",
                                      "--adapter",     options.adapter,
                                      "--out",         options.output};
  const auto add = [&command](const char* name, const std::string& value) {
    if (value.empty()) return;
    command.insert(command.end(), {name, value});
  };
  add("--model", options.model);
  add("--dtype", options.dtype);
  add("--max-shard-size", options.max_shard_size);
  return command;
}

// Runs `command` to its end; returns the wait status, or -1 with errno. The
// command gets the default signal actions, which this program has changed.
int Run(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& word : command) {
    argv.push_back(const_cast<char*>(word.c_str()));
  }
  argv.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  errno =
      posix_spawn(&child, argv[0], nullptr, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (errno != 0) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return status;
}

ExitCode Merge(const MergeOptions& options, const Console& console) {
  const fs::path worker =
      options.worker.empty() ? DefaultWorker() : fs::path(options.worker);
  std::error_code error;
  if (!fs::exists(worker, error)) {
    return console.Fail(
        ExitCode::kBadInput, absl::StrCat("there is no ", worker.string()),
        "Merging needs mpsd-worker: run it where mpsd is installed, or name "
        "the program with --worker.");
  }
  console.out << std::flush;
  const int status = Run(WorkerCommand(options, worker));
  if (status < 0) {
    return console.Fail(ExitCode::kOther,
                        absl::StrCat(worker.string(), ": ", strerror(errno)),
                        "");
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return ExitCode::kOk;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) {
    return ExitCode::kBadInput;
  }
  if (WIFSIGNALED(status)) {
    return console.Fail(
        ExitCode::kOther,
        absl::StrCat("mpsd-worker died of signal ", WTERMSIG(status)), "");
  }
  return ExitCode::kOther;
}

}  // namespace

void AddMerge(Command& app, Action* action) {
  auto options = std::make_shared<MergeOptions>();
  Command* verb = app.add_subcommand(
      "merge", "Merge an adapter into the model it was trained on");
  verb->add_option("ADAPTER", options->adapter, "The PEFT folder")
      ->required()
      ->type_name("");
  verb->add_option("-o,--output", options->output,
                   "The model folder to create, as save_pretrained would")
      ->required()
      ->type_name("DIR");
  verb->add_option("--model", options->model,
                   "The model's folder or id; default: the one that the\n"
                   "adapter names")
      ->type_name("MODEL");
  verb->add_option("--dtype", options->dtype,
                   "Of the result; default: the model's")
      ->check(IsMember({"float32", "bfloat16", "float16"}))
      ->type_name("DTYPE");
  verb->add_option("--max-shard-size", options->max_shard_size,
                   "Of a weight file; default: 5GB")
      ->type_name("SIZE");
  verb->add_option("--worker", options->worker,
                   "The mpsd-worker to run; default: next to mpsctl")
      ->type_name("PROGRAM");
  verb->callback([=] {
    *action = [=](const Console& console) { return Merge(*options, console); };
  });
}

}  // namespace mpsd::client
