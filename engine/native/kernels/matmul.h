// One product of two float32 matrices of any strides. Order of sums: tile.h.
#pragma once

#include <cstddef>

#include "epilogue.h"
#include "tile.h"
#include "workers.h"

namespace refrt {

// a is [m, k], element (i, j) at a[i * a_row + j * a_k]; b is [k, n], element (i, j) at b[i * b_k + j * b_column].
// The result is [m, n], dense.
struct MatmulShape {
  size_t m = 0, n = 0, k = 0;
  size_t a_row = 0, a_k = 1;
  size_t b_k = 0, b_column = 1;
};

// a [m, k] · b [k, n], both dense.
inline MatmulShape dense_matmul(size_t m, size_t n, size_t k) { return MatmulShape{m, n, k, k, 1, n, 1}; }

inline size_t packed_a_floats(const MatmulShape& s) { return panels_of(s.m, kTileRows) * kTileRows * s.k; }
inline size_t packed_b_floats(const MatmulShape& s) { return panels_of(s.n, kTileColumns) * kTileColumns * s.k; }

// Packs b once, for any number of products.
void pack_b(const MatmulShape& s, const float* b, float* packed, const Workers& workers);

// Writes the product to out + place; `out` is the base of the output tensor, the taps have the same place. Channels
// of the stages are columns; `epilogue` may be null. `workspace` holds packed_a_floats(s) floats. out must not
// overlap a.
void matmul(const MatmulShape& s, const float* a, const float* packed_b, float* out, const Epilogue* epilogue,
            size_t place, float* workspace, const Workers& workers);

}  // namespace refrt
