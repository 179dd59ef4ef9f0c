// MatMul (ONNX 1, 9, 13): numpy's matmul, with broadcast batches and one-dimensional operands.
//
// Channels of fused stages are the last dimension. A constant right operand without batches is packed once.
#include <algorithm>
#include <vector>

#include "kernels/matmul.h"
#include "kernels/pool.h"
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
    context.require(a.rank >= 1 && b.rank >= 1, "an operand is a scalar");
    const int64_t k = a.dims[a.rank - 1];
    context.require(b.dims[b.rank == 1 ? 0 : b.rank - 2] == k, "the inner dimensions differ");
    const int64_t m = a.rank == 1 ? 1 : a.dims[a.rank - 2];
    const int64_t n = b.rank == 1 ? 1 : b.dims[b.rank - 1];
    shape_ = dense_matmul(static_cast<size_t>(m), static_cast<size_t>(n), static_cast<size_t>(k));
    read_batches(context, a, b, y);
    context.require(y.span(0, y.rank) == static_cast<int64_t>(places_.size()) * m * n,
                    "the output has other dimensions");
    fold_rows();
    const int64_t depth = std::max<int64_t>(k, 1);
    const int64_t most = kMaxTensorBytes / static_cast<int64_t>(sizeof(float)) / depth;
    const int64_t rows = static_cast<int64_t>(shape_.m) + 2 * static_cast<int64_t>(kTileColumns);
    if (rows > most || n > most - rows) context.unsupported("the product is too large");
    packed_once_ = b.constant && places_.size() == 1;
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
    for (size_t i = 0; i < places_.size(); ++i) {
      if (!packed_once_) pack_b(shape_, context.inputs[1]->f32() + places_[i].b, packed_b, workers);
      matmul(shape_, context.inputs[0]->f32() + places_[i].a, packed_b, context.outputs[0]->f32(), context.epilogue,
             i * shape_.m * shape_.n, packed_a, workers);
    }
  }

 private:
  struct Place {
    size_t a, b;  // where a matrix starts in its operand
  };

  // Walks the broadcast batch dimensions in C order; places_[i] belongs to matrix i of the output.
  void read_batches(const PrepareContext& context, const Tensor& a, const Tensor& b, const Tensor& y) {
    const int of_a = std::max(0, a.rank - 2), of_b = std::max(0, b.rank - 2), batches = std::max(of_a, of_b);
    const int kept = (a.rank > 1) + (b.rank > 1);
    context.require(y.rank == batches + kept, "the output has another rank");
    places_.assign(1, Place{0, 0});
    for (int i = 0; i < batches; ++i) {
      const int64_t in_a = i < batches - of_a ? 1 : a.dims[i - (batches - of_a)];
      const int64_t in_b = i < batches - of_b ? 1 : b.dims[i - (batches - of_b)];
      context.require(in_a == in_b || in_a == 1 || in_b == 1, "batch dimensions cannot be broadcast");
      const int64_t count = in_a == 1 ? in_b : in_a;
      context.require(y.dims[i] == count, "the output has other dimensions");
      if (count > kMostMatrices / std::max<int64_t>(1, static_cast<int64_t>(places_.size()))) {
        context.unsupported("too many matrices in a batch");
      }
      std::vector<Place> next;
      for (const Place& place : places_) {
        for (int64_t j = 0; j < count; ++j) {
          next.push_back(Place{place.a * static_cast<size_t>(in_a) + static_cast<size_t>(in_a == 1 ? 0 : j),
                               place.b * static_cast<size_t>(in_b) + static_cast<size_t>(in_b == 1 ? 0 : j)});
        }
      }
      places_ = std::move(next);
    }
    for (Place& place : places_) {
      place.a *= shape_.m * shape_.k;
      place.b *= shape_.k * shape_.n;
    }
  }

  // Many left matrices times one right matrix are one taller product.
  void fold_rows() {
    for (size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].b != 0 || places_[i].a != i * shape_.m * shape_.k) return;
    }
    if (places_.empty()) return;
    shape_.m *= places_.size();
    places_.resize(1);
  }

  static constexpr int64_t kMostMatrices = 1 << 16;

  MatmulShape shape_;
  std::vector<Place> places_;
  std::vector<float> packed_;
  bool packed_once_ = false;
};

}  // namespace

REFRT_OPERATOR("MatMul", MatMul);

}  // namespace refrt
