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

REFRT_INLINE VFloat sigmoid(VFloat x) {
  for (size_t i = 0; i < kLanes; ++i) x[i] = sigmoid(x[i]);
  return x;
}

namespace detail {

// Calls map(make), where make(channel) is the stage as a function of one float or one vector.
template <class Map>
REFRT_INLINE void with_stage(const Stage& stage, Map map) {
  switch (stage.kind) {
    case StageKind::scale_shift:
      return map([&](size_t channel) {
        return [scale = stage.scale[channel], shift = stage.shift[channel]](auto x) {
          using T = decltype(x);
          return scale_shift(x, broadcast<T>(scale), broadcast<T>(shift));
        };
      });
    case StageKind::bias:
      return map([&](size_t channel) {
        return [shift = stage.shift[channel]](auto x) { return x + broadcast<decltype(x)>(shift); };
      });
    case StageKind::relu:
      return map([](size_t) { return [](auto x) { return relu(x); }; });
    case StageKind::hard_swish:
      return map([](size_t) { return [](auto x) { return hard_swish(x); }; });
    case StageKind::hard_sigmoid:
      return map([&](size_t) {
        return [alpha = stage.alpha, beta = stage.beta](auto x) {
          using T = decltype(x);
          return hard_sigmoid(x, broadcast<T>(alpha), broadcast<T>(beta));
        };
      });
    case StageKind::sigmoid:
      return map([](size_t) { return [](auto x) { return sigmoid(x); }; });
  }
}

}  // namespace detail

// out[0..n) = stage(in[0..n)) for elements of one channel; `in` may equal `out`. Taps are the caller's business.
inline void apply_stage(const Stage& stage, const float* in, float* out, size_t n, size_t channel) {
  detail::with_stage(stage, [=](auto make) {
    const auto f = make(channel);
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store(out + i, f(load(in + i)));
    for (; i < n; ++i) out[i] = f(in[i]);
  });
}

// In place on n elements that belong to channels channel, channel + 1, …: rows of a matrix product.
inline void apply_stage_across(const Stage& stage, float* x, size_t n, size_t channel) {
  if (stage.kind == StageKind::scale_shift) {
    for (size_t i = 0; i < n; ++i) x[i] = scale_shift(x[i], stage.scale[channel + i], stage.shift[channel + i]);
  } else if (stage.kind == StageKind::bias) {
    for (size_t i = 0; i < n; ++i) x[i] = x[i] + stage.shift[channel + i];
  } else {
    apply_stage(stage, x, x, n, 0);
  }
}

// Everything behind a producer: its bias (null when absent), then taps and stages in order. apply(stage) changes
// the produced elements in place; write(base) copies them to their place in the tensor at `base`.
template <class Apply, class Write>
REFRT_INLINE void run_epilogue(const float* bias, const Epilogue* epilogue, Apply apply, Write write) {
  if (bias != nullptr) {
    Stage stage;
    stage.kind = StageKind::bias;
    stage.shift = bias;
    apply(stage);
  }
  if (epilogue == nullptr) return;
  if (epilogue->raw_tap != nullptr) write(epilogue->raw_tap);
  for (const Stage& stage : epilogue->stages) {
    apply(stage);
    if (stage.tap != nullptr) write(stage.tap);
  }
}

}  // namespace refrt
