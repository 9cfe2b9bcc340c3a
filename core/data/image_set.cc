// SPDX-License-Identifier: Apache-2.0
#include "core/data/image_set.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <thread>
#include <utility>

#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"

namespace mpsd::image {
namespace {

double Uniform(data::Random& random, double low, double high) {
  const double unit = static_cast<double>(random.Next() >> 11) * 0x1p-53;
  return low + (high - low) * unit;
}

// Python's round: halves round to even.
int64_t Round(double value) {
  return static_cast<int64_t>(std::nearbyint(value));
}

// The largest box in the middle with an allowed ratio.
Box MiddleBox(const spec::AugmentationSpec& spec, int64_t height,
              int64_t width) {
  const double ratio = static_cast<double>(width) / height;
  int64_t h = height, w = width;
  if (ratio < spec.crop_ratio_min) {
    h = Round(w / spec.crop_ratio_min);
  } else if (ratio > spec.crop_ratio_max) {
    w = Round(h * spec.crop_ratio_max);
  }
  return {(height - h) / 2, (width - w) / 2, h, w};
}

Box DrawBox(const spec::AugmentationSpec& spec, int64_t height, int64_t width,
            data::Random& random) {
  const double area = static_cast<double>(height) * width;
  for (int i = 0; i < 10; ++i) {
    const double target =
        area * Uniform(random, spec.crop_scale_min, spec.crop_scale_max);
    // Uniform in the logarithm, so that 3:4 is as likely as 4:3.
    const double ratio = std::exp(Uniform(random, std::log(spec.crop_ratio_min),
                                          std::log(spec.crop_ratio_max)));
    const int64_t w = Round(std::sqrt(target * ratio));
    const int64_t h = Round(std::sqrt(target / ratio));
    if (w < 1 || w > width || h < 1 || h > height) continue;
    const auto top = static_cast<int64_t>(random.Below(height - h + 1));
    const auto left = static_cast<int64_t>(random.Below(width - w + 1));
    return {top, left, h, w};
  }
  return MiddleBox(spec, height, width);
}

}  // namespace

data::Random RandomOfSample(uint64_t seed, int64_t epoch, int64_t sample) {
  // An epoch's order is drawn from the same seed; the constant makes these
  // numbers independent of the order's.
  constexpr uint64_t kImages = 0x696d61676573;  // "images"
  data::Random epochs(data::Random(seed ^ kImages).Next() +
                      static_cast<uint64_t>(epoch));
  return data::Random(epochs.Next() + static_cast<uint64_t>(sample));
}

Augmentation DrawAugmentation(const spec::AugmentationSpec& spec,
                              int64_t height, int64_t width,
                              data::Random& random) {
  Augmentation drawn;
  drawn.crop = spec.random_resized_crop ? DrawBox(spec, height, width, random)
                                        : Box{0, 0, height, width};
  drawn.flip = Uniform(random, 0, 1) < spec.horizontal_flip;
  return drawn;
}

std::shared_ptr<const Image> ImageCache::Find(int64_t index, Form form) const {
  absl::MutexLock lock(&mutex_);
  base::CheckIndex(index, kept_.size(), "an image of the set");
  const Kept& kept = kept_[index];
  return kept.form == form ? kept.image : nullptr;
}

void ImageCache::Offer(int64_t index, Form form,
                       std::shared_ptr<const Image> image) {
  absl::MutexLock lock(&mutex_);
  base::CheckIndex(index, kept_.size(), "an image of the set");
  // Images are decoded without the lock: two threads may offer the same one,
  // and the first is kept.
  Kept& kept = kept_[index];
  if (kept.image != nullptr || bytes_ + image->bytes() > max_bytes_) return;
  bytes_ += image->bytes();
  kept = {form, std::move(image)};
}

size_t ImageCache::bytes() const {
  absl::MutexLock lock(&mutex_);
  return bytes_;
}

namespace {

using Form = ImageCache::Form;

// Below this many pixels, of a batch and of the images that it is made of,
// threads cost more than they save.
constexpr int64_t kPixelsForThreads = 200'000;

// Calls work(0) … work(count - 1) on `threads` threads, including the caller's;
// each thread takes the next number, so that large images do not hold up the
// rest.
void RunAll(int64_t count, int64_t threads,
            const std::function<void(int64_t)>& work) {
  std::atomic<int64_t> next = 0;
  const auto run = [&] {
    for (int64_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> others;
  for (int64_t i = 1; i < threads; ++i) others.emplace_back(run);
  run();
  for (std::thread& thread : others) thread.join();
}

}  // namespace

ImageSet::ImageSet(ImageList list, const Processor& processor,
                   const ImageSetOptions& options)
    : list_(std::move(list)),
      processor_(processor),
      options_(options),
      cache_(std::ssize(list_.entries), options.cache_bytes) {
  stats_.rows = size();
}

absl::StatusOr<std::unique_ptr<ImageSet>> ImageSet::Make(
    ImageList list, const data::ClassLabels* class_labels,
    const Processor& processor, const ImageSetOptions& options) {
  std::unique_ptr<ImageSet> set(
      new ImageSet(std::move(list), processor, options));
  if (class_labels == nullptr) return set;
  ASSIGN_OR_RETURN(auto targets, data::EncodeClassLabels(
                                     LabelValues(set->list_),
                                     PlacesOf(set->list_), *class_labels));
  set->labelled_ = true;
  set->class_labels_ = *class_labels;
  set->targets_ = std::move(targets);
  return set;
}

absl::StatusOr<std::shared_ptr<const Image>> ImageSet::Get(int64_t index,
                                                           Form form) const {
  base::CheckIndex(index, size(), "an image");
  if (auto kept = cache_.Find(index, form)) return kept;
  auto image = ReadImage(list_.entries[index]);
  if (image.ok() && form == Form::kFitted) {
    image = processor_.Fit(*image, place(index));
  }
  if (!image.ok()) return image.status();
  auto shared = std::make_shared<const Image>(*std::move(image));
  // Decoded arrays are in memory already: the cache keeps only files and fitted
  // images.
  if (form == Form::kFitted || !list_.entries[index].array.defined()) {
    cache_.Offer(index, form, shared);
  }
  return shared;
}

absl::StatusOr<Image> ImageSet::Augmented(int64_t index,
                                          data::Random& random) const {
  const bool cut = options_.augmentation.random_resized_crop;
  ASSIGN_OR_RETURN(auto whole,
                   Get(index, cut ? Form::kDecoded : Form::kFitted));
  const Image& from = *whole;
  const Augmentation drawn =
      DrawAugmentation(options_.augmentation, from.height, from.width, random);
  if (!cut) return drawn.flip ? FlipHorizontally(from) : from;
  const int64_t size = processor_.image_size();
  const Image part =
      Resize(ToChannels(Crop(from, drawn.crop), processor_.channels()), size,
             size, Filter::kBilinear);
  return drawn.flip ? FlipHorizontally(part) : part;
}

absl::StatusOr<Image> ImageSet::Prepare(
    int64_t index, const data::Collation& collation) const {
  if (collation.training) {
    data::Random random =
        RandomOfSample(collation.seed, collation.epoch, index);
    return Augmented(index, random);
  }
  ASSIGN_OR_RETURN(auto fitted, Get(index, Form::kFitted));
  return *fitted;
}

absl::Status ImageSet::FillPixels(const data::Collation& collation,
                                  data::Batch& batch) const {
  const int64_t side = processor_.image_size();
  batch.pixels =
      at::empty({batch.rows, processor_.channels(), side, side},
                at::dtype(at::kFloat).pinned_memory(collation.page_locked));
  const int64_t numbers = batch.pixels.stride(0);
  auto* const first = batch.pixels.mutable_data_ptr<float>();
  std::vector<absl::Status> statuses(batch.rows);
  int64_t pixels = batch.rows * side * side;
  for (const int64_t sample : batch.samples) {
    pixels += list_.entries[sample].height * list_.entries[sample].width;
  }
  const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
  const int64_t threads = pixels < kPixelsForThreads
                              ? 1
                              : std::min({batch.rows, cores, int64_t{8}});
  // Each row writes its own part of `pixels` and its own status, so no lock is
  // needed; returns the first error by row, not by time.
  RunAll(batch.rows, threads, [&](int64_t row) {
    auto image = Prepare(batch.samples[row], collation);
    statuses[row] = image.status();
    base::CountWork();
    if (image.ok()) processor_.Normalize(*image, first + row * numbers);
  });
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<data::Batch> ImageSet::Collate(
    const std::vector<std::vector<int64_t>>& rows,
    const data::Collation& collation) const {
  data::Batch batch;
  batch.rows = batch.tokens = std::ssize(rows);
  batch.length = 1;
  for (const auto& row : rows) {
    base::CheckEqual(row.size(), 1, "images of a row");
    base::CheckIndex(row.front(), size(), "an image");
    batch.samples.push_back(row.front());
  }
  if (labelled_) data::CopyClassTargets(class_labels_, targets_, batch);
  if (auto status = FillPixels(collation, batch); !status.ok()) return status;
  return batch;
}

}  // namespace mpsd::image
