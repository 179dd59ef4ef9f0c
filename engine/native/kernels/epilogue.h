// Elementwise stages behind a producer (Conv), applied while the produced tile is still in cache.
//
// The stand-alone operators (BatchNormalization, Relu, HardSwish, HardSigmoid, Sigmoid) run the same inline
// functions through apply_stage(), so fused and unfused graphs give the same bits by construction. Orders that
// the ONNX definitions leave open are fixed here, every step one IEEE operation:
//   ScaleShift   (x * scale) + shift
//   Bias         x + shift
//   Relu         0 > x ? 0 : x                      NaN stays NaN, -0 stays -0
//   HardSigmoid  max(0, min(1, (alpha * x) + beta)) with t > 1 ? 1 : t, then 0 > t ? 0 : t: NaN stays NaN
//   HardSwish    x * HardSigmoid(x; alpha = float(1/6), beta = 0.5)
//   Sigmoid      sigmoid() of maths.h
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "maths.h"
#include "simd.h"

namespace refrt {

enum class StageKind : uint8_t { scale_shift, bias, relu, hard_swish, hard_sigmoid, sigmoid };

struct Stage {
  StageKind kind = StageKind::relu;
  const float* scale = nullptr;  // scale_shift: one per channel
  const float* shift = nullptr;  // scale_shift and bias: one per channel
  float alpha = 0.0f;            // hard_sigmoid
  float beta = 0.0f;             // hard_sigmoid
  float* tap = nullptr;          // instrumented pass: base of the tensor that keeps this stage's result
};

// What follows a producer. The producer's own result (a Conv's includes its bias input) goes to `raw_tap`, then
// each stage's result to its tap. The last result is the producer's output whether or not the last stage is tapped.
struct Epilogue {
  float* raw_tap = nullptr;
  std::vector<Stage> stages;
};

constexpr float kHardSwishAlpha = 1.0f / 6.0f;
constexpr float kHardSwishBeta = 0.5f;

// T is float or VFloat in all of these.
template <class T>
REFRT_INLINE T scale_shift(T x, T scale, T shift) {
  const T product = x * scale;
  return product + shift;
}

template <class T>
REFRT_INLINE T relu(T x) {
  const T zero = broadcast<T>(0.0f);
  return select(zero > x, zero, x);
}

template <class T>
REFRT_INLINE T hard_sigmoid(T x, T alpha, T beta) {
  const T zero = broadcast<T>(0.0f);
  const T one = broadcast<T>(1.0f);
  const T line = scale_shift(x, alpha, beta);
  const T capped = select(line > one, one, line);
  return select(zero > capped, zero, capped);
}

template <class T>
REFRT_INLINE T hard_swish(T x) {
  return x * hard_sigmoid(x, broadcast<T>(kHardSwishAlpha), broadcast<T>(kHardSwishBeta));
}

namespace detail {

// out[i] = f(in[i]); `in` may equal `out`.
template <class F>
REFRT_INLINE void map_row(const float* in, float* out, size_t n, F f) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, f(load(in + i)));
  for (; i < n; ++i) out[i] = f(in[i]);
}

}  // namespace detail

// out[0..n) = stage(in[0..n)) for elements of one channel; `in` may equal `out`. Taps are the caller's business.
inline void apply_stage(const Stage& stage, const float* in, float* out, size_t n, size_t channel) {
  switch (stage.kind) {
    case StageKind::scale_shift: {
      const float scale = stage.scale[channel], shift = stage.shift[channel];
      detail::map_row(in, out, n, [=](auto x) {
        using T = decltype(x);
        return scale_shift(x, broadcast<T>(scale), broadcast<T>(shift));
      });
      return;
    }
    case StageKind::bias: {
      const float shift = stage.shift[channel];
      detail::map_row(in, out, n, [=](auto x) { return x + broadcast<decltype(x)>(shift); });
      return;
    }
    case StageKind::relu:
      detail::map_row(in, out, n, [](auto x) { return relu(x); });
      return;
    case StageKind::hard_swish:
      detail::map_row(in, out, n, [](auto x) { return hard_swish(x); });
      return;
    case StageKind::hard_sigmoid: {
      const float alpha = stage.alpha, beta = stage.beta;
      detail::map_row(in, out, n, [=](auto x) {
        using T = decltype(x);
        return hard_sigmoid(x, broadcast<T>(alpha), broadcast<T>(beta));
      });
      return;
    }
    case StageKind::sigmoid:
      for (size_t i = 0; i < n; ++i) out[i] = sigmoid(in[i]);
      return;
  }
}

}  // namespace refrt
