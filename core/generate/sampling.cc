// SPDX-License-Identifier: Apache-2.0
#include "core/generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/base/check.h"

namespace mpsd::generate {
namespace {

// Of equal scores the first token is the greater.
bool Less(const Candidate& a, const Candidate& b) {
  return a.probability != b.probability ? a.probability < b.probability
                                        : a.id > b.id;
}

void Penalise(double penalty, std::span<const int32_t> ids,
              std::vector<float>& scores) {
  std::vector<int32_t> seen(ids.begin(), ids.end());
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  const auto factor = static_cast<float>(penalty);
  for (const int32_t id : seen) {
    if (id < 0 || static_cast<size_t>(id) >= scores.size()) continue;
    float& score = scores[id];
    score = score < 0 ? score * factor : score / factor;
  }
}

// Keeps scores from the k-th highest on.
std::vector<Candidate> Highest(const std::vector<float>& scores, int64_t k) {
  float least = -INFINITY;
  if (k > 0 && k < static_cast<int64_t>(scores.size())) {
    std::vector<float> sorted = scores;
    std::nth_element(sorted.begin(), sorted.begin() + (k - 1), sorted.end(),
                     std::greater<>());
    least = sorted[k - 1];
  }
  std::vector<Candidate> kept;
  for (size_t id = 0; id < scores.size(); ++id) {
    if (scores[id] >= least && scores[id] > -INFINITY) {
      kept.push_back({static_cast<int32_t>(id), scores[id]});
    }
  }
  return kept;
}

// Keeps the likeliest tokens, as few as have `mass` of the probability
// together. A heap: most of a vocabulary is never sorted.
void KeepMass(double mass, std::vector<Candidate>& all) {
  std::make_heap(all.begin(), all.end(), Less);
  auto end = all.end();
  double before = 0;
  do {
    std::pop_heap(all.begin(), end, Less);
    before += (--end)->probability;
  } while (end != all.begin() && before < mass);
  all.erase(all.begin(), end);
}

void Normalise(std::vector<Candidate>& candidates) {
  double sum = 0;
  for (const Candidate& one : candidates) sum += one.probability;
  for (Candidate& one : candidates) one.probability /= sum;
}

}  // namespace

std::vector<Candidate> NextTokens(const spec::GenerationSettings& settings,
                                  std::span<const float> logits,
                                  std::span<const int32_t> ids) {
  std::vector<float> scores(logits.begin(), logits.end());
  if (settings.repetition_penalty != 1) {
    Penalise(settings.repetition_penalty, ids, scores);
  }
  if (settings.do_sample && settings.temperature != 1) {
    const auto temperature = static_cast<float>(settings.temperature);
    for (float& score : scores) score /= temperature;
  }
  const auto top = std::max_element(scores.begin(), scores.end());
  const bool finite = std::none_of(scores.begin(), scores.end(),
                                   [](float s) { return std::isnan(s); });
  if (top == scores.end() || !finite || !std::isfinite(*top)) return {};
  if (!settings.do_sample) {
    return {{static_cast<int32_t>(top - scores.begin()), 1}};
  }
  const double highest = *top;
  std::vector<Candidate> kept = Highest(scores, settings.top_k);
  for (Candidate& one : kept) {
    one.probability = std::exp(one.probability - highest);
  }
  Normalise(kept);
  if (settings.top_p < 1) KeepMass(settings.top_p, kept);
  if (settings.min_p > 0) {
    const double least =
        settings.min_p *
        std::max_element(kept.begin(), kept.end(), Less)->probability;
    std::erase_if(kept,
                  [&](const Candidate& c) { return c.probability < least; });
  }
  Normalise(kept);
  return kept;
}

Sampler::Sampler(int64_t seed, int64_t row) {
  std::seed_seq both{static_cast<uint32_t>(seed),
                     static_cast<uint32_t>(seed >> 32),
                     static_cast<uint32_t>(row)};
  generator_.seed(both);
}

int32_t Sampler::Draw(const std::vector<Candidate>& candidates) {
  base::Check(!candidates.empty(), "there is a token to draw");
  // Not a distribution of the standard library, whose draws are its own.
  double left = static_cast<double>(generator_() >> 11) * 0x1p-53;
  for (const Candidate& one : candidates) {
    left -= one.probability;
    if (left < 0) return one.id;
  }
  return candidates.back().id;
}

}  // namespace mpsd::generate
