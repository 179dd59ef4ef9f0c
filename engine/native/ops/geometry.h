// The geometry of a convolution from attributes and shapes: one or two spatial dimensions, of any element type.
#pragma once

#include <array>
#include <vector>

#include "kernels/conv.h"
#include "ops/op.h"

namespace refrt {

constexpr int64_t kMostStep = 1 << 20;  // of strides, dilations and pads: keeps their products far from overflow

// One spatial dimension, from attributes and shapes.
struct Axis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;

  int64_t extent() const { return (kernel - 1) * dilation + 1; }
};

// Rows, then columns; a 1-D convolution has one row.
inline std::array<Axis, 2> read_axes(const PrepareContext& context, const Tensor& x, const Tensor& w, const Tensor& y) {
  const int spatial = x.rank - 2;
  const Attributes& attributes = *context.attributes;
  const std::vector<int64_t> ones(static_cast<size_t>(spatial), 1);
  const auto strides = attributes.integers("strides", ones, spatial);
  const auto dilations = attributes.integers("dilations", ones, spatial);
  const auto pads = attributes.integers("pads", std::vector<int64_t>(ones.size() * 2, 0), 2 * spatial);
  const auto kernel = attributes.integers("kernel_shape", {w.dims + 2, w.dims + w.rank}, spatial);
  std::array<Axis, 2> axes;
  for (int i = 0; i < spatial; ++i) {
    const size_t at = static_cast<size_t>(i);
    Axis& axis = axes[at + static_cast<size_t>(2 - spatial)];
    axis = Axis{x.dims[2 + i], y.dims[2 + i], kernel[at], strides[at], dilations[at], pads[at], pads[at + ones.size()]};
    context.require(axis.kernel == w.dims[2 + i], "kernel_shape differs from the weights");
    context.require(axis.kernel >= 1 && axis.stride >= 1 && axis.dilation >= 1, "a step is not positive");
    context.require(axis.stride <= kMostStep && axis.dilation <= kMostStep, "a step is too large");
    context.require(axis.pad_begin >= 0 && axis.pad_end >= 0, "negative padding");
    context.require(axis.pad_begin <= kMostStep && axis.pad_end <= kMostStep, "too much padding");
    const int64_t room = axis.in + axis.pad_begin + axis.pad_end - axis.extent();
    context.require(room >= 0 ? axis.out == room / axis.stride + 1 : axis.out == 0, "the output has other dimensions");
  }
  return axes;
}

// Checks attributes and shapes of y = conv(x, w).
inline ConvGeometry read_geometry(const PrepareContext& context, const Tensor& x, const Tensor& w, const Tensor& y) {
  if (x.rank != 3 && x.rank != 4) context.unsupported("only one or two spatial dimensions");
  context.require(w.rank == x.rank && y.rank == x.rank, "input, weights and output differ in rank");
  const int64_t groups = context.attributes->integer("group", 1);
  context.require(groups >= 1 && x.dims[1] == w.dims[1] * groups && w.dims[0] % groups == 0,
                  "channels do not fit the groups");
  context.require(x.dims[1] >= 1 && w.dims[0] >= 1, "no channels");
  context.require(y.dims[0] == x.dims[0] && y.dims[1] == w.dims[0], "the output has other dimensions");
  const std::array<Axis, 2> axes = read_axes(context, x, w, y);
  ConvGeometry g;
  g.batch = static_cast<size_t>(x.dims[0]);
  g.in_channels = static_cast<size_t>(x.dims[1]);
  g.out_channels = static_cast<size_t>(w.dims[0]);
  g.groups = static_cast<size_t>(groups);
  g.in_h = static_cast<size_t>(axes[0].in);
  g.in_w = static_cast<size_t>(axes[1].in);
  g.out_h = static_cast<size_t>(axes[0].out);
  g.out_w = static_cast<size_t>(axes[1].out);
  g.kernel_h = static_cast<size_t>(axes[0].kernel);
  g.kernel_w = static_cast<size_t>(axes[1].kernel);
  g.stride_h = static_cast<size_t>(axes[0].stride);
  g.stride_w = static_cast<size_t>(axes[1].stride);
  g.dilation_h = static_cast<size_t>(axes[0].dilation);
  g.dilation_w = static_cast<size_t>(axes[1].dilation);
  g.pad_top = static_cast<size_t>(axes[0].pad_begin);
  g.pad_left = static_cast<size_t>(axes[1].pad_begin);
  return g;
}

}  // namespace refrt
