// SPDX-License-Identifier: Apache-2.0
#include "core/worker/run_job.h"

#include <c10/util/Exception.h>
#include <torch/version.h>

#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/device/device.h"
#include "core/host/device_error.h"
#include "core/host/footprint.h"
#include "core/spec/train_spec.h"
#include "core/study/study.h"
#include "core/worker/process.h"

namespace mpsd::worker {
namespace {

bool IsOutOfMemory(const std::string& text) {
  const std::optional<host::DeviceError> error = host::FindDeviceError(text);
  return error && error->kind == host::DeviceError::Kind::kOutOfMemory;
}

}  // namespace

absl::Status Attempt(const std::function<void()>& work) {
  try {
    work();
  } catch (const c10::Error& e) {
    const std::string text = e.what_without_backtrace();
    if (!IsOutOfMemory(text)) throw;
    return absl::ResourceExhaustedError(text);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("the host is out of memory");
  } catch (const std::exception& e) {
    const std::string text = e.what();
    if (!IsOutOfMemory(text)) throw;
    return absl::ResourceExhaustedError(text);
  }
  return absl::OkStatus();
}

namespace {

namespace fs = std::filesystem;

using Work = std::function<absl::StatusOr<train::RunResult>(
    spec::TrainSpec, const train::RunContext&)>;

// Runs `work` with the job.json at `spec_path`.
absl::StatusOr<train::RunResult> Run(const fs::path& spec_path,
                                     const fs::path& out_dir,
                                     train::Observer& observer,
                                     const Work& work) {
  const host::FootprintWatch footprint;  // run.json reports the peak
  const device::WarningCapture warnings(
      [&observer](const std::string& text) { observer.OnWarning(text); });
  ASSIGN_OR_RETURN(auto spec, ReadSpec(spec_path));
  train::RunContext context;
  context.out_dir = fs::absolute(out_dir);
  context.cache_dir = CacheFolder();
  context.mpsd_version = WorkerVersion();
  context.torch_version = TorchVersion();
  context.environment = NotedEnvironment();
  context.warnings = &warnings;
  context.attempt = Attempt;
  return work(std::move(spec), context);
}

wire::Failed KindOf(const absl::Status& status) {
  const std::string message(status.message());
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kPermissionDenied:
      return {wire::FailureKind::kRejected, message};
    case absl::StatusCode::kDataLoss:
      // Either the device lost work, or the numbers are not finite.
      return host::FindDeviceError(message)
                 ? FailureOf(message)
                 : wire::Failed{wire::FailureKind::kNonFinite, message};
    default:
      return {wire::FailureKind::kInternal, message};
  }
}

// The only place that catches torch's exceptions.
Outcome Caught(const std::function<absl::StatusOr<train::RunResult>()>& run) {
  try {
    auto result = run();
    if (!result.ok()) return FailureOf(result.status());
    return *std::move(result);
  } catch (const c10::IndexError& e) {
    // kRejected, since a retry with the same data would fail the same way.
    wire::Failed failed = FailureOf(std::string(e.what_without_backtrace()));
    failed.kind = wire::FailureKind::kRejected;
    return failed;
  } catch (const c10::Error& e) {
    return FailureOf(std::string(e.what_without_backtrace()));
  } catch (const std::bad_alloc&) {
    return wire::Failed{wire::FailureKind::kOutOfMemory,
                        "the host is out of memory"};
  } catch (const std::system_error& e) {
    wire::Failed failed{wire::FailureKind::kInternal, e.what()};
    const std::error_category& category = e.code().category();
    if (category == std::generic_category() ||
        category == std::system_category()) {
      failed.error = e.code().value();
    }
    return failed;
  } catch (const std::exception& e) {
    return wire::Failed{wire::FailureKind::kInternal, e.what()};
  }
}

}  // namespace

Outcome RunJob(const fs::path& spec_path, const fs::path& out_dir,
               train::Observer& observer) {
  return Caught([&] {
    return Run(spec_path, out_dir, observer,
               [&](spec::TrainSpec spec, const train::RunContext& context) {
                 return train::Run(std::move(spec), context, observer);
               });
  });
}

Outcome RunStudy(wire::JobKind kind, const std::string& study,
                 const fs::path& spec_path, const fs::path& out_dir,
                 train::Observer& observer) {
  return Caught([&] {
    return Run(spec_path, out_dir, observer,
               [&](spec::TrainSpec spec, const train::RunContext& context) {
                 return study::Run(kind, study, std::move(spec), context,
                                   observer);
               });
  });
}

absl::StatusOr<spec::TrainSpec> ReadSpec(const fs::path& path) {
  ASSIGN_OR_RETURN(auto text, base::ReadFile(path));
  ASSIGN_OR_RETURN(auto spec,
                   spec::ParseTrainSpec(text, path.filename().string()));
  return spec::ResolvePaths(std::move(spec),
                            fs::absolute(path).parent_path().string());
}

wire::Failed FailureOf(const absl::Status& status) {
  wire::Failed failed = KindOf(status);
  if (const int error = base::ErrnoOf(status)) failed.error = error;
  return failed;
}

wire::Failed FailureOf(const std::string& text) {
  const std::optional<host::DeviceError> error = host::FindDeviceError(text);
  if (!error) return {wire::FailureKind::kInternal, text};
  const std::string message = absl::StrCat(text, "\n", error->advice);
  switch (error->kind) {
    case host::DeviceError::Kind::kOutOfMemory:
      return {wire::FailureKind::kOutOfMemory, message};
    case host::DeviceError::Kind::kUnsupported:
    case host::DeviceError::Kind::kBadIndex:
      return {wire::FailureKind::kRejected, message};
    case host::DeviceError::Kind::kTransient:
      break;
  }
  return {wire::FailureKind::kInternal, message};
}

fs::path CacheFolder() {
  fs::path folder;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr) {
    folder = fs::path(xdg) / "mpsd";
  } else if (const char* home = std::getenv("HOME"); home != nullptr) {
    folder = fs::path(home) / ".cache" / "mpsd";
  } else {
    folder = fs::temp_directory_path() / "mpsd-cache";
  }
  std::error_code ignored;  // without it digests are recomputed
  fs::create_directories(folder, ignored);
  return folder;
}

std::string WorkerVersion() { return MPSD_VERSION; }

std::string TorchVersion() { return TORCH_VERSION; }

}  // namespace mpsd::worker
