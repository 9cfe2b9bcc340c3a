// SPDX-License-Identifier: Apache-2.0
#include "core/ckpt/checkpoint.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <memory>
#include <string_view>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/ckpt/safetensors.h"
#include "nlohmann/json.hpp"

namespace mpsd::ckpt {
namespace {

namespace fs = std::filesystem;
// Ordered, so that a fingerprint is read back byte for byte.
using json = nlohmann::ordered_json;

void Put(json& object, const char* name, const std::optional<double>& value) {
  object[name] = value ? json(*value) : json();
}

std::optional<double> Take(const json& object, const char* name) {
  const json& value = object.at(name);
  if (value.is_null()) return std::nullopt;
  return value.get<double>();
}

// JSON has no NaN, which a correlation may be: it is stored as null.
double Number(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN()
                         : value.get<double>();
}

constexpr char kDigests[] = "sha256";

std::vector<fs::path> TensorFiles(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".safetensors") {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

TrainerState FromJson(const json& j) {
  TrainerState s;
  j.at("step").get_to(s.step);
  j.at("total_steps").get_to(s.total_steps);
  j.at("epoch").get_to(s.epoch);
  j.at("step_in_epoch").get_to(s.step_in_epoch);
  j.at("loss_sum").get_to(s.loss_sum);
  j.at("tokens_seen").get_to(s.tokens_seen);
  j.at("seconds").get_to(s.seconds);
  s.eval_loss_before = Take(j, "eval_loss_before");
  s.eval_loss = Take(j, "eval_loss");
  j.at("eval_step").get_to(s.eval_step);
  for (const json& metric : j.at("eval_metrics")) {
    s.eval_metrics.emplace_back(metric.at(0), Number(metric.at(1)));
  }
  s.best_metric = Take(j, "best_metric");
  j.at("best_step").get_to(s.best_step);
  j.at("evaluations_without_gain").get_to(s.evaluations_without_gain);
  const json& fingerprint = j.at("fingerprint");
  s.fingerprint = fingerprint.is_object() ? fingerprint.dump()
                                          : fingerprint.get<std::string>();
  return s;
}

}  // namespace

absl::Status WriteTrainerState(const fs::path& folder, const TrainerState& s) {
  json j = {{"step", s.step},
            {"total_steps", s.total_steps},
            {"epoch", s.epoch},
            {"step_in_epoch", s.step_in_epoch},
            {"loss_sum", s.loss_sum},
            {"tokens_seen", s.tokens_seen},
            {"seconds", s.seconds},
            {"eval_step", s.eval_step},
            {"best_step", s.best_step},
            {"evaluations_without_gain", s.evaluations_without_gain}};
  json fingerprint = json::parse(s.fingerprint, nullptr, false);
  j["fingerprint"] =
      fingerprint.is_object() ? std::move(fingerprint) : json(s.fingerprint);
  Put(j, "eval_loss_before", s.eval_loss_before);
  Put(j, "eval_loss", s.eval_loss);
  Put(j, "best_metric", s.best_metric);
  j["eval_metrics"] = json::array();  // a list keeps the task's order
  for (const auto& [name, value] : s.eval_metrics) {
    j["eval_metrics"].push_back({name, value});
  }
  json& digests = j[kDigests] = json::object();
  for (const fs::path& file : TensorFiles(folder)) {
    ASSIGN_OR_RETURN(digests[file.filename().string()], base::Sha256File(file));
  }
  return base::WriteFileAtomic(folder / kTrainerStateFile, j.dump(2) + "\n");
}

absl::StatusOr<TrainerState> ReadTrainerState(const fs::path& folder) {
  ASSIGN_OR_RETURN(auto text, base::ReadFile(folder / kTrainerStateFile));
  try {
    TrainerState state = FromJson(json::parse(text));
    if (state.step >= 0 && state.epoch >= 0 && state.step_in_epoch >= 0) {
      return state;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        (folder / kTrainerStateFile).string(), ": a count is negative"));
  } catch (const json::exception& e) {
    return absl::InvalidArgumentError(
        absl::StrCat((folder / kTrainerStateFile).string(), ": ", e.what()));
  }
}

namespace {

constexpr char kOptimizer[] = "optimizer.safetensors";
constexpr char kRandom[] = "rng.safetensors";
constexpr char kPrefix[] = "step-";

// The optimizer's tensors by their names in the file.
tensorfile::NamedTensors OptimizerTensors(optim::AdamW& optimizer) {
  tensorfile::NamedTensors tensors;
  for (size_t i = 0; i < optimizer.states().size(); ++i) {
    optim::AdamW::State& state = optimizer.states()[i];
    tensors.emplace_back(absl::StrCat("exp_avg.", i), state.first_moment);
    tensors.emplace_back(absl::StrCat("exp_avg_sq.", i), state.second_moment);
    tensors.emplace_back(absl::StrCat("step.", i), state.step);
  }
  return tensors;
}

using File = std::unique_ptr<tensorfile::SafetensorsFile>;

// The optimizer's file, checked against the optimizer's tensors.
absl::StatusOr<File> OpenOptimizer(const fs::path& path,
                                   optim::AdamW& optimizer) {
  ASSIGN_OR_RETURN(auto file, tensorfile::SafetensorsFile::Open(path));
  for (const auto& [name, target] : OptimizerTensors(optimizer)) {
    const auto entry = file->entries().find(name);
    if (entry == file->entries().end() ||
        target.sizes() != at::IntArrayRef(entry->second.shape)) {
      return absl::InvalidArgumentError(absl::StrCat(
          path.string(), ": ", name, " does not fit this run's parameters"));
    }
  }
  return file;
}

absl::Status LoadOptimizer(const tensorfile::SafetensorsFile& file,
                           optim::AdamW& optimizer) {
  // copy_ writes into the optimizer's own memory, which these tensors share.
  for (auto& [name, target] : OptimizerTensors(optimizer)) {
    ASSIGN_OR_RETURN(auto saved, file.Load(name));
    target.copy_(saved);
  }
  return absl::OkStatus();
}

struct RandomState {
  at::Tensor cpu;
  at::Tensor device = {};  // undefined if the device has no own generator
};

RandomState RandomNow(device::Device& device) {
  RandomState now{.cpu = device::CpuRngState()};
  if (device.traits().own_generator) now.device = device.RngState();
  return now;
}

void SetRandom(const RandomState& state, device::Device& device) {
  if (state.device.defined()) device.SetRngState(state.device);
  device::SetCpuRngState(state.cpu);
}

// Sets both generators, or on an error leaves both unchanged: torch throws on
// an invalid state.
absl::Status LoadRandom(const fs::path& path, device::Device& device) {
  ASSIGN_OR_RETURN(auto file, tensorfile::SafetensorsFile::Open(path));
  ASSIGN_OR_RETURN(auto cpu, file->Load("cpu"));
  RandomState saved{.cpu = cpu};
  if (device.traits().own_generator) {
    ASSIGN_OR_RETURN(saved.device, file->Load(device.name()));
  }
  const RandomState before = RandomNow(device);
  try {
    SetRandom(saved, device);
  } catch (const std::exception&) {
    SetRandom(before, device);
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), ": is not a generator's state"));
  }
  return absl::OkStatus();
}

