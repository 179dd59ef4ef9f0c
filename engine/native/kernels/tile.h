// The one matrix micro-kernel: a block of sums in registers, the reduction strictly ascending.
//
//   sum[r][c] = ((0 + x[0][r] * y[0][c]) + x[1][r] * y[1][c]) + …      every product and every sum rounded
//
// Each sum starts from +0 and takes k = 0, 1, 2 … one after the other, whatever the blocking: that is the order of
// every convolution, matrix product and LSTM of the engine. x is broadcast, y is read as vectors; a product does
// not care which is which, so a caller may put weights on either side.
//
// Operands lie in panels: [k][width] with zeros beyond the last row or column, width kTileRows or kTileColumns.
//
// The "fast" flavour sums the two halves of k apart (and the compiler may contract): other bits, same meaning.
#pragma once

#include "simd.h"

namespace refrt {

namespace detail {

template <size_t R, size_t V>
REFRT_INLINE void accumulate(size_t k, const float* x, size_t x_step, const float* y, size_t y_step,
                             VFloat (&sum)[R][V]) {
  for (size_t i = 0; i < k; ++i) {
    VFloat columns[V];
    for (size_t v = 0; v < V; ++v) columns[v] = load(y + v * kLanes);
    for (size_t r = 0; r < R; ++r) {
      const VFloat row = splat(x[r]);
      for (size_t v = 0; v < V; ++v) sum[r][v] += row * columns[v];
    }
    x += x_step;
    y += y_step;
  }
}

template <size_t R, size_t V>
inline void multiply_tile(size_t k, const float* x, size_t x_step, const float* y, size_t y_step, float* tile,
                          size_t pitch) {
  VFloat sum[R][V] = {};
#if defined(REFRT_FLAVOUR_FAST)
  const size_t half = k / 2;
  VFloat rest[R][V] = {};
  accumulate<R, V>(half, x, x_step, y, y_step, sum);
  accumulate<R, V>(k - half, x + half * x_step, x_step, y + half * y_step, y_step, rest);
  for (size_t r = 0; r < R; ++r) {
    for (size_t v = 0; v < V; ++v) sum[r][v] += rest[r][v];
  }
#else
  accumulate<R, V>(k, x, x_step, y, y_step, sum);
#endif
  for (size_t r = 0; r < R; ++r) {
    for (size_t v = 0; v < V; ++v) store(tile + r * pitch + v * kLanes, sum[r][v]);
  }
}

template <size_t R>
inline void multiply_rows(size_t columns, size_t k, const float* x, size_t x_step, const float* panels, float* block,
                          size_t pitch) {
  for (size_t n = 0; n < columns; n += kTileColumns) {
    if (kTileVectors > 1 && columns - n <= kLanes) {
      multiply_tile<R, 1>(k, x, x_step, panels + n * k, kTileColumns, block + n, pitch);
    } else {
      multiply_tile<R, kTileVectors>(k, x, x_step, panels + n * k, kTileColumns, block + n, pitch);
    }
  }
}

}  // namespace detail

// block[r * pitch + c] for r < rows, c < columns, from x[i * x_step + r] and panels of kTileColumns columns. Columns
// up to the end of the last panel may be written too. 1 <= rows <= kTileRows, rows <= x_step.
inline void multiply_strip(size_t rows, size_t columns, size_t k, const float* x, size_t x_step, const float* panels,
                           float* block, size_t pitch) {
  static_assert(kTileRows == 4 || kTileRows == 6, "a new block height needs its cases here");
  switch (rows) {
    case 1:
      return detail::multiply_rows<1>(columns, k, x, x_step, panels, block, pitch);
    case 2:
      return detail::multiply_rows<2>(columns, k, x, x_step, panels, block, pitch);
    case 3:
      return detail::multiply_rows<3>(columns, k, x, x_step, panels, block, pitch);
    case 4:
      return detail::multiply_rows<4>(columns, k, x, x_step, panels, block, pitch);
    case 5:
      return detail::multiply_rows<5>(columns, k, x, x_step, panels, block, pitch);
    default:
      return detail::multiply_rows<6>(columns, k, x, x_step, panels, block, pitch);
  }
}

inline size_t panels_of(size_t count, size_t width) { return (count + width - 1) / width; }

// One panel [k][width] from `count` <= width outer elements; element (outer, k) lies at
// source[outer * outer_step + k * k_step].
inline void pack_panel(const float* source, size_t count, size_t k, size_t outer_step, size_t k_step, size_t width,
                       float* panel) {
  for (size_t i = 0; i < k; ++i) {
    float* row = panel + i * width;
    const float* from = source + i * k_step;
    for (size_t j = 0; j < count; ++j) row[j] = from[j * outer_step];
    for (size_t j = count; j < width; ++j) row[j] = 0.0f;
  }
}

// All panels of `outer` elements, one after the other: panels_of(outer, width) * k * width floats.
inline void pack_panels(const float* source, size_t outer, size_t k, size_t outer_step, size_t k_step, size_t width,
                        float* panels) {
  for (size_t first = 0; first < outer; first += width) {
    const size_t count = outer - first < width ? outer - first : width;
    pack_panel(source + first * outer_step, count, k, outer_step, k_step, width, panels);
    panels += k * width;
  }
}

}  // namespace refrt
