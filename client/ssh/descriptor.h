// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_SSH_DESCRIPTOR_H_
#define MPSD_CLIENT_SSH_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace mpsd::ssh {

// Owns a file descriptor; -1: none.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() { Close(); }
  Descriptor(Descriptor&& other) noexcept
      : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    Close();
    number_ = std::exchange(other.number_, -1);
    return *this;
  }

  int get() const { return number_; }
  bool valid() const { return number_ >= 0; }
  void Close() {
    if (number_ >= 0) close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

}  // namespace mpsd::ssh

#endif  // MPSD_CLIENT_SSH_DESCRIPTOR_H_
