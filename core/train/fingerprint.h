// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_FINGERPRINT_H_
#define MPSD_CORE_TRAIN_FINGERPRINT_H_

#include <atomic>
#include <filesystem>
#include <future>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/spec/train_spec.h"

// What must not change between a checkpoint and the run that resumes from it:
// everything that decides the mathematics of the remaining steps. A document,
// kept in the checkpoint's trainer_state.json:
//
//   {"version": 1, "values": {"training.learning_rate": 0.01, …}}
//
// A value equal to its field's default is omitted, and a missing value is the
// default: a release that adds a field can resume from checkpoints of the one
// before. The version is incremented when the meaning of a name changes.
//
// By value, under the names of job.json: the task, fine_tune_type,
// from_scratch, labels and their weights, augmentation, quantisation, LoRA (as
// used by the run, with defaults and an adapter's settings), optimizer,
// schedule, max_length, packing, sampling, loss masks, bf16, seed, gradients
// (in bf16 the two paths round differently), and metric_for_best_model, without
// which the best metric so far means nothing; also the columns and limits that
// select data. By content: "model/FILE" and "adapter/FILE"; the tokens and
// labels of texts, "tokens.train" and "tokens.eval", whatever files they were
// made of; those files ("data.train", "data.eval", the tokenizer's below
// "model/") count only for images, and for a checkpoint of a release that knew
// no tokens. "device" is the one that "auto" selected: its generator draws
// other numbers.
//
// May change, as in Transformers:
//   num_train_epochs, max_steps      longer, or shorter: the rates from the
//                                    next step but one are those of the new
//                                    length; the next step takes the rate that
//                                    the old one planned, as Transformers'
//                                    scheduler does when it is loaded
//   per_device_train_batch_size,     with an equal product (which is compared),
//   gradient_accumulation_steps      and auto_find_batch_size, padding_free,
//                                    gradient_checkpointing and
//                                    recompute_granularity: how a step's rows
//                                    are computed, to the same gradient but
//                                    for its rounding and dropout's masks
//   evaluation, logging, saving      eval_steps, per_device_eval_batch_size,
//                                    logging_steps, save_steps,
//                                    save_total_limit, load_best_model_at_end,
//                                    early stopping, what is predicted
//   name, model, model_id, paths     locations of files
//   allow_cpu_fallback               where an operator runs
namespace mpsd::train {

// File name → SHA-256.
using Digests = std::map<std::string, std::string>;

// The cache of digests in the cache folder.
inline constexpr char kModelDigestsFile[] = "model-digests.json";

// The digests of the files of a model folder that results depend on: config,
// weights, tokenizer, chat template, image processor. The file `cache` keeps
// digests by path, size and time. Another thread may set `stop` meanwhile:
// Cancelled.
absl::StatusOr<Digests> HashModel(const std::filesystem::path& model_folder,
                                  const std::filesystem::path& cache,
                                  const std::atomic<bool>& stop);

// Runs HashModel on its own thread while the run reads data and weights. If the
// cache has all digests, the thread instead asks the system to read the
// beginning of the weights, so that they are in memory when they are loaded.
class ModelDigests {
 public:
  ModelDigests(std::filesystem::path model_folder, std::filesystem::path cache);
  // Stops the thread, finished or not.
  ~ModelDigests();
  ModelDigests(const ModelDigests&) = delete;
  ModelDigests& operator=(const ModelDigests&) = delete;

  // Whether Get would return without waiting.
  bool done() const;

  // Waits for the thread; returns HashModel's result.
  absl::StatusOr<Digests> Get();

 private:
  std::atomic<bool> stop_{false};
  const std::shared_future<absl::StatusOr<Digests>> digests_;
};

// SHA-256 of what the run reads; "" or absent for what it does not read.
struct RunInputs {
  std::map<std::string, std::string> model;  // file name → digest
  // The adapter that training starts from.
  std::map<std::string, std::string> adapter;
  std::string train, eval;
  std::string train_tokens, eval_tokens;  // Source::TokenDigest
  std::string device;                     // "cpu", "cuda", "mps"
};

enum class FieldRole {
  kCompared,  // compared by value
  // Compared by what it refers to: content, a product, a found device.
  kDerived,
  kFree,  // may change when a run resumes
};

// The role of each field of the spec when a run resumes, by path: field "seed"
// of section "training" has the path "training.seed". Every field has a role.
const std::map<std::string, FieldRole, std::less<>>& FieldRoles();

// The paths of all fields of a spec.
std::vector<std::string> FieldPaths();

// The fingerprint, a JSON document. `spec` is the run's own spec, including the
// adapter's settings.
std::string MakeFingerprint(const spec::TrainSpec& spec,
                            const RunInputs& inputs);

// Whether a run with the fingerprint `now` may continue from a checkpoint with
// the fingerprint `saved`. FailedPrecondition names each value that differs, or
// says that a newer release wrote `saved`. InvalidArgument: `saved` is not a
// fingerprint.
absl::Status CheckFingerprint(std::string_view saved, std::string_view now);

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_FINGERPRINT_H_
