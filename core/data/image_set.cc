// SPDX-License-Identifier: Apache-2.0
#include "core/data/image_set.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/base/work_count.h"
#include "core/data/augment.h"

namespace mpsd::image {
namespace {

using Form = ImageCache::Form;

// Below this many pixels a batch, threads cost more than they save.
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
  const int64_t numbers = batch.channels * batch.height * batch.width;
  batch.pixels.resize(batch.rows * numbers);
  std::vector<absl::Status> statuses(batch.rows);
  int64_t pixels = 0;
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
    if (image.ok()) processor_.Normalize(*image, &batch.pixels[row * numbers]);
  });
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void ImageSet::FillLabels(data::Batch& batch) const {
  batch.loss_weight = data::LossWeight(class_labels_, targets_, batch.samples);
  const int64_t outputs = class_labels_.outputs();
  for (const int64_t sample : batch.samples) {
    if (!targets_.classes.empty()) {
      base::CheckIndex(sample, targets_.classes.size(), "a labelled image");
      batch.classes.push_back(targets_.classes[sample]);
    } else {
      const float* from = &targets_.targets[sample * outputs];
      batch.targets.insert(batch.targets.end(), from, from + outputs);
    }
  }
}

absl::StatusOr<data::Batch> ImageSet::Collate(
    const std::vector<std::vector<int64_t>>& rows,
    const data::Collation& collation) const {
  data::Batch batch;
  batch.rows = batch.tokens = std::ssize(rows);
  batch.length = 1;
  batch.channels = processor_.channels();
  batch.height = batch.width = processor_.image_size();
  for (const auto& row : rows) {
    base::CheckEqual(row.size(), 1, "images of a row");
    base::CheckIndex(row.front(), size(), "an image");
    batch.samples.push_back(row.front());
  }
  if (labelled_) FillLabels(batch);
  if (auto status = FillPixels(collation, batch); !status.ok()) return status;
  return batch;
}

}  // namespace mpsd::image
