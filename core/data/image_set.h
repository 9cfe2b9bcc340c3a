// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "core/data/class_labels.h"
#include "core/data/image.h"
#include "core/data/image_list.h"
#include "core/data/order.h"
#include "core/data/processor.h"
#include "core/data/source.h"
#include "core/spec/train_spec.h"

// Images as training sees them: cached, augmented, in batches.
namespace mpsd::image {

// The random changes of one image: first the crop, then the mirroring.
struct Augmentation {
  Box crop;
  bool flip = false;
};

// The random numbers of a sample in an epoch, which depend only on the
// arguments, so that a resumed run sees the same images as an uninterrupted
// one.
data::Random RandomOfSample(uint64_t seed, int64_t epoch, int64_t sample);

// Draws by the rules of torchvision.transforms.RandomResizedCrop.get_params
// (ten attempts for a fitting area and ratio, else the middle) and
// RandomHorizontalFlip; the random numbers are not torch's. Without
// spec.random_resized_crop the whole image is kept.
Augmentation DrawAugmentation(const spec::AugmentationSpec& spec,
                              int64_t height, int64_t width,
                              data::Random& random);

// Keeps images so that they need not be decoded again. Images are kept until
// max_bytes are used up and are never replaced: every epoch reads all images in
// turn, and a cache that dropped the oldest would never have the next one.
// Thread-safe.
class ImageCache {
 public:
  enum class Form {
    kDecoded,  // as in the file
    kFitted,   // as Processor::Fit makes it
  };

  ImageCache(int64_t images, size_t max_bytes)
      : max_bytes_(max_bytes), kept_(images) {}

  // Null if the image is not kept in this form.
  std::shared_ptr<const Image> Find(int64_t index, Form form) const;
  // Keeps the image if there is room and no image of this index is kept yet.
  void Offer(int64_t index, Form form, std::shared_ptr<const Image> image);
  size_t bytes() const;

 private:
  struct Kept {
    Form form = Form::kDecoded;
    std::shared_ptr<const Image> image;
  };

  const size_t max_bytes_;
  mutable absl::Mutex mutex_;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Kept> kept_ ABSL_GUARDED_BY(mutex_);
};

struct ImageSetOptions {
  spec::AugmentationSpec augmentation;  // training batches only
  size_t cache_bytes = size_t{512} << 20;
};

// Images and their labels. An image is decoded when a batch needs it, by
// several threads for large batches; a small set stays decoded in memory.
class ImageSet : public data::Source {
 public:
  // If `class_labels` is null, batches have neither classes nor targets
  // (prediction). Errors as data::EncodeClassLabels.
  static absl::StatusOr<std::unique_ptr<ImageSet>> Make(
      ImageList list, const data::ClassLabels* class_labels,
      const Processor& processor, const ImageSetOptions& options);

  int64_t size() const override { return std::ssize(list_.entries); }
  int64_t length(int64_t) const override { return 1; }
  // A row is one sample. In training batches an image is cropped by its
  // sample's random numbers, resized to the model's size with the bilinear
  // filter (torchvision's RandomResizedCrop) and mirrored. Without
  // random_resized_crop, and in all other batches, the processor fits the
  // image. InvalidArgument names an image that cannot be decoded or does not
  // fit.
  absl::StatusOr<data::Batch> Collate(
      const std::vector<std::vector<int64_t>>& rows,
      const data::Collation& collation) const override;
  std::string hash() const override { return list_.hash; }
  const data::DatasetStats& stats() const override { return stats_; }

  std::string name(int64_t index) const override {
    return list_.entries[index].name;
  }
  // The source of an image: its file, "rows.jsonl:3" or "arrays.st[7]".
  const std::string& place(int64_t index) const {
    return list_.entries[index].place;
  }

 private:
  ImageSet(ImageList list, const Processor& processor,
           const ImageSetOptions& options);
  // The image that Normalize turns into the batch's pixels.
  absl::StatusOr<Image> Prepare(int64_t index,
                                const data::Collation& collation) const;
  absl::StatusOr<Image> Augmented(int64_t index, data::Random& random) const;
  absl::StatusOr<std::shared_ptr<const Image>> Get(int64_t index,
                                                   ImageCache::Form form) const;
  absl::Status FillPixels(const data::Collation& collation,
                          data::Batch& batch) const;

  const ImageList list_;
  const Processor processor_;
  const ImageSetOptions options_;
  data::DatasetStats stats_;
  bool labelled_ = false;
  data::ClassLabels class_labels_;
  data::ClassTargets targets_;
  mutable ImageCache cache_;
};

}  // namespace mpsd::image
