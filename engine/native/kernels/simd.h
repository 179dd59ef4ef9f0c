// Vectors of floats, written once for every instruction set.
//
// The vector extensions of clang and gcc give one type that becomes AVX2, SSE2, NEON or plain scalar code. Each
// lane is one IEEE operation of its own, so the width never shows in the bits; that holds as long as lanes are
// different outputs and no reduction ever runs across them. Contraction must be off (-ffp-contract=off).
//
// Comparisons and selects follow one rule: `select(condition, a, b)` with `<` or `>` is false for NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#define REFRT_INLINE inline __attribute__((always_inline))

namespace refrt {

// 32 bytes with AVX and with SVE built for 256 bits, else 16.
#if defined(__AVX__) || (defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS == 256)
#define REFRT_LANES 8
#else
#define REFRT_LANES 4
#endif
constexpr size_t kLanes = REFRT_LANES;

// Register block of the matrix kernels: kTileRows broadcast operands against kTileVectors vectors. Sixteen
// registers hold 6 x 2 sums, two vectors, one broadcast and one product.
#if defined(__AVX__) || defined(__SSE2__) || defined(__aarch64__)
constexpr size_t kTileRows = 6;
constexpr size_t kTileVectors = 2;
#else
constexpr size_t kTileRows = 4;
constexpr size_t kTileVectors = 1;
#endif
constexpr size_t kTileColumns = kTileVectors * kLanes;

typedef float VFloat __attribute__((vector_size(kLanes * sizeof(float))));
typedef int32_t VMask __attribute__((vector_size(kLanes * sizeof(int32_t))));

REFRT_INLINE VFloat load(const float* p) {
  VFloat v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

REFRT_INLINE void store(float* p, VFloat v) { std::memcpy(p, &v, sizeof v); }

// The first n lanes, 0 < n <= kLanes.
REFRT_INLINE void store_some(float* p, VFloat v, size_t n) { std::memcpy(p, &v, n * sizeof(float)); }

// For runs too short for a call of memcpy to pay. The last vector steps back and copies some floats twice.
REFRT_INLINE void copy_floats(float* to, const float* from, size_t n) {
  if (n < kLanes) {
    for (size_t i = 0; i < n; ++i) to[i] = from[i];
    return;
  }
  for (size_t i = 0; i + kLanes < n; i += kLanes) store(to + i, load(from + i));
  store(to + n - kLanes, load(from + n - kLanes));
}

// to[i] = from[2 * i] for a whole vector; reads 2 * kLanes floats.
REFRT_INLINE VFloat load_even(const float* p) {
#if REFRT_LANES == 8
  return __builtin_shufflevector(load(p), load(p + kLanes), 0, 2, 4, 6, 8, 10, 12, 14);
#else
  return __builtin_shufflevector(load(p), load(p + kLanes), 0, 2, 4, 6);
#endif
}

// to[i] = from[step * i], i < n; never reads beyond from[step * (n - 1)].
REFRT_INLINE void gather_floats(float* to, const float* from, size_t n, size_t step) {
  if (step == 1) return copy_floats(to, from, n);
  size_t i = 0;
  if (step == 2) {
    for (; i + kLanes < n; i += kLanes) store(to + i, load_even(from + 2 * i));
  }
  for (; i < n; ++i) to[i] = from[i * step];
}

// Adding a scalar to a zero vector would turn -0 into +0; building the vector lane by lane keeps every bit.
REFRT_INLINE VFloat splat(float x) {
  VFloat v;
  for (size_t i = 0; i < kLanes; ++i) v[i] = x;
  return v;
}

// The same name for a vector and for the scalar of a row's end, so that both run one source.
template <class T>
T broadcast(float x);
template <>
REFRT_INLINE float broadcast<float>(float x) {
  return x;
}
template <>
REFRT_INLINE VFloat broadcast<VFloat>(float x) {
  return splat(x);
}

REFRT_INLINE float select(bool condition, float a, float b) { return condition ? a : b; }
REFRT_INLINE VFloat select(VMask condition, VFloat a, VFloat b) { return condition ? a : b; }

}  // namespace refrt
