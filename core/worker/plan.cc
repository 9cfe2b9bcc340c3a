// SPDX-License-Identifier: Apache-2.0
#include "core/plan/plan.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/status_macros.h"
#include "core/data/in_order.h"
#include "core/device/backends.h"
#include "core/host/traits.h"
#include "core/optim/schedule.h"
#include "core/plan/epoch.h"
#include "core/spec/train_spec.h"
#include "core/train/evaluate.h"
#include "core/train/observer.h"
#include "core/train/stages.h"
#include "core/train/task_pipeline.h"
#include "core/wire/messages.h"
#include "core/worker/process.h"
#include "core/worker/run_job.h"
#include "core/worker/verbs.h"

namespace mpsd::worker {
namespace {

// The shortest of several runs: other programs can only lengthen one. The first
// run warms up caches and threads.
double BestSeconds(const std::function<void()>& run) {
  constexpr int kRuns = 6;
  double best = 0;
  for (int i = 0; i <= kRuns; ++i) {
    const absl::Duration start = base::Clock::Real().Monotonic();
    run();
    const double seconds =
        absl::ToDoubleSeconds(base::Clock::Real().Monotonic() - start);
    if (i == 1 || (i > 1 && seconds < best)) best = seconds;
  }
  return std::max(best, 1e-9);
}

// A product of the shape of a small model's layers.
double ProductRate(at::ScalarType dtype) {
  constexpr int64_t kTokens = 512, kIn = 768, kOut = 1536;
  const at::Tensor x = at::ones({kTokens, kIn}, dtype);
  const at::Tensor w = at::ones({kOut, kIn}, dtype);
  const double seconds = BestSeconds([&] { at::mm(x, w.t()); });
  return 2.0 * kTokens * kIn * kOut / seconds;
}

double MemoryRate() {
  constexpr int64_t kNumbers = int64_t{16} << 20;  // 64 MiB, beyond caches
  const at::Tensor x = at::ones({kNumbers});
  at::Tensor y = at::empty({kNumbers});
  const double seconds = BestSeconds([&] { at::mul_out(y, x, x); });
  constexpr double kPasses = 2;  // one read, one written
  return kPasses * static_cast<double>(kNumbers) * sizeof(float) / seconds;
}

}  // namespace

plan::Rates MeasureCpu() {
  // An operator call on the host, with its bookkeeping.
  constexpr double kCallSeconds = 5e-6;
  return {.fp32_operations = ProductRate(at::kFloat),
          .half_operations = ProductRate(at::kBFloat16),
          .bytes = MemoryRate(),
          .call_seconds = kCallSeconds,
          .source = absl::StrCat("this CPU, measured with ",
                                 at::get_num_threads(), " threads")};
}

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kFactsBytes = 1 << 20;
constexpr size_t kWarnings = 50;  // that the plan repeats

void PrintLine(std::ostream& out, const json& line) {
  out << line.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
}

// Forwards stages and keeps warnings. Nothing is trained.
class PlanObserver : public train::Observer {
 public:
  PlanObserver(std::ostream& out, std::ostream& err) : out_(out), err_(err) {}

  void OnStage(const std::string& stage, double) override {
    if (stage == stage_) return;
    stage_ = stage;
    PrintLine(out_, {{"stage", stage}});
  }
  train::StopRequest stop_request() override {
    return train::StopRequest::kNone;
  }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void TellWarning(const std::string& text) override {
    err_ << "warning: " << text << "\n";
    if (warnings_.size() < kWarnings) warnings_.push_back(text);
  }

  std::ostream& out_;
  std::ostream& err_;
  std::string stage_;
  std::vector<std::string> warnings_;
};

// The job's data as counts; their tokens are freed.
struct CountedJob {
  train::Described described;
  std::unique_ptr<plan::CountedRows> train, eval, predict;
};

std::unique_ptr<plan::CountedRows> Count(std::unique_ptr<data::Source> source,
                                         int64_t max_length) {
  if (source == nullptr) return nullptr;
  return std::make_unique<plan::CountedRows>(*source, max_length);
}

// The checks of train::Load that need no device, in its order.
absl::StatusOr<CountedJob> ReadJob(const fs::path& path,
                                   train::Observer& observer) {
  ASSIGN_OR_RETURN(auto spec, ReadSpec(path));
  ASSIGN_OR_RETURN(auto described, train::Describe(std::move(spec), observer));
  CountedJob job{std::move(described), nullptr, nullptr, nullptr};
  const spec::TrainingSpec& training = job.described.spec->training;
  auto pipeline = train::TaskPipeline::Make(*job.described.spec);
  pipeline->set_cache_folder(CacheFolder() / "tokens");
  ASSIGN_OR_RETURN(auto data,
                   pipeline->LoadData(job.described.model_folder,
                                      job.described.config, observer));
  ASSIGN_OR_RETURN(auto best,
                   train::BestModel::Create(training, pipeline->MetricNames()));
  RETURN_IF_ERROR(optim::Schedule::Create(training, 1).status());
  job.train = Count(std::move(data.train), training.max_length);
  job.eval = Count(std::move(data.eval), training.max_length);
  if (job.eval != nullptr && job.described.spec->dataset.eval.empty()) {
    job.eval->LeaveOutLosses();
  }
  job.predict = Count(std::move(data.predict), training.max_length);
  return job;
}

}  // namespace

