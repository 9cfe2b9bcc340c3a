// SPDX-License-Identifier: Apache-2.0
#include "core/spec/memory_estimate.h"

#include <algorithm>
#include <limits>

#include "core/spec/generation.h"
#include "core/spec/job_layers.h"

namespace mpsd::spec {
namespace {

using backend::MemoryPlace;
using backend::Traits;

constexpr double kFloat = 4;       // bytes
constexpr double kAdamCopies = 4;  // parameter, gradient, two moments
// Label tokens at a time under autograd (core/model/losses.h).
constexpr double kLossChunk = 1024;
// Logits, softmax and derivative in fp32; in the explicit step, whose
// derivative overwrites the softmax, with the half-sized operand of a product.
constexpr double kLogitsCopies = 3, kExplicitLogitsCopies = 2.5;
// The same if the softmax overwrites the logits, measured: 1.98 to 2.13 on an
// H200, 1.9 on a CPU in bf16.
constexpr double kOverwrittenLogitsCopies = 2;
// Bytes per value of a quantised weight while its dense form is made: an int32
// index for each two values, the fp32 value, and the bf16 value or an fp32
// copy.
constexpr double kBytesOfMaking = 2 + 4 + 4;

// Measured with glibc's malloc (tests/live/memory), which serves tensors up to
// kHeapTensor from a heap and gives larger ones back at once. kMostHeap is a
// bound for jobs larger than those measured.
constexpr double kExplicitHeap = 0.6, kAutogradHeap = 0.7, kFullHeap = 0.4;
constexpr double kHeapTensor = int64_t{32} << 20;
constexpr double kMostHeap = int64_t{2} << 30;

int64_t Bytes(double value) {
  constexpr auto kMax = std::numeric_limits<int64_t>::max();
  return value >= static_cast<double>(kMax) ? kMax
                                            : static_cast<int64_t>(value);
}

// 0 if no target matches.
double AdapterParameters(const JobLayers& job) {
  if (!job.valid_lora) return 0;
  double count = 0;
  for (const TargetMatch& match : job.matches) {
    count += static_cast<double>(match.r) *
             static_cast<double>(match.in_features + match.out_features);
  }
  for (const Module& module : job.saved) {
    count += static_cast<double>(module.parameters());
  }
  return count;
}

int64_t TrainedParameters(const TrainSpec& spec, const ModelConfig& model,
                          const JobLayers& job) {
  switch (spec.fine_tune_type) {
    case FineTuneType::kFull:
      return ParameterCount(model);
    case FineTuneType::kHead:
      return Bytes(job.head_parameters);
    case FineTuneType::kLora:
      break;
  }
  return Bytes(AdapterParameters(job));
}

// One formula for each part.
class Estimator {
 public:
  Estimator(const TrainSpec& spec, const ModelConfig& model,
            const Traits& traits)
      : spec_(spec),
        m_(model),
        traits_(traits),
        job_(LayersOf(spec, model)),
        decoder_(model.family == Family::kDecoder),
        explicit_(ChooseGradients(spec, model).explicit_step),
        b_(spec.training.bf16 ? 2 : kFloat),
        rows_(static_cast<double>(spec.training.per_device_train_batch_size *
                                  spec.preference.sequences())),
        length_(TokensPerRow()),
        tokens_(rows_ * length_) {}

  MemoryEstimate Estimate() const {
    MemoryEstimate estimate;
    estimate.base_weights_bytes = Bytes(WeightBytes());
    estimate.trainable_bytes =
        Bytes(TrainedParameters(spec_, m_, job_) * kAdamCopies * kFloat);
    const Kept kept = KeptPerToken();
    estimate.activations_bytes = Bytes(tokens_ * kept.all);
    estimate.logits_bytes = Bytes(LogitsBytes());
    estimate.backward_bytes = Bytes(BackwardBytes(kept.layer));
    estimate.evaluation_bytes = Bytes(EvaluationBytes());
    estimate.inputs_bytes = Bytes(InputBytes());
    estimate.keeps_logits = KeepsLogits();
    estimate.heap_share = HeapShare();
    estimate.Add();
    return estimate;
  }

