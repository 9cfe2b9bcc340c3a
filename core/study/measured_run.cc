// SPDX-License-Identifier: Apache-2.0
#include "core/study/measured_run.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <system_error>
#include <utility>

#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/data/order.h"
#include "core/data/source.h"
#include "core/host/device_error.h"
#include "core/host/machine.h"
#include "core/report/report.h"

namespace mpsd::study {
namespace {

// The value below which `part` of the sorted values lie.
double Quantile(const std::vector<double>& sorted, double part) {
  const double place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(std::floor(place));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double rest = place - static_cast<double>(below);
  return sorted[below] + rest * (sorted[above] - sorted[below]);
}

}  // namespace

Spread SpreadOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {Quantile(values, 0.5), Quantile(values, 0.1), Quantile(values, 0.9),
          values.front(), values.back()};
}

nlohmann::json ToJson(const Spread& spread) {
  return {{"median", spread.median},
          {"p10", spread.p10},
          {"p90", spread.p90},
          {"min", spread.min},
          {"max", spread.max}};
}

double GrowthOf(const std::vector<double>& values) {
  if (values.size() < 2 || values.front() <= 0) return 0;
  return values.back() / values.front() - 1;
}

double SlopeOf(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const auto count = static_cast<double>(values.size());
  const double middle = (count - 1) / 2;
  double mean = 0;
  for (const double value : values) mean += value / count;
  double both = 0, squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double from_middle = static_cast<double>(i) - middle;
    both += from_middle * (values[i] - mean);
    squares += from_middle * from_middle;
  }
  return both / squares;
}

void StudyProgress::Add(report::Progress step) {
  step.step = ++done_;
  step.total_steps = std::max(total_steps_, done_);
  observer_.OnStep(step);
}

namespace {

using train::StopRequest;

// A stop_request call that takes longer was a pause.
constexpr double kPauseSeconds = 0.05;
// A run never ends by itself: its schedule has more steps than are measured.
constexpr int64_t kMoreSteps = 1000;

double Now() { return absl::ToDoubleSeconds(base::Clock::Real().Monotonic()); }

// User errors may quote data, which may contain these words.
bool SaysOutOfMemory(const absl::Status& status) {
  if (!absl::IsInternal(status) && !absl::IsDataLoss(status)) return false;
  const auto error = host::FindDeviceError(std::string(status.message()));
  return error && error->kind == host::DeviceError::Kind::kOutOfMemory;
}

void Raise(std::optional<int64_t>& peak, const std::optional<int64_t>& value) {
  if (value) peak = std::max(peak.value_or(0), *value);
}

// The training under study, without what a measurement omits.
spec::TrainSpec Bounded(spec::TrainSpec spec, const RunOptions& options) {
  if (options.eval_samples > 0 && spec.dataset.evaluates()) {
    auto& most = spec.dataset.max_eval_samples;
    most = std::min(most.value_or(options.eval_samples), options.eval_samples);
  }
  spec.training.load_best_model_at_end = false;
  spec.training.early_stopping_patience.reset();
  spec.training.save_steps = 0;
  spec.training.sample_prompts.clear();
  return spec;
}

void TurnOffDropout(train::Opened& opened) {
  opened.spec->lora.lora_dropout = 0;
  spec::EncoderConfig& config = opened.config.encoder;
  config.hidden_dropout_prob = 0;
  config.attention_probs_dropout_prob = 0;
  config.classifier_dropout = 0;
}

// `rows`: of the data set, at least as many as the steps of an epoch.
spec::TrainSpec ForPart(spec::TrainSpec spec, const MeasureOptions& options,
                        int64_t rows) {
  spec::TrainingSpec& training = spec.training;
  if (options.batch_rows > 0) {
    training.per_device_train_batch_size = options.batch_rows;
    training.gradient_accumulation_steps = 1;
    training.auto_find_batch_size = false;
  }
  const int64_t steps = options.epochs > 0
                            ? options.epochs * rows
                            : options.warmup_steps + options.steps;
  training.max_steps = std::max(training.max_steps, steps + kMoreSteps);
  return spec;
}

}  // namespace

// Forwards from a short run to the study's observer.
class MeasuredRun::PartObserver : public train::Observer {
 public:
  explicit PartObserver(StudyProgress& progress) : progress_(progress) {}

