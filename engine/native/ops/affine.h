// What QuantizeLinear and DequantizeLinear share: one scale and zero point for the whole tensor, or one a channel.
#pragma once

#include <algorithm>
#include <cmath>

#include "backends/cpu/threads.h"
#include "ops/op.h"

namespace refrt {

constexpr int64_t kAffineGrain = 1 << 14;  // below this, waking a thread costs more than it saves

// Element i belongs to channel (i / inner) % channels.
struct Affine {
  int64_t channels = 1;
  int64_t inner = 1;
  const float* scale = nullptr;
  const void* zero = nullptr;

  // body(channel, from, to) for each run of elements of one channel in [begin, end): no division an element.
  template <class Body>
  void runs(int64_t begin, int64_t end, const Body& body) const {
    for (int64_t from = begin; from < end;) {
      const int64_t to = channels == 1 ? end : std::min(end, (from / inner + 1) * inner);
      body(static_cast<size_t>(from / inner % channels), from, to);
      from = to;
    }
  }
};

// Checks inputs 1 and 2: constants of one value, or of one a channel along attribute `axis`.
inline Affine prepare_affine(const PrepareContext& context, const Tensor& data, const Tensor& integers) {
  context.expect_counts(3, 3);
  context.expect_no_epilogue();
  const Tensor& scale = context.input(1);
  const Tensor& zero = context.input(2, integers.dtype);
  context.require(same_shape(data, integers), "input and output differ in shape");
  context.require(scale.constant && zero.constant && scale.rank <= 1 && scale.count() == zero.count(),
                  "scale and zero point must be constants of one size");
  Affine affine;
  affine.scale = scale.f32();
  affine.zero = zero.data;
  if (scale.count() == 1) {
    affine.inner = data.count() > 0 ? data.count() : 1;
    return affine;
  }
  const int64_t axis = context.attributes->integer("axis", 1);
  context.require(axis >= 0 && axis < data.rank && data.dims[axis] == scale.count(),
                  "there must be one scale for each channel");
  affine.channels = scale.count() > 0 ? scale.count() : 1;
  affine.inner = data.span(static_cast<int>(axis) + 1, data.rank);
  if (affine.inner == 0) affine.inner = 1;
  return affine;
}

}  // namespace refrt
