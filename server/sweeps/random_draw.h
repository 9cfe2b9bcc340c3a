// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SWEEPS_RANDOM_DRAW_H_
#define MPSD_SERVER_SWEEPS_RANDOM_DRAW_H_

#include <cstdint>

namespace mpsd::sweeps {

// SplitMix64 (Steele, Lea, Flood 2014). The standard library's distributions
// give other numbers on each platform, and a seed has to mean the same children
// everywhere.
class RandomDraw {
 public:
  explicit RandomDraw(int64_t seed) : state_(static_cast<uint64_t>(seed)) {}

  uint64_t Bits() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // In [0, 1).
  double Share() { return static_cast<double>(Bits() >> 11) * 0x1p-53; }
  // Each number in [0, count) equally likely; count > 0.
  uint64_t Below(uint64_t count) {
    const uint64_t most = UINT64_MAX - UINT64_MAX % count;
    uint64_t bits = Bits();
    while (bits >= most) bits = Bits();
    return bits % count;
  }

 private:
  uint64_t state_;
};

}  // namespace mpsd::sweeps

#endif  // MPSD_SERVER_SWEEPS_RANDOM_DRAW_H_
