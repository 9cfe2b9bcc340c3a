// SPDX-License-Identifier: Apache-2.0
#include "core/generate/generator.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/generate/sampling.h"
#include "core/model/cache.h"
#include "core/model/layers.h"

namespace mpsd::generate {
namespace {

// Prompts are padded to multiples of it if a device compiles each shape.
constexpr int64_t kLengthStep = 64;
// The likeliest tokens are chosen on the device. If the host has to wait for a
// device's results, it reads this many tokens at a time, and an answer's end
// may be seen that much later.
constexpr int64_t kTokensPerRead = 8;

class Batch {
 public:
  Batch(const model::Decoder& decoder, device::Device& device,
        const Generation& generation,
        const std::vector<std::vector<int32_t>>& prompts,
        const std::vector<int64_t>& rows)
      : decoder_(decoder),
        device_(device),
        generation_(generation),
        settings_(generation.settings),
        ids_(prompts),
        answers_(prompts.size()),
        done_(prompts.size(), false) {
    for (const auto& prompt : prompts) {
      base::Check(!prompt.empty(), "a prompt has a token");
      longest_ = std::max<int64_t>(longest_, prompt.size());
    }
    for (const int64_t row : rows) {
      samplers_.emplace_back(settings_.seed, row);
    }
    const int64_t step = device.traits().compiles_each_shape ? kLengthStep : 1;
    length_ = (longest_ + step - 1) / step * step;
    on_host_ = settings_.do_sample || settings_.repetition_penalty != 1;
    const bool waits = device.traits().memory != backend::MemoryPlace::kHost;
    per_read_ =
        !on_host_ && !generation.ends_with_stop && waits ? kTokensPerRead : 1;
  }

  absl::StatusOr<std::vector<Answer>> Run() {
    Upload();
    at::Tensor logits = Prefill(length_);
    for (int64_t made = 0; made < settings_.max_new_tokens; ++made) {
      const device::StepScope scope;
      if (generation_.go_on && !generation_.go_on(made)) {
        return absl::CancelledError("generation stopped");
      }
      if (made > 0) logits = Forward(length_ + made - 1);
      RETURN_IF_ERROR(Choose(logits, length_ + made));
      if (!on_host_) {
        device_.Commit();
        const bool last = made + 1 == settings_.max_new_tokens;
        if (last || (made + 1) % per_read_ == 0) Read(length_ + made + 1);
      }
      if (std::find(done_.begin(), done_.end(), false) == done_.end()) break;
    }
    return std::move(answers_);
  }

 private:
  int64_t rows() const { return static_cast<int64_t>(ids_.size()); }

  // The prompts, left-padded, with room for the answers.
  void Upload() {
    const int64_t capacity = length_ + settings_.max_new_tokens;
    at::Tensor tokens = at::zeros({rows(), capacity}, at::kLong);
    at::Tensor begins = at::empty({rows()}, at::kLong);
    for (int64_t row = 0; row < rows(); ++row) {
      const auto& prompt = ids_[row];
      const int64_t begin = length_ - static_cast<int64_t>(prompt.size());
      std::copy(prompt.begin(), prompt.end(),
                tokens.mutable_data_ptr<int64_t>() + row * capacity + begin);
      begins.mutable_data_ptr<int64_t>()[row] = begin;
    }
    padded_ = begins.max().item<int64_t>() > 0;
    tokens_ = tokens.to(device_.torch_device());
    begins_ = begins.to(device_.torch_device());
    cache_ = std::make_unique<model::KeyValueCache>(decoder_.config(), begins_,
                                                    capacity, decoder_.dtype());
    read_ = length_;
  }

  // The logits [rows, vocabulary] of the last of the first `tokens` tokens.
  at::Tensor Prefill(int64_t tokens) {
    const device::StepScope scope;
    cache_->Clear();
    const at::Tensor places = at::arange(tokens, begins_.options());
    positions_ = (places.unsqueeze(0) - begins_.unsqueeze(1)).clamp_min(0);
    model::DecoderInputs inputs;
    inputs.input_ids = tokens_.narrow(1, 0, tokens).contiguous();
    inputs.position_ids = positions_;
    if (padded_) {
      inputs.segment_ids =
          (places.unsqueeze(0) >= begins_.unsqueeze(1)).to(at::kLong);
    }
    positions_ = positions_.narrow(1, tokens - 1, 1).contiguous();
    return Logits(std::move(inputs), tokens);
  }

  // The same for the token at `place`, after those before it.
  at::Tensor Forward(int64_t place) {
    // longrope has other angles beyond its first length, for all tokens:
    // Transformers then forgets its cache (Phi3ForCausalLM's
    // prepare_inputs_for_generation).
    const auto& longrope = decoder_.config().longrope;
    if (longrope && RealTokens(place + 1) ==
                        longrope->original_max_position_embeddings + 1) {
      return Prefill(place + 1);
    }
    positions_.add_(1);
    model::DecoderInputs inputs;
    inputs.input_ids = tokens_.narrow(1, place, 1).contiguous();
    inputs.position_ids = positions_;
    return Logits(std::move(inputs), place + 1);
  }

  // The tokens of the longest row, of `tokens` with padding.
  int64_t RealTokens(int64_t tokens) const {
    return tokens - (length_ - longest_);
  }

  at::Tensor Logits(model::DecoderInputs inputs, int64_t tokens) {
    inputs.segment_lengths = {RealTokens(tokens)};
    inputs.cache = cache_.get();
    const at::Tensor hidden = decoder_.Hidden(inputs);
    const at::Tensor last = hidden.select(1, hidden.size(1) - 1);
    const model::Linear& head = decoder_.head();
    return model::Capped(head.Forward(last), head.softcap).to(at::kFloat);
  }

