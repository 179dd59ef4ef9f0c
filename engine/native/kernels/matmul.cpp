#include "matmul.h"

#include <algorithm>

namespace refrt {

void pack_b(const MatmulShape& s, const float* b, float* packed, const Workers& workers) {
  share(workers, panels_of(s.n, kTileColumns), [&](size_t, size_t begin, size_t end) {
    for (size_t p = begin; p < end; ++p) {
      const size_t first = p * kTileColumns;
      pack_panel(b + first * s.b_column, std::min(kTileColumns, s.n - first), s.k, s.b_column, s.b_k, kTileColumns,
                 packed + first * s.k);
    }
  });
}

namespace {

// The stages over one tile, every result to its place; element (0, 0) of the tile lies at `offset` of each tensor.
void finish_tile(size_t rows, size_t columns, size_t first_column, size_t pitch, size_t offset, float* tile, float* out,
                 const Epilogue* epilogue) {
  const auto write = [&](float* base) {
    for (size_t r = 0; r < rows; ++r) copy_floats(base + offset + r * pitch, tile + r * kTileColumns, columns);
  };
  const auto apply = [&](const Stage& stage) {
    for (size_t r = 0; r < rows; ++r) apply_stage_across(stage, tile + r * kTileColumns, columns, first_column);
  };
  run_epilogue(nullptr, epilogue, apply, write);
  write(out);
}

}  // namespace

void matmul(const MatmulShape& s, const float* a, const float* packed_b, float* out, const Epilogue* epilogue,
            size_t place, float* workspace, const Workers& workers) {
  const size_t column_panels = panels_of(s.n, kTileColumns);
  share(workers, panels_of(s.m, kTileRows), [&](size_t, size_t begin, size_t end) {
    for (size_t p = begin; p < end; ++p) {
      const size_t first = p * kTileRows;
      pack_panel(a + first * s.a_row, std::min(kTileRows, s.m - first), s.k, s.a_row, s.a_k, kTileRows,
                 workspace + first * s.k);
    }
  });
  share(workers, panels_of(s.m, kTileRows) * column_panels, [&](size_t, size_t begin, size_t end) {
    alignas(64) float tile[kTileRows * kTileColumns] = {};
    for (size_t item = begin; item < end; ++item) {
      const size_t row = item / column_panels * kTileRows;
      const size_t column = item % column_panels * kTileColumns;
      const size_t rows = std::min(kTileRows, s.m - row);
      const size_t columns = std::min(kTileColumns, s.n - column);
      multiply_strip(rows, columns, s.k, workspace + row * s.k, kTileRows, packed_b + column * s.k, tile, kTileColumns);
      finish_tile(rows, columns, column, s.n, place + row * s.n + column, tile, out, epilogue);
    }
  });
}

}  // namespace refrt
