// SPDX-License-Identifier: Apache-2.0
#include "core/data/image_cache.h"

#include <utility>

#include "core/base/check.h"

namespace mpsd::image {

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

}  // namespace mpsd::image
