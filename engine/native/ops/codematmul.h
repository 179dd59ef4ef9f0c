// The product that MatMulInteger and QLinearMatMul share: exact sums of steps over numpy's broadcast batches.
#pragma once

#include <vector>

#include "backends/cpu/threads.h"
#include "ops/codes.h"
#include "ops/matrices.h"
#include "ops/op.h"

namespace refrt {

class CodeMatmul {
 public:
  // Which inputs of the operator hold what.
  struct Places {
    size_t a, a_zero, b, b_zero;
  };

  // The left operand may have a zero point a row, the right one a column.
  void prepare(PrepareContext& context, const Places& places, const Tensor& y) {
    places_ = places;
    inputs_ = context.inputs.size();
    const Tensor& a = code_input(context, places.a);
    const Tensor& b = code_input(context, places.b);
    matrices_.read(context, a, b, y);
    rows_ = matrices_.m;
    const Tensor* zero = zero_input(context, places.a_zero, a.dtype);
    a_zero_ = PerLine::of_rows(context, zero, static_cast<int64_t>(matrices_.m));
    zero = zero_input(context, places.b_zero, b.dtype);
    b_zero_ = PerLine::of_columns(context, zero, static_cast<int64_t>(matrices_.n));
    matrices_.fold_rows();
    const int64_t k = static_cast<int64_t>(matrices_.k), m = static_cast<int64_t>(matrices_.m);
    const int64_t panels = static_cast<int64_t>(step_panels(matrices_.n)), size = static_cast<int64_t>(sizeof(Step));
    const int64_t of_a = m * k * size, of_b = panels * static_cast<int64_t>(kStepColumns) * k * size;
    packed_once_ = packs_once(b, zero) && matrices_.places.size() == 1;
    context.request_workspace(of_a + of_b);  // the whole is within 1 GiB even where the right operand is packed here
    if (packed_once_) {
      packed_.resize(static_cast<size_t>(of_b / size));
      for (size_t panel = 0; panel < static_cast<size_t>(panels); ++panel)
        pack_panel(b, 0, zero, panel, packed_.data());
    }
  }

  int64_t products() const { return static_cast<int64_t>(matrices_.k); }
  int64_t rows() const { return static_cast<int64_t>(rows_); }
  int64_t columns() const { return static_cast<int64_t>(matrices_.n); }

  // put(index in the output, row, column, sum) for every element.
  template <class Put>
  void run(const RunContext& context, const Put& put) {
    Step* left = static_cast<Step*>(context.workspace);
    Step* right = packed_once_ ? packed_.data() : left + matrices_.m * matrices_.k;
    for (size_t i = 0; i < matrices_.places.size(); ++i) {
      pack_left(context, matrices_.places[i].a, left);
      if (!packed_once_) pack_right(context, matrices_.places[i].b, right);
      multiply(context, i * matrices_.m * matrices_.n, left, right, put);
    }
  }

 private:
  static constexpr size_t kBlockRows = 32;

  const Tensor* optional(const RunContext& context, size_t index) const {
    return index < inputs_ ? context.inputs[index] : nullptr;
  }

  void pack_left(const RunContext& context, size_t from, Step* left) const {
    const Tensor& a = *context.inputs[places_.a];
    const Tensor* zero = optional(context, places_.a_zero);
    const size_t k = matrices_.k;
    context.threads->parallel(static_cast<int64_t>(matrices_.m), 64, [&](int64_t begin, int64_t end, int) {
      for (size_t row = static_cast<size_t>(begin); row < static_cast<size_t>(end); ++row) {
        const int32_t own = a_zero_.zero(zero, row % rows_);
        with_codes(a, [=](const auto* codes) {
          for (size_t p = 0; p < k; ++p) left[row * k + p] = static_cast<Step>(codes[from + row * k + p] - own);
        });
      }
    });
  }

  void pack_right(const RunContext& context, size_t from, Step* right) const {
    const Tensor& b = *context.inputs[places_.b];
    const Tensor* zero = optional(context, places_.b_zero);
    const int64_t panels = static_cast<int64_t>(step_panels(matrices_.n));
    context.threads->parallel(panels, 4, [&](int64_t begin, int64_t end, int) {
      for (int64_t panel = begin; panel < end; ++panel) {
        pack_panel(b, from, zero, static_cast<size_t>(panel), right);
      }
    });
  }

  void pack_panel(const Tensor& b, size_t from, const Tensor* zero, size_t panel, Step* right) const {
    const size_t n = matrices_.n, k = matrices_.k;
    Step* to = right + panel * kStepColumns * k;
    for (size_t c = 0; c < kStepColumns; ++c) {
      const size_t column = panel * kStepColumns + c;
      const int32_t own = column < n ? b_zero_.zero(zero, column) : 0;
      for (size_t p = 0; p < k; ++p) {
        to[p * kStepColumns + c] = static_cast<Step>(column < n ? code_at(b, from + p * n + column) - own : 0);
      }
    }
  }

  template <class Put>
  void multiply(const RunContext& context, size_t place, const Step* left, const Step* right, const Put& put) const {
    const size_t m = matrices_.m, n = matrices_.n, k = matrices_.k;
    const size_t blocks = (m + kBlockRows - 1) / kBlockRows;
    const int64_t items = static_cast<int64_t>(blocks * step_panels(n));
    context.threads->parallel(items, 1, [&](int64_t begin, int64_t end, int) {
      for (size_t item = static_cast<size_t>(begin); item < static_cast<size_t>(end); ++item) {
        const size_t first = item % blocks * kBlockRows, panel = item / blocks;
        const size_t count = std::min(kBlockRows, m - first);
        const size_t width = std::min(kStepColumns, n - panel * kStepColumns);
        multiply_panel(left + first * k, count, right + panel * kStepColumns * k, width, k,
                       [&](size_t r, size_t c, int64_t sum) {
                         const size_t row = first + r, column = panel * kStepColumns + c;
                         put(place + row * n + column, row % rows_, column, sum);
                       });
      }
    });
  }

  Places places_{};
  Matrices matrices_;
  size_t rows_ = 0;  // of one matrix, before batches became rows
  size_t inputs_ = 0;
  PerLine a_zero_, b_zero_;
  std::vector<Step> packed_;
  bool packed_once_ = false;
};

}  // namespace refrt
