// SPDX-License-Identifier: Apache-2.0
#include "core/worker/plan.h"

#include <c10/util/Exception.h>

#include <cstddef>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/host/traits.h"
#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/base/small_file.h"
#include "core/base/status_macros.h"
#include "core/device/backends.h"
#include "core/device/card.h"
#include "core/optim/schedule.h"
#include "core/plan/counted_rows.h"
#include "core/plan/facts.h"
#include "core/plan/plan.h"
#include "core/spec/train_spec.h"
#include "core/train/best_model.h"
#include "core/train/describe.h"
#include "core/train/observer.h"
#include "core/train/task_pipeline.h"
#include "core/wire/messages.h"
#include "core/worker/cpu_rates.h"
#include "core/worker/read_limits.h"
#include "core/worker/run_job.h"

namespace mpsd::worker {
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
  void OnStep(const report::Progress&) override {}
  void OnEval(const report::Evaluated&) override {}
  void OnCheckpoint(const report::Checkpointed&) override {}
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
  ASSIGN_OR_RETURN(auto text, base::ReadFile(path));
  ASSIGN_OR_RETURN(auto spec,
                   spec::ParseTrainSpec(text, path.filename().string()));
  ASSIGN_OR_RETURN(
      auto described,
      train::Describe(
          spec::ResolvePaths(std::move(spec),
                             fs::absolute(path).parent_path().string()),
          observer));
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
  job.predict = Count(std::move(data.predict), training.max_length);
  return job;
}

absl::StatusOr<plan::Facts> ReadFacts(const std::string& path) {
  if (path.empty()) return plan::Facts();
  ASSIGN_OR_RETURN(auto text, base::ReadSmallFile(path, kFactsBytes));
  return plan::ParseFacts(text);
}

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
                .read_roots = facts.read_roots});
  ASSIGN_OR_RETURN(auto job, ReadJob(arguments.job, observer));
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
