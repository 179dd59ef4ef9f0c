#include "depthwise.h"

#include <algorithm>
#include <cstring>

#include "conv.h"
#include "simd.h"

namespace refrt {

namespace {

constexpr size_t kBandFloats = 4096;  // half of a small first-level cache
constexpr size_t kBlockRows = 4;      // output rows summed side by side

}  // namespace

Depthwise::Depthwise(const ConvGeometry& g) {
  if (g.out_w == 0 || g.out_h == 0) return;
  const size_t width = (g.out_w - 1) * g.stride_w + (g.kernel_w - 1) * g.dilation_w + 1;
  pitch_ = (width + g.stride_w - 1) / g.stride_w + kLanes;  // vectors at the end of a row read beyond it
  row_step_ = pitch_ * g.stride_w;
  const size_t fitting = kBandFloats / row_step_;
  const size_t overlap = (g.kernel_h - 1) * g.dilation_h;
  band_rows_ = kBlockRows;
  if (fitting > overlap + g.stride_h * kBlockRows) {
    band_rows_ = (fitting - overlap) / g.stride_h / kBlockRows * kBlockRows;
  }
  band_rows_ = std::min(band_rows_, g.out_h);
  const size_t inside = width > g.pad_left ? std::min(g.in_w, width - g.pad_left) : 0;
  for (size_t phase = 0; phase < g.stride_w; ++phase) {
    const size_t first = (phase + g.stride_w - g.pad_left % g.stride_w) % g.stride_w;
    if (first >= inside) continue;
    const size_t target = phase * pitch_ + (first + g.pad_left) / g.stride_w;
    phases_.push_back(Phase{first, target, (inside - first + g.stride_w - 1) / g.stride_w});
  }
  for (size_t ky = 0; ky < g.kernel_h; ++ky) {
    for (size_t kx = 0; kx < g.kernel_w; ++kx) {
      const size_t x = kx * g.dilation_w;
      offsets_.push_back(ky * g.dilation_h * row_step_ + x % g.stride_w * pitch_ + x / g.stride_w);
    }
  }
}

size_t Depthwise::in_rows(const ConvGeometry& g, size_t out_rows) const {
  return (out_rows - 1) * g.stride_h + (g.kernel_h - 1) * g.dilation_h + 1;
}

size_t Depthwise::workspace_floats(const ConvGeometry& g, size_t workers) const {
  return band_rows_ == 0 ? 0 : in_rows(g, band_rows_) * row_step_ * workers;
}

// Input rows of output rows [out_row, out_row + out_rows). Columns of padding are zero since the share began.
void Depthwise::fill(const ConvGeometry& g, const float* plane, size_t out_row, size_t out_rows, float* scratch) const {
  const size_t rows = in_rows(g, out_rows);
  for (size_t r = 0; r < rows; ++r) {
    const size_t padded = out_row * g.stride_h + r;
    float* row = scratch + r * row_step_;
    if (padded < g.pad_top || padded - g.pad_top >= g.in_h) {
      std::memset(row, 0, row_step_ * sizeof(float));
    } else {
      const float* in = plane + (padded - g.pad_top) * g.in_w;
      for (const Phase& phase : phases_) gather_floats(row + phase.target, in + phase.first, phase.count, g.stride_w);
    }
  }
}

// Sums of R rows and V vectors of columns. A vector that runs beyond a narrow row spills into the next rows, which
// are written later, but never beyond `end`, the end of the band.
template <size_t R, size_t V>
REFRT_INLINE void Depthwise::sum_block(const ConvGeometry& g, const float* source, const size_t (&columns)[V],
                                       const float* weights, float* out, const float* end) const {
  VFloat sum[R][V] = {};
  const size_t step = g.stride_h * row_step_;
  for (const size_t offset : offsets_) {
    const VFloat weight = splat(*weights++);
    for (size_t r = 0; r < R; ++r) {
      for (size_t v = 0; v < V; ++v) sum[r][v] += weight * load(source + offset + r * step + columns[v]);
    }
  }
  for (size_t r = 0; r < R; ++r) {
    for (size_t v = 0; v < V; ++v) {
      float* to = out + r * g.out_w + columns[v];
      if (kLanes <= static_cast<size_t>(end - to)) {
        store(to, sum[r][v]);
      } else {
        store_some(to, sum[r][v], g.out_w);
      }
    }
  }
}

// R output rows. The last vector of a wide row steps back and writes some columns twice, with the same bits.
template <size_t R>
void Depthwise::sum_rows(const ConvGeometry& g, const float* source, const float* weights, float* out,
                         const float* end) const {
  const auto clip = [&](size_t x) { return x + kLanes <= g.out_w || g.out_w < kLanes ? x : g.out_w - kLanes; };
  size_t x = 0;
  for (; x + kLanes < g.out_w; x += 2 * kLanes) {
    sum_block<R, 2>(g, source, {clip(x), clip(x + kLanes)}, weights, out, end);
  }
  if (x < g.out_w) sum_block<R, 1>(g, source, {clip(x)}, weights, out, end);
}

void Depthwise::sum_band(const ConvGeometry& g, const float* scratch, size_t rows, const float* weights,
                         float* out) const {
  const float* end = out + rows * g.out_w;
  size_t y = 0;
  for (; y + kBlockRows <= rows; y += kBlockRows) {
    sum_rows<kBlockRows>(g, scratch + y * g.stride_h * row_step_, weights, out + y * g.out_w, end);
  }
  for (; y < rows; ++y) sum_rows<1>(g, scratch + y * g.stride_h * row_step_, weights, out + y * g.out_w, end);
}

void Depthwise::run(const ConvGeometry& g, const float* weights, const float* in, const float* bias, float* out,
                    const Epilogue* epilogue, float* workspace, const Workers& workers) const {
  const size_t multiplier = g.out_channels / g.in_channels;
  const size_t floats = workspace_floats(g, 1);
  share(workers, g.batch * g.out_channels, [&](size_t worker, size_t begin, size_t end) {
    float* scratch = workspace + worker * floats;
    std::memset(scratch, 0, floats * sizeof(float));
    for (size_t plane = begin; plane < end; ++plane) {
      const size_t channel = plane % g.out_channels;
      const size_t in_plane = plane / g.out_channels * g.in_channels + channel / multiplier;
      for (size_t y = 0; y < g.out_h; y += band_rows_) {
        const size_t rows = std::min(band_rows_, g.out_h - y);
        const size_t offset = (plane * g.out_h + y) * g.out_w;
        const size_t count = rows * g.out_w;
        float* produced = out + offset;
        fill(g, in + in_plane * g.in_h * g.in_w, y, rows, scratch);
        sum_band(g, scratch, rows, weights + channel * offsets_.size(), produced);
        run_epilogue(
            bias, epilogue, [&](const Stage& stage) { apply_stage(stage, produced, produced, count, channel); },
            [&](float* base) { std::memcpy(base + offset, produced, count * sizeof(float)); });
      }
    }
  });
}

}  // namespace refrt
