// Mean over all dimensions behind the channel: summed in index order in float64, divided, rounded once.
#include "ops/elementwise.h"

namespace refrt {
namespace {

class GlobalAveragePool : public Operator {
 public:
  void prepare(PrepareContext& context) override {
    context.expect_counts(1, 1);
    context.expect_no_epilogue();
    const Tensor& in = context.input(0);
    const Tensor& out = context.output(0);
    context.require(in.rank >= 3 && out.rank == in.rank, "input and output need the same rank of at least 3");
    for (int d = 0; d < out.rank; ++d) {
      context.require(out.dims[d] == (d < 2 ? in.dims[d] : 1), "the output's shape does not follow from the input");
    }
    rows_ = in.dims[0] * in.dims[1];
    row_ = in.span(2, in.rank);
  }

  void run(const RunContext& context) override {
    const float* in = context.inputs[0]->f32();
    float* out = context.outputs[0]->f32();
    const int64_t grain = kElementGrain / std::max<int64_t>(1, row_) + 1;
    context.threads->parallel(rows_, grain, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        double sum = 0.0;
        for (int64_t i = 0; i < row_; ++i) sum += static_cast<double>(in[row * row_ + i]);
        out[row] = static_cast<float>(sum / static_cast<double>(row_));
      }
    });
  }

 private:
  int64_t rows_ = 0, row_ = 0;
};

}  // namespace

REFRT_OPERATOR("GlobalAveragePool", GlobalAveragePool);

}  // namespace refrt