  // A run begins. Of an epoch's `steps_per_epoch` steps the last is partial if
  // `partial_last`.
  void Begin(const MeasureOptions& options, int64_t steps,
             int64_t steps_per_epoch, bool partial_last, Measurement& found) {
    options_ = &options;
    found_ = &found;
    left_ = steps;
    warmup_left_ = options.epochs > 0 ? 0 : options.warmup_steps;
    steps_per_epoch_ = steps_per_epoch;
    partial_last_ = partial_last;
    held_ = enough_ = false;
  }
  void End() { options_ = nullptr; }
  bool stopped() const { return stopped_; }

  void OnDevice(const std::string& name) override {
    progress_.observer().OnDevice(name);
  }
  void OnStage(const std::string& stage, double fraction) override {
    progress_.observer().OnStage(stage, fraction);
  }
  void OnStep(const report::Progress& step) override {
    base::Check(options_ != nullptr, "a step belongs to a run");
    MeasuredStep measured{step};
    measured.warmup = warmup_left_ > 0;
    measured.held = std::exchange(held_, false);
    measured.partial = partial_last_ && step.step % steps_per_epoch_ == 0;
    if (measured.warmup) {
      --warmup_left_;
    } else if (options_->epochs > 0 || (!measured.held && !measured.partial)) {
      --left_;
    }
    Raise(found_->training.driver_bytes, step.memory.driver_allocated_bytes);
    Raise(found_->training.allocated_bytes, step.memory.peak_allocated_bytes);
    found_->training.recommended_max_bytes = step.memory.recommended_max_bytes;
    progress_.Add(step);
    found_->steps.push_back(std::move(measured));
    const bool go_on =
        !options_->after_step || options_->after_step(found_->steps.back());
    enough_ = left_ <= 0 || !go_on;
  }

  StopRequest stop_request() override {
    const double asked = Now();
    const StopRequest request = progress_.observer().stop_request();
    held_ = held_ || Now() - asked > kPauseSeconds;
    if (request != StopRequest::kNone) {
      stopped_ = true;
      return request == StopRequest::kPreempt ? StopRequest::kCancel : request;
    }
    return enough_ ? StopRequest::kCancel : StopRequest::kNone;
  }

 private:
  void TellWarning(const std::string& text) override {
    progress_.observer().OnWarning(text);
  }

  StudyProgress& progress_;
  const MeasureOptions* options_ = nullptr;  // null: no run
  Measurement* found_ = nullptr;
  int64_t left_ = 0, warmup_left_ = 0, steps_per_epoch_ = 1;
  bool partial_last_ = false;
  bool held_ = false, enough_ = false, stopped_ = false;
};

nlohmann::json ToJson(const MemoryPeaks& peaks) {
  nlohmann::json json = {{"footprint_bytes", peaks.footprint_bytes}};
  const auto put = [&](const char* name, const std::optional<int64_t>& value) {
    if (value) json[name] = *value;
  };
  put("allocated_bytes", peaks.allocated_bytes);
  put("driver_bytes", peaks.driver_bytes);
  put("recommended_max_bytes", peaks.recommended_max_bytes);
  return json;
}

std::vector<const MeasuredStep*> Measurement::Counted() const {
  std::vector<const MeasuredStep*> whole, all;
  for (const MeasuredStep& step : steps) {
    if (step.warmup || step.held) continue;
    all.push_back(&step);
    if (!step.partial) whole.push_back(&step);
  }
  return whole.empty() ? all : whole;
}

Spread Measurement::Seconds() const {
  std::vector<double> seconds;
  for (const MeasuredStep* step : Counted()) {
    seconds.push_back(step->progress.seconds);
  }
  return SpreadOf(std::move(seconds));
}

Spread Measurement::DataWaitSeconds() const {
  std::vector<double> seconds;
  for (const MeasuredStep* step : Counted()) {
    seconds.push_back(step->progress.data_wait_seconds.value_or(0));
  }
  return SpreadOf(std::move(seconds));
}

double Measurement::TokensPerSecond() const {
  double tokens = 0, seconds = 0;
  for (const MeasuredStep* step : Counted()) {
    tokens += static_cast<double>(step->progress.tokens);
    seconds += step->progress.seconds;
  }
  return seconds > 0 ? tokens / seconds : 0;
}

double Measurement::RowsPerSecond() const {
  const double seconds = Seconds().median;
  return seconds > 0 ? static_cast<double>(step_rows) / seconds : 0;
}

std::optional<double> Measurement::PaddingShare() const {
  int64_t tokens = 0, padded = 0;
  for (const MeasuredStep* step : Counted()) {
    if (!step->progress.padded_tokens) return std::nullopt;
    tokens += step->progress.tokens;
    padded += *step->progress.padded_tokens;
  }
  if (padded == 0) return std::nullopt;
  return 1 - static_cast<double>(tokens) / static_cast<double>(padded);
}

