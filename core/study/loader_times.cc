// SPDX-License-Identifier: Apache-2.0
#include "core/study/loader_times.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/clock.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/base/work_count.h"

namespace mpsd::study {
namespace {

constexpr size_t kDigestDigits = 16;

template <typename T>
void Append(const std::vector<T>& values, size_t begin, size_t count,
            std::string& out) {
  if (values.size() < begin + count) return;  // the task has none
  out.append(reinterpret_cast<const char*>(values.data() + begin),
             count * sizeof(T));
}

// Language modelling: a sample is a segment of a row; padding has none.
void AddSegments(const data::Batch& batch, std::vector<std::string>& samples) {
  const auto length = static_cast<size_t>(batch.length);
  for (size_t row = 0; row < static_cast<size_t>(batch.rows); ++row) {
    const size_t end = (row + 1) * length;
    for (size_t at = row * length; at < end;) {
      const int64_t segment = batch.segment_ids[at];
      size_t next = at;
      while (next < end && batch.segment_ids[next] == segment) ++next;
      if (segment >= 0) {
        std::string& sample = samples.emplace_back();
        Append(batch.input_ids, at, next - at, sample);
        Append(batch.labels, at, next - at, sample);
      }
      at = next;
    }
  }
}

// Classification: a sample is a row.
void AddRows(const data::Batch& batch, std::vector<std::string>& samples) {
  const auto rows = static_cast<size_t>(batch.rows);
  const auto length = static_cast<size_t>(batch.length);
  const size_t outputs = rows == 0 ? 0 : batch.targets.size() / rows;
  const size_t pixels = rows == 0 ? 0 : batch.pixels.size() / rows;
  for (size_t row = 0; row < rows; ++row) {
    std::string& sample = samples.emplace_back();
    if (!batch.lengths.empty()) {
      const auto tokens = static_cast<size_t>(batch.lengths[row]);
      Append(batch.input_ids, row * length, tokens, sample);
      Append(batch.token_type_ids, row * length, tokens, sample);
    }
    Append(batch.classes, row, 1, sample);
    Append(batch.targets, row * outputs, outputs, sample);
    Append(batch.pixels, row * pixels, pixels, sample);
  }
}

}  // namespace

absl::StatusOr<LoaderTimes> TimeLoader(const data::Source& source,
                                       const data::LoaderOptions& options,
                                       int64_t steps,
                                       const std::function<bool()>& go_on) {
  data::Loader loader(source, options);
  const int64_t per_epoch = loader.steps_per_epoch();
  loader.Seek({steps / per_epoch, steps % per_epoch});
  LoaderTimes times;
  for (int64_t i = 0; i < 2 * steps; ++i) {
    if (i == steps) loader.Seek({0, 0});
    if (!go_on()) return absl::CancelledError("stopped");
    const absl::Duration start = base::Clock::Real().Monotonic();
    ASSIGN_OR_RETURN(const auto batches, loader.NextStep());
    if (i < steps) {
      times.seconds.push_back(
          absl::ToDoubleSeconds(base::Clock::Real().Monotonic() - start));
    } else {
      times.samples.push_back(DigestOfSamples(batches));
    }
    base::CountWork();
  }
  return times;
}

std::string DigestOfSamples(const std::vector<data::Batch>& step) {
  std::vector<std::string> samples;
  for (const data::Batch& batch : step) {
    if (batch.segment_ids.empty()) {
      AddRows(batch, samples);
    } else {
      AddSegments(batch, samples);
    }
  }
  std::vector<std::string> digests;
  digests.reserve(samples.size());
  for (const std::string& sample : samples) {
    digests.push_back(base::Sha256Hex(sample));
  }
  std::sort(digests.begin(), digests.end());
  base::Sha256 whole;
  for (const std::string& digest : digests) whole.Update(digest);
  return whole.FinishHex().substr(0, kDigestDigits);
}

}  // namespace mpsd::study
