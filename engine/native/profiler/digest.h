// What is said about every tensor: XXH3-128 of its bytes and how many elements are no number.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/op.h"

namespace refrt {

struct NonFinite {
  int64_t nan = 0;
  int64_t pos_inf = 0;
  int64_t neg_inf = 0;
};

struct Observation {
  std::array<char, 32> hex{};  // XXH3-128, 32 lower-case hexadecimal digits
  NonFinite nonfinite;

  std::string_view digest() const { return {hex.data(), hex.size()}; }
};

// One pass over the tensor, in blocks that stay in the first-level cache. Chips make different NaN bits, so that
// every NaN is hashed as the one canonical quiet NaN (positive, empty payload).
Observation observe(const Tensor& tensor);

// The bytes that observe() hashed: the tensor itself, or, when it holds NaN, a copy in `storage` with canonical ones.
std::string_view canonical_bytes(const Tensor& tensor, std::vector<unsigned char>& storage);

}  // namespace refrt
