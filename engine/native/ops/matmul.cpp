// MatMul (ONNX 1, 9, 13): numpy's matmul, with broadcast batches and one-dimensional operands.
//
// Channels of fused stages are the last dimension. A constant right operand without batches is packed once.
#include <algorithm>
#include <vector>

#include "kernels/matmul.h"
#include "kernels/pool.h"
#include "ops/matrices.h"
#include "ops/op.h"

namespace refrt {
namespace {

class MatMul : public Operator {
 public:
  void prepare(PrepareContext& context) override {
    context.expect_counts(2, 2);
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    const Tensor& y = context.output(0);
    matrices_.read(context, a, b, y);
    matrices_.fold_rows();
    shape_ = dense_matmul(matrices_.m, matrices_.n, matrices_.k);
    const int64_t k = static_cast<int64_t>(matrices_.k), n = static_cast<int64_t>(matrices_.n);
    const int64_t depth = std::max<int64_t>(k, 1);
    const int64_t most = kMaxTensorBytes / static_cast<int64_t>(sizeof(float)) / depth;
    const int64_t rows = static_cast<int64_t>(shape_.m) + 2 * static_cast<int64_t>(kTileColumns);
    if (rows > most || n > most - rows) context.unsupported("the product is too large");
    packed_once_ = b.constant && matrices_.places.size() == 1;
    if (packed_once_) {
      packed_.resize(packed_b_floats(shape_));
      pack_b(shape_, b.f32(), packed_.data(), Workers{});
    }
    const size_t floats = packed_a_floats(shape_) + (packed_once_ ? 0 : packed_b_floats(shape_));
    context.request_workspace(static_cast<int64_t>(floats * sizeof(float)));
  }

  void run(const RunContext& context) override {
    const Workers workers = workers_of(*context.threads);
    float* packed_a = static_cast<float*>(context.workspace);
    float* packed_b = packed_once_ ? packed_.data() : packed_a + packed_a_floats(shape_);
    for (size_t i = 0; i < matrices_.places.size(); ++i) {
      const Matrices::Place& place = matrices_.places[i];
      if (!packed_once_) pack_b(shape_, context.inputs[1]->f32() + place.b, packed_b, workers);
      matmul(shape_, context.inputs[0]->f32() + place.a, packed_b, context.outputs[0]->f32(), context.epilogue,
             i * shape_.m * shape_.n, packed_a, workers);
    }
  }

 private:
  MatmulShape shape_;
  Matrices matrices_;
  std::vector<float> packed_;
  bool packed_once_ = false;
};

}  // namespace

REFRT_OPERATOR("MatMul", MatMul);

}  // namespace refrt
