// SPDX-License-Identifier: Apache-2.0
#include "core/selftest/selftest.h"

#include <algorithm>
#include <exception>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/device/device.h"
#include "core/worker/run_job.h"
#include "core/worker/verbs.h"

namespace mpsd::worker {
namespace {

namespace fs = std::filesystem;
using backend::Choice;

constexpr int kRight = 0, kWrong = 1, kUsage = 2;

absl::StatusOr<selftest::Sizes> SizesOfJob(const fs::path& job) {
  if (job.empty()) return selftest::Sizes{};
  ASSIGN_OR_RETURN(const auto spec, ReadSpec(job));
  ASSIGN_OR_RETURN(auto folder, spec::FindModelFolder(spec.model));
  ASSIGN_OR_RETURN(auto config, spec::ReadModelConfig(folder));
  return SizesOf(spec, config);
}

int Verdict(bool passed, const std::string& summary, const std::string& device,
            std::ostream& out) {
  if (passed) {
    out << "self-test of " << device << ": passed\n";
    return kRight;
  }
  out << "self-test of " << device << ": FAILED, " << summary << "\n";
  return kWrong;
}

int Test(device::Device& device, const selftest::Identity& identity,
         const fs::path& path, std::ostream& out, std::ostream& err) {
  out << selftest::TableHeader() << std::flush;
  const selftest::Report report =
      selftest::RunChecks(device, selftest::AllChecks(identity.sizes, device),
                          [&out](const selftest::Result& result) {
                            out << selftest::TableRow(result) << std::flush;
                          });
  // Without the file the next start tests again: not an error.
  if (absl::Status s = selftest::WriteVerdict(path, identity, report);
      !s.ok()) {
    err << "mpsd-worker: the verdict is not stored: " << s.message() << "\n";
  }
  return Verdict(report.passed(), report.Summary(), identity.device, out);
}

absl::StatusOr<int> Run(const SelftestOptions& options, std::ostream& out,
                        std::ostream& err) {
  ASSIGN_OR_RETURN(const auto sizes, SizesOfJob(options.job));
  const Choice choice =
      backend::ChoiceOf(options.device).value_or(Choice::kAuto);
  ASSIGN_OR_RETURN(const auto device, device::Open(choice));
  if (choice == Choice::kAuto && device->traits().is_reference) {
    out << "self-test: no accelerator; the CPU is the reference for other "
           "devices\n";
    return kRight;
  }
  const selftest::Identity identity =
      selftest::IdentityOf(*device, TorchVersion(), WorkerVersion(), sizes);
  const fs::path path =
      options.verdict.empty()
          ? CacheFolder() / absl::StrCat("selftest-", identity.device, ".json")
          : options.verdict;
  const auto kept = selftest::ReadVerdict(path);
  // Only a verdict that passed is reused: a failure may have been temporary.
  if (!options.force && kept && kept->passed && kept->identity == identity) {
    out << "stored in " << path.string() << ": ";
    return Verdict(true, "", identity.device, out);
  }
  return Test(*device, identity, path, out, err);
}

}  // namespace

int RunSelftest(const SelftestOptions& options, std::ostream& out,
                std::ostream& err) {
  try {
    const auto code = Run(options, out, err);
    if (code.ok()) return *code;
    err << "mpsd-worker: " << code.status().message() << "\n";
    return kUsage;
  } catch (const std::exception& e) {
    // For example a device that cannot even be opened.
    err << "mpsd-worker: " << e.what() << "\n";
    return kWrong;
  }
}

selftest::Sizes SizesOf(const spec::TrainSpec& spec,
                        const spec::ModelConfig& config) {
  selftest::Sizes sizes;
  sizes.width = config.hidden_size;
  sizes.inner = config.intermediate_size;
  sizes.heads = config.num_attention_heads;
  sizes.kv_heads = config.num_key_value_heads > 0 ? config.num_key_value_heads
                                                  : config.num_attention_heads;
  sizes.head_dim = config.head_dim;
  sizes.rows = spec.training.per_device_train_batch_size;
  if (config.family == spec::Family::kVision) {
    const int64_t across = config.vision.image_size / config.vision.patch_size;
    sizes.length = across * across + 1;
  } else {
    sizes.vocabulary = config.vocab_size;
    sizes.length = std::min<int64_t>(spec.training.max_length,
                                     config.max_position_embeddings > 0
                                         ? config.max_position_embeddings
                                         : spec.training.max_length);
  }
  return sizes;
}

}  // namespace mpsd::worker
