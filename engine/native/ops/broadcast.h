// Two float32 tensors combined element by element under ONNX's (numpy's) broadcasting.
#pragma once

#include <algorithm>

#include "backends/cpu/threads.h"
#include "ops/elementwise.h"
#include "ops/op.h"

namespace refrt {

// The output as rows: outer dimensions are walked, the innermost is contiguous with steps of 0 or 1 in each input.
class Broadcast {
 public:
  void prepare(PrepareContext& context) {
    context.expect_counts(2, 2);
    context.expect_no_epilogue();
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    const Tensor& out = context.output(0);
    context.require(out.rank == std::max(a.rank, b.rank), "the output's rank does not follow from the inputs");
    for (int d = 0; d < out.rank; ++d) {
      const int64_t in_a = dim(a, out.rank, d), in_b = dim(b, out.rank, d);
      context.require(in_a == in_b || in_a == 1 || in_b == 1, "the inputs cannot be broadcast");
      context.require(out.dims[d] == (in_a == 1 ? in_b : in_a), "the output's shape does not follow from the inputs");
    }
    collapse(a, b, out);
  }

  template <typename F>
  void run(const RunContext& context, F f) const {
    const float* a = context.inputs[0]->f32();
    const float* b = context.inputs[1]->f32();
    float* out = context.outputs[0]->f32();
    const int64_t grain = kElementGrain / std::max<int64_t>(1, row_) + 1;
    context.threads->parallel(rows_, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        int64_t rest = row, at_a = 0, at_b = 0;
        for (int d = outer_ - 1; d >= 0; --d) {
          const int64_t index = rest % dims_[d];
          rest /= dims_[d];
          at_a += index * step_a_[d];
          at_b += index * step_b_[d];
        }
        run_row(a + at_a, b + at_b, out + row * row_, f);
      }
    });
  }

 private:
  static int64_t dim(const Tensor& tensor, int rank, int d) {
    const int own = d - (rank - tensor.rank);
    return own < 0 ? 1 : tensor.dims[own];
  }

  // Joins neighbouring dimensions that both inputs walk alike, so that rows are as long as they can be.
  void collapse(const Tensor& a, const Tensor& b, const Tensor& out) {
    int64_t dims[kMaxRank] = {1}, step_a[kMaxRank] = {0}, step_b[kMaxRank] = {0};
    int count = 0;
    int64_t stride_a = a.count(), stride_b = b.count();
    for (int d = 0; d < out.rank; ++d) {
      const int64_t in_a = dim(a, out.rank, d), in_b = dim(b, out.rank, d);
      stride_a /= std::max<int64_t>(1, in_a);
      stride_b /= std::max<int64_t>(1, in_b);
      if (out.dims[d] == 1) continue;
      const int64_t walk_a = in_a == 1 ? 0 : stride_a, walk_b = in_b == 1 ? 0 : stride_b;
      const bool joins =
          count > 0 && step_a[count - 1] == walk_a * out.dims[d] && step_b[count - 1] == walk_b * out.dims[d];
      if (!joins) ++count;
      dims[count - 1] = joins ? dims[count - 1] * out.dims[d] : out.dims[d];
      step_a[count - 1] = walk_a;
      step_b[count - 1] = walk_b;
    }
    outer_ = std::max(0, count - 1);
    row_ = out.count() == 0 ? 0 : dims[std::max(0, count - 1)];
    rows_ = row_ == 0 ? 0 : out.count() / row_;
    row_step_a_ = count > 0 ? step_a[count - 1] : 0;
    row_step_b_ = count > 0 ? step_b[count - 1] : 0;
    std::copy(dims, dims + kMaxRank, dims_);
    std::copy(step_a, step_a + kMaxRank, step_a_);
    std::copy(step_b, step_b + kMaxRank, step_b_);
  }

  template <typename F>
  void run_row(const float* a, const float* b, float* out, F f) const {
    if (row_step_a_ == 0) {
      const float left = *a;
      for (int64_t i = 0; i < row_; ++i) out[i] = f(left, b[i * row_step_b_]);
    } else if (row_step_b_ == 0) {
      const float right = *b;
      for (int64_t i = 0; i < row_; ++i) out[i] = f(a[i], right);
    } else {
      for (int64_t i = 0; i < row_; ++i) out[i] = f(a[i], b[i]);
    }
  }

  int outer_ = 0;
  int64_t rows_ = 0, row_ = 0;
  int64_t row_step_a_ = 0, row_step_b_ = 0;
  int64_t dims_[kMaxRank] = {}, step_a_[kMaxRank] = {}, step_b_[kMaxRank] = {};
};

}  // namespace refrt