 private:
  // A micro-batch's values between forward and backward, bytes per token.
  struct Kept {
    double all = 0;    // of all layers together
    double layer = 0;  // of the recomputed layer, in addition
  };

  // The tokens per row of max_length.
  double TokensPerRow() const {
    if (m_.family == Family::kVision) return m_.max_position_embeddings;
    const double length = spec_.training.max_length;
    if (decoder_) return length;
    return std::min<double>(length, m_.max_row_tokens());
  }

  // --- weights ---------------------------------------------------------------

  // The bytes that quantised linears save compared with dense ones.
  double SavedByQuantization() const {
    const QuantizationSpec& q =
        m_.quantization ? *m_.quantization : spec_.quantization_config;
    if (!q.enabled()) return 0;
    double saved = 0, largest = 0;
    for (const JobLayer& layer : job_.layers) {
      for (const auto& group : layer.groups) {
        for (const JobLinear& linear : group) {
          if (!linear.quantized) continue;
          const double weights = linear.in * linear.out;
          saved += weights * b_ - QuantizedBytes(q, weights, linear.out);
          largest = std::max(largest, weights);
        }
      }
    }
    return saved - largest * kBytesOfMaking;
  }

  // The weights in training precision: frozen, or copies of the trained
  // masters, except of embeddings that are no head.
  double WeightBytes() const {
    if (spec_.fine_tune_type != FineTuneType::kFull) {
      return ParameterCount(m_) * b_ - SavedByQuantization();
    }
    if (!spec_.training.bf16) return 0;
    const bool tied = m_.tie_word_embeddings && m_.num_labels == 0;
    return (ParameterCount(m_) - (tied ? 0 : job_.embedding_parameters)) * b_;
  }

  // --- what a forward keeps, bytes per token ---------------------------------

  // Bytes per number of a dropout mask: if random numbers are drawn in order it
  // is the factors themselves, else a byte.
  double MaskBytes(double number) const {
    return traits_.draws_in_order ? number : 1;
  }

  // An encoder's values of the MLP: the activation's input, and its result,
  // which ReLU alone keeps.
  double InnerValues() const {
    const bool relu = m_.encoder.hidden_act == "relu";
    return (relu ? 1.0 : 2.0) * static_cast<double>(m_.intermediate_size);
  }

  double EncoderLayer() const {
    const EncoderConfig& e = m_.encoder;
    const double h = m_.hidden_size;
    double bytes =
        (8.0 * h + InnerValues()) * b_ + kFloat * m_.num_attention_heads;
    if (e.hidden_dropout_prob > 0) {
      // DistilBERT has none after its attention.
      const int masks = m_.encoder.network == "distilbert" ? 1 : 2;
      bytes += masks * h * MaskBytes(b_);
    }
    if (e.attention_probs_dropout_prob > 0) {
      // CUDA's kernels draw the mask again in the backward.
      if (traits_.fused_attention != backend::FusedAttention::kByToken) {
        bytes += m_.num_attention_heads * length_ * (2 * b_ + MaskBytes(b_));
      }
    } else if (!traits_.attends_fused()) {
      bytes += 4 * h * (kFloat - b_);  // tiles keep fp32
    }
    return bytes;
  }

  // The part of it that the last layer saves: after its attention only the
  // first token continues.
  double EncoderEnd() const {
    return (3.0 * m_.hidden_size + InnerValues()) * b_;
  }

  double ExplicitLayer() const {
    // Only each norm's input, and of the MLP only gate and up: the outputs are
    // recomputed in the backward.
    double values = 2.0 * m_.hidden_size + 2.0 * m_.q_size() +
                    2.0 * m_.kv_size() + 2.0 * m_.intermediate_size;
    if (m_.qk_norm) values += m_.q_size() + m_.kv_size();
    values += m_.output_norms() * m_.hidden_size;
    return values * b_ + kFloat * m_.num_attention_heads;
  }

