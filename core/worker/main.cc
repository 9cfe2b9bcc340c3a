// SPDX-License-Identifier: Apache-2.0
// mpsd-worker: one fine-tuning run, told by mpsd over fd 3 or alone.
#include <fcntl.h>

#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "core/wire/messages.h"
#include "core/worker/environment.h"
#include "core/worker/run_job.h"
#include "core/worker/session.h"
#include "core/worker/terminal.h"

int main(int argc, char** argv) {
  CLI::App app(
      "Runs one fine-tuning job: alone with --job and --out, or for "
      "mpsd, which starts it with a socket as fd 3.");
  std::string job, out_dir;
  CLI::Option* job_option =
      app.add_option("--job", job, "job.json, its paths relative to itself");
  CLI::Option* out_option =
      app.add_option("--out", out_dir, "output folder; goes on where it ended");
  job_option->needs(out_option);
  out_option->needs(job_option);
  app.set_version_flag(
      "--version", "mpsd-worker " + mpsd::worker::WorkerVersion() + ", torch " +
                       mpsd::worker::TorchVersion());
  CLI11_PARSE(app, argc, argv);
  // mpsd has seen to it for the workers it starts.
  mpsd::worker::EnsureEnvironment(argv, job);
  if (!job.empty()) {
    return mpsd::worker::RunAlone(job, out_dir, std::cout, std::cerr);
  }
  if (fcntl(mpsd::wire::kWorkerFd, F_GETFD) < 0) {
    std::cerr << "mpsd-worker: give --job job.json --out DIR (without them it "
                 "expects mpsd on fd 3)\n";
    return 2;
  }
  return mpsd::worker::RunSession(mpsd::wire::kWorkerFd, std::cerr);
}
