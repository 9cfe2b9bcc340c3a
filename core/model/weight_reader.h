// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/ckpt/safetensors.h"
#include "core/model/layers.h"
#include "core/spec/model_config.h"
#include "core/spec/quantization.h"

namespace mpsd::model {

// Which weights a file and a network have in common: what Transformers prints
// as its LOAD REPORT.
struct LoadReport {
  // Names of weights that are in the file but not in the network, except
  // buffers that older versions of Transformers wrote, as in Transformers.
  std::vector<std::string> unused;
  // Names of weights that are in the network but not in the file; they were
  // drawn at random.
  std::vector<std::string> missing;
  // config.json ties the head to the embedding, but the file has both with
  // different values: they were loaded untied.
  bool untied = false;
};

// A sentence for each non-empty member, with a few names at most.
std::vector<std::string> Warnings(const LoadReport& report);

// Whether a tensor of this name is a buffer that older versions of Transformers
// wrote for networks of the family.
bool IsOldBuffer(std::string_view name, spec::Family family);

// Where a network's weights come from and where they go.
struct WeightSource {
  const tensorfile::Weights* weights = nullptr;  // null: draw all weights
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;
  // Ignore a head whose shape in the file differs.
  bool ignore_mismatched_heads = false;
  // How linears of the decoder's blocks are quantised; absent: as in the file.
  spec::QuantizationSpec quantization = {};
  // Without a file: weights come from the device's own generator, in `dtype`.
  // Fast for large models, but not Transformers' numbers.
  bool draw_on_device = false;
};

// The distribution of a weight that is missing from the file; its deviation is
// the config's initializer_range.
enum class Initial {
  kNormal,
  kTruncatedNormal,  // nn.init.trunc_normal_ with its default bounds, ±2
  kZero,
  kOne,
};

// Reads a network weight by weight. Keeps the first error; every later read
// then returns an undefined tensor. Without a file, and for head modules that
// are missing from the file, it draws the weights as Transformers'
// _init_weights does (5.23, modeling_utils.py): linears and embeddings normal,
// biases 0, norms 1 and 0. Weights are drawn in fp32 from the CPU generator in
// the order of the calls: if the calls follow the module tree, the same seed
// gives Transformers' numbers.
class WeightReader {
 public:
  // `base_prefix` ("bert.", "model.", "vit."): names that begin with it are
  // also found without it, as in a file of the headless model. `linears` is the
  // distribution of weights of linears.
  WeightReader(const WeightSource& source, std::string base_prefix,
               double initializer_range, Initial linears = Initial::kNormal);

  // A required weight. Norms are also found under their old names: "….gamma"
  // for weight, "….beta" for bias.
  at::Tensor Tensor(const std::string& name, at::IntArrayRef shape,
                    Initial initial = Initial::kNormal);
  // Quantised if the file stores it so or the source asks for it. Only the
  // weight being quantised is dense, on the CPU.
  Linear MakeLinear(const std::string& name, int64_t out, int64_t in,
                    bool bias);
  // `padding` is the config's pad_token_id. A negative one counts from the end;
  // one outside the table means no padding.
  Embedding MakeEmbedding(const std::string& name, int64_t rows, int64_t width,
                          std::optional<int64_t> padding = std::nullopt);
  LayerNorm MakeLayerNorm(const std::string& name, int64_t size, double eps);
  RmsNorm MakeRmsNorm(const std::string& name, int64_t size, double eps,
                      bool adds_one = false);

  // A head's linear. It is drawn if the file lacks it or, with
  // ignore_mismatched_heads, has it in another shape; then fresh_modules()
  // lists `name`.
  Linear MakeHead(const std::string& name, int64_t out, int64_t in, bool bias);

  bool Contains(const std::string& name) const;
  // The name of the weight in the file; `name` itself if the file lacks it.
  std::string StoredName(const std::string& name) const;
  const absl::Status& status() const { return status_; }
  // The drawn head modules in the order of the calls; empty without a file.
  const std::vector<std::string>& fresh_modules() const { return fresh_; }
  // The report over all calls so far, for a network of the family; empty
  // without a file.
  LoadReport Report(spec::Family family) const;

  // Marks a tensor of the file as used without reading it.
  void MarkUsed(const std::string& stored) { used_.insert(stored); }
  // Keeps `status` unless an earlier error is kept.
  void Fail(const absl::Status& status) { status_.Update(status); }

 private:
  at::Tensor Draw(at::IntArrayRef shape, Initial initial) const;
  void ReadWeight(Linear& linear, int64_t out, int64_t in);
  at::Tensor HeadTensor(const std::string& module, const std::string& name,
                        at::IntArrayRef shape, Initial initial);

  const WeightSource source_;
  const std::string base_prefix_;
  const double initializer_range_;
  const Initial linears_;
  absl::Status status_;
  std::vector<std::string> fresh_;
  std::vector<std::string> missing_;
  std::set<std::string> used_;  // names of tensors of the file
};

// The name of a language model's head.
inline constexpr char kHeadWeight[] = "lm_head.weight";

// Which weights a language model reads if config.json says tie_word_embeddings:
// the tensors in its file decide (transformers 5.23, modeling_utils.py,
// tie_weights).
enum class TiedHead {
  kEmbedding,  // the embedding, also used as the head; both, if equal
  kHead,       // the head, also used as the embedding
  kBoth,       // both, with different values: untied
};

// `embedding` is the embedding's name in the file. Values are compared in
// `dtype`.
absl::StatusOr<TiedHead> FindTiedHead(const tensorfile::Weights& weights,
                                      const std::string& embedding,
                                      at::ScalarType dtype);

}  // namespace mpsd::model