  // Sets each row's token at `place`.
  absl::Status Choose(const at::Tensor& logits, int64_t place) {
    if (!on_host_) {
      tokens_.narrow(1, place, 1).copy_(logits.argmax(-1, /*keepdim=*/true));
      return absl::OkStatus();
    }
    const at::Tensor host = logits.to(at::kCPU).contiguous();
    at::Tensor chosen = at::zeros({rows(), 1}, at::kLong);
    const size_t width = host.size(1);
    for (int64_t row = 0; row < rows(); ++row) {
      if (done_[row]) continue;
      const std::vector<Candidate> candidates = NextTokens(
          settings_, {host.const_data_ptr<float>() + row * width, width},
          ids_[row]);
      if (candidates.empty()) {
        return absl::DataLossError("the model's logits are not finite");
      }
      const int32_t id = samplers_[row].Draw(candidates);
      chosen.mutable_data_ptr<int64_t>()[row] = id;
      Append(row, id);
    }
    // Copied without waiting: the next read of logits waits.
    chosen_ = std::move(chosen);
    tokens_.narrow(1, place, 1).copy_(chosen_, /*non_blocking=*/true);
    return absl::OkStatus();
  }

  // Reads the tokens before `end` that have not been read.
  void Read(int64_t end) {
    const at::Tensor host =
        tokens_.narrow(1, read_, end - read_).contiguous().to(at::kCPU);
    for (int64_t row = 0; row < rows(); ++row) {
      const int64_t* ids = host.const_data_ptr<int64_t>() + row * (end - read_);
      for (int64_t i = 0; i < end - read_; ++i) {
        if (!done_[row]) Append(row, static_cast<int32_t>(ids[i]));
      }
    }
    read_ = end;
  }

  void Append(int64_t row, int32_t id) {
    Answer& answer = answers_[row];
    answer.ids.push_back(id);
    ids_[row].push_back(id);
    const auto& eos = settings_.eos_token_id;
    if (std::find(eos.begin(), eos.end(), id) != eos.end()) {
      answer.finish = Finish::kEos;
      done_[row] = true;
    } else if (generation_.ends_with_stop &&
               generation_.ends_with_stop(ids_[row])) {
      answer.finish = Finish::kStopString;
      done_[row] = true;
    }
  }

  const model::Decoder& decoder_;
  device::Device& device_;
  const Generation& generation_;
  const spec::GenerationSettings& settings_;
  std::vector<std::vector<int32_t>> ids_;  // prompts and answers
  std::vector<Answer> answers_;
  std::vector<bool> done_;
  std::vector<Sampler> samplers_;
  int64_t longest_ = 0;  // of the prompts
  int64_t length_ = 0;   // of the prompts with padding
  bool padded_ = false;
  bool on_host_ = false;  // tokens are chosen there
  int64_t per_read_ = 1;
  int64_t read_ = 0;
  at::Tensor tokens_;     // int64 [rows, capacity]
  at::Tensor chosen_;     // the last tokens, on the host
  at::Tensor begins_;     // int64 [rows]
  at::Tensor positions_;  // int64 [rows, 1], of the last tokens
  std::unique_ptr<model::KeyValueCache> cache_;
};

}  // namespace

absl::StatusOr<std::vector<Answer>> Answers(
    const model::Decoder& decoder, device::Device& device,
    const Generation& generation,
    const std::vector<std::vector<int32_t>>& prompts,
    const std::vector<int64_t>& rows) {
  base::CheckEqual(prompts.size(), rows.size(), "prompts and their numbers");
  const at::NoGradGuard no_grad;
  return Batch(decoder, device, generation, prompts, rows).Run();
}

absl::StatusOr<std::vector<Answer>> AllAnswers(
    const model::Decoder& decoder, device::Device& device,
    Generation generation, const std::vector<std::vector<int32_t>>& prompts,
    const std::function<bool(double)>& go_on) {
  std::vector<int64_t> order(prompts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return prompts[a].size() > prompts[b].size();
  });
  const int64_t most = generation.settings.max_new_tokens;
  std::vector<Answer> all(prompts.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    const auto longest = static_cast<int64_t>(prompts[order[begin]].size());
    end = std::min<size_t>(
        order.size(),
        begin + MostRows(decoder.config(), longest, most, decoder.dtype()));
    generation.go_on = [&](int64_t made) {
      const double part = static_cast<double>(end - begin) * made / most;
      return go_on((begin + part) / order.size());
    };
    const std::vector<int64_t> rows(order.begin() + begin, order.begin() + end);
    std::vector<std::vector<int32_t>> batch;
    for (const int64_t row : rows) batch.push_back(prompts[row]);
    ASSIGN_OR_RETURN(auto answers,
                     Answers(decoder, device, generation, batch, rows));
    for (size_t i = 0; i < rows.size(); ++i) {
      all[rows[i]] = std::move(answers[i]);
    }
  }
  return all;
}

int64_t MostRows(const spec::ModelConfig& config, int64_t tokens,
                 int64_t max_new_tokens, at::ScalarType dtype) {
  constexpr int64_t kRows = 16;
  constexpr int64_t kMaskElements = int64_t{1} << 26;
  const int64_t cached = model::KeyValueCache::Bytes(
      config, 1, tokens + kLengthStep + max_new_tokens, dtype);
  return std::clamp<int64_t>(std::min(spec::kMostCacheBytes / cached,
                                      kMaskElements / (tokens * tokens)),
                             1, kRows);
}

}  // namespace mpsd::generate