  double AutogradDecoderLayer() const {
    // The input in fp32 and the output; trained weights need what they scale.
    double norms = kFloat + b_;
    if (spec_.fine_tune_type == FineTuneType::kFull) norms += kFloat;
    norms *= m_.input_norms() + m_.output_norms();
    double bytes = norms * m_.hidden_size + 4.0 * m_.intermediate_size * b_ +
                   kFloat * m_.num_attention_heads;
    if (AttendsFused(traits_, m_)) {
      // Keys and values are repeated for each head.
      return bytes + 4.0 * m_.q_size() * b_;
    }
    const double attention = 2.0 * m_.q_size() + 2.0 * m_.kv_size();
    return bytes + attention * kFloat + m_.q_size() * b_;
  }

  // Of all layers. Autograd runs adapters in fp32: a bf16 input is kept as an
  // fp32 copy for each of them, and so is dropout's result.
  double AdapterBytes() const {
    const bool drops = spec_.lora.lora_dropout.value_or(0) > 0;
    double bytes = 0;
    for (const TargetMatch& match : job_.matches) {
      const double in = static_cast<double>(match.in_features);
      bytes += kFloat * static_cast<double>(match.r);
      if (drops) bytes += in * (explicit_ ? 1 : MaskBytes(kFloat));
      if (!explicit_ && (drops || spec_.training.bf16)) bytes += kFloat * in;
    }
    return bytes;
  }

  // Of all layers: the inputs of frozen linears that are counted with the
  // layers but not kept. In bf16 an adapter keeps its own copy. MPS has its own
  // kernel for at::linear, which keeps its input; elsewhere it is a product,
  // which keeps an input only for the weight's gradient.
  double UnkeptBytes() const {
    if (spec_.fine_tune_type != FineTuneType::kLora || explicit_ ||
        traits_.fused_attention == backend::FusedAttention::kNone) {
      return 0;
    }
    // Fused attention keeps its output itself; probabilities do not need it.
    const bool fused =
        traits_.fused_attention == backend::FusedAttention::kByToken ||
        m_.encoder.attention_probs_dropout_prob == 0;
    double values = 0;
    for (size_t i = 0; i < job_.layers.size(); ++i) {
      const auto keeps = [&](LinearGroup group) {
        return b_ == kFloat && job_.layers[i].HasAdapter(group);
      };
      if (!keeps(kQkv)) values += m_.hidden_size;
      if (!keeps(kOut) && !fused) values += m_.hidden_size;
      // An encoder's last layer has one token there.
      if (!decoder_ && i + 1 == job_.layers.size()) break;
      if (!keeps(kUp)) values += m_.hidden_size;
      if (!keeps(kDown) && m_.encoder.hidden_act != "relu") {
        values += m_.intermediate_size;
      }
    }
    return values * b_;
  }

  // Layers with values for the backward: the explicit step keeps nothing below
  // the lowest adapter.
  double TapedLayers() const {
    if (!explicit_ || job_.matches.empty()) return m_.num_hidden_layers;
    return static_cast<double>(std::count_if(
        job_.layers.begin(), job_.layers.end(),
        [](const JobLayer& layer) { return layer.any_backward; }));
  }

  Kept KeptPerToken() const {
    const double layers = m_.num_hidden_layers;
    const double ends = 2.0 * m_.hidden_size * b_;
    const double layer = !decoder_   ? EncoderLayer()
                         : explicit_ ? ExplicitLayer()
                                     : AutogradDecoderLayer();
    if (spec_.fine_tune_type == FineTuneType::kHead) return {ends + layer, 0};
    const double adapted = AdapterBytes() - UnkeptBytes();
    const double taped = TapedLayers();
    if (spec_.training.recompute() == Recompute::kNone) {
      const double end = decoder_ ? 0 : EncoderEnd();
      return {ends + taped * layer + adapted - end, 0};
    }
    if (spec_.training.recompute() == Recompute::kSelective && explicit_) {
      const double wide = 2.0 * m_.intermediate_size * b_;
      return {ends + taped * (layer - wide) + adapted, wide};
    }
    const double inputs = taped * m_.hidden_size * b_;
    // The explicit step keeps the small part of adapters, autograd nothing.
    if (explicit_) return {ends + inputs + adapted, layer};
    return {ends + inputs, layer + adapted / layers};
  }

