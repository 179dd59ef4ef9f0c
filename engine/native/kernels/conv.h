// Convolution of float32 NCHW tensors, with the stages behind it. The plain version in plain.h is the
// specification; this one picks between three ways of the same bits:
//
//   depthwise     one input channel a group: output columns are vectors, taps are walked in order (depthwise.h)
//   over pixels   columns (image, pixel) are the vectors, weights are broadcast
//   over channels few columns: weights are the vectors, columns are broadcast
//
// A 1-D convolution has in_h = kernel_h = 1. Padded taps enter as zeros: adding a product with 0 to a sum that
// started from +0 never changes it unless the weight is NaN or infinite, and then the definition asks for NaN.
#pragma once

#include <cstddef>
#include <vector>

#include "depthwise.h"
#include "epilogue.h"
#include "tile.h"
#include "workers.h"

namespace refrt {

struct ConvGeometry {
  size_t batch = 1, in_channels = 1, in_h = 1, in_w = 1;
  size_t out_channels = 1, out_h = 1, out_w = 1;
  size_t kernel_h = 1, kernel_w = 1;
  size_t stride_h = 1, stride_w = 1;
  size_t pad_top = 0, pad_left = 0;  // what lies beyond the bottom and the right follows from out_h and out_w
  size_t dilation_h = 1, dilation_w = 1;
  size_t groups = 1;
};

class Conv {
 public:
  // The geometry must be consistent; in_channels and out_channels multiples of groups.
  explicit Conv(const ConvGeometry& geometry);

  // Weights [out_channels, in_channels / groups, kernel_h, kernel_w], packed once.
  void pack(const float* weights);

  // Floats that run() needs at `workspace`.
  size_t workspace_floats(size_t workers) const;

  // Tensors: in [batch, in_channels, in_h, in_w], out [batch, out_channels, out_h, out_w] (and every tap), bias
  // [out_channels] or null. `epilogue` may be null. out must not overlap in.
  void run(const float* in, const float* bias, float* out, const Epilogue* epilogue, float* workspace,
           const Workers& workers) const;

 private:
  struct Call;
  class Runs;

  bool over_channels() const;
  size_t columns() const { return g_.batch * g_.out_h * g_.out_w; }
  size_t block_columns() const;
  void pack_columns(const Runs& runs, const Call& call, size_t width, float* panels) const;
  void pack_pixels(const Call& call, size_t image, size_t pixel, size_t count, size_t width, size_t column,
                   float* panels) const;
  void pack_taps(const Call& call, size_t image, size_t pixel, size_t count, size_t width, float* to) const;
  void run_over_pixels(const Call& call) const;
  void run_over_channels(const Call& call) const;
  void finish_block(const Call& call, const Runs& runs, size_t channel, size_t channels, float* block) const;

  ConvGeometry g_;
  size_t k_ = 0;  // products of one sum
  bool pointwise_ = false;
  bool depthwise_ = false;
  Depthwise depthwise_kernel_;
  std::vector<float> weights_;
};

}  // namespace refrt
