// Exact products of matrices of steps: codes of 8 bits minus their zero points, as integers.
//
// No step is beyond 255, so that an int32 holds the sum of 32,768 products; longer sums go on in int64. Integers give
// the same sum in any order, so neither vectors nor threads show in the bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace refrt {

using Step = int16_t;

constexpr size_t kStepRows = 4;
constexpr size_t kStepColumns = 16;
constexpr size_t kStepDepth = 32768;
// So many products always fit an int32: 33,025 * 255 * 255 < 2^31.
constexpr int64_t kMostInt32Products = 33025;

// The right matrix lies in panels of kStepColumns columns, each [k, kStepColumns]; the last one is filled with zeros.
inline size_t step_panels(size_t columns) { return (columns + kStepColumns - 1) / kStepColumns; }

// sums[r][c] = a[r, :] · panel[:, c] for Rows rows of k steps, one after another.
template <size_t Rows>
void step_tile(const Step* a, const Step* panel, size_t k, int64_t (&sums)[Rows][kStepColumns]) {
  std::fill(&sums[0][0], &sums[0][0] + Rows * kStepColumns, int64_t{0});
  for (size_t begin = 0; begin < k; begin += kStepDepth) {
    const size_t end = std::min(k, begin + kStepDepth);
    int32_t part[Rows][kStepColumns] = {};
    for (size_t p = begin; p < end; ++p) {
      for (size_t r = 0; r < Rows; ++r) {
        const int32_t left = a[r * k + p];
        for (size_t c = 0; c < kStepColumns; ++c) part[r][c] += left * panel[p * kStepColumns + c];
      }
    }
    for (size_t r = 0; r < Rows; ++r) {
      for (size_t c = 0; c < kStepColumns; ++c) sums[r][c] += part[r][c];
    }
  }
}

// put(row, column, sum) for every element of a [rows, k] times the first `columns` columns of one panel.
template <class Put>
void multiply_panel(const Step* a, size_t rows, const Step* panel, size_t columns, size_t k, const Put& put) {
  size_t row = 0;
  for (; row + kStepRows <= rows; row += kStepRows) {
    int64_t sums[kStepRows][kStepColumns];
    step_tile<kStepRows>(a + row * k, panel, k, sums);
    for (size_t r = 0; r < kStepRows; ++r) {
      for (size_t c = 0; c < columns; ++c) put(row + r, c, sums[r][c]);
    }
  }
  for (; row < rows; ++row) {
    int64_t sums[1][kStepColumns];
    step_tile<1>(a + row * k, panel, k, sums);
    for (size_t c = 0; c < columns; ++c) put(row, c, sums[0][c]);
  }
}

}  // namespace refrt
