// Bounds-checked little-endian reading of untrusted bytes.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "api/failure.h"

namespace refrt {

class Cursor {
 public:
  Cursor(const unsigned char* data, size_t size, const char* section) : data_(data), size_(size), section_(section) {}

  template <typename T>
  T read() {
    need(sizeof(T));
    T value;
    std::memcpy(&value, data_ + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }
  // A count of items of at least `item` bytes each: refused when the section cannot hold them.
  size_t count(uint64_t claimed, size_t item) const {
    if (claimed > (size_ - position_) / item) fail("claims more entries than it holds");
    return static_cast<size_t>(claimed);
  }
  bool at_end() const { return position_ == size_; }
  [[noreturn]] void fail(const char* what) const { bad_request(std::string("section ") + section_ + " " + what); }

 private:
  void need(size_t bytes) const {
    if (bytes > size_ - position_) fail("ends too early");
  }
  const unsigned char* data_;
  size_t size_;
  const char* section_;
  size_t position_ = 0;
};

}  // namespace refrt
