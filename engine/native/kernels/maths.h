// exp, tanh and sigmoid from IEEE operations only: the same bits on every chip.
//
// float32 in, float64 inside, one final rounding to float32. In float64 no float32 result is subnormal, so the
// narrowing conversion does the rounding of subnormal and overflowing results, and the errors (relative 1e-12)
// leave the float32 result within 0.51 ULP. No table, no conversion to integer (out-of-range ones differ between
// chips): the exponent is read from the low bits of the rounded sum, so loops vectorise.
// NaN in, NaN out; exp(-inf) = 0, exp(inf) = inf; tanh and sigmoid saturate exactly.
//
// The "fast" flavour takes the platform's functions instead.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "simd.h"

namespace refrt {

namespace detail {

// exp(x) for |x| <= 708 or NaN. x = n ln 2 + r with |r| <= 0.35; Cody-Waite in two parts; Taylor series of degree
// 10 in Horner form (remainder below 2.5e-13).
REFRT_INLINE double exp_wide(double x) {
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52: adding it leaves the nearest integer in the low bits
  constexpr double kLog2e = 1.4426950408889634;
  constexpr double kLn2High = 0.693147180369123816490;  // 33 bits: n * kLn2High is exact
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  const double scaled = x * kLog2e;
  const double shifted = scaled + kRound;
  const double n = shifted - kRound;
  const double high = n * kLn2High;
  const double low = n * kLn2Low;
  const double r = (x - high) - low;
  double p = 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  uint64_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 1023) << 52;
  double power;
  std::memcpy(&power, &bits, sizeof power);
  return p * power;
}

// Comparisons with NaN are false, so NaN passes through.
REFRT_INLINE double clamp_wide(double x, double bound) {
  const double capped = x > bound ? bound : x;
  return capped < -bound ? -bound : capped;
}

}  // namespace detail

#if defined(REFRT_FLAVOUR_FAST)

REFRT_INLINE float exponential(float x) { return ::expf(x); }
REFRT_INLINE float hyperbolic_tangent(float x) { return ::tanhf(x); }
REFRT_INLINE float sigmoid(float x) { return 1.0f / (1.0f + ::expf(-x)); }

#else

REFRT_INLINE float exponential(float x) {
  // Beyond 128 the float32 result is 0 or infinity already.
  return static_cast<float>(detail::exp_wide(detail::clamp_wide(static_cast<double>(x), 128.0)));
}

// (e^2x - 1) / (e^2x + 1); below 2^-12 the difference loses digits and x (1 - x^2 / 3) is right to 1e-15.
REFRT_INLINE float hyperbolic_tangent(float x) {
  const double wide = static_cast<double>(x);
  const double e = detail::exp_wide(detail::clamp_wide(wide, 32.0) * 2.0);
  const double ratio = (e - 1.0) / (e + 1.0);
  const double square = wide * wide;
  const double small = wide * (1.0 - square / 3.0);  // a product keeps the sign of -0
  const bool is_small = wide < 0.000244140625 && wide > -0.000244140625;
  return static_cast<float>(is_small ? small : ratio);
}

// 1 / (1 + e^-x): never overflows inside, and reaches 0 through float32's subnormals.
REFRT_INLINE float sigmoid(float x) {
  const double e = detail::exp_wide(-detail::clamp_wide(static_cast<double>(x), 128.0));
  return static_cast<float>(1.0 / (1.0 + e));
}

#endif

}  // namespace refrt