  // --- the backward's temporaries --------------------------------------------

  // A layer's attention: the scores of one block of queries, and the masks.
  double BlockBytes() const {
    // With a soft cap also its tanh, and the derivative that it multiplies.
    const double copies = m_.attention_softcap > 0 ? 5 : 3;
    if (AttendsFused(traits_, m_) &&
        traits_.fused_attention == backend::FusedAttention::kByToken &&
        spec_.training.bf16) {
      return 0;  // computed by kernels, forward and backward
    }
    constexpr double kMost = int64_t{1}
                             << 31;  // scores; no device computes more
    if (rows_ * length_ * m_.num_attention_heads > kMost) return 0;
    const auto count = static_cast<double>(
        QueriesPerBlock(static_cast<int64_t>(rows_), m_.num_attention_heads,
                        static_cast<int64_t>(length_), traits_.cached_pieces));
    const double scores = rows_ * m_.num_attention_heads * count * length_;
    double masks = count * length_;
    if (spec_.training.packing || spec_.training.padding_free.value_or(false)) {
      masks += std::min(rows_ * length_ * length_, 1.0 * kMostKeptMasks);
    } else if (traits_.masks_for_products) {
      const double group =
          1.0 * m_.num_attention_heads / m_.num_key_value_heads;
      masks += std::min(group * length_ * length_, 1.0 * kMostKeptMasks);
    }
    return (scores * copies + masks) * b_;
  }

  // The gradient of the largest linear's weight before it is added, unless a
  // product adds to the parameter's; with bf16 its fp32 copy, too.
  double WeightGradientBytes() const {
    const bool narrow = b_ < kFloat;
    if (spec_.fine_tune_type != FineTuneType::kFull ||
        (narrow ? traits_.wide_products
                : explicit_ || traits_.transposed_left)) {
      return 0;
    }
    const bool adds =
        !explicit_ || spec_.training.gradient_accumulation_steps > 1;
    const double largest =
        1.0 * m_.hidden_size * m_.intermediate_size * (m_.fused ? 2 : 1);
    return largest * (narrow && adds ? b_ + kFloat : b_);
  }

  // The temporaries of one layer's backward, with the recomputed layer, of
  // `again` bytes per token.
  double BackwardBytes(double again) const {
    const double h = m_.hidden_size, i = m_.intermediate_size;
    if (explicit_) {
      const double mlp = tokens_ * (3 * i + 3 * h) * b_;
      const double block = BlockBytes();
      // The CPU's small pieces of attention take no more than the MLP before.
      return tokens_ * again + WeightGradientBytes() +
             (traits_.cached_pieces ? std::max(mlp, block) : mlp + block);
    }
    if (spec_.fine_tune_type == FineTuneType::kHead) return 0;
    return tokens_ * (again + (2 * i + 2 * h) * b_) + WeightGradientBytes();
  }

  // --- head and loss ---------------------------------------------------------

  // Bytes per logit without gradients: the product's, and what the loss makes
  // of them in fp32.
  double LogitBytes() const {
    return (b_ < kFloat ? b_ : 0) + 2 * kFloat + CapBytes();
  }

  // Of a soft cap's derivative, per logit.
  double CapBytes() const { return m_.logits_softcap > 0 ? kFloat : 0; }

