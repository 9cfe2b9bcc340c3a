// SPDX-License-Identifier: Apache-2.0
#pragma once

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
// By value, under the names of job.json: every field except those listed in
// fingerprint.cc; LoRA as used by the run, with defaults and an adapter's
// settings. By content: "model/FILE" and "adapter/FILE"; the tokens and labels
// of texts, "tokens.train" and "tokens.eval", whatever files they were made of;
// those files ("data.train", "data.eval", the tokenizer's below "model/") count
// only for images, and for a checkpoint of a release that knew no tokens.
// "labels" are the names and the type that job and data decided: whether the
// job gives them does not matter then. "device" is the one that "auto"
// selected: its generator draws other numbers.
//
// May change, as in Transformers:
//   the length    the rates from the next step but one are those of the new
//                 length; the next step takes the rate that the old one
//                 planned, as Transformers' scheduler does when it is loaded
//   how a step's rows are computed (micro-batches of an equal product,
//                 padding_free, recomputation), to the same gradient but for
//                 its rounding and dropout's masks
//   evaluation, logging, saving, names, locations of files
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

// What the run reads, by SHA-256; "" or absent for what it does not read.
struct RunInputs {
  std::map<std::string, std::string> model;  // file name → digest
  // The adapter that training starts from.
  std::map<std::string, std::string> adapter;
  std::string train, eval;
  std::string train_tokens, eval_tokens;  // Source::TokenDigest
  std::string device;                     // "cpu", "cuda", "mps"
  // As decided, by id; empty for language models.
  std::vector<std::string> label_names = {};
  std::string problem_type = {};
};

// The fingerprint, a JSON document. `spec` is the run's own spec, including the
// adapter's settings.
std::string MakeFingerprint(const spec::TrainSpec& spec,
                            const RunInputs& inputs);

// Whether a run with the fingerprint `now` may continue from a checkpoint with
// the fingerprint `saved`; `labels` are those of run.json (LabelsOfRun), for a
// checkpoint of a release that did not keep them. FailedPrecondition names each
// value that differs, or says that a newer release wrote `saved`.
// InvalidArgument: `saved` is not a fingerprint.
absl::Status CheckFingerprint(std::string_view saved, std::string_view now,
                              std::string_view labels = "");

// Whether the fingerprint has the training data's tokens: that of an earlier
// release has none.
bool HasTokens(std::string_view fingerprint);

}  // namespace mpsd::train