Measurement::Taken Measurement::TakenBytes() const {
  if (training.allocated_bytes) return {*training.allocated_bytes, "allocated"};
  if (training.driver_bytes) return {*training.driver_bytes, "driver"};
  return {std::max<int64_t>(training.footprint_bytes - idle_footprint_bytes, 0),
          "footprint"};
}

MeasuredRun::MeasuredRun(spec::TrainSpec spec, const train::RunContext& context,
                         StudyProgress& progress, const RunOptions& options)
    : spec_(Bounded(std::move(spec), options)),
      context_(context),
      folder_(context.out_dir),
      options_(options),
      progress_(progress),
      observer_(std::make_unique<PartObserver>(progress)) {
  context_.out_dir = Scratch();
}

MeasuredRun::~MeasuredRun() {
  prepared_.reset();
  loaded_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(Scratch(), ignored);
}

std::filesystem::path MeasuredRun::Scratch() const {
  return folder_ / "scratch";
}

absl::Status MeasuredRun::Attempt(const std::function<absl::Status()>& work,
                                  std::optional<std::string>& text) const {
  absl::Status done;
  const auto run = [&] { done = work(); };
  if (context_.attempt) {
    const absl::Status attempted = context_.attempt(run);
    if (absl::IsResourceExhausted(attempted)) {
      text = std::string(attempted.message());
      return absl::OkStatus();
    }
    if (!attempted.ok()) return attempted;
  } else {
    run();
  }
  if (!SaysOutOfMemory(done)) return done;
  text = std::string(done.message());
  return absl::OkStatus();
}

absl::Status MeasuredRun::LoadOnce() {
  footprint_.Reset();
  idle_footprint_ = host::ProcessFootprintBytes();
  const double start = Now();
  ASSIGN_OR_RETURN(auto opened, train::Open(spec_, context_, *observer_));
  if (!options_.dropout) TurnOffDropout(opened);
  opened.device->EmptyCache();
  opened.device->ResetPeak();
  ASSIGN_OR_RETURN(auto loaded, train::Load(std::move(opened)));
  loaded.device->Synchronize();
  load_seconds_ = Now() - start;
  // No step is followed by an evaluation.
  if (options_.eval_samples > 0) eval_ = std::move(loaded.data.eval);
  loaded.data.eval.reset();
  loaded.data.predict.reset();
  rows_ = std::move(loaded.data.train);
  loaded_spec_ = std::exchange(loaded.spec, nullptr);
  loaded_.emplace(std::move(loaded));
  if (observer_->stop_request() != StopRequest::kNone) {
    return absl::CancelledError("stopped");
  }
  return absl::OkStatus();
}

absl::StatusOr<const train::Loaded*> MeasuredRun::Load() {
  if (!loaded_) {
    std::optional<std::string> out_of_memory;
    absl::Status s = Attempt([&] { return LoadOnce(); }, out_of_memory);
    if (observer_->stopped()) return absl::CancelledError("stopped");
    if (!s.ok()) return s;
    if (out_of_memory) return absl::ResourceExhaustedError(*out_of_memory);
    ChooseRows({});
  }
  return &*loaded_;
}

absl::StatusOr<std::optional<MeasuredRun::Evaluated>> MeasuredRun::Evaluate() {
  ASSIGN_OR_RETURN(auto loaded, Load());
  if (eval_ == nullptr) return std::nullopt;
  train::Observer& observer = progress_.observer();
  const data::EvalLoader batches = loaded->shapes().EvalBatches(
      *eval_, *loaded->data.train,
      loaded->spec->training.per_device_train_batch_size);
  ASSIGN_OR_RETURN(
      auto result,
      train::Evaluate(loaded->subject(), batches, [&](double fraction) {
        observer.OnStage(report::kStageEvaluating, fraction);
        return observer.stop_request() == StopRequest::kNone;
      }));
  const std::string metric = loaded->best.metric();
  if (metric == "loss") return Evaluated{metric, result.loss};
  for (const auto& [name, value] : result.metrics) {
    // A correlation of constants is not a number.
    if (name == metric && std::isfinite(value)) return Evaluated{metric, value};
  }
  return std::nullopt;
}