  // A language model's head with its loss under autograd, a chunk of labels at
  // a time (core/model/losses.cc): first logits, their fp32 copies and
  // derivative; then the derivative and the memory for the weight's gradient.
  double AutogradHeadBytes() const {
    // Losses that weigh tokens keep all logits.
    const double labels =
        spec_.preference.enabled() ? tokens_ : std::min(tokens_, kLossChunk);
    const double logits = labels * m_.vocab_size;
    const double weight = 1.0 * m_.vocab_size * m_.hidden_size;
    const double copies = LogitBytes();
    if (!job_.trained_head) return logits * copies;
    // With an adapter the head computes in fp32.
    const bool saved = spec_.fine_tune_type != FineTuneType::kFull;
    // The dtype of the product, and a wider copy of its result.
    const double product = saved ? kFloat : b_;
    const double widened = product < kFloat ? kFloat : 0;
    const double first =
        logits * (saved && b_ < kFloat ? copies + kFloat : copies);
    const double converted = b_ < kFloat ? product : 0;
    const double transposed = traits_.transposed_left ? 0 : product;
    const double second = logits * (kFloat + converted + transposed) +
                          weight * (product + widened);
    return weight * kFloat + std::max(first, second);
  }

  // Whether the explicit step keeps the memory of its logits from one use to
  // the next: one fp32 copy, which softmax and derivative overwrite.
  bool KeepsLogits() const {
    return explicit_ && traits_.splits_products && !spec_.training.bf16;
  }

  double LogitsBytes() const {
    if (m_.num_labels > 0) {
      return rows_ * m_.num_labels * kLogitsCopies * kFloat;
    }
    if (!explicit_) return AutogradHeadBytes();
    const auto most = static_cast<double>(LabelsPerPiece(
        m_.vocab_size, job_.trained_head, traits_.cached_pieces));
    double copies = kExplicitLogitsCopies;
    if (KeepsLogits()) {
      copies = 1;
    } else if (traits_.softmax_in_place) {
      copies = kOverwrittenLogitsCopies;
    }
    return std::min(tokens_, most) * m_.vocab_size *
           (copies * kFloat + CapBytes());
  }

  // --- the allocator ---------------------------------------------------------

  // From the size on at which tensors leave the heap the share falls, so that
  // its bytes no longer grow. They do not drop to 0 there: a micro-batch with
  // more rows must not appear to need less.
  double HeapShare() const {
    if (traits_.memory != MemoryPlace::kHost) return 0;
    const bool full = spec_.fine_tune_type == FineTuneType::kFull;
    const double share = explicit_ ? kExplicitHeap
                         : full    ? kFullHeap
                                   : kAutogradHeap;
    // Tensors of two lives: a step's and a recomputed layer's, masks.
    const bool mixed =
        decoder_ && (spec_.training.recompute() == Recompute::kFull ||
                     (explicit_ && spec_.lora.lora_dropout.value_or(0) > 0));
    return (mixed ? 2 : 1) * share *
           std::min(1.0, kHeapTensor / (tokens_ * m_.hidden_size * b_));
  }

  // --- evaluations and inputs ------------------------------------------------

  // A chunk of labels without gradients, and the last hidden states.
  double EvaluatedLogitsBytes(double tokens, double rows) const {
    if (m_.num_labels > 0) return rows * m_.num_labels * kLogitsCopies * kFloat;
    return std::min(tokens, kLossChunk) * m_.vocab_size * LogitBytes() +
           tokens * 3 * m_.hidden_size * b_;
  }

  double EvaluationBytes() const {
    // The reference is computed like an evaluation.
    if (!spec_.dataset.evaluates() && !spec_.preference.enabled()) {
      return SampleBytes();
    }
    double rows =
        static_cast<double>(spec_.training.per_device_eval_batch_size *
                            spec_.preference.sequences());
    if (traits_.silent_out_of_memory) rows = std::min(rows, rows_);
    return std::max(ForwardBytes(rows * length_, rows), SampleBytes());
  }

  // A batch of training.sample_prompts: keys, values and the first forward. A
  // byte of a prompt is a token at most; the chat template and padding add
  // some.
  double SampleBytes() const {
    size_t longest = 0;
    for (const Prompt& prompt : spec_.training.sample_prompts) {
      longest = std::max({longest, prompt.text.size(), prompt.messages.size()});
    }
    if (longest == 0) return 0;
    constexpr double kAdded = 128;
    const double tokens =
        std::min<double>(longest + kAdded, m_.max_row_tokens());
    const double cached =
        2.0 * m_.num_hidden_layers * m_.kv_size() * b_ *
        (tokens + static_cast<double>(spec_.training.sample_max_new_tokens));
    const double rows = std::clamp<double>(
        kMostCacheBytes / cached, 1, spec_.training.sample_prompts.size());
    return rows * cached + ForwardBytes(rows * tokens, rows);
  }