absl::StatusOr<plan::Facts> ReadFacts(const std::string& path) {
  if (path.empty()) return plan::Facts();
  ASSIGN_OR_RETURN(auto text, base::ReadSmallFile(path, kFactsBytes));
  return plan::ParseFacts(text);
}

namespace {

absl::StatusOr<backend::Choice> DeviceOf(const spec::TrainSpec& spec,
                                         const plan::Facts& facts) {
  if (spec.device != backend::Choice::kAuto) return spec.device;
  if (facts.device.empty()) return device::LikelyBest();
  const auto device = backend::ChoiceOf(facts.device);
  if (device && *device != backend::Choice::kAuto) return *device;
  return absl::InvalidArgumentError(
      absl::StrCat("facts.device: expected cpu, cuda or mps"));
}

// A GPU with its own memory is not part of the machine that the daemon reports.
void AddCard(backend::Choice device, plan::Facts& facts) {
  if (backend::TraitsOf(device).memory != backend::MemoryPlace::kOwn) return;
  const std::optional<device::Card> card = device::FirstCard();
  if (!card) return;
  facts.chip = card->name;
  facts.memory_limit_bytes = card->memory_bytes;
}

absl::StatusOr<json> Plan(const PlanArguments& arguments,
                          PlanObserver& observer) {
  ASSIGN_OR_RETURN(auto facts, ReadFacts(arguments.facts));
  LimitToStart({.job_id = "",
                .spec_path = fs::absolute(arguments.job).string(),
                .output_dir = "",
                .read_roots = facts.read_roots,
                .closed_roots = facts.closed_roots});
  if (facts.check) data::SetWorkThreads(1);
  ASSIGN_OR_RETURN(auto job, ReadJob(arguments.job, observer));
  if (facts.check) return json{{"warnings", observer.warnings()}};
  const spec::TrainSpec& spec = *job.described.spec;
  ASSIGN_OR_RETURN(auto device, DeviceOf(spec, facts));
  AddCard(device, facts);
  const bool on_host =
      backend::TraitsOf(device).memory == backend::MemoryPlace::kHost;
  if (on_host && !facts.rates) {
    observer.OnStage("measuring the CPU", 0);
    facts.rates = MeasureCpu();
  }
  observer.OnStage("planning", 0);
  return plan::MakePlan(
      {.spec = spec,
       .model = job.described.config,
       .model_folder = job.described.model_folder,
       .rows = {job.train.get(), job.eval.get(), job.predict.get()},
       .device = device,
       .facts = facts,
       .warmup_steps =
           [&](int64_t total) {
             const auto schedule =
                 optim::Schedule::Create(spec.training, total);
             return schedule.ok() ? schedule->warmup_steps() : 0;
           },
       .warnings = observer.warnings()});
}

absl::StatusOr<json> CaughtPlan(const PlanArguments& arguments,
                                PlanObserver& observer) {
  try {
    return Plan(arguments, observer);
  } catch (const c10::Error& e) {
    return absl::InternalError(e.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("the host is out of memory");
  } catch (const std::exception& e) {
    return absl::InternalError(e.what());
  }
}

}  // namespace

int RunPlan(const PlanArguments& arguments, std::ostream& out,
            std::ostream& err) {
  PlanObserver observer(out, err);
  const absl::StatusOr<json> plan = CaughtPlan(arguments, observer);
  if (plan.ok()) {
    PrintLine(out, {{"plan", *plan}});
    return 0;
  }
  const absl::Status& s = plan.status();
  err << "mpsd-worker: " << s.message() << "\n";
  PrintLine(out, {{"error",
                   {{"code", absl::StatusCodeToString(s.code())},
                    {"message", s.message()}}}});
  return 1;
}

}  // namespace mpsd::worker