void MeasuredRun::ChooseRows(const MeasureOptions& options) {
  train::Loaded& loaded = *loaded_;
  loaded.spec = std::make_unique<const spec::TrainSpec>(
      ForPart(*loaded_spec_, options, rows_->size()));
  const bool longest =
      options.rows == Rows::kLongest && !loaded.spec->training.packing;
  loaded.data.train = std::make_unique<data::Subset>(
      rows_, longest ? LongestSamples(*rows_, loaded.shapes().step_rows())
                     : data::PlainOrder(rows_->size()));
}

void MeasuredRun::TakeBack() {
  if (!prepared_) return;
  loaded_.emplace(std::move(prepared_->loaded));
  prepared_.reset();
  loaded_->device->Synchronize();
  loaded_->trainable->parameters().ZeroGradients();
  loaded_->device->EmptyCache();
}

absl::Status MeasuredRun::MeasureOnce(const MeasureOptions& options,
                                      Measurement& found) {
  if (!loaded_) {
    RETURN_IF_ERROR(LoadOnce());
    found.load_seconds = load_seconds_;
  }
  ChooseRows(options);
  RETURN_IF_ERROR(
      loaded_->shapes().CheckDeviceLimits(*loaded_->data.train, {}));
  found.device = loaded_->device->name();
  found.device_description = loaded_->device->description();
  found.idle_footprint_bytes = idle_footprint_;
  found.step_rows = loaded_->shapes().step_rows();
  const device::Memory held = loaded_->device->GetMemory();
  found.loaded = {held.current_allocated, held.driver_allocated,
                  host::ProcessFootprintBytes(), held.recommended_max};
  std::error_code ignored;
  std::filesystem::remove_all(Scratch(), ignored);
  ASSIGN_OR_RETURN(train::Prepared prepared,
                   train::Prepare(*std::exchange(loaded_, std::nullopt)));
  prepared_.emplace(std::move(prepared));
  found.micro_batch_rows = prepared_->micro_batch_rows;
  found.steps_per_epoch = prepared_->loader->steps_per_epoch();
  if (options.prepared) {
    RETURN_IF_ERROR(options.prepared(*prepared_));
  }
  const train::Loaded& loaded = prepared_->loaded;
  // After the trials of micro-batches.
  loaded.device->ResetPeak();
  footprint_.Reset();
  const bool partial_last = loaded.spec->training.packing ||
                            loaded.data.train->size() % found.step_rows != 0;
  observer_->Begin(options,
                   options.epochs > 0 ? options.epochs * found.steps_per_epoch
                                      : options.steps,
                   found.steps_per_epoch,
                   partial_last && found.steps_per_epoch > 1, found);
  return train::Loop(*prepared_).status();
}

absl::StatusOr<Measurement> MeasuredRun::Measure(
    const MeasureOptions& options) {
  Measurement found;
  std::optional<std::string> out_of_memory;
  absl::Status s =
      Attempt([&] { return MeasureOnce(options, found); }, out_of_memory);
  observer_->End();
  found.training.footprint_bytes = footprint_.bytes();
  const absl::Status back = Attempt(
      [&] {
        TakeBack();
        return absl::OkStatus();
      },
      out_of_memory);
  std::error_code ignored;
  std::filesystem::remove_all(Scratch(), ignored);
  if (observer_->stopped()) return absl::CancelledError("stopped");
  if (s.ok()) s = back;
  if (!s.ok()) return s;
  if (out_of_memory) {
    found.out_of_memory = true;
    found.out_of_memory_text = *std::move(out_of_memory);
  }
  return found;
}

std::vector<int64_t> LongestSamples(const data::Source& source, int64_t count) {
  std::vector<int64_t> order = data::PlainOrder(source.size());
  base::Check(!order.empty(), "a data set has samples");
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return source.length(a) > source.length(b);
  });
  std::vector<int64_t> longest;
  for (int64_t i = 0; i < count; ++i) {
    longest.push_back(order[static_cast<size_t>(i) % order.size()]);
  }
  return longest;
}

int64_t HeldBytes(const MemoryPeaks& peaks) {
  if (peaks.driver_bytes) return *peaks.driver_bytes;
  return peaks.allocated_bytes.value_or(peaks.footprint_bytes);
}

const char* HeldBy(const MemoryPeaks& peaks) {
  if (peaks.driver_bytes) return "driver";
  return peaks.allocated_bytes ? "allocated" : "footprint";
}

int64_t MemoryLimit(const MemoryPeaks& peaks, double share) {
  const int64_t all =
      peaks.recommended_max_bytes.value_or(host::PhysicalMemoryBytes());
  return static_cast<int64_t>(share * static_cast<double>(all));
}

}  // namespace mpsd::study
