// Depthwise convolution: every output channel reads one input channel.
//
// A band of output rows at a time: its input rows are copied into a zero-padded scratch that fits the first-level
// cache, with columns split by stride phase, so that every tap of every stride is a plain vector load and borders
// need no special case. Taps are walked kernel row by kernel row: the order of plain.h.
#pragma once

#include <cstddef>
#include <vector>

#include "epilogue.h"
#include "workers.h"

namespace refrt {

struct ConvGeometry;

class Depthwise {
 public:
  Depthwise() = default;
  // in_channels == groups.
  explicit Depthwise(const ConvGeometry& g);

  size_t workspace_floats(const ConvGeometry& g, size_t workers) const;

  // As Conv::run; `weights` [out_channels, 1, kernel_h, kernel_w] are not packed.
  void run(const ConvGeometry& g, const float* weights, const float* in, const float* bias, float* out,
           const Epilogue* epilogue, float* workspace, const Workers& workers) const;

 private:
  size_t in_rows(const ConvGeometry& g, size_t out_rows) const;
  void fill(const ConvGeometry& g, const float* plane, size_t out_row, size_t out_rows, float* scratch) const;
  template <size_t R, size_t V>
  void sum_block(const ConvGeometry& g, const float* source, const size_t (&columns)[V], const float* weights,
                 float* out, const float* end) const;
  template <size_t R>
  void sum_rows(const ConvGeometry& g, const float* source, const float* weights, float* out, const float* end) const;
  void sum_band(const ConvGeometry& g, const float* scratch, size_t rows, const float* weights, float* out) const;

  // The input columns first, first + stride_w, … go to `target` and on in a row of the scratch.
  struct Phase {
    size_t first, target, count;
  };

  // The scratch of a band is [row][phase][pitch]; padded column x lies in phase x % stride_w at x / stride_w.
  size_t pitch_ = 0;
  size_t row_step_ = 0;   // floats of one row of all phases
  size_t band_rows_ = 0;  // output rows of a full band
  std::vector<Phase> phases_;
  std::vector<size_t> offsets_;  // where each tap lies from the first one
};

}  // namespace refrt
