// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_IMAGE_CACHE_H_
#define MPSD_CORE_DATA_IMAGE_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/data/image.h"

namespace mpsd::image {

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

}  // namespace mpsd::image

#endif  // MPSD_CORE_DATA_IMAGE_CACHE_H_
