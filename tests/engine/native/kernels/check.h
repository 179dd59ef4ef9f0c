// What the kernel checks share: fixed random numbers, awkward values, bitwise comparison, one digest of all results.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "epilogue.h"
#include "workers.h"

namespace check {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2654435769u + 1) {}
  uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  // In [-1, 1).
  float uniform() { return static_cast<float>(static_cast<int64_t>(next() >> 40) - (1 << 23)) / (1 << 23); }
  size_t below(size_t n) { return static_cast<size_t>(next() % n); }

 private:
  uint64_t state_;
};

enum class Values { ordinary, tiny, awkward };

inline float awkward(Random& random) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  const float values[] = {0.0f,   -0.0f,   inf,   -inf,   std::numeric_limits<float>::quiet_NaN(),
                          1e-45f, -1e-40f, 3e38f, -3e38f, 1e-30f};
  return values[random.below(sizeof values / sizeof *values)];
}

// tiny: products and sums are subnormal. awkward: one value in 50 is an infinity, NaN, zero, subnormal or huge.
inline std::vector<float> numbers(Random& random, size_t n, Values kind) {
  std::vector<float> out(n);
  for (float& x : out) {
    x = random.uniform();
    if (kind == Values::tiny) x *= 1e-20f;
    if (kind == Values::awkward && random.below(50) == 0) x = awkward(random);
  }
  return out;
}

inline uint32_t bits_of(float x) {
  if (x != x) return 0x7fc00000u;  // one canonical NaN
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

class Report {
 public:
  void equal(const std::string& what, const std::vector<float>& got, const std::vector<float>& want) {
    ++checks_;
    for (size_t i = 0; i < want.size(); ++i) {
      digest_ = (digest_ ^ bits_of(want[i])) * 1099511628211u;
      if (bits_of(got[i]) == bits_of(want[i])) continue;
      std::printf("%s: element %zu of %zu is %a (%08x), the plain version gives %a (%08x)\n", what.c_str(), i,
                  want.size(), static_cast<double>(got[i]), bits_of(got[i]), static_cast<double>(want[i]),
                  bits_of(want[i]));
      ++failures_;
      return;
    }
  }
  void holds(bool held, const std::string& what) {
    ++checks_;
    if (held) return;
    std::printf("%s\n", what.c_str());
    ++failures_;
  }
  int finish() const {
    std::printf("checks %d failures %d digest %016llx\n", checks_, failures_, static_cast<unsigned long long>(digest_));
    return failures_ == 0 ? 0 : 1;
  }

 private:
  int checks_ = 0, failures_ = 0;
  uint64_t digest_ = 1469598103934665603u;
};

// `count` workers that run one after the other, last one first: what they do may depend on no order.
inline refrt::Workers backwards_workers(const size_t* count) {
  refrt::Workers workers;
  workers.count = *count;
  workers.pool = const_cast<size_t*>(count);
  workers.run = [](void* pool, void (*body)(void*, size_t), void* argument) {
    for (size_t i = *static_cast<size_t*>(pool); i-- > 0;) body(argument, i);
  };
  return workers;
}

void conv(Report& report);
void matmul(Report& report);
void lstm(Report& report);
void maths(Report& report);

}  // namespace check