  // A forward without gradients.
  double ForwardBytes(double tokens, double rows) const {
    const double attention = 2.0 * m_.q_size() + 2.0 * m_.kv_size();
    // A decoder's MLP adds gate, up and their product to the heads' values.
    const double values =
        decoder_ ? 4.0 * m_.hidden_size + attention + 3.0 * m_.intermediate_size
                 : 4.0 * m_.hidden_size + 2.0 * m_.intermediate_size;
    // The pixels as read, and on the device.
    const double side = m_.vision.image_size;
    const double pixels =
        m_.family != Family::kVision
            ? 0
            : rows * side * side * m_.vision.num_channels * kFloat *
                  (traits_.memory == MemoryPlace::kOwn ? 1 : 2);
    const double layer =
        pixels + tokens * values * b_ +
        (AttendsFused(traits_, m_) ? 0 : tokens * attention * kFloat);
    return std::max(layer, EvaluatedLogitsBytes(tokens, rows));
  }

  // The inputs of a step's micro-batches.
  double InputBytes() const {
    constexpr double kIntegers = 5 * sizeof(int64_t);
    const double side = m_.vision.image_size;
    const double row = m_.family == Family::kVision
                           ? side * side * m_.vision.num_channels * kFloat
                           : length_ * kIntegers;
    const double micro_batch = row * rows_;
    const double step =
        micro_batch *
        static_cast<double>(spec_.training.gradient_accumulation_steps);
    const double most =
        std::max(micro_batch, static_cast<double>(kStepInputBytes));
    const int copies = traits_.memory == MemoryPlace::kShared ? 2 : 1;
    return copies * std::min(step, most);
  }

  const TrainSpec& spec_;
  const ModelConfig& m_;
  const Traits& traits_;
  const JobLayers job_;
  const bool decoder_, explicit_;
  const double b_;  // bytes per number of the frozen base and its activations
  const double rows_, length_, tokens_;  // of a micro-batch
};

}  // namespace

MemoryEstimate EstimateMemory(const TrainSpec& spec, const ModelConfig& model) {
  return EstimateMemory(spec, model, backend::TraitsOf(spec.device));
}

MemoryEstimate EstimateMemory(const TrainSpec& spec, const ModelConfig& model,
                              const Traits& traits) {
  return Estimator(spec, model, traits).Estimate();
}

void MemoryEstimate::Add() {
  const auto logits = static_cast<double>(logits_bytes);
  const auto backward = static_cast<double>(backward_bytes);
  const double kept = keeps_logits ? logits : 0;
  const double step = static_cast<double>(activations_bytes) +
                      std::max(logits, kept + backward);
  const double held =
      std::max(step, static_cast<double>(evaluation_bytes) + kept);
  // Without the logits, which are large tensors.
  const double of_step = static_cast<double>(activations_bytes) + backward;
  // An evaluation that is larger finds only the pieces of the step before it.
  const auto evaluated = static_cast<double>(evaluation_bytes);
  const double pieces = evaluated > of_step ? 2 * evaluated : of_step;
  heap_bytes = Bytes(std::min(heap_share * pieces, kMostHeap));
  total_bytes = Bytes(static_cast<double>(base_weights_bytes) +
                      static_cast<double>(trainable_bytes) +
                      static_cast<double>(inputs_bytes) + held +
                      static_cast<double>(heap_bytes));
}

int64_t TrainableParameterCount(const TrainSpec& spec,
                                const ModelConfig& model) {
  return TrainedParameters(spec, model, LayersOf(spec, model));
}

}  // namespace mpsd::spec
