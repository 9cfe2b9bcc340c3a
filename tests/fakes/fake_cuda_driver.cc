// SPDX-License-Identifier: Apache-2.0
// Stands in for libcuda.so.1 where only a card's name is asked for: a card of
// the name in FAKE_CARD, or none.
#include <cstddef>
#include <cstdlib>
#include <cstring>

extern "C" {

constexpr int kSuccess = 0, kNoDevice = 100;

int cuInit(unsigned int) {
  return std::getenv("FAKE_CARD") == nullptr ? kNoDevice : kSuccess;
}

int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? kSuccess : kNoDevice;
}

int cuDeviceGetName(char* name, int bytes, int) {
  std::strncpy(name, std::getenv("FAKE_CARD"), bytes);
  return kSuccess;
}

int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = size_t{141} << 30;
  return kSuccess;
}

}  // extern "C"