absl::Status SaveRandom(const fs::path& path, device::Device& device) {
  const RandomState now = RandomNow(device);
  tensorfile::NamedTensors tensors = {{"cpu", now.cpu}};
  if (now.device.defined()) tensors.emplace_back(device.name(), now.device);
  return tensorfile::WriteSafetensors(path, tensors);
}

bool IsComplete(const fs::path& folder) {
  std::error_code error;
  const auto has = [&](const char* name) {
    return fs::is_regular_file(folder / name, error);
  };
  return has(kTrainerStateFile) && has(kOptimizer) && has(kRandom) &&
         (has("adapter_model.safetensors") || has("model.safetensors"));
}

// The steps of the folders step-N that are complete, or of those that are not.
std::vector<int64_t> ListSteps(const fs::path& out_dir, bool complete) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator it(out_dir / "checkpoints", error), end;
       !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    int64_t step = 0;
    if (name.rfind(kPrefix, 0) == 0 &&
        absl::SimpleAtoi(name.substr(sizeof kPrefix - 1), &step) &&
        IsComplete(it->path()) == complete) {
      steps.push_back(step);
    }
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

}  // namespace

int64_t CheckpointBytes(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end;
       !error && it != end; it.increment(error)) {
    std::error_code none;
    const bool is_file = it->is_regular_file(none);
    const auto size = is_file ? it->file_size(none) : 0;
    if (is_file && !none) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

fs::path CheckpointPath(const fs::path& out_dir, int64_t step) {
  return out_dir / "checkpoints" / absl::StrCat(kPrefix, step);
}

absl::StatusOr<Saved> SaveCheckpoint(const fs::path& out_dir,
                                     const TrainerState& state,
                                     const LiveState& live) {
  const fs::path path = CheckpointPath(out_dir, state.step);
  ASSIGN_OR_RETURN(auto folder, base::StagedFolder::Create(path));
  const fs::path& at = folder.staging();
  RETURN_IF_ERROR(live.trainable.SaveCheckpoint(at));
  RETURN_IF_ERROR(tensorfile::WriteSafetensors(
      at / kOptimizer, OptimizerTensors(live.optimizer)));
  RETURN_IF_ERROR(SaveRandom(at / kRandom, live.device));
  RETURN_IF_ERROR(WriteTrainerState(at, state));
  // The folder gets its name last: a checkpoint under its name is complete.
  RETURN_IF_ERROR(folder.Commit());
  return Saved{path, CheckpointBytes(path)};
}

namespace {

// In pieces, in the mapped file: isfinite's temporaries are larger than its
// input, and the run holds its model meanwhile.
bool IsFinite(const tensorfile::SafetensorsFile& file, const std::string& name,
              at::ScalarType dtype) {
  const size_t size = at::elementSize(dtype);
  const size_t most = size << 24;
  std::string_view left = file.Bytes(name);
  while (!left.empty()) {
    const std::string_view piece = left.substr(0, most);
    left.remove_prefix(piece.size());
    const at::Tensor values =
        at::from_blob(const_cast<char*>(piece.data()),
                      {static_cast<int64_t>(piece.size() / size)}, dtype);
    const bool finite = at::isfinite(values).all().item<bool>();
    file.DropBytes(name);
    base::CountWork();
    if (!finite) return false;
  }
  return true;
}

}  // namespace

absl::Status CheckTensors(const fs::path& folder, bool with_optimizer) {
  ASSIGN_OR_RETURN(auto text, base::ReadFile(folder / kTrainerStateFile));
  const json state = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const json digests =
      state.is_object() ? state.value(kDigests, json()) : json();
  for (const fs::path& path : TensorFiles(folder)) {
    const std::string name = path.filename().string();
    if (name == kOptimizer && !with_optimizer) continue;
    if (digests.is_object() && digests.contains(name)) {
      ASSIGN_OR_RETURN(auto digest, base::Sha256File(path));
      if (digests[name] != digest) {
        return absl::InvalidArgumentError(
            absl::StrCat(path.string(), ": has the SHA-256 ", digest, ", not ",
                         digests[name].dump(), " as when it was written"));
      }
    }
    ASSIGN_OR_RETURN(auto file, tensorfile::SafetensorsFile::Open(path));
    for (const auto& [tensor, entry] : file->entries()) {
      if (!at::isFloatingType(entry.dtype)) continue;
      if (IsFinite(*file, tensor, entry.dtype)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(path.string(), ": ", tensor, " is not finite"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TrainerState> LoadCheckpoint(const fs::path& folder,
                                            const LiveState& live) {
  ASSIGN_OR_RETURN(auto state, ReadTrainerState(folder));
  RETURN_IF_ERROR(CheckTensors(folder));
  RETURN_IF_ERROR(live.trainable.CheckCheckpoint(folder));
  ASSIGN_OR_RETURN(auto optimizer,
                   OpenOptimizer(folder / kOptimizer, live.optimizer));
  RETURN_IF_ERROR(LoadRandom(folder / kRandom, live.device));
  // Every part exists and fits: `live` may change from here on.
  absl::Status s = live.trainable.LoadCheckpoint(folder);
  if (s.ok()) s = LoadOptimizer(*optimizer, live.optimizer);
  // `live` is partly restored: the caller must not take the error for a damaged
  // checkpoint and continue with an older one.
  if (!s.ok()) return absl::InternalError(s.message());
  return state;
}

std::vector<int64_t> ListCheckpoints(const fs::path& out_dir) {
  return ListSteps(out_dir, /*complete=*/true);
}

std::vector<int64_t> ListIncomplete(const fs::path& out_dir) {
  return ListSteps(out_dir, /*complete=*/false);
}

bool Remove(const fs::path& out_dir, int64_t step) {
  const fs::path path = CheckpointPath(out_dir, step);
  const fs::path hidden =
      path.parent_path() / absl::StrCat(".", kPrefix, step, ".removed");
  // `hidden` is in the way if an earlier removal was cut short.
  std::error_code error;
  fs::remove_all(hidden, error);
  fs::rename(path, hidden, error);
  if (error) return false;
  fs::remove_all(hidden, error);  // otherwise the next sweep does
  return true;
}

std::vector<fs::path> Prune(const fs::path& out_dir, int64_t limit,
                            int64_t written, int64_t best) {
  const std::vector<int64_t> steps = ListCheckpoints(out_dir);
  int64_t excess = static_cast<int64_t>(steps.size()) - limit;
  std::vector<fs::path> removed;
  for (const int64_t step : steps) {
    if (excess <= 0) break;
    if (step == written || step == best) continue;
    if (!Remove(out_dir, step)) continue;
    removed.push_back(CheckpointPath(out_dir, step));
    --excess;
  }
  return removed;
}

absl::StatusOr<fs::path> SetAside(const fs::path& out_dir, int64_t step) {
  const fs::path path = CheckpointPath(out_dir, step);
  const fs::path aside = path.string() + ".damaged";
  std::error_code error;
  fs::remove_all(aside, error);
  fs::rename(path, aside, error);
  if (error) return base::ErrnoStatus(error.value(), path.string());
  return aside;
}

void SweepLeftovers(const fs::path& out_dir) {
  std::vector<fs::path> leftovers;
  std::error_code error;
  for (fs::directory_iterator it(out_dir / "checkpoints", error), end;
       !error && it != end; it.increment(error)) {
    if (it->path().filename().string().rfind(absl::StrCat(".", kPrefix), 0) ==
        0) {
      leftovers.push_back(it->path());
    }
  }
  for (const fs::path& path : leftovers) fs::remove_all(path, error);
}

}  // namespace mpsd::ckpt
