// SPDX-License-Identifier: Apache-2.0
// mpsd-worker: one fine-tuning run, controlled by mpsd over fd 3 or standalone.
#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "core/wire/messages.h"
#include "core/worker/process.h"
#include "core/worker/run_job.h"
#include "core/worker/session.h"
#include "core/worker/verbs.h"

namespace {

// torch and OpenMP read the environment when they are initialised, which takes
// a third of a second. On ELF systems this function runs before any library is
// initialised: if a variable is missing, the program re-executes itself here
// instead of later in main. A sanitizer has to run first itself.
#if defined(__ELF__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
void SetEnvironment(int, char** argv, char** environment) {
  environ = environment;  // the C library sets it only later
  mpsd::worker::EnsureEnvironment(argv, /*job=*/"");
}
using Initializer = void (*)(int, char**, char**);
[[gnu::section(".preinit_array"),
  gnu::used]] const Initializer kSetEnvironment = SetEnvironment;
#endif

CLI::Option* DeclareSelftest(CLI::App& app,
                             mpsd::worker::SelftestOptions& options) {
  CLI::Option* flag = app.add_flag("--selftest");
  flag->description(
      "compares the device's kernels with the CPU's, with --job at the sizes "
      "of that job; 0: they are right, 1: they are not");
  app.add_option("--device", options.device, "of --selftest")
      ->check(CLI::IsMember({"auto", "mps", "cuda", "cpu"}))
      ->needs(flag)
      ->capture_default_str();
  app.add_option("--verdict", options.verdict,
                 "file that keeps the verdict of --selftest [in the cache]")
      ->needs(flag);
  app.add_flag("--force", options.force,
               "test again where this device passed with this system and "
               "torch")
      ->needs(flag);
  return flag;
}

CLI::Option* DeclareMerge(CLI::App& app, mpsd::worker::MergeArguments& merge) {
  CLI::Option* flag = app.add_flag("--merge");
  flag->description(
      "merges an adapter into its model, writing the folder --out");
  app.add_option("--adapter", merge.adapter, "of --merge: a PEFT folder")
      ->needs(flag);
  app.add_option("--model", merge.model,
                 "of --merge: folder or id [the one the adapter names]")
      ->needs(flag);
  app.add_option("--format", merge.format,
                 "of --merge's result: merged, mlx-adapter, or gguf-f16, "
                 "gguf-bf16 and gguf-q8_0, also without an adapter")
      ->needs(flag)
      ->capture_default_str();
  app.add_option("--dtype", merge.dtype, "of --merge's result [the model's]")
      ->needs(flag);
  app.add_option("--max-shard-size", merge.max_shard_size,
                 "of a weight file of --merge")
      ->needs(flag)
      ->capture_default_str();
  return flag;
}

CLI::Option* DeclarePlan(CLI::App& app, mpsd::worker::PlanArguments& plan) {
  CLI::Option* flag = app.add_option("--plan", plan.job);
  flag->description(
      "a job.json: prints as JSON lines what it would need and take, without "
      "opening the device; 0: a plan, 1: none");
  flag->type_name("JOB");
  app.add_option("--facts", plan.facts,
                 "of --plan and --merge: a JSON file of what mpsd knows of the "
                 "machine, of earlier runs, and of what may be read");
  return flag;
}

// Ends this process soon after its parent, if that is killed.
std::unique_ptr<mpsd::worker::ReaderWatch> EndWithReader() {
  return std::make_unique<mpsd::worker::ReaderWatch>(
      STDOUT_FILENO, absl::Milliseconds(200), [] { _exit(1); });
}

// For what mpsd starts while a job may be training.
std::unique_ptr<mpsd::worker::ReaderWatch> StepAside() {
  mpsd::worker::EnterCell();
  if (nice(10) < 0) std::cerr << "running at full priority\n";
  return EndWithReader();
}

int Plan(const mpsd::worker::PlanArguments& plan) {
  const auto watch = StepAside();
  return mpsd::worker::RunPlan(plan, std::cout, std::cerr);
}

CLI::Option* DeclareGates(CLI::App& app) {
  CLI::Option* flag = app.add_flag("--gates");
  flag->description(
      "reports what torch and the machine have, for `mpsctl doctor`");
  return flag;
}

int Gates() {
  mpsd::worker::EnterCell();
  const auto watch = EndWithReader();
  return mpsd::worker::RunGates(std::cout, std::cerr);
}

int Merge(const mpsd::worker::MergeArguments& merge) {
  const bool needs_adapter =
      merge.model.empty() || !merge.format.starts_with("gguf");
  if ((merge.adapter.empty() && needs_adapter) || merge.out.empty()) {
    std::cerr << "mpsd-worker: --merge needs --adapter and --out\n";
    return 2;
  }
  const auto watch = merge.facts.empty() ? nullptr : StepAside();
  return mpsd::worker::RunMerge(merge, std::cout, std::cerr);
}

}  // namespace

int main(int argc, char** argv) {
  // Only mpsd starts the program without arguments.
  if (argc == 1) mpsd::worker::EnterCell();
#ifdef __GLIBC__
  // glibc merges all free small blocks of its fast bins whenever a large block
  // is freed, which took a seventh of the time of tokenizing rows. Without fast
  // bins there is nothing to merge.
  mallopt(M_MXFAST, 0);
#endif
  CLI::App app(
      "Runs one fine-tuning job: alone with --job and --out, or for "
      "mpsd, which starts it with a socket as fd 3.");
  std::string job, out_dir;
  app.add_option("--job", job, "job.json, its paths relative to itself");
  app.add_option("--out", out_dir, "output folder; resumes where it ended");
  mpsd::worker::SelftestOptions selftest;
  const CLI::Option* selftest_flag = DeclareSelftest(app, selftest);
  mpsd::worker::MergeArguments merge;
  const CLI::Option* merge_flag = DeclareMerge(app, merge);
  mpsd::worker::PlanArguments plan;
  const CLI::Option* plan_flag = DeclarePlan(app, plan);
  const CLI::Option* gates_flag = DeclareGates(app);
  app.set_version_flag(
      "--version", "mpsd-worker " + mpsd::worker::WorkerVersion() + ", torch " +
                       mpsd::worker::TorchVersion());
  CLI11_PARSE(app, argc, argv);
  // Workers that mpsd starts already have the right environment.
  mpsd::worker::EnsureEnvironment(argv, job.empty() ? plan.job : job);
  if (selftest_flag->count() > 0) {
    mpsd::worker::EnterCell();
    selftest.job = job;
    return mpsd::worker::RunSelftest(selftest, std::cout, std::cerr);
  }
  if (plan_flag->count() > 0) return Plan(plan);
  if (gates_flag->count() > 0) return Gates();
  if (merge_flag->count() > 0) {
    merge.out = out_dir;
    merge.facts = plan.facts;
    return Merge(merge);
  }
  if (job.empty() != out_dir.empty()) {
    std::cerr << "mpsd-worker: --job needs --out\n";
    return 2;
  }
  // torch's profiler would log its own activity in a profile's log.
  setenv("KINETO_LOG_LEVEL", "9", /*overwrite=*/0);
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
